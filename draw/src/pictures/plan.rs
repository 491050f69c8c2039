//! The answer as a picture and as one page.

use crate::Width;
use crate::html::escape;
use crate::plot::Scale;
use crate::plot::scatter;
use crate::plot::scatter::{Details, Mark, Scatter, ScatterPanel};
use answer::front::Standing;
use answer::plan::{Lever, Plan, PlanAnswer, Planned, assumptions, export, setup_report, tables};
use measured::ErrorBar;
use question::Diagnostic;
use question::plan::Question;

/// Days against dollars: a point for each plan, with its number, and a series for each cluster, or for
/// each schedule where there is one cluster, in a picture of that `width`.
///
/// # Errors
/// If there is no plan.
pub fn svg(
    question: &Question,
    answer: &PlanAnswer,
    width: Option<Width>,
) -> Result<String, Diagnostic> {
    let mut series: Vec<String> = Vec::new();
    let mut points: Vec<Vec<Mark>> = Vec::new();
    let mut details = Details { labels: Vec::new(), notes: vec![errors(&answer.plans)] };
    let dearest = answer.plans.iter().map(|plan| plan.dollars).fold(0.0, f64::max);
    let units = [(1e9, "B"), (1e6, "M"), (1e3, "k")];
    let unit = units.into_iter().find(|(size, _)| dearest >= 2.0 * size).unwrap_or((1.0, ""));
    let is_one = answer.plans.iter().all(|plan| plan.cluster == answer.plans[0].cluster);
    for (number, plan) in (1..).zip(&answer.plans) {
        let cluster = &question.clusters[plan.cluster];
        let setup = &plan.finalist.costed().setup;
        let machines = format!("{} {}", cluster.devices(), cluster.name());
        let schedule = setup.schedule_name().to_owned();
        let (name, label) = match is_one {
            true => (schedule, format!("{number}: {}", tables::setup(setup))),
            false => (machines, format!("{number}: {schedule}")),
        };
        let at = series.iter().position(|one| *one == name).unwrap_or_else(|| {
            series.push(name);
            points.push(Vec::new());
            details.labels.push(Vec::new());
            series.len() - 1
        });
        let standing = if plan.on_front { Standing::OnFront } else { Standing::Beaten };
        points[at].push(Mark { x: plan.days, y: plan.dollars / unit.0, standing });
        details.labels[at].push(label);
    }
    let one = match (is_one, answer.plans.first()) {
        (true, Some(plan)) => {
            let cluster = &question.clusters[plan.cluster];
            format!("{} {}", cluster.devices(), cluster.name())
        }
        _ => "time against money, by number of plan".to_owned(),
    };
    let scatter = Scatter {
        title: question.title.clone(),
        x_label: "days for all tokens".to_owned(),
        y_label: "dollars for all tokens".to_owned(),
        scale: Scale::Dollars(unit.1),
        series,
        columns: 1,
        named: false,
        not_compared: String::new(),
        width,
        panels: vec![ScatterPanel { title: one, series: points, limit: None }],
    };
    Ok(scatter::svg_with(&scatter, &details)?)
}

/// By how much the days and dollars of `plans` may be off: one factor changes both.
fn errors(plans: &[Plan]) -> String {
    let known: Vec<[f64; 2]> = plans.iter().filter_map(|plan| plan.error).collect();
    let most = |end: usize| known.iter().map(|error| error[end]).fold(0.0, f64::max) * 100.0;
    match known.len() {
        0 => "nothing measured of this kind: the error of days and dollars is unknown".to_owned(),
        count => format!(
            "95 % of measured runs lie within -{:.0} to +{:.0} % of these days, and of these dollars with them{}",
            most(0),
            most(1),
            if count < plans.len() { "; of some plans, nothing measured of this kind" } else { "" }
        ),
    }
}

/// The page before the tables. Nothing is loaded, and no script runs.
const HEAD: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
<meta name=\"viewport\" content=\"width=device-width\">\n<title>debubble plan</title>\n<style>\n\
body { margin: 16px; font: 13px sans-serif; color: #222; background: #fff; }\n\
table { border-collapse: collapse; margin: 8px 0 20px; }\n\
th, td { padding: 2px 12px 2px 0; text-align: right; font-variant-numeric: tabular-nums; }\n\
th { font-weight: normal; color: #555; border-bottom: 1px solid #999; }\n\
th.w, td.w { text-align: left; }\n\
svg { max-width: 100%; height: auto; }\n\
.wide { overflow-x: auto; }\n\
pre { padding: 8px; background: #f4f4f4; overflow-x: auto; }\n</style>\n</head>\n<body>\n";

