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

/// Where a text is shown.
#[derive(Clone, Copy, Default)]
pub struct Terminal {
    /// Columns of a line; `None` for a file or a pipe.
    pub columns: Option<usize>,
    /// Whether headlines and the best rows are highlighted.
    pub colour: bool,
}

/// `sheet` with the columns of its tables lined up, for a file.
#[must_use]
pub fn sheet(sheet: &Sheet) -> String {
    sheet_on(sheet, Terminal::default())
}

/// `sheet` with the columns of its tables lined up. A table that is wider than the terminal goes on below itself, each
/// part with the first column.
#[must_use]
pub fn sheet_on(sheet: &Sheet, terminal: Terminal) -> String {
    let columns = terminal.columns.unwrap_or(COLUMNS);
    let block = |block: &Block| match block {
        Block::Headline(text) => {
            let text = lines::paragraph(text, columns.min(COLUMNS));
            highlighted(text.trim_end(), BOLD, terminal) + "\n\n"
        }
        Block::Table { header, rows, best } => marked(header, rows, best, terminal),
        Block::Text(text) => text.clone(),
    };
    sheet.blocks.iter().map(block).collect()
}

/// The escape sequence of bold text.
const BOLD: &str = "\x1b[1m";
/// The escape sequence of bold green text.
const BEST: &str = "\x1b[1;32m";

fn highlighted(text: &str, sequence: &str, terminal: Terminal) -> String {
    match terminal.colour {
        true => format!("{sequence}{text}\x1b[0m"),
        false => text.to_owned(),
    }
}

/// The table, with the rows `best` marked in a further column.
fn marked(header: &[String], rows: &[Vec<String>], best: &[usize], terminal: Terminal) -> String {
    const MARK: &str = "best";
    let parts = parts(
        header,
        rows,
        terminal.columns.map(|all| all - if best.is_empty() { 0 } else { MARK.len() + 2 }),
    );
    let part = |(number, columns): (usize, &Vec<usize>)| {
        let mut names: Vec<&str> = columns.iter().map(|&at| header[at].as_str()).collect();
        let mark = (number == 0 && !best.is_empty()).then(|| names.push("")).is_some();
        let row = |(at, row): (usize, &Vec<String>)| {
            let word = if best.contains(&at) { MARK } else { "" };
            let cells = columns.iter().map(|&at| row.get(at).cloned().unwrap_or_default());
            cells.chain(mark.then(|| word.to_owned())).collect()
        };
        let text = table(&names, rows.iter().enumerate().map(row));
        let line = |(at, line): (usize, &str)| match at
            .checked_sub(1)
            .is_some_and(|row| best.contains(&row))
        {
            true => highlighted(line, BEST, terminal) + "\n",
            false => line.to_owned() + "\n",
        };
        text.lines().enumerate().map(line).collect::<String>()
    };
    parts.iter().enumerate().map(part).collect::<Vec<_>>().join("\n")
}

/// The columns of each part of a table that is at most `width` wide.
fn parts(header: &[String], rows: &[Vec<String>], width: Option<usize>) -> Vec<Vec<usize>> {
    let widths: Vec<usize> = (0..header.len())
        .map(|at| {
            let cells = rows.iter().filter_map(|row| row.get(at)).chain([&header[at]]);
            cells.map(|cell| cell.chars().count() + 2).max().unwrap_or(0)
        })
        .collect();
    let mut parts: Vec<Vec<usize>> = vec![Vec::new()];
    let mut taken = 0;
    for at in 0..header.len() {
        let last = parts.len() - 1;
        if parts[last].len() > 1 && width.is_some_and(|width| taken + widths[at] > width + 2) {
            parts.push(vec![0]);
            taken = widths[0];
        }
        let last = parts.len() - 1;
        parts[last].push(at);
        taken += widths[at];
    }
    parts
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
        let whole = Sheet::table(["schedule", "span"], rows).and_text("\n  as it is \n");
        let expected = "\
schedule       span
1f1b      27.273 ms
größer         9 ms
zb

  as it is 
";
        assert_eq!(sheet(&whole), expected);
    }

    #[test]
    fn a_wide_table_goes_on_below_itself() {
        let header = ["schedule", "span", "peak"];
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["1f1b", "27.273 ms", "4 GiB"]), row(["zb-v", "22 ms", "4 GiB"])];
        let whole = Sheet::table(header, rows).with_best([1]);
        let narrow = Terminal { columns: Some(26), colour: true };
        let expected = "\
schedule       span
1f1b      27.273 ms
\x1b[1;32mzb-v          22 ms  best\x1b[0m

schedule   peak
1f1b      4 GiB
\x1b[1;32mzb-v      4 GiB\x1b[0m
";
        assert_eq!(sheet_on(&whole, narrow), expected);
        let wide = Terminal { columns: Some(80), colour: false };
        assert_eq!(sheet_on(&whole, wide), sheet(&whole));
        // No column is lost where even two do not fit.
        let least = sheet_on(&whole, Terminal { columns: Some(10), colour: false });
        assert!(least.contains("27.273 ms") && least.contains("4 GiB"), "{least}");
    }
}
