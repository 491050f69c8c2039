//! The answer as a picture and as one page.

use super::answer::{Answer, Lever, Plan};
use super::question::Question;
use super::validate::error_bar::ErrorBar;
use super::{export, tables};
use crate::draw::plot::scatter::{self, Panel, Scatter};
use crate::error::Error;

/// Days against dollars: a point for each plan, named by its cluster.
pub fn svg(question: &Question, answer: &Answer) -> Result<String, Error> {
    let mut series: Vec<String> = Vec::new();
    let mut points: Vec<Vec<(f64, f64)>> = Vec::new();
    let cheapest = answer.plans.iter().map(|plan| plan.dollars).fold(f64::MAX, f64::min);
    for plan in &answer.plans {
        let cluster = &question.clusters[plan.cluster];
        let name = format!("{} {}", cluster.devices(), cluster.name());
        let at = series.iter().position(|one| *one == name).unwrap_or_else(|| {
            series.push(name);
            points.push(Vec::new());
            series.len() - 1
        });
        points[at].push((plan.days, plan.dollars / cheapest));
    }
    Ok(scatter::svg(&Scatter {
        title: question.title.clone(),
        x_label: "days for all tokens".to_owned(),
        y_label: format!("dollars, 100% = {cheapest:.0}, the cheapest plan"),
        series,
        columns: 1,
        named: false,
        panels: vec![Panel { title: "time against money".to_owned(), series: points, limit: None }],
    })?)
}

/// What stands before the tables. Nothing is loaded, and no script runs.
const HEAD: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
<meta name=\"viewport\" content=\"width=device-width\">\n<title>debubble plan</title>\n<style>\n\
body { margin: 16px; font: 13px sans-serif; color: #222; background: #fff; }\n\
table { border-collapse: collapse; margin: 8px 0 20px; }\n\
th, td { padding: 2px 12px 2px 0; text-align: right; font-variant-numeric: tabular-nums; }\n\
th { font-weight: normal; color: #555; border-bottom: 1px solid #999; }\n\
th:first-child, td:first-child { text-align: left; }\n\
pre { padding: 8px; background: #f4f4f4; overflow-x: auto; }\n</style>\n</head>\n<body>\n";

/// One self-contained page.
pub fn html(question: &Question, answer: &Answer, levers: &[Lever]) -> Result<String, Error> {
    let mut page = format!("{HEAD}<h1>{}</h1>\n", escape(&question.title));
    page += &svg(question, answer)?;
    let plans = || answer.plans.iter();
    page += &table("Plans", &tables::HEADER, plans().map(|plan| tables::line(question, plan)));
    let memory = plans().map(|plan| tables::memory(question, plan));
    page += &table("Memory of the fullest device", &tables::MEMORY, memory);
    if let Some(winner) = question.winner(&answer.plans) {
        page += &winner_of(question, winner, levers);
    }
    let reasons = tables::reasons(question, answer).into_iter();
    let header = ["machines", "what became of set-ups", "how many"];
    page += &table("The search", &header, reasons);
    let bars: Vec<String> = answer.bars.iter().map(ErrorBar::source).collect();
    page += &format!("<pre>{}\n", escape(&bars.join("\n")));
    page += &format!("{}</pre>\n</body>\n</html>\n", escape(tables::DEFINITIONS));
    Ok(page)
}

fn winner_of(question: &Question, winner: &Plan, levers: &[Lever]) -> String {
    let header = ["where its time goes, on the busiest stage", "a step", "share"];
    let mut text = table("The plan to take", &header, tables::parts(winner).into_iter());
    let header = ["what would be worth most", "step", "dollars saved"];
    text += &table("Levers", &header, tables::worth(levers).into_iter());
    for (title, file) in [
        ("Megatron-LM", export::megatron(question, winner)),
        ("torchtitan", export::torchtitan(question, winner)),
        ("debubble simulate", export::scenario(question, winner)),
    ] {
        text += &format!("<h2>{title}</h2>\n<pre>{}</pre>\n", escape(&file));
    }
    text
}

fn table(title: &str, header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let cells = |cells: Vec<String>, tag: &str| {
        let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let head = cells(header.iter().map(|&name| name.to_owned()).collect(), "th");
    let body: String = rows.map(|row| cells(row, "td")).collect();
    format!("<h2>{}</h2>\n<table>\n{head}{body}</table>\n", escape(title))
}

/// `text` in which nothing is markup.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
