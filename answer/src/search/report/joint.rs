//! Joint searches, for people.

use pipeline::Nanos;
use question::format;
use question::sheet::Sheet;

use super::SearchRow;
use crate::search::joint_choice::{self, JointChoice, gain};

/// Adds to `sheet` the choices of the joint searches among `rows`, and the alternatives that they beat.
pub(super) fn tell(sheet: &mut Sheet, rows: &[SearchRow]) {
    let chosen: Vec<(&SearchRow, &JointChoice)> =
        rows.iter().filter_map(|row| Some((row, row.chosen.as_ref()?))).collect();
    for (row, chosen) in &chosen {
        sheet.push_text("\n");
        sheet.push_text(&in_words(row, chosen));
        if !chosen.published.is_empty() {
            sheet.push(joint_choice::table(&chosen.published));
        }
    }
    if !chosen.is_empty() {
        sheet.push_text(
            "\nchosen: layers as in --layout, chunks in model order; saved: by how much the order found costs less \
             than the published one with the best of the settings tried for it, where all chunks recompute the \
             same, and none copies to the host but where it is published so; bound, gap and argument above are of orders with what was chosen\n",
        );
    }
}

/// The choice for `row`, in words.
fn in_words(row: &SearchRow, chosen: &JointChoice) -> String {
    let summary = &chosen.summary;
    let layers =
        summary.layout.as_ref().map_or(String::new(), |layout| format!(", layers {layout}"));
    let head = format!(
        "{}: {}{layers}, recompute {}{} ({} choices tried)\n",
        row.named("chosen", ""),
        summary.chunks_in_words(),
        summary.recompute,
        summary.besides(),
        chosen.tried
    );
    let asked = match chosen.asked {
        Some(asked) => format!(
            "  as asked: {}, of which the choice saves {}\n",
            format::time(asked),
            format::percent(gain(row.cost, asked))
        ),
        None => "  as asked: nothing fits\n".to_owned(),
    };
    let bound = match chosen.bound {
        None | Some(Nanos(0)) => String::new(),
        Some(_) => format!(
            "  of all choices: {} (the mean stage must do its share, some stage that of whole layers)\n",
            row.solution().against_bound()
        ),
    };
    format!("{head}{asked}{bound}")
}
