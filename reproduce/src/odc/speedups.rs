//! ODC's speed-ups by task, model and method, FSDP and HSDP.

use fsdp::{FsdpError, Lengths, Machine, Sharding, Way};
use question::sheet::Sheet;
use question::values::packing::LengthsKey;
use question::{Diagnostic, format, table};
use serde::Deserialize;

use super::super::cell::{Basis, Cell, Figure};
use super::super::check::{Check, Evidence};
use super::super::claims::Claims;
use super::super::sources::{Sources, error_in};
use super::machines::{FITS, Model, Models, cost_model, wrong};
use super::trials::{BASELINE, MINI, Result as Outcome, Trials, WAYS};
use super::{MODELS, Part, TASKS};

/// The minibatch size of the golden setting, and its task and model.
const SIZE: u64 = 4;
const GOLDEN: (&str, &str) = ("longalign", "1.5b");
/// The other minibatch sizes of that model.
const SIZES: [u64; 3] = [1, 2, 8];
/// A cell that a maximum was published for, but no figure of its own.
const BELOW: Basis = Basis::not_checked("not checked: a maximum published, appendix not available");
/// The convention of a cell that holds a maximum against ours.
const DRAWN: &str = "published maximum, lengths drawn";
const MOST_GAIN: Basis = Basis::new(DRAWN, Evidence::HeldOut, Check::Gain);
/// An idle share is a rate itself.
const MOST_IDLE: Basis = Basis::new(DRAWN, Evidence::HeldOut, Check::Absolute(5.0));
/// A cell that follows from ODC's formulas.
const EQUAL: Basis =
    Basis::new("published, links without cost", Evidence::ClosedForm, Check::Absolute(1e-12));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    task: String,
    kind: Kind,
    lengths: LengthsKey,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// Supervised fine-tuning.
    Sft,
    /// Reinforcement learning.
    Rl,
}

impl Kind {
    const fn claim(self) -> &'static str {
        match self {
            Self::Sft => "sft-gain",
            Self::Rl => "rl-gain",
        }
    }
}

struct Setting {
    task: String,
    kind: Kind,
    model: String,
    devices: usize,
    size: u64,
    sharding: Sharding,
    outcomes: Vec<Outcome>,
}

/// All speed-ups, and the published ones.
pub(super) fn part(sources: &Sources<'_>, claims: &Claims) -> Result<Part, Diagnostic> {
    let (path, tasks) = sources.records::<Task>(TASKS)?;
    let models = Models::read(sources)?;
    let mut settings = Vec::new();
    let mut cells = Vec::new();
    for task in &tasks {
        let lengths = lengths(task, sources)?;
        for model in &models.0 {
            let sizes = (model.model == GOLDEN.1).then_some(SIZES);
            for size in [SIZE].into_iter().chain(sizes.into_iter().flatten()) {
                let fail = |fault| wrong(TASKS, &format!("{}, {}", task.task, model.model), &fault);
                let setting = |how| setting(task, &lengths, &models, model, size, how);
                settings.push(setting(Sharding::Full).map_err(fail)?);
                if task.task == GOLDEN.0
                    && model.a100s(Sharding::Full).is_ok_and(|one| has_nodes(&one))
                {
                    settings.push(setting(Sharding::Hybrid).map_err(fail)?);
                }
            }
        }
        let alone = alone(&lengths, &models).map_err(|fault| wrong(MODELS, &task.task, &fault))?;
        let row = format!("{}, 1 sample a device", task.task);
        let farthest = alone.iter().fold(1.0f64, |far, &one| {
            if (one - 1.0).abs() > (far - 1.0).abs() { one } else { far }
        });
        let figure = Figure::new(row, "speed-up of every way", EQUAL, 1.0);
        cells.push(figure.digits(3).beside(farthest));
    }
    if settings.is_empty() {
        return Err(error_in(&path, None, "there is no task"));
    }
    for setting in &settings {
        cells.extend(setting.cells(claims)?);
    }
    cells.extend(maxima(&settings, claims)?);
    Ok(Part { cells, sheet: Box::new(move |cells| sheet(&settings, &models, cells)) })
}

fn has_nodes(machine: &Machine) -> bool {
    machine.links().is_some_and(|links| links.nodes.is_some())
}

fn lengths(task: &Task, sources: &Sources<'_>) -> Result<Lengths, Diagnostic> {
    let key = match &task.lengths {
        LengthsKey::File(path) => LengthsKey::File(sources.beside(path)),
        LengthsKey::InOrder(path) => LengthsKey::InOrder(sources.beside(path)),
        known @ LengthsKey::Known(..) => known.clone(),
    };
    key.read(sources.context())
}

fn setting(
    task: &Task,
    lengths: &Lengths,
    models: &Models,
    model: &Model,
    size: u64,
    sharding: Sharding,
) -> Result<Setting, FsdpError> {
    let trials = Trials {
        machine: model.a100s(sharding)?,
        lengths: lengths.clone(),
        model: cost_model(models.costs(model), 1.0)?,
        minibatch: size,
    };
    let (task, kind, model, devices) =
        (task.task.clone(), task.kind, model.model.clone(), model.devices);
    Ok(Setting { task, kind, model, devices, size, sharding, outcomes: trials.run(&WAYS)? })
}

