//! Answers as tables, with the words below them.

use pipeline::{Choice, Limits, Metrics, Placement};
use question::sheet::Sheet;
use question::{format, table};
use sim::monte_carlo::MonteCarlo;

use super::{Answers, Refused};
use crate::explain::report as why;
use crate::front::Standing;
use crate::gathered::Gathered;
use crate::noise;
use crate::outcome::{Outcome, title};

/// The headline, then one row for each schedule and setting with the best of each setting marked, with further tables
/// and notes below.
#[must_use]
pub fn sheet(answers: &Answers) -> Sheet {
    let outcomes = &answers.outcomes[..];
    let mut sheet = first(answers);
    if outcomes.iter().any(|outcome| outcome.standing.is_some()) {
        sheet.push_text(&legend(outcomes));
    }
    sheet.push_text(&gathered(outcomes));
    sheet.push_text(&refused(&answers.refused));
    let stages = if answers.all { None } else { stages(outcomes) };
    let tables = stages.into_iter().chain(hardware(outcomes)).chain(replicas(outcomes));
    for table in tables {
        sheet.push(table.under_a_gap());
    }
    for outcome in outcomes {
        if let Some(explanation) = &outcome.explanation {
            sheet.push(why::sheet(&title(outcome), explanation).under_a_gap());
        }
    }
    sheet
}

/// The headline, and the table of all schedules and settings.
#[must_use]
pub fn first(answers: &Answers) -> Sheet {
    schedules(&answers.outcomes).with_best(best(answers)).headed(&answers.headline())
}

/// The numbers of the best outcomes of settings with several.
fn best(answers: &Answers) -> Vec<usize> {
    let mut first = 0;
    let settings = answers.by_setting().into_iter().filter_map(|setting| {
        let before = first;
        first += setting.len();
        super::best(setting).filter(|_| setting.len() > 1).map(|at| before + at)
    });
    settings.collect()
}

/// The table of all schedules and settings; columns that none of them has a use for are left out.
fn schedules(outcomes: &[Outcome]) -> Sheet {
    let any = |has: fn(&Outcome) -> bool| outcomes.iter().any(has);
    let is_noisy = any(|outcome| outcome.noise_free.is_some());
    // Where passes are chains of segments: how much of the span compute runs, and how much of the communication within
    // passes beside it.
    let has_streams = any(|outcome| outcome.streams.is_some());
    let rows = outcomes.iter().map(|outcome| {
        let noise_free = outcome.noise_free.as_ref().unwrap_or(&outcome.metrics);
        (&outcome.case, outcome, &outcome.metrics, noise_free, outcome.worst())
    });
    table!(
        (case, outcome, metrics, noise_free, (stage, peak)) = rows,
        "setting"[any(|one| one.case.setting.is_some())] =
            case.setting.as_deref().unwrap_or_default(),
        "schedule" = case.name,
        "p" = case.schedule.shape().stages(),
        "m" = case.microbatches(),
        "v" = case.schedule.shape().chunks_per_stage(),
        "span" = metrics.span(),
        "bubble" = format::percent(metrics.bubble_rate()),
        "makespan" = metrics.makespan(),
        "bubble/makespan" = format::percent(metrics.bubble_rate_makespan()),
        "compute"[has_streams] = outcome.compute_utilisation().map(format::percent),
        "hidden"[has_streams] = outcome.communication_hidden().map(format::percent),
        "peak/M_B" = format!("{:.2}", outcome.in_microbatches(peak)),
        "on stage" = stage,
        "noise-free span"[is_noisy] = noise_free.span(),
        "noise-free bubble"[is_noisy] = format::percent(noise_free.bubble_rate()),
        "peak memory"[any(|one| one.case.has_footprints)] = case.has_footprints.then_some(peak),
        "fits"[any(|one| one.case.limits.is_some())] =
            case.limits.as_ref().map(|limits| fits(outcome, limits)),
        "front"[any(|one| one.standing.is_some())] =
            if outcome.standing.is_some_and(Standing::is_on_front) { "*" } else { "" },
    )
}

/// The meaning of the front's mark, and the work that rows share or do not share.
fn legend(outcomes: &[Outcome]) -> String {
    let unfit = outcomes.iter().any(|one| one.standing == Some(Standing::OverLimit));
    let mut text = format!(
        "\n* on the Pareto front: nothing in its setting{} has less bubble or less peak memory, and no more of \
         the other\n\
         The work of a stage is the same in all rows: v chunks cut F, B, W and activations in v.\n",
        if unfit { " that fits" } else { "" },
    );
    let names = |wanted: &dyn Fn(&Outcome) -> bool| {
        let mut names: Vec<&str> = Vec::new();
        for outcome in outcomes.iter().filter(|outcome| wanted(outcome)) {
            if !names.contains(&&outcome.case.name[..]) {
                names.push(&outcome.case.name);
            }
        }
        names.join(", ")
    };
    let is_cut = |outcome: &Outcome| {
        let choice = outcome.case.family.map(|family| family.about().choice);
        matches!(choice, Some(Choice::Segments { .. })) && outcome.case.problem.segments() > 1
    };
    if let Some(first) = outcomes.iter().find(|outcome| is_cut(outcome)) {
        let (cut, count) = (names(&is_cut), first.case.problem.segments());
        let mut all = outcomes.iter().filter(|one| is_cut(one));
        let same = all.all(|one| one.case.problem.segments() == count);
        let into = if same { format!("{count} ") } else { String::new() };
        text += &format!("{cut}: the passes are of segments, {into}to a microbatch.\n");
    }
    let asynchronous = names(&Outcome::is_asynchronous);
    if !asynchronous.is_empty() {
        let why = "asynchronous, with more versions of the weights than one: off the front.";
        text += &format!("{asynchronous}: {why}\n");
    }
    let copies = names(&|outcome| outcome.case.schedule.placement() == Placement::Mirrored);
    if !copies.is_empty() {
        text += &format!("{copies}: two copies of the weights, not counted here.\n");
    }
    text
}

