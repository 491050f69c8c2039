//! Which orders, found or published, nothing of their setting beats.

use super::report::SearchRow;
use crate::front::{Candidate, standings};

/// Marks the orders, found or published, on the Pareto front of their setting: each has a bubble and a
/// peak of its own, under any limit.
pub(super) fn mark(rows: &mut [SearchRow]) {
    for at in 0..rows.len() {
        if rows[..at].iter().any(|row| row.setting() == rows[at].setting()) {
            continue;
        }
        let setting = rows[at].setting().map(str::to_owned);
        let mut of_setting: Vec<&mut SearchRow> =
            rows[at..].iter_mut().filter(|row| row.setting() == setting.as_deref()).collect();
        let found = of_setting.iter().map(|row| Candidate::new(row.found_at(), None));
        let published = of_setting.iter().filter_map(|row| row.published_at());
        let published = published.map(|at| Candidate::new(at, None));
        let mut standings = standings(&found.chain(published).collect::<Vec<_>>()).into_iter();
        for row in &mut of_setting {
            row.found_standing = standings.next();
        }
        for row in of_setting.iter_mut().filter(|row| row.published_at().is_some()) {
            row.published_standing = standings.next();
        }
    }
}
