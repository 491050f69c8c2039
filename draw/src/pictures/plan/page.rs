//! The answer as one page, without scripts and without anything to load: the plan to take, all plans, pictures, omissions,
//! assumptions, and the files, folded.

use answer::plan::{
    Lever, Plan, PlanAnswer, Planned, assumptions, doubts, export, facts, quantities, setup_report,
    software, tables,
};
use measured::ErrorBar;
use pipeline::Bytes;
use plan::StageMemory;
use planning::Question;
use question::Diagnostic;

use super::cells::{Table, percent};
use super::points::svg;
use crate::html::escape;

/// The page around the answer.
const PAGE: &str = include_str!("../../html/plan.html");

/// One self-contained page.
pub fn html(planned: &Planned) -> Result<String, Diagnostic> {
    let Planned { question, answer, .. } = planned;
    let body = [
        head(question),
        first(planned),
        plans(planned),
        pictures(planned)?,
        left_out(question, answer),
        assumed(question, answer),
        planned.winner().map_or_else(String::new, |winner| files(question, winner)),
    ];
    let (start, rest) = PAGE.split_once("@TITLE@").unwrap_or((PAGE, ""));
    let (middle, end) = rest.split_once("@BODY@").unwrap_or((rest, ""));
    Ok([start, &escape(&question.title), middle, &body.concat(), end].concat())
}

fn head(question: &Question) -> String {
    let lines = tables::model(question);
    let lines: String = lines.iter().map(|line| paragraph("soft", line)).collect();
    format!("<h1>{}</h1>\n{lines}", escape(&question.title))
}

/// The plan to take, or each set-up of the question, with its main facts.
fn first(planned: &Planned) -> String {
    let Planned { question, answer, .. } = planned;
    if question.is_of_one() {
        return answer.plans.iter().map(|plan| asked(question, plan)).collect();
    }
    let headline = planned.headline();
    let Some(winner) = planned.winner() else { return paragraph("doubt", &headline) };
    let doubts = doubts::doubts(question, &answer.plans, winner);
    let doubts: String = doubts.iter().map(|doubt| paragraph("doubt", doubt)).collect();
    let figures = paragraph("", &tables::figures(question, winner));
    card("The plan to take", &headline, &(doubts + &figures), &facts(planned, winner))
}

/// A set-up of the question.
fn asked(question: &Question, plan: &Plan) -> String {
    let name = question.clusters[plan.cluster].title();
    let own = tables::asked(question, &plan.finalist.costed().setup);
    let which = format!("{name}: {} {own}", tables::order_name(plan));
    let fit = paragraph("", &setup_report::fit(plan));
    card(&name, &which, &fit, &setup_report::figures(question, plan))
}

/// The sentence `lead` in a section of the name `title`, with `more` below, as HTML, and `facts` as a list.
fn card(title: &str, lead: &str, more: &str, facts: &[String]) -> String {
    format!(
        "<section class=\"answer\" aria-label=\"{}\">\n<p class=\"lead\"><b>{}</b></p>\n{more}{}</section>\n",
        escape(title),
        escape(lead),
        list(facts)
    )
}

/// The table of plans.
fn plans(planned: &Planned) -> String {
    let Planned { question, answer, .. } = planned;
    let winner = planned.winner().filter(|_| !question.is_of_one());
    let is_taken = |plan: &Plan| winner.is_some_and(|winner| std::ptr::eq(winner, plan));
    let taken = answer.plans.iter().position(is_taken);
    let table = Table::of("Plans", tables::plans(question, &answer.plans));
    let mut table = Table { taken, words: 4, ..table };
    for (row, plan) in table.rows.iter_mut().zip(&answer.plans) {
        if let Some(mark) = tables::mark(question, plan, is_taken(plan)) {
            row[0].insert(0, mark);
        }
    }
    let marks = paragraph("soft", tables::MARKS);
    format!("<h2>Plans</h2>\n{}{marks}", table.html())
}

/// Days against dollars, the parts of a step and of memory, and the savings of changes: side by side on a wide page.
fn pictures(planned: &Planned) -> Result<String, Diagnostic> {
    let Planned { question, answer, levers, .. } = planned;
    let scatter = match answer.plans.len() {
        ..2 => String::new(),
        _ => figure("Days against dollars", &svg(question, answer, None)?),
    };
    let memory = figure("Memory of the fullest device", &memory(&answer.plans));
    let more = match planned.winner() {
        _ if question.is_of_one() => {
            (1..).zip(&answer.plans).map(|(number, plan)| parts_of_one(number, plan)).collect()
        }
        Some(winner) => parts(winner),
        None => String::new(),
    };
    let levers = if levers.is_empty() { String::new() } else { worth(levers) };
    Ok(format!("<h2>Pictures</h2>\n<div class=\"grid\">\n{scatter}{more}{memory}{levers}</div>\n"))
}

fn figure(title: &str, content: &str) -> String {
    format!("<figure>\n<h3>{}</h3>\n{content}</figure>\n", escape(title))
}

/// The parts of a step of the plan to take.
fn parts(winner: &Plan) -> String {
    let shares = winner.longest_parts().into_iter().map(|part| part.share);
    let mut table = Table::of("Time of a step", tables::parts(winner)).with_bars(shares);
    "part of the step, busiest stage".clone_into(&mut table.header[0]);
    figure("Time of a step of the plan to take", &table.html())
}