/// Gathered parameters that stages hold, where replicas shard them.
fn gathered(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        if let Some(gathered) = Gathered::of(&outcome.case) {
            let gap = if text.is_empty() { "\n" } else { "" };
            text += &format!("{gap}{}: {}.\n", title(outcome), gathered.text());
        }
    }
    text
}

/// The families that cannot do the question, and why; nothing where there are none.
fn refused(refused: &[Refused]) -> String {
    if refused.is_empty() {
        return String::new();
    }
    let name = |one: &Refused| match &one.setting {
        Some(setting) => format!("{}, {setting}", one.schedule),
        None => one.schedule.clone(),
    };
    let widest = refused.iter().map(|one| name(one).chars().count()).max().unwrap_or(0);
    let line = |one: &Refused| format!("{:widest$}  {}\n", name(one), one.reason);
    "\nnot simulated\n".to_owned() + &refused.iter().map(line).collect::<String>()
}

/// The effect of the runs on the hardware, where there is some.
fn hardware(outcomes: &[Outcome]) -> Option<Sheet> {
    let runs = outcomes.iter().filter_map(|outcome| {
        Some((outcome, outcome.case.hardware.as_ref()?, outcome.report.as_ref()?))
    });
    let rows = runs.map(|(outcome, hardware, report)| (title(outcome), report.row(hardware)));
    let rows: Vec<_> = rows.collect();
    (!rows.is_empty()).then(|| {
        table!(
            (name, [step, wire, memory, place, full]) = rows,
            "on hardware" = name,
            "step" = step,
            "busiest wire" = wire,
            "peak memory" = memory,
            "on, at" = place,
            "out of memory" = full,
        )
    })
}

/// The results of the replicas, where there are some: a table of the span and one of the bubble.
fn replicas(outcomes: &[Outcome]) -> Vec<Sheet> {
    type Row = fn(&Metrics, &MonteCarlo) -> [String; 5];
    let tables: [(&str, Row); 2] = [("span", noise::spans), ("bubble", noise::bubbles)];
    let asked: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| {
            Some((outcome, outcome.noise_free.as_ref()?, outcome.monte_carlo.as_ref()?))
        })
        .collect();
    let Some((_, _, first)) = asked.first() else { return Vec::new() };
    let table = |(what, row): (&str, Row)| {
        let corner = format!("{what}, {} replicas [95 %]", first.replicas);
        let rows = asked.iter().map(|(outcome, noise_free, all)| {
            [title(outcome)].into_iter().chain(row(noise_free, all)).collect()
        });
        Sheet::table([&corner[..]].into_iter().chain(noise::COLUMNS), rows)
    };
    tables.into_iter().map(table).collect()
}

/// Whether every stage keeps its limit, or the limit that one does not keep.
fn fits(outcome: &Outcome, limits: &Limits) -> String {
    let Some((stage, _)) = outcome.memory.over(limits) else { return "yes".to_owned() };
    let given = &outcome.case.given_limits[..];
    match (limits.same(), given) {
        (Some(_), [limit, ..]) => format!("no: limit {limit}"),
        _ => match given.get(stage) {
            Some(limit) => format!("no: limit {limit} on stage {stage}"),
            None => format!("no: limit {} on stage {stage}", limits.of(stage)),
        },
    }
}

/// The peak of every stage, where they fit on a line.
fn stages(outcomes: &[Outcome]) -> Option<Sheet> {
    const MOST: usize = 16;
    let stages = outcomes.iter().map(|outcome| outcome.memory.peak.len()).max().unwrap_or(0);
    let settings = outcomes.iter().any(|outcome| outcome.case.setting.is_some());
    if stages > MOST || settings {
        return None;
    }
    let header = ["peak/M_B, stage".to_owned()].into_iter();
    let header = header.chain((0..stages).map(|stage| stage.to_string()));
    let rows = outcomes.iter().map(|outcome| {
        let peaks = outcome.memory.peak.iter();
        let peaks = peaks.map(|&peak| format!("{:.2}", outcome.in_microbatches(peak)));
        std::iter::once(outcome.case.name.clone()).chain(peaks).collect()
    });
    Some(Sheet::table(header, rows))
}
