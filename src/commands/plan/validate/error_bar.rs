//! How far a predicted step may be off: the error that the model has on published iterations.

use std::path::Path;

use plan::Machine;
use serde::Serialize;

use super::rows;
use super::sets::{self, SPEED, TIME};
use crate::error::Error;

/// What a step is said to be off by where nothing is published of the device: an assumption. No such
/// device has a narrower bar than one of which something is.
const UNPUBLISHED: f64 = 0.2;

/// The error bar of the steps of a machine.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorBar {
    /// The name of the machine.
    pub machine: String,
    /// The largest error over the rows, as a share of what was measured; without rows, the widest
    /// bar there is.
    pub error: f64,
    /// The mean error over the rows, if there are any.
    pub mean: Option<f64>,
    /// How many published iterations of the type of device there are.
    pub rows: usize,
    /// Where they were published.
    pub sources: Vec<&'static str>,
}

impl ErrorBar {
    /// Those of `machines`: every published iteration of their types of device, of those built in, is
    /// predicted with their constants.
    ///
    /// # Errors
    /// If a row cannot be predicted with them.
    pub fn of_all(machines: &[&Machine]) -> Result<Vec<Self>, Error> {
        let mut bars: Vec<Self> =
            machines.iter().map(|machine| Self::by_rows(machine)).collect::<Result<_, _>>()?;
        if bars.iter().any(|bar| bar.rows == 0) {
            let widest = widest()?;
            bars.iter_mut().filter(|bar| bar.rows == 0).for_each(|bar| bar.error = widest);
        }
        Ok(bars)
    }

    fn by_rows(machine: &Machine) -> Result<Self, Error> {
        let mut sources = Vec::new();
        let mut errors = Vec::new();
        let own = |text: &&(&str, &str)| machine.device.as_deref() == Some(rows::device(text.1));
        for (path, text) in sets::BUILT_IN.iter().filter(own) {
            let (set, rows) = rows::read(Path::new(path), text, machine)?;
            let steps = rows.iter().filter(|row| [TIME, SPEED].contains(&row.quantity));
            errors.extend(steps.map(|row| row.error.abs()));
            sources.push(set.name());
        }
        let rows = errors.len();
        let error = errors.iter().fold(0.0, |most: f64, error| most.max(*error));
        let mean = (rows > 0).then(|| crate::accuracy::mean_absolute(&errors));
        Ok(Self { machine: machine.name.clone(), error, mean, rows, sources })
    }

    /// Where it comes from, in words.
    pub fn source(&self) -> String {
        let Self { machine, error, rows, sources, .. } = self;
        let share = crate::format::percent(*error);
        match self.mean {
            Some(mean) => format!(
                "{machine}: +- {share}, the largest error on {rows} published iterations ({}), {} in \
                 the mean",
                sources.join("; "),
                crate::format::percent(mean)
            ),
            None => format!("{machine}: no published measurements; +- {share} is an assumption"),
        }
    }
}

/// The widest bar: what is assumed where nothing is published, or that of a built-in machine.
fn widest() -> Result<f64, Error> {
    let mut widest = UNPUBLISHED;
    for machine in super::machines::built_in()? {
        widest = widest.max(ErrorBar::by_rows(&machine)?.error);
    }
    Ok(widest)
}
