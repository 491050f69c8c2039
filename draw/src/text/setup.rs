//! A set-up that was asked for, with every part of its step and of its memory.

use answer::plan::{
    Against, Plan, Planned, SetupReport, against, assumptions, setup_report, tables,
};
use measured::ErrorBar;
use planning::Question;

use super::headed::cut;
use super::lines::{COLUMNS, paragraph};
use super::sheet;

/// The set-up of the question on each of its clusters; with `details`, the savings of each change.
pub(super) fn setups(planned: &Planned, details: bool, columns: usize) -> String {
    let paragraph = |text: &str| paragraph(text, columns);
    let Planned { question, answer, levers, .. } = planned;
    let mut text: String = answer.plans.iter().map(|plan| setup(question, plan, columns)).collect();
    if details && !levers.is_empty() {
        text += &format!("\n{}", sheet(&tables::worth(levers)));
    }
    text += "\nwhat these answers leave out:\n";
    let left_out = assumptions::of(question, answer);
    text.extend(left_out.into_iter().map(|line| paragraph(&format!("- {line}"))));
    text.push('\n');
    let bars = answer.bars.iter().map(ErrorBar::source);
    let notes = bars.chain([tables::memory_budget(question), tables::legend(answer)]);
    text.extend(notes.map(|note| paragraph(&note)));
    text
}

/// One set-up on one cluster.
fn setup(question: &Question, plan: &Plan, columns: usize) -> String {
    let paragraph = |text: &str| paragraph(text, columns);
    let own = &plan.finalist.costed().setup;
    let own_name = tables::asked(question, own);
    let which = format!(
        "{}: {} {own_name}",
        question.clusters[plan.cluster].title(),
        tables::order_name(plan)
    );
    let mut text = format!("\n{}\n", cut(&which, columns));
    text.extend(tables::scarce(plan).map(|scarce| paragraph(&format!("  {scarce}"))));
    text += &paragraph(&format!("  {}", setup_report::fit(plan)));
    for line in setup_report::figures(question, plan) {
        text += &paragraph(&format!("  {line}"));
    }
    let SetupReport { layout, busiest_stage, .. } = SetupReport::of(question, plan);
    if let Some(layout) = layout.filter(|_| own.pipeline > 1) {
        text += &paragraph(&format!("  layers of each chunk: {layout}"));
    }
    text += &format!("\n{}", sheet(&setup_report::time(plan)));
    if own.pipeline > 1 {
        text += &paragraph(&format!("(of stage {busiest_stage}, which works longest)"));
    }
    text + &format!("\n{}(GiB of a device)\n", sheet(&setup_report::memory(plan)))
}

/// Two plans side by side.
#[must_use]
pub fn against(both: &Against<'_>) -> String {
    let paragraph = |text: &str| paragraph(text, COLUMNS);
    let mut text: String = both.names().iter().map(|line| paragraph(line)).collect();
    for (title, lines) in [
        ("a step", both.time()),
        ("memory of the fullest device", both.memory()),
        ("what comes of it", both.figures()),
    ] {
        text += &format!("\n{}", sheet(&against::table(title, &lines)));
    }
    text.push('\n');
    text.extend(both.verdict().iter().map(|line| paragraph(line)));
    text
}