/// One self-contained page.
pub fn html(planned: &Planned) -> Result<String, Diagnostic> {
    let Planned { question, answer, levers, .. } = planned;
    // The picture has the title.
    let mut page = HEAD.to_owned() + &svg(question, answer, None)?;
    let winner = planned.winner();
    if let Some(winner) = winner {
        let taken = escape(&tables::taken(question, answer, winner).join(": "));
        let why = tables::more_headroom(question, &answer.plans, winner);
        let why = why.map_or_else(String::new, |why| format!("<br>{}", escape(&why)));
        page += &format!("<p><b>The plan to take</b>: {taken}{why}</p>\n");
    }
    for line in tables::model(question) {
        page += &format!("<p>{}</p>\n", escape(&line));
    }
    let plans = || (1..).zip(&answer.plans);
    let lines = plans().map(|(number, plan)| tables::line(question, number, plan));
    page += &table("Plans", &tables::HEADER, lines);
    let memory = plans().map(|(number, plan)| tables::memory(number, plan));
    page += &table("Memory of the fullest device", &tables::MEMORY, memory);
    if question.is_of_one() {
        page.extend(plans().map(|(number, plan)| asked(number, plan)));
    }
    if let Some(winner) = winner {
        page += &winner_of(question, winner, levers);
    }
    let reasons = tables::reasons(question, answer).into_iter();
    let header = ["machines", "what became of set-ups", "how many"];
    page += &table("The search", &header, reasons);
    let left_out = assumptions::of(question, answer).into_iter();
    let left_out: String = left_out.map(|line| format!("<li>{}</li>\n", escape(line))).collect();
    page += &format!("<h2>What these answers leave out</h2>\n<ul>\n{left_out}</ul>\n");
    let mut notes = tables::frameworks(question, answer);
    notes.extend(answer.bars.iter().map(ErrorBar::source));
    notes.push(tables::memory_budget(question));
    notes.push(tables::legend(answer));
    notes.extend(tables::DEFINITIONS.map(str::to_owned));
    for note in notes {
        page += &format!("<p>{}</p>\n", escape(&note));
    }
    page += "</body>\n</html>\n";
    Ok(page)
}

/// Every part of the step and of the memory of the set-up that was asked for.
fn asked(number: usize, plan: &Plan) -> String {
    let time = table(
        &format!("A step of plan {number}"),
        &setup_report::TIME,
        setup_report::time(plan).into_iter(),
    );
    let header = setup_report::memory_columns();
    let title = format!("Memory of plan {number}, in GiB of a device");
    let memory = table(&title, &header, setup_report::memory(plan).into_iter());
    format!("{time}{memory}<p>{}</p>\n", escape(&setup_report::fit(plan)))
}

fn winner_of(question: &Question, winner: &Plan, levers: &[Lever]) -> String {
    let mut text = table("The plan to take", &tables::PARTS, tables::parts(winner).into_iter());
    text += &table("Levers", &tables::WORTH, tables::worth(levers).into_iter());
    for (title, file) in export::settings(question, winner) {
        text += &format!("<h2>{title}</h2>\n<pre>{}</pre>\n", escape(&file));
    }
    text
}

fn table(title: &str, header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let rows: Vec<Vec<String>> = rows.collect();
    // Columns of words begin with a letter, those of numbers do not.
    let words = |column: usize| {
        let letter = |row: &Vec<String>| row[column].starts_with(|one: char| one.is_alphabetic());
        column == 0 || rows.iter().all(letter)
    };
    let kinds: Vec<&str> =
        (0..header.len()).map(|column| if words(column) { " class=\"w\"" } else { "" }).collect();
    let cells = |cells: &mut dyn Iterator<Item = &str>, tag: &str| {
        let cells =
            cells.zip(&kinds).map(|(cell, kind)| format!("<{tag}{kind}>{}</{tag}>", escape(cell)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let head = cells(&mut header.iter().copied(), "th");
    let body: String =
        rows.iter().map(|row| cells(&mut row.iter().map(String::as_str), "td")).collect();
    let table = format!("<div class=\"wide\"><table>\n{head}{body}</table></div>\n");
    format!("<h2>{}</h2>\n{table}", escape(title))
}