/// The speed-ups of all ways with one sample for each device, over links without cost.
fn alone(lengths: &Lengths, models: &Models) -> Result<Vec<f64>, FsdpError> {
    let Some(model) = models.named(GOLDEN.1) else { return Ok(Vec::new()) };
    let trials = Trials {
        machine: Machine::new(model.devices, u64::from(model.layers))?,
        lengths: lengths.clone(),
        model: cost_model(models.costs(model), 1.0)?,
        minibatch: 1,
    };
    Ok(trials.run(&WAYS)?.iter().map(|outcome| outcome.speedup).collect())
}

impl Setting {
    fn row(&self) -> String {
        let Self { task, model, devices, size, .. } = self;
        let hybrid = match self.sharding {
            Sharding::Full => "",
            Sharding::Hybrid => ", HSDP",
        };
        format!("{task}, {model}, {devices} x {size}{hybrid}")
    }

    fn of(&self, way: Way) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(move |outcome| outcome.way == way)
    }

    /// Whether it counts for the published maxima: fully sharded, with something to pack.
    fn counts(&self) -> bool {
        self.sharding == Sharding::Full && self.size > 1
    }

    /// Whether ODC published the costs of its model.
    fn is_fitted(&self) -> bool {
        FITS.iter().any(|(name, _)| *name == self.model)
    }

    /// The gain of each way beside the maximum of its kind, and the idle time of devices in the
    /// baseline.
    fn cells(&self, claims: &Claims) -> Result<Vec<Cell>, Diagnostic> {
        let most = claims.named(self.kind.claim())?;
        let idle = claims.named("idle")?;
        let cell = |column: String, published: f64, ours: f64| {
            Figure::new(self.row(), column, BELOW, published).digits(1).beside(ours)
        };
        Ok(self
            .outcomes
            .iter()
            .map(|outcome| match outcome.way {
                BASELINE => cell("idle with collectives, %".to_owned(), idle, 100.0 * outcome.idle),
                way => cell(format!("gain of {}, %", named(way)), most, outcome.gain()),
            })
            .collect())
    }
}

/// The published maxima, beside the largest of ours.
fn maxima(settings: &[Setting], claims: &Claims) -> Result<Vec<Cell>, Diagnostic> {
    let largest = |of: &dyn Fn(&Setting) -> Option<f64>| {
        let counted = settings.iter().filter(|setting| setting.counts());
        counted.filter_map(of).max_by(f64::total_cmp)
    };
    let gain = |kind: Kind, is_fitted: bool| {
        largest(&|setting: &Setting| {
            let own = setting.kind == kind && setting.is_fitted() == is_fitted;
            own.then(|| setting.of(MINI).next().map(Outcome::gain)).flatten()
        })
    };
    let idle = largest(&|setting: &Setting| {
        setting.of(BASELINE).next().map(|outcome| 100.0 * outcome.idle)
    });
    let column = "largest gain, %";
    let of = [
        ("fine-tuning, costs as published", column, "sft-gain", gain(Kind::Sft, true), MOST_GAIN),
        ("fine-tuning, costs scaled", column, "sft-gain", gain(Kind::Sft, false), BELOW),
        // How many samples a minibatch has decides, and that was not published.
        ("reinforcement learning", column, "rl-gain", gain(Kind::Rl, true), BELOW),
        ("packed samples", "largest idle share with collectives, %", "idle", idle, MOST_IDLE),
    ];
    let mut cells = Vec::new();
    for (row, column, claim, ours, basis) in of {
        let (published, Some(ours)) = (claims.named(claim)?, ours) else { continue };
        cells.push(Figure::new(row, column, basis, published).digits(0).beside(ours));
    }
    Ok(cells)
}

fn named(way: Way) -> String {
    format!("{} {}", way.method.name(), way.communication.name())
}

const NOTES: &str = "
Per setting (task, model, devices x samples of a minibatch per device) 100 minibatches at a packing ratio
of 1; speed-ups are over lb-micro with collectives, with an interval of 95 %. The published tables by task
and model were not available, so that cells of single settings are not checked. Checked are the maxima over
models whose costs are published (36 % in fine-tuning, within 15 % of it; 50 % idle, within 5 points; the lengths are drawn),
and that one sample a device leaves nothing to balance. Not checked are the gains of the larger models,
whose costs are scaled and whose numbers of devices are assumed, and the 10 % of reinforcement learning:
the gain falls with the size of a minibatch, which was not published.
No constant was fitted here. Costs of 1.5b and 7b are ODC's fits; those of the larger models are scaled
from 7b, attention by layers x width, the rest by parameters. The fit of 7b, held out and scaled so from
that of 1.5b, is off by";

fn sheet(settings: &[Setting], models: &Models, cells: &[Cell]) -> Sheet {
    let rows = settings
        .iter()
        .flat_map(|setting| setting.outcomes.iter().map(move |outcome| (setting, outcome)));
    let table = table!(
        (setting, outcome) = rows,
        "speed-ups" = setting.row(),
        "packing, communication" = named(outcome.way),
        "step" = outcome.step,
        "idle" = format::percent(outcome.idle),
        "speed-up" = format!("{:.3} ± {:.3}", outcome.speedup, outcome.half_width),
    );
    let maxima = cells.iter().filter(|cell| {
        [DRAWN, EQUAL.convention].contains(&cell.convention) || cell.column.starts_with("largest")
    });
    let maxima = table!(
        cell = maxima,
        "published of them" = cell.row,
        "" = cell.column,
        "published = ours" = cell.pair(),
    );
    let held_out = models.held_out().map_or(String::new(), |[attention, rest]| {
        format!(" {} and {}.\n", format::signed_percent(attention), format::signed_percent(rest))
    });
    table.and_text("\n").and(maxima).and_text(format!("{NOTES}{held_out}"))
}
