//! The Pareto front and memory limits: one definition for all pictures and tables.

/// The standing of an answer among those of the same question.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Standing {
    /// No alternative is as good in both coordinates and better in one.
    OnFront,
    /// Some alternative is.
    Beaten,
    /// It breaks its memory limit, so it is not an alternative.
    OverLimit,
    /// It is shown but not compared: asynchronous training, or a lower bound.
    NotCompared,
}

impl Standing {
    /// Its name for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OnFront => "front",
            Self::Beaten => "beaten",
            Self::OverLimit => "over-limit",
            Self::NotCompared => "not-compared",
        }
    }

    /// Whether nothing beats it.
    pub const fn is_on_front(self) -> bool {
        matches!(self, Self::OnFront)
    }
}

/// The words of pictures for [`Standing::OverLimit`].
pub const DOES_NOT_FIT: &str = "does not fit in memory";
/// The words of pictures and tables of schedules for [`Standing::NotCompared`].
pub const ASYNCHRONOUS: &str = "asynchronous: not compared";

/// An answer before it is compared: its two figures, of each the less the better.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    at: (f64, f64),
    role: Role,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Alternative,
    OverLimit,
    NotCompared,
}

impl Candidate {
    /// An alternative, unless `fits` says that it breaks a limit.
    pub fn new(at: (f64, f64), fits: Option<bool>) -> Self {
        let role = if fits == Some(false) { Role::OverLimit } else { Role::Alternative };
        Self { at, role }
    }

    /// A schedule: asynchronous training is not an alternative to synchronous training.
    pub fn of_schedule(at: (f64, f64), fits: Option<bool>, asynchronous: bool) -> Self {
        if asynchronous { Self::not_compared(at) } else { Self::new(at, fits) }
    }

    /// A point that is shown but not compared.
    pub const fn not_compared(at: (f64, f64)) -> Self {
        Self { at, role: Role::NotCompared }
    }
}

/// The standing of each of `candidates`, which answer the same question. Equals are on the front
/// together.
pub fn standings(candidates: &[Candidate]) -> Vec<Standing> {
    let mut standings: Vec<Standing> = candidates
        .iter()
        .map(|one| match one.role {
            Role::Alternative => Standing::Beaten,
            Role::OverLimit => Standing::OverLimit,
            Role::NotCompared => Standing::NotCompared,
        })
        .collect();
    // Adding zero makes of a negative zero the other one, so that both are equal in order, too.
    let at = |index: usize| (candidates[index].at.0 + 0.0, candidates[index].at.1 + 0.0);
    let alternative = |index: &usize| candidates[*index].role == Role::Alternative;
    let mut ordered: Vec<usize> = (0..candidates.len()).filter(alternative).collect();
    ordered.sort_by(|&a, &b| {
        let (a, b) = (at(a), at(b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    let mut last: Option<(f64, f64)> = None;
    for index in ordered {
        let point = at(index);
        if last.is_none_or(|last| point.1 < last.1 || point == last) {
            standings[index] = Standing::OnFront;
            last = Some(point);
        }
    }
    standings
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn beats(one: (f64, f64), other: (f64, f64)) -> bool {
        one.0 <= other.0 && one.1 <= other.1 && one != other
    }

    proptest! {
        #[test]
        fn the_front_is_what_no_alternative_beats(
            points in prop::collection::vec((0u8..12, 0u8..12, 0u8..6), 0..40)
        ) {
            let candidate = |&(x, y, role): &(u8, u8, u8)| {
                let at = (f64::from(x), f64::from(y));
                match role {
                    0 => Candidate::new(at, Some(false)),
                    1 => Candidate::not_compared(at),
                    2 => Candidate::new(at, Some(true)),
                    _ => Candidate::new(at, None),
                }
            };
            let all: Vec<Candidate> = points.iter().map(candidate).collect();
            let standings = standings(&all);
            prop_assert_eq!(standings.len(), all.len());
            for (one, standing) in all.iter().zip(standings) {
                let mut others = all.iter().filter(|other| other.role == Role::Alternative);
                let expected = match one.role {
                    Role::OverLimit => Standing::OverLimit,
                    Role::NotCompared => Standing::NotCompared,
                    _ if others.any(|other| beats(other.at, one.at)) => Standing::Beaten,
                    _ => Standing::OnFront,
                };
                prop_assert_eq!(standing, expected);
            }
        }
    }

    #[test]
    fn both_zeros_are_equal() {
        let all = [(-0.0, 5.0), (0.0, 4.0), (0.0, 4.0)].map(|at| Candidate::new(at, None));
        assert_eq!(standings(&all), [Standing::Beaten, Standing::OnFront, Standing::OnFront]);
    }
}
