//! The answer of the planner, as wide as a terminal.

use answer::plan::{
    Plan, PlanAnswer, Planned, assumptions, doubts, facts, quantities, seconds, software, tables,
    winner,
};
use measured::ErrorBar;
use pipeline::{Bytes, Nanos};
use planning::Question;
use question::format;

use super::headed::{HeadedTable, Line, cut};
use super::lines::paragraph;
use super::{setup, sheet};

/// The most columns of the name of a cluster.
const NAME: usize = 40;

/// The answer in lines of at most `columns`; with `details` everything that is known of each plan, in tables as wide as
/// they are.
#[must_use]
pub fn plan(planned: &Planned, details: bool, columns: usize) -> String {
    let paragraph = |text: &str| paragraph(text, columns);
    let Planned { question, answer, .. } = planned;
    let mut text = paragraph(&planned.headline()) + "\n" + &cut(&question.title, columns) + "\n";
    text.extend(tables::model(question).iter().map(|line| paragraph(line)));
    if question.is_of_one() {
        return text + &setup::setups(planned, details, columns);
    }
    text.push('\n');
    if let Some(winner) = planned.winner() {
        text += &taken(planned, winner, details, columns);
    }
    text += &format!("{}\n", plans(question, answer, columns));
    text += &format!("{}\n", searched(question, answer, columns));
    if details {
        text += &all_plans(question, answer, columns);
    }
    text + &notes(question, answer, details, columns)
}

/// The reasons against the plan to take, its figures, and the parts of its time.
fn taken(planned: &Planned, winner: &Plan, details: bool, columns: usize) -> String {
    let paragraph = |text: &str| paragraph(text, columns);
    let Planned { question, answer, levers, .. } = planned;
    let mut text = String::new();
    for doubt in doubts::doubts(question, &answer.plans, winner) {
        text += &paragraph(&format!("  {doubt}"));
    }
    text += &paragraph(&format!("  {}", tables::figures(question, winner)));
    text.extend(facts(planned, winner).iter().map(|fact| paragraph(&format!("  {fact}"))));
    if details {
        let [parts, worth] = [tables::parts(winner), tables::worth(levers)].map(|one| sheet(&one));
        return text + &format!("\n{parts}\n{worth}\n");
    }
    text += &paragraph(&format!("  its time: {}", largest(winner)));
    text + "\n"
}

/// Omissions of the answer, sources of its numbers, and the meaning of its words.
fn notes(question: &Question, answer: &PlanAnswer, details: bool, columns: usize) -> String {
    let paragraph = |text: &str| paragraph(text, columns);
    let mut text = "what these answers leave out:\n".to_owned();
    let left_out = assumptions::of(question, answer);
    text.extend(left_out.into_iter().map(|line| paragraph(&format!("- {line}"))));
    text.push('\n');
    let frameworks = tables::frameworks(question, answer);
    let bars = answer.bars.iter().filter(|bar| details || bar.error.is_none());
    let notes = frameworks.into_iter().chain(bars.map(ErrorBar::source));
    let notes = notes.chain(software::needed(question, &answer.plans));
    let notes = notes.chain(software::untried(question));
    let notes = notes.chain(details.then(|| tables::memory_budget(question)));
    let notes = notes.chain(doubts::calibration(question));
    text.extend(notes.chain([tables::legend(answer)]).map(|note| paragraph(&note)));
    if details {
        text.extend(tables::DEFINITIONS.iter().map(|definition| paragraph(definition)));
        return text;
    }
    text += &paragraph(tables::MARKS);
    text + &paragraph(
        "--details: where errors are from, what columns mean, time under noise, memory part by part, the plan's time \
         breakdown, what each change would save, why set-ups were left out",
    )
}

/// The plans, under a heading for each cluster.
fn plans(question: &Question, answer: &PlanAnswer, columns: usize) -> String {
    let winner = winner(question, &answer.plans);
    let mut lines = Vec::new();
    let mut known = None;
    for (number, plan) in (1..).zip(&answer.plans) {
        if known.replace(plan.cluster) != Some(plan.cluster) {
            let [least, most] = room(plan);
            let room = if least == most { least } else { format!("{least} to {most}") };
            let room = format!(", may use {room} each");
            let name =
                cut(&question.clusters[plan.cluster].title(), columns.saturating_sub(room.len()));
            lines.push(Line::Heading(name + &room));
        }
        let taken = winner.is_some_and(|winner| std::ptr::eq(winner, plan));
        lines.push(Line::Row(row(question, number, plan, taken)));
    }
    let header = vec![
        "plan",
        "set-up",
        "schedule",
        "step",
        "error",
        "days",
        "dollars",
        "GiB",
        "MFU",
        "GPU-hours",
    ];
    // GPU-hours follow from days; of the rest the step and its cost stay.
    let optional = ["GPU-hours", "MFU", "GiB", "error"];
    let optional = optional.iter().filter_map(|name| header.iter().position(|one| one == name));
    let optional = optional.collect();
    let (text, left_out) =
        HeadedTable { header, words: 3, folded: vec![1, 2], optional, lines }.text(columns);
    match &left_out[..] {
        [] | ["GPU-hours"] => text,
        names => {
            text + &paragraph(&format!("a wider terminal has {}, too", names.join(", ")), columns)
        }
    }
}

