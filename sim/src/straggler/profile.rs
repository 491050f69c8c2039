//! How the pace of a stage or link changes over time.

use std::sync::Arc;

use pipeline::Nanos;

use super::error::StragglerError;
use super::factor;

/// A slowdown that changes: from each time on, until the next one, work takes `factor` times as
/// long. Before the first time the factor is 1; the last one holds for ever. Time 0 is the start of
/// the step, of the first one where several follow each other.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    /// Shared, for one long profile may hold for a thousand stages.
    steps: Arc<[(u64, f64)]>,
}

impl Profile {
    /// A profile of times and the factor from each on.
    ///
    /// # Errors
    /// Without an entry, if a time does not come after the one before it, or if a factor is none.
    pub fn new(steps: &[(Nanos, f64)]) -> Result<Self, StragglerError> {
        if steps.is_empty() {
            return Err(StragglerError::EmptyProfile);
        }
        if let Some(pair) = steps.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            return Err(StragglerError::Backwards { last: pair[0].0, next: pair[1].0 });
        }
        let step = |&(time, slow): &(Nanos, f64)| Ok((time.0, factor(slow)?));
        Ok(Self { steps: steps.iter().map(step).collect::<Result<_, _>>()? })
    }

    /// How long `work` nanoseconds of work take that begin at `start`: the work done by then, the
    /// integral of 1/factor over time, is `work`.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn elapsed(&self, work: f64, start: u64) -> f64 {
        let next = self.steps.partition_point(|&(time, _)| time <= start);
        let mut factor = next.checked_sub(1).map_or(1.0, |current| self.steps[current].1);
        let (mut left, mut now, mut elapsed) = (work, start, 0.0);
        for &(change, then) in &self.steps[next..] {
            let room = (change - now) as f64;
            if left * factor <= room {
                break;
            }
            left -= room / factor;
            elapsed += room;
            (now, factor) = (change, then);
        }
        elapsed + left * factor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_crosses_changes_is_integrated() {
        let profile =
            Profile::new(&[(Nanos(100), 2.0), (Nanos(200), 0.5), (Nanos(300), 4.0)]).unwrap();
        let cases = [
            // Before the first change: nominal, up to its very end.
            (50.0, 0, 50.0),
            (100.0, 0, 100.0),
            // 100 at factor 1, the other 30 at factor 2.
            (130.0, 0, 160.0),
            // From 150: 50 ns do 25 of the work, 100 ns at one half do 200 more, 5 left at 4.
            (230.0, 150, 170.0),
            // Beginning at a change, the new factor holds.
            (10.0, 100, 20.0),
            (10.0, 1_000_000, 40.0),
            (0.0, 100, 0.0),
        ];
        for (work, start, elapsed) in cases {
            assert_eq!(profile.elapsed(work, start), elapsed, "{work} from {start}");
        }
    }

    #[test]
    fn work_may_be_done_in_pieces() {
        let profile = Profile::new(&[(Nanos(64), 2.0), (Nanos(96), 4.0)]).unwrap();
        let whole = profile.elapsed(100.0, 32);
        let first = profile.elapsed(40.0, 32);
        // 32 + 2 x 8 = 48 ns for the first 40.
        assert_eq!(first, 48.0);
        assert_eq!(first + profile.elapsed(60.0, 80), whole);
    }

    #[test]
    fn profiles_that_are_none() {
        let at = |nanos| (Nanos(nanos), 1.5);
        assert_eq!(Profile::new(&[]), Err(StragglerError::EmptyProfile));
        for second in [5, 10] {
            assert_eq!(
                Profile::new(&[at(10), at(second)]),
                Err(StragglerError::Backwards { last: Nanos(10), next: Nanos(second) })
            );
        }
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e7, 1e-7] {
            assert!(matches!(Profile::new(&[(Nanos(0), bad)]), Err(StragglerError::Factor(_))));
        }
    }
}
