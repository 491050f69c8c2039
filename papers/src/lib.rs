//! Published tables, figures and measurements of pipeline-parallel training, beside what debubble computes.
//!
//! - [`reproduce`] makes published tables again, cell by cell, and checks every cell.
//! - [`measured`] predicts published training runs with the planner. Their errors are the error bars that
//!   stand beside the steps and the memory of plans.
//! - [`accuracy`] measures how far predictions lie from measurements.
//!
//! A question is a value, and so is its answer. The figures are built in; a question may also name a folder
//! of files, which its host reads.
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::path::PathBuf;
//!
//! use papers::reproduce::{Answer, Count, Question, reproduce};
//! use question::Context;
//!
//! // This host lends no files: the figures are those that are built in.
//! let host: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
//! let question = Question { tables: vec!["table2".to_owned()], ..Question::default() };
//! let answer = reproduce(&Context::new(&host), &question)?;
//! assert!(answer.holds());
//! let Answer::Reproduced { tables, .. } = answer else { unreachable!("no search was asked for") };
//! assert_eq!(tables[0].table, "table2");
//! assert_eq!(Count::of(&tables[0].cells).missed, 0);
//! # Ok::<(), question::Diagnostic>(())
//! ```

pub mod accuracy;
pub mod measured;
pub mod reproduce;
pub mod schemas;