/// The memory that may be used of the devices that `plan` runs on: the least and the most.
fn room(plan: &Plan) -> [String; 2] {
    let sizes = &plan.finalist.costed().capacities;
    let of = |size: Option<&Bytes>| format::size(size.copied().unwrap_or_default());
    [of(sizes.iter().min()), of(sizes.iter().max())]
}

fn row(question: &Question, number: usize, plan: &Plan, taken: bool) -> Vec<String> {
    let (_, held) = plan.finalist.evaluation.fullest();
    let mark = tables::mark(question, plan, taken).unwrap_or(' ');
    let front = if plan.on_front { "*" } else { "" };
    vec![
        format!("{mark}{number}{front}"),
        tables::setup(&plan.finalist.costed().setup),
        tables::schedule(question, plan),
        time(plan.step),
        quantities::error(plan),
        quantities::days(plan.days),
        quantities::amount(plan.dollars),
        gibibytes(held.sum()),
        format!("{:.0} %", 100.0 * plan.mfu),
        quantities::amount(plan.gpu_hours),
    ]
}

/// A size in GiB, with more digits where it is small.
fn gibibytes(size: Bytes) -> String {
    let gib = plan::number(size.0) / f64::from(1 << 30);
    if gib < 1.0 { format!("{gib:.3}") } else { format!("{gib:.1}") }
}

/// A time in four digits.
fn time(time: Nanos) -> String {
    match seconds(time) {
        long @ 1e4.. => format!("{} s", quantities::amount(long)),
        long @ 1e3.. => format!("{long:.0} s"),
        long @ 1e2.. => format!("{long:.1} s"),
        long @ 1e1.. => format!("{long:.2} s"),
        long @ 1.0.. => format!("{long:.3} s"),
        short => format!("{:.2} ms", 1e3 * short),
    }
}

/// The largest parts of the time of `plan`.
fn largest(plan: &Plan) -> String {
    let parts = plan.longest_parts();
    let large = parts.iter().filter(|part| part.share >= 0.01).take(5);
    let one = |part: &answer::plan::Part| format!("{} {:.0} %", part.name, 100.0 * part.share);
    large.map(one).collect::<Vec<_>>().join(", ")
}

/// The fate of the set-ups: a line for each cluster.
fn searched(question: &Question, answer: &PlanAnswer, columns: usize) -> String {
    let rows = answer.searched.iter().enumerate().map(|(cluster, one)| {
        let left_out = &one.found.left_out;
        let of = |reasons: &[&str]| -> u64 {
            reasons.iter().filter_map(|reason| left_out.get(*reason)).sum()
        };
        let pruned = of(&[plan::PRUNED]);
        let memory = of(&[plan::NO_MEMORY, plan::NOT_RUN]);
        let stopped = of(&[plan::STOPPED]);
        let others = left_out.values().sum::<u64>() - pruned - memory - stopped;
        let counts = [one.setups as u64, one.found.simulated, pruned, memory, others, stopped];
        let counts = counts.map(|count| quantities::amount(plan::number(count)));
        std::iter::once(cut(&question.clusters[cluster].title(), NAME))
            .chain(counts)
            .collect::<Vec<String>>()
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let mut header =
        vec!["machines", "set-ups", "simulated", "pruned", "no memory", "other", "not seen"];
    let is_whole = rows.iter().all(|row| row.last().is_none_or(|count| count == "0"));
    if is_whole {
        header.pop();
    }
    let count = header.len();
    let lines = rows.into_iter().map(|row| Line::Row(row.into_iter().take(count).collect()));
    let lines = lines.collect();
    HeadedTable { header, words: 1, folded: vec![0], optional: Vec::new(), lines }.text(columns).0
}

/// All columns of each plan, and the set-ups that were left out.
fn all_plans(question: &Question, answer: &PlanAnswer, columns: usize) -> String {
    let plans = tables::plans(question, &answer.plans).columns(&[0, 6, 7, 8, 9, 11, 12, 14, 16]);
    let mut text = format!("{}\n{}\n", sheet(&plans), sheet(&tables::memory(&answer.plans)));
    text += "why set-ups were left out\n";
    for (cluster, one) in answer.searched.iter().enumerate() {
        text += &(cut(&question.clusters[cluster].title(), columns) + "\n");
        for (reason, &count) in &one.found.left_out {
            let count = quantities::amount(plan::number(count));
            text += &format!("{count:>9}  {}\n", cut(reason, columns.saturating_sub(11)));
        }
    }
    text + "\n"
}
