//! Meetings: where memory holds K microbatches, each of them meets the others on its way, and some wait.

use super::cycles::Cycles;
use super::line::{Line, Part, Station};

/// The most stages: where all differ, each pair of them is looked at.
const MOST_STAGES: usize = 1024;

/// Lower bound on the span of the first stage, where every stage has one chunk and the limit of the first holds exactly
/// K microbatches and no W beside; `None` elsewhere. `trips` are the round trips of the first stage.
///
/// A_j is the start of the F of microbatch j on the first stage, P_j the end of its F on the last, D_j the end of its B
/// on the first. R is the round trip, from A_j to D_j at the least, and r_i the time from the end of F to the start of B
/// on stage i. When F of j + K starts, B of j has ended, and its W, or the next B: A_{j+K} >= D_j + w' with
/// w' = min(w, b). So A, P and D of j + K come R + w' behind those of j, at the least: a *round*.
///
/// *Lemma.* Let j < k, with F of k before B of j on the first stage, so on all stages up to some last one, i. Then
/// (1) D_j >= A_k + U_i, U_i = R - r_i, since B of j starts on stage i behind F of k;
/// (2) P_k >= P_j + V_i, where V_i is the round trip from stage i + 1, since F of k starts there behind B of j; on the last
/// stage the time of F.
/// If B of j is before F of k on all stages, (2) holds with i = -1 and V the round trip R, and A_k >= D_j.
///
/// *Meetings.* Let K >= 2, k = j + 1, and let (j, k) meet at i1 and (k, j + K) at i2. By (2) twice the round of P from j is
/// longer by V_i1 + V_i2 - R - w'. By (1) twice, with A_{j+K} >= D_j + w' in between, D_k >= A_k + R + the *wait*
/// U_i1 + U_i2 + w' - R; where i1 = -1, A_{j+K} >= A_k + f and the wait is f + U_i2 - R; where i2 = -1, D_k >= D_j + b and
/// the wait is U_i1 + b - R. A wait makes the round of A from k longer. So for any e > 0, with x the least that a
/// round of P gains among the meetings that wait less than e: *for each j the round of P from j is longer by x, or
/// the round of A from j + 1 by e.*
///
/// *Sum.* Join N rounds end to end from j = s, as many as there are up to the last microbatch. If n of them gain x, the rounds
/// of P from s, s + K, .. last N (R + w') + n x, and those of A from s + 1, s + K + 1, .. N (R + w') + (N - n) e. Either
/// comes behind the first start of its F, as [`Cycles`] knows it, and has the work of later microbatches behind it:
/// b + 2 w and w. The span is no less than the longer of both, for the best n.
pub(super) fn span(line: &Line, trips: &Cycles) -> Option<u64> {
    let first = line.stations.first()?;
    let [own] = first.parts[..] else { return None };
    let held = held_exactly(first, own)?;
    if line.stations.len() > MOST_STAGES
        || line.stations.iter().any(|station| station.parts.len() != 1)
        || held.saturating_add(2) > line.microbatches
    {
        return None;
    }
    let meetings = Meetings::of(line, own);
    let longest = |(wait, gain)| meetings.span(&trips.forwards, held, (wait, gain));
    meetings.choices().map(longest).max()
}

/// K, where so many M_B fill the limit so far that no W can wait beside them.
fn held_exactly(station: &Station, part: Part) -> Option<u64> {
    let held = station.limit.checked_div(part.until_backward)?;
    let is_exact = station.limit - held * part.until_backward < part.until_weight;
    (held >= 2 && is_exact && !station.recomputes()).then_some(held)
}

/// Meetings of microbatches on the way; index 0 stands for i = -1, i + 1 for stage i.
struct Meetings {
    own: Part,
    /// w'.
    behind: i128,
    /// R.
    round: i128,
    /// U_i; of index 0 none.
    upper: Vec<i128>,
    /// V_i.
    lower: Vec<i128>,
}

impl Meetings {
    fn of(line: &Line, own: Part) -> Self {
        let parts: Vec<Part> = line.stations.iter().map(|station| station.parts[0]).collect();
        let trip = |part: &Part| i128::from(part.f + part.round + part.b);
        let round = trip(&own);
        let upper = parts.iter().map(|part| round - i128::from(part.round));
        let last = parts.last().map_or(0, |part| i128::from(part.f));
        Self {
            behind: own.w.min(own.b).into(),
            round,
            upper: std::iter::once(0).chain(upper).collect(),
            lower: parts.iter().map(trip).chain([last]).collect(),
            own,
        }
    }

    /// The waits where (j, k) meet at `one` and (k, j + K) at i2 = -1, and what is to be added to U_i2 for those at other
    /// places.
    fn waits(&self, one: usize) -> [i128; 2] {
        let [f, b] = [self.own.f, self.own.b].map(i128::from);
        match one {
            0 => [0, f - self.round],
            _ => [self.upper[one] + b - self.round, self.upper[one] + self.behind - self.round],
        }
    }

    /// What the round of P gains there; it falls with `other`.
    fn gain(&self, one: usize, other: usize) -> i128 {
        self.lower[one] + self.lower[other] - self.round - self.behind
    }

    /// The least gain where the wait is less than `wait`.
    fn least_gain(&self, wait: i128) -> i128 {
        let of = |one: usize| {
            let [zero, more] = self.waits(one);
            // U ascends: the last place where the wait is too short gains least.
            let last = self.upper[1..].partition_point(|upper| more + upper < wait);
            match (last, zero < wait) {
                (0, false) => None,
                (last, _) => Some(self.gain(one, last)),
            }
        };
        (0..self.upper.len()).filter_map(of).min().unwrap_or(self.round)
    }

    /// Waits above zero, for each place of the first meeting the least, with the gain where meetings wait less.
    fn choices(&self) -> impl Iterator<Item = (i128, i128)> + '_ {
        let least = |one: usize| {
            let [zero, more] = self.waits(one);
            let first = self.upper[1..].partition_point(|upper| more + upper <= 0);
            let first = self.upper[1..].get(first).map(|upper| more + upper);
            first.into_iter().chain((zero > 0).then_some(zero)).min()
        };
        let mut waits: Vec<i128> = (0..self.upper.len()).filter_map(least).collect();
        waits.sort_unstable();
        waits.dedup();
        waits.into_iter().map(|wait| (wait, self.least_gain(wait))).filter(|(_, gain)| *gain > 0)
    }

    /// The span, where each round of `held` microbatches gains one of the two; `starts` are those of F.
    fn span(&self, starts: &[u64], held: u64, (wait, gain): (i128, i128)) -> u64 {
        let [b, w] = [self.own.b, self.own.w].map(i128::from);
        let (last, held) = (starts.len() - 2, usize::try_from(held).unwrap_or(usize::MAX));
        let of = |rounds: usize| {
            let from = last - rounds * held;
            let rounds = rounds as i128;
            let (one, other) =
                (i128::from(starts[from]) + b + 2 * w, i128::from(starts[from + 1]) + w);
            let longer = |gains: i128| (one + gains * gain).max(other + (rounds - gains) * wait);
            // Where both are alike; the whole numbers beside it are best.
            let alike = (other - one + rounds * wait).div_euclid(wait + gain);
            let [below, above] = [alike, alike + 1].map(|gains| longer(gains.clamp(0, rounds)));
            self.round + rounds * (self.round + self.behind) + below.min(above)
        };
        let longest = (1..=last / held).map(of).max().unwrap_or(0);
        u64::try_from(longest).unwrap_or(0)
    }
}
