//! A schedule, what it costs, and why no other costs much less: written down so that a third party
//! can check it.
//!
//! [`verify`] trusts nothing in the text. It builds the schedule anew, times it, counts its memory
//! and evaluates the argument behind the bound, with code of its own: it shares nothing with
//! whoever found schedule and bound but the contract, [`pipeline`].

#![forbid(unsafe_code)]
#![allow(clippy::doc_markdown)] // M_B and M_W are the paper's symbols.

mod argument;
mod cycles;
mod fit;
mod form;
mod head;
mod recount;
mod refusal;
mod trip;
mod verify;

pub use argument::Argument;
pub use form::{Certificate, MAX_BYTES, Objective, VERSION};
pub use refusal::Refusal;
pub use verify::{Verdict, verify};
