//! Errors of predictions that are recorded rather than found again for every plan.

use std::path::Path;

use question::Diagnostic;
use scenarios::PAPER;

use super::rows;
use super::set_errors::SetErrors;

/// A file of recorded errors that is built in: its path in the project and its text.
type Record = (&'static str, &'static str);

/// On iterations that are not part of the project.
const VTRAIN: Record = ("scenarios/paper/vtrain-errors.csv", PAPER.text("vtrain-errors.csv"));

/// On runs of today's models, each with constants that were fitted without it.
const TODAY: Record = ("scenarios/paper/today-errors.csv", PAPER.text("today-errors.csv"));

/// On the sets that are built in, with the constants of the machines that are.
const SETS: Record = ("scenarios/paper/sets-errors.csv", PAPER.text("sets-errors.csv"));

fn read((path, text): Record) -> Result<Vec<SetErrors>, Diagnostic> {
    let unreadable = |cause: String| Diagnostic::unreadable(Path::new(path), &cause);
    rows::table::<SetErrors>(text).map_err(unreadable)
}

/// The errors that cannot be found again, or not within a plan.
pub(super) fn kept() -> Result<Vec<SetErrors>, Diagnostic> {
    Ok([read(VTRAIN)?, read(TODAY)?].concat())
}

/// The errors on the sets that are built in, by kind of step, and those of memory by set: recorded, for
/// predicting all their runs takes longer than most plans.
pub(super) fn of_sets() -> Result<Vec<SetErrors>, Diagnostic> {
    read(SETS)
}

#[cfg(test)]
mod tests {
    use planning::machines;

    use super::super::error_bar::{by_kind, grouped};
    use super::super::quantities::MEMORY;
    use super::super::sets::{self, Set};
    use super::*;

    /// The errors of the sets that are built in, found again.
    fn found() -> Vec<SetErrors> {
        let mut all = Vec::new();
        for (path, text) in sets::SETS.iter().filter_map(Set::source) {
            let machine = machines::of_device(rows::device(text)).unwrap();
            let (set, rows, _) = sets::read(&path, text, &machine).unwrap();
            all.extend(by_kind(set.name, &rows));
            let memory = rows.iter().filter(|row| row.quantity == MEMORY);
            all.extend(grouped(set.name, memory.map(|row| (MEMORY, row))));
        }
        all
    }

    #[test]
    fn recorded_errors_of_the_sets_are_those_that_are_found() {
        let found = found();
        let words = |one: &SetErrors| {
            let counts = [one.rows, one.fitted, one.configurations];
            let most = [one.sequence_most, one.devices_most];
            (
                one.set.clone(),
                one.kind.clone(),
                counts,
                most,
                one.precisions.clone(),
                one.widths.clone(),
            )
        };
        let numbers = |one: &SetErrors| {
            let held_out = one.held_out_mean.unwrap_or(-1.0);
            [one.mean, held_out, one.error, one.max, one.shortest, one.longest]
        };
        let alike = |one: &SetErrors, other: &SetErrors| {
            let mut pairs = numbers(one).into_iter().zip(numbers(other));
            words(one) == words(other) && pairs.all(|(one, other)| (one - other).abs() < 1e-9)
        };
        let recorded = of_sets().unwrap();
        let mut pairs = recorded.iter().zip(&found);
        let same = recorded.len() == found.len() && pairs.all(|(one, other)| alike(one, other));
        let lines = || {
            let mut writer = csv::Writer::from_writer(Vec::new());
            found.iter().for_each(|one| writer.serialize(one).unwrap());
            String::from_utf8(writer.into_inner().unwrap()).unwrap()
        };
        assert!(same, "write these into {}:\n{}", SETS.0, lines());
    }
}
