//! Answers and errors as text for a terminal: sheets with the columns of their tables lined up.

mod diagnostic;
mod headed;
mod lines;
mod plan;
mod setup;

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use question::sheet::{Block, Sheet};

pub use self::diagnostic::diagnostic;
pub use self::lines::COLUMNS;
pub use self::plan::plan;
pub use self::setup::against;

/// A table with a header, its columns lined up: the first to the left, the others to the right.
#[must_use]
pub fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.iter().enumerate().map(aligned));
    for row in rows {
        table.add_row(row.iter().enumerate().map(aligned));
    }
    let lines = table.lines().map(|line| line.trim_end().to_owned());
    lines.fold(String::new(), |text, line| text + line.strip_prefix(' ').unwrap_or(&line) + "\n")
}

/// `sheet` with the columns of its tables lined up.
#[must_use]
pub fn sheet(sheet: &Sheet) -> String {
    let block = |block: &Block| match block {
        Block::Headline(text) => lines::paragraph(text, COLUMNS) + "\n",
        Block::Table { header, rows, best } => marked(header, rows, best),
        Block::Text(text) => text.clone(),
    };
    sheet.blocks.iter().map(block).collect()
}

/// The table, with the rows `best` marked in a further column.
fn marked(header: &[String], rows: &[Vec<String>], best: &[usize]) -> String {
    let mut header: Vec<&str> = header.iter().map(String::as_str).collect();
    if best.is_empty() {
        return table(&header, rows.iter().cloned());
    }
    header.push("");
    let mark = |at| if best.contains(&at) { "best" } else { "" };
    let rows = rows.iter().enumerate();
    table(&header, rows.map(|(at, row)| [&row[..], &[mark(at).to_owned()]].concat()))
}

fn aligned((column, text): (usize, impl ToString)) -> Cell {
    let alignment = if column == 0 { CellAlignment::Left } else { CellAlignment::Right };
    Cell::new(text.to_string()).set_alignment(alignment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_lined_up_and_text_stays_as_it_is() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let rows = [row(["1f1b", "27.273 ms"]), row(["größer", "9 ms"]), row(["zb", ""])];
        let whole = Sheet::table(&["schedule", "span"], rows).and_text("\n  as it is \n");
        let expected = "\
schedule       span
1f1b      27.273 ms
größer         9 ms
zb

  as it is 
";
        assert_eq!(sheet(&whole), expected);
    }
}
