//! Table 2: bubble and peak memory of the hand-made schedules by formula, beside the simulation.

use cases::{Case, ScheduleSource};
use pipeline::closed_form::Uniform;
use pipeline::{Bytes, Nanos};
use question::scenario::{Convention, Scenario, Setting};
use question::sheet::Sheet;
use question::{Context, Diagnostic, table};
use sim::{Details, Replay, Study};

use super::cell::{Basis, Cell, Figure, whole};
use super::check::{Check, Evidence};
use super::sources::Sources;
use super::table::{Contents, Table};

const EQUAL: Check = Check::Absolute(0.0);

/// All cells of the table of closed forms.
pub(super) fn cells(table: &Table, sources: &Sources<'_>) -> Result<Contents, Diagnostic> {
    let scenario = sources.scenario(table.settings())?;
    let context = sources.context();
    let mut cells = Vec::new();
    for setting in &scenario.settings {
        for rule in cases::rules(context, &scenario, setting)? {
            cells.extend(cells_of(context, &scenario, setting, &rule)?);
        }
    }
    let title = table.title(&scenario);
    Contents::of(table, sources, title, cells, |cells| sheet(&scenario, cells))
}

/// Bubble and peak memory of one schedule, as far as the setting is in the formulas' domain.
fn cells_of(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
) -> Result<Vec<Cell>, Diagnostic> {
    let case = cases::case(context, scenario, setting, rule)?;
    let Some(formula) = Formula::of(&case) else { return Ok(Vec::new()) };
    let study = case.simulation().study(Details::default(), &mut Replay::new());
    let Study { metrics, memory, .. } = study.map_err(|error| case.error(&error))?;
    let cost = match formula.convention {
        Convention::Span => metrics.span(),
        _ => metrics.makespan(),
    };
    let bubble = cost - metrics.work();
    let peak = memory.peak.into_iter().max().unwrap_or_default();
    let figures = [
        ("bubble ns", formula.convention.name(), formula.bubble.map(|bubble| bubble.0), bubble.0),
        ("peak bytes", "worst stage", formula.peak.map(|peak| peak.0), peak.0),
    ];
    let cell = |(quantity, convention, published, ours): (&str, _, Option<u64>, u64)| {
        let published = published?;
        let row = setting.name.clone().unwrap_or_default();
        let column = format!("{} {quantity}", rule.name());
        let basis = Basis::new(convention, Evidence::ClosedForm, EQUAL);
        Some(Figure::new(row, column, basis, whole(published)).beside(whole(ours)))
    };
    Ok(figures.into_iter().filter_map(cell).collect())
}

/// The closed forms of a case.
struct Formula {
    convention: Convention,
    bubble: Option<Nanos>,
    peak: Option<Bytes>,
}

impl Formula {
    /// `None` for a schedule without closed forms, unequal chunks, and features that the formulas do
    /// not cover: shared links, noise, and copies to the host.
    fn of(case: &Case) -> Option<Self> {
        if case.hardware.is_some() || case.noise.is_some() || case.schedule.copies().is_some() {
            return None;
        }
        let (shape, costs) = (case.schedule.shape(), case.problem.costs());
        let chunks = u64::from(shape.chunks_per_stage());
        let [first, rest @ ..] = costs.chunks() else { return None };
        if rest.iter().any(|times| times != first) {
            return None;
        }
        let mut times = *first;
        for time in [&mut times.forward, &mut times.backward_input, &mut times.backward_weight] {
            *time = *time * chunks;
        }
        let (stages, microbatches) = (shape.stages() as u64, u64::from(shape.microbatches()));
        let uniform = Uniform { stages, microbatches, times, hop: costs.hops().longest() };
        let unit = case.microbatch_bytes();
        let (convention, cost, peak) = match case.name.as_str() {
            "1f1b" => (Convention::Makespan, Some(uniform.one_f_one_b()), Some(unit * stages)),
            "1f1b-i" => (Convention::Makespan, uniform.interleaved(chunks), None),
            "zb-h1" => (Convention::Makespan, uniform.zb_h1(), Some(unit * stages)),
            "zb-h2" => (Convention::Span, uniform.zb_h2(), Some(unit * (2 * stages - 1))),
            _ => return None,
        };
        let peak = peak.filter(|_| microbatches >= 2 * stages);
        Some(Self { convention, bubble: cost.map(|cost| cost - uniform.work()), peak })
    }
}

fn sheet(scenario: &Scenario, cells: &[Cell]) -> Sheet {
    let names = scenario.settings.iter().filter_map(|setting| setting.name.as_deref());
    let schedules = ["1f1b", "1f1b-i", "zb-h1", "zb-h2"];
    let rows = names.flat_map(|name| schedules.map(|schedule| (name, schedule)));
    let find = |name: &str, schedule: &str, quantity: &str| {
        let column = format!("{schedule} {quantity}");
        cells.iter().find(|cell| cell.row == name && cell.column == column)
    };
    table!(
        (name, schedule) = rows,
        "formula = ours" = name,
        "schedule" = schedule,
        "bubble" =
            find(name, schedule, "bubble ns").map(|cell| format!("{} ns", cell.exact_pair())),
        "measured on" = find(name, schedule, "bubble ns").map(|cell| cell.convention),
        "peak memory" =
            find(name, schedule, "peak bytes").map(|cell| format!("{} B", cell.exact_pair())),
    )
}
