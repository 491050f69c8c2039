//! Tables as people read them; numbers are written by [`question::format`].

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

pub use question::format::{percent, signed_percent, size, time, wrapped};

use question::sheet::{Block, Sheet};

/// A table with a header, its columns lined up: the first to the left, the others to the right.
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
pub fn sheet(sheet: &Sheet) -> String {
    let block = |block: &Block| match block {
        Block::Table { header, rows } => {
            table(&header.iter().map(String::as_str).collect::<Vec<_>>(), rows.iter().cloned())
        }
        Block::Text(text) => text.clone(),
    };
    sheet.blocks.iter().map(block).collect()
}

fn aligned((column, text): (usize, impl ToString)) -> Cell {
    let alignment = if column == 0 { CellAlignment::Left } else { CellAlignment::Right };
    Cell::new(text.to_string()).set_alignment(alignment)
}
