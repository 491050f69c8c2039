//! Records: a fixed set of pipelines, and for each the best order that anybody has found, with a bound that no order undercuts.
//!
//! The set is `scenarios/records.toml`. A record is a certificate under the name of its pipeline, with who found the order and who
//! the bound in comments before it, so that any program that checks certificates can check it. Nothing of a file is believed that
//! is added or checked: which pipeline it is of is seen by its times, sizes and limits.

mod add;
mod check;
mod credit;
mod record;
mod set;
mod table;

pub use self::add::{Offer, add, search};
pub use self::check::{Checked, Fault, check};
pub use self::credit::Credit;
pub use self::record::{Record, file_name};
pub use self::set::{RecordInstance, RecordSet};
pub use self::table::{RecordRow, RecordTable, table};
