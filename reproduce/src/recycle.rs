//! ReCycle: what its abstract claims, beside steps of ours with a dead worker.

use failures::{Dead, Deal, FailureError, Pipelines, Rerouting, Worker};
use pipeline::{
    Bytes, Costs, Family, Footprint, Footprints, Memory, Nanos, PassTimes, Problem, Schedule, Shape,
};
use question::Diagnostic;
use question::sheet::Sheet;
use serde::Deserialize;

use super::cell::{Basis, Cell, Figure};
use super::check::{Check, Evidence};
use super::claims::Claims;
use super::sheets;
use super::sources::{Sources, error_in};
use super::table::{Contents, Table};

pub(super) const SETTINGS: &str = "recycle.csv";
pub(super) const CLAIMS: &str = "recycle-claims.csv";

const COLUMNS: [&str; 5] =
    ["whole", "split", "staggered", "staggered, more memory", "without the pipeline"];
const OF_OURS: Basis =
    Basis::not_checked("ours, % longer, the stage that costs most; not published");
const ELIMINATED: Basis =
    Basis::new("claimed, set-ups of ours", Evidence::Inequality, Check::AtMost(0.0));
/// Gains over the software of two papers, on runs whose set-ups, overheads and failures are not published.
const OVER_OTHERS: Basis = Basis::not_checked(
    "not checked: setting not published; ours over pipelines left out, one worker dead",
);
/// Time of each of F, B and W: only their ratio counts.
const UNIT: Nanos = Nanos(1_000_000);
const EFFORT: u64 = 1;

/// A set-up of pipelines that are alike.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Setting {
    setting: String,
    pipelines: u64,
    stages: u64,
    microbatches: u64,
}

/// How much longer steps are, in per cent of 1F1B with nothing dead; the stage that costs most, or least.
struct Longer {
    worst: [f64; 5],
    /// With a staggered optimizer and the memory that it takes, at the stage that costs least.
    best: f64,
}

pub(super) fn cells(table: &Table, sources: &Sources<'_>) -> Result<Contents, Diagnostic> {
    let (path, settings) = sources.records_or_built_in::<Setting>(SETTINGS)?;
    let claims = Claims::read_or_built_in(sources, CLAIMS)?;
    let mut cells = Vec::new();
    let (mut least, mut gain) = (f64::INFINITY, f64::NEG_INFINITY);
    for one in &settings {
        let longer = one
            .longer()
            .map_err(|fault| error_in(&path, None, &format!("{}: {fault}", one.setting)))?;
        for (column, ours) in COLUMNS.into_iter().zip(longer.worst) {
            let figure = Figure::new(&one.setting, column, OF_OURS, f64::NAN);
            cells.push(figure.digits(1).beside(ours));
        }
        least = least.min(longer.best);
        let [_, _, rerouted, _, dropped] = longer.worst;
        gain = gain.max(100.0 * ((100.0 + dropped) / (100.0 + rerouted) - 1.0));
    }
    let eliminated = claims.named("eliminated")?;
    let figure = Figure::new("with a dead worker", "least loss, %", ELIMINATED, eliminated);
    cells.push(figure.digits(1).beside(least));
    for (row, name) in [("over Oobleck", "over-oobleck"), ("over Bamboo", "over-bamboo")] {
        let figure = Figure::new(row, "largest gain, %", OVER_OTHERS, claims.named(name)?);
        cells.push(figure.digits(1).beside(gain));
    }
    let title = "ReCycle: steps with a dead worker against the claims of its abstract";
    Contents::of(table, sources, title, cells, sheet)
}

impl Setting {
    fn longer(&self) -> Result<Longer, FailureError> {
        let made = Made::new(self.stages, self.microbatches).ok_or(FailureError::Overflow)?;
        let of = made.pipelines(self.pipelines);
        let healthy = of.healthy()?.step;
        let more = self.pipelines.saturating_mul(self.microbatches);
        let fewer = more.div_ceil(self.pipelines.saturating_sub(1).max(1));
        let dropped = Made::new(self.stages, fewer).ok_or(FailureError::Overflow)?;
        let dropped = dropped.pipelines(1).healthy()?.step;
        let percent = |step: Nanos| {
            100.0 * (super::cell::whole(step.0) / super::cell::whole(healthy.0.max(1)) - 1.0)
        };
        let mut longer = Longer { worst: [f64::NEG_INFINITY; 5], best: f64::INFINITY };
        longer.worst[4] = percent(dropped);
        let free = vec![Bytes(u64::MAX >> 2); made.limits.len()];
        for stage in 0..u32::try_from(self.stages).unwrap_or(u32::MAX) {
            let dead = Dead::new(self.pipelines, self.stages, &[Worker { pipeline: 0, stage }])?;
            let step = |split: bool, limits: &[Bytes]| {
                let how = Rerouting { deal: Deal::Balanced, split, limits, effort: EFFORT };
                of.rerouted(&dead, &how, &|| false)
            };
            let split = step(true, &made.limits)?;
            let freely = step(true, &free)?.staggered;
            let whole = step(false, &made.limits)?.step;
            let each = [whole, split.step, split.staggered, freely].map(percent);
            for (worst, one) in longer.worst.iter_mut().zip(each) {
                *worst = worst.max(one);
            }
            longer.best = longer.best.min(percent(freely));
        }
        Ok(longer)
    }
}

/// 1F1B with all that it needs.
struct Made {
    schedule: Schedule,
    costs: Costs,
    footprints: Footprints,
    /// What the stage that holds most holds, for all.
    limits: Vec<Bytes>,
}

impl Made {
    fn new(stages: u64, microbatches: u64) -> Option<Self> {
        let shape = Shape::new(stages, 1, microbatches).ok()?;
        let costs = Costs::uniform(shape, PassTimes::new(UNIT, UNIT, UNIT), Nanos(0));
        let held = Footprint { until_backward: Bytes(1), until_weight: Bytes(1) };
        let footprints = Footprints::uniform(shape, held);
        let schedule = Family::OneFOneB.schedule(&Problem::new(shape, costs.clone()).ok()?).ok()?;
        let peaks = Memory::of(&schedule, &footprints).ok()?.peak;
        let limits = vec![peaks.into_iter().max()?; shape.stages()];
        Some(Self { schedule, costs, footprints, limits })
    }

    const fn pipelines(&self, pipelines: u64) -> Pipelines<'_> {
        Pipelines {
            schedule: &self.schedule,
            costs: &self.costs,
            footprints: &self.footprints,
            pipelines,
            peer_hop: None,
            optimizer: Nanos(0),
        }
    }
}

const NOTES: &str = "
% longer than 1F1B with nothing dead, F = B = W, no hops, one worker dead: with whole backwards, with B and W apart, with
a staggered optimizer, all in the memory of 1F1B's first stage; with more memory; and without the pipeline of the
dead worker. The least loss is with more memory, of the best stage of any set-up. Gains over Oobleck and Bamboo are not
checked: they are of measured runs whose set-ups, overheads and failures were not available.
";

fn sheet(cells: &[Cell]) -> Sheet {
    sheets::compared("set-up", cells.iter()).and_text(NOTES)
}
