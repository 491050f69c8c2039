//! Certificates of optimality: a schedule, its cost, and a lower bound on the cost of any schedule,
//! written down so that a third party can check them.
//!
//! [`verify`] trusts nothing in the text. It builds the schedule, times it, counts its memory and
//! evaluates the argument for the bound with code of its own: it shares only the contract, crate `pipeline`,
//! with the code that found schedule and bound. A [`Certificate`] is written as TOML; a
//! [`Refusal`] names the first claim that does not hold.
//!
//! ```
//! let text = r#"
//! version = 2
//! placement = "looped"
//! objective = "span"
//! hop-ns = 0
//! forward-ns = [1, 1]
//! backward-input-ns = [1, 1]
//! backward-weight-ns = [1, 1]
//! until-backward-bytes = [1, 1]
//! until-weight-bytes = [1, 1]
//! cost-ns = 5
//! bound-ns = 5
//! gap-ns = 0
//! argument = "trip"
//! stages = [0]
//! schedule = """
//! F0.0 B0.0 W0.0
//! F1.0 B1.0 W1.0
//! """
//! "#;
//! let verdict = certificate::verify(text)?;
//! assert!(verdict.is_optimal());
//! # Ok::<(), certificate::Refusal>(())
//! ```

#![forbid(unsafe_code)]
#![allow(clippy::doc_markdown)] // M_B and M_W are the paper's symbols.

mod bound_argument;
mod branching;
mod by_link;
mod certificate;
mod critical_path;
mod cycles;
mod form;
mod head;
mod knapsack_bound;
mod meetings;
mod proof;
mod read_pass;
mod recount;
mod refusal;
mod relaxation;
mod verify;
mod version;
mod windows;

pub use bound_argument::BoundArgument;
pub use branching::{Log, MAX_WORDS};
pub use certificate::{Backwards, Certificate, Objective};
pub use proof::Proof;
pub use refusal::Refusal;
pub use verify::{Verdict, verify};
pub use version::{MAX_BYTES, VERSION};
pub use windows::{Heads, MAX_HEADS};