/// Every part of the step and of the memory of a set-up of the question.
fn parts_of_one(number: usize, plan: &Plan) -> String {
    let shares = plan.all_parts().into_iter().map(|part| part.share);
    let time = Table::of("Time of a step", setup_report::time(plan)).with_bars(shares);
    let memory = Table::of("Memory of each stage", setup_report::memory(plan));
    figure(&format!("A step of plan {number}"), &time.html())
        + &figure(&format!("Memory of plan {number}, in GiB of a device"), &memory.html())
}

/// The savings of each change.
fn worth(levers: &[Lever]) -> String {
    let saved = levers.iter().map(|lever| lever.saved);
    let table = Table::of("Changes", tables::worth(levers)).with_bars(saved);
    figure("Savings of each change", &table.html())
}

/// The memory of the fullest device of each plan beside the usable memory: as bars, and folded in numbers.
fn memory(plans: &[Plan]) -> String {
    let held = |plan: &Plan| plan.finalist.evaluation.fullest().1;
    let most = plans.iter().map(|plan| bytes(held(plan).sum()).max(bytes(plan.memory()[0])));
    let most = most.fold(0.0, f64::max);
    let graphs = plans.iter().any(setup_report::has_graphs);
    let bar = |plan: &Plan| stack(held(plan), graphs, plan.memory()[0], most);
    let bars = plans.iter().map(bar).collect();
    let all = Table::of("Memory in numbers", tables::memory(plans));
    // Behind the number of a plan come the parts; the peak and the usable memory are last.
    let parts = all.header.len() - 3;
    let few = tables::memory(plans).columns(&[0, parts + 1, parts + 2]);
    let table = Table { bars, ..Table::of("Memory as bars", few) };
    let key = |(at, name): (usize, &String)| format!("<span class=\"key k{at}\"></span>{name}");
    let keys: String = all.header[1..=parts].iter().enumerate().map(key).collect();
    let may = "<span class=\"key most\"></span>may use";
    format!(
        "{}<p class=\"soft keys\">{keys}{may}</p>\n{}",
        table.html(),
        folded("In numbers", &all.html())
    )
}

/// A bar of the parts of `held`, with graphs where some plan `has_graphs`, on a scale up to `most`, with a mark at the
/// usable memory `may`.
fn stack(held: StageMemory, has_graphs: bool, may: Bytes, most: f64) -> String {
    let part = |(at, part): (usize, setup_report::MemoryItem)| {
        let width = percent(bytes(Bytes(part.bytes)), most);
        format!("<i class=\"k{at}\" style=\"width:{width:.1}%\"></i>")
    };
    let parts = setup_report::memory_items(&held, has_graphs).into_iter().enumerate();
    let parts: String = parts.map(part).collect();
    format!(
        "<div class=\"stack\">{parts}<b style=\"left:{:.1}%\"></b></div>",
        percent(bytes(may), most)
    )
}

#[allow(clippy::cast_precision_loss)] // Of a bar.
fn bytes(bytes: Bytes) -> f64 {
    bytes.0 as f64
}

/// Omissions of the answer, changes that were not tried, and the fate of all set-ups.
fn left_out(question: &Question, answer: &PlanAnswer) -> String {
    let lines = assumptions::of(question, answer).into_iter().map(str::to_owned);
    let mut lines: Vec<String> = lines.collect();
    lines.extend(software::untried(question));
    format!("<h2>Left out and not tried</h2>\n{}{}", list(&lines), searched(question, answer))
}

/// The fate of all set-ups of a search.
fn searched(question: &Question, answer: &PlanAnswer) -> String {
    if question.is_of_one() {
        return String::new();
    }
    let reasons = tables::reasons(question, answer);
    let table = Table { words: 2, ..Table::of("Fate of the set-ups", reasons) };
    let seen = answer.searched.iter().map(|one| plan::number(one.setups as u64)).sum();
    folded(&format!("Fate of {} set-ups", quantities::amount(seen)), &table.html())
}

/// The frameworks of the plans, the sources of their errors, and the meaning of the terms.
fn assumed(question: &Question, answer: &PlanAnswer) -> String {
    let mut notes = tables::frameworks(question, answer);
    notes.extend(software::needed(question, &answer.plans));
    notes.push(tables::memory_budget(question));
    let errors: Vec<String> = answer.bars.iter().map(ErrorBar::source).collect();
    let errors = folded("Sources of the errors", &list(&errors));
    let words = std::iter::once(tables::legend(answer));
    let words = words.chain(tables::DEFINITIONS.map(str::to_owned));
    let words: String = words.map(|one| paragraph("", &one)).collect();
    let words = folded("Terms", &words);
    format!("<h2>Assumptions</h2>\n{}{errors}{words}", list(&notes))
}

/// The files that run the plan to take.
fn files(question: &Question, winner: &Plan) -> String {
    let lacks = export::notes(question, winner);
    let lacks: String = lacks.iter().map(|line| paragraph("soft", line)).collect();
    let files = export::settings(question, winner).into_iter().map(|(name, file)| {
        folded(&name, &format!("<pre tabindex=\"0\">{}</pre>\n", escape(&file)))
    });
    format!("<h2>Files of the plan to take</h2>\n{lacks}{}", files.collect::<String>())
}

/// `content`, HTML, under a `title` that unfolds it; it is printed.
fn folded(title: &str, content: &str) -> String {
    format!("<details><summary>{}</summary>\n{content}</details>\n", escape(title))
}

fn paragraph(class: &str, text: &str) -> String {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    format!("<p{class}>{}</p>\n", escape(text))
}

fn list(lines: &[String]) -> String {
    let lines: String = lines.iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect();
    if lines.is_empty() { lines } else { format!("<ul>\n{lines}</ul>\n") }
}
