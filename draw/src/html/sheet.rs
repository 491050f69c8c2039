//! A sheet as a fragment of a page, such as a notebook shows below a cell.

use question::sheet::{Block, Sheet};

use super::escape;

/// The style of a cell. Notebooks have rules of their own for cells and for `<pre>`, so a style that only
/// the table has would not reach them.
const CELL: &str = "padding:2px 8px;white-space:nowrap";
/// The style of text whose columns are spaces.
const PRE: &str = "white-space:pre-wrap;font-family:monospace;margin:6px 0";

/// `sheet` as HTML: each table a `<table>` with its first column to the left and the others to the right,
/// each text a `<pre>`. All style is inline; there is no script, and nothing has an id, so that any number
/// of fragments can stand on one page. Colours are those of the page.
#[must_use]
pub fn sheet(sheet: &Sheet) -> String {
    let block = |block: &Block| match block {
        Block::Headline(text) => text.lines().map(headline).collect(),
        Block::Table { header, rows, best } => table(header, rows, best),
        Block::Text(text) => preformatted(text),
    };
    let blocks: String = sheet.blocks.iter().map(block).collect();
    format!("<div style=\"overflow-x:auto\">\n{blocks}</div>\n")
}

fn headline(line: &str) -> String {
    format!("<p style=\"font-weight:bold;margin:6px 0\">{}</p>\n", escape(line))
}

fn table(header: &[String], rows: &[Vec<String>], best: &[usize]) -> String {
    let head = row("th", header, "");
    let weight = |at| if best.contains(&at) { "font-weight:bold;" } else { "" };
    let body: String =
        rows.iter().enumerate().map(|(at, cells)| row("td", cells, weight(at))).collect();
    format!(
        "<table style=\"border-collapse:collapse\">\n\
         <thead>\n{head}</thead>\n<tbody>\n{body}</tbody>\n</table>\n"
    )
}

fn row(tag: &str, cells: &[String], style: &str) -> String {
    let cell = |(column, text): (usize, &String)| {
        let side = if column == 0 { "left" } else { "right" };
        format!("<{tag} style=\"{style}text-align:{side};{CELL}\">{}</{tag}>", escape(text))
    };
    let cells: String = cells.iter().enumerate().map(cell).collect();
    format!("<tr>{cells}</tr>\n")
}

/// `text` without the empty lines around it, which only keep it apart from tables in a terminal.
fn preformatted(text: &str) -> String {
    match text.trim_end().trim_start_matches('\n') {
        "" => String::new(),
        text => format!("<pre style=\"{PRE}\">{}</pre>\n", escape(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_tables_and_text_keeps_its_lines() {
        let rows = [["1f1b", "27 ms"], ["zb-h1", ""]].map(|row| row.map(str::to_owned).to_vec());
        let whole = Sheet::table(["schedule", "span"], rows);
        let whole = whole.and_text("\n").and_text("\n  one\n  two\n\n");
        let cell = |tag: &str, side: &str, text: &str| {
            format!("<{tag} style=\"text-align:{side};{CELL}\">{text}</{tag}>")
        };
        let row = |tag: &str, cells: [&str; 2]| {
            format!("<tr>{}{}</tr>\n", cell(tag, "left", cells[0]), cell(tag, "right", cells[1]))
        };
        let expected = [
            "<div style=\"overflow-x:auto\">\n",
            "<table style=\"border-collapse:collapse\">\n<thead>\n",
            &row("th", ["schedule", "span"]),
            "</thead>\n<tbody>\n",
            &row("td", ["1f1b", "27 ms"]),
            &row("td", ["zb-h1", ""]),
            "</tbody>\n</table>\n",
            "<pre style=\"white-space:pre-wrap;font-family:monospace;margin:6px 0\">  one\n  two</pre>\n",
            "</div>\n",
        ];
        assert_eq!(sheet(&whole), expected.concat());
    }

    #[test]
    fn names_cannot_become_markup() {
        let text = "</pre></td><script>\"a\" & 'b'</script>";
        let whole = Sheet::table([text], [vec![text.to_owned()]]).and_text(text);
        let html = sheet(&whole);
        let escaped = "&lt;/pre&gt;&lt;/td&gt;&lt;script&gt;&quot;a&quot; &amp; 'b'&lt;/script&gt;";
        assert_eq!(html.matches(escaped).count(), 3);
        assert!(!html.contains("<script") && !html.contains(" id=") && !html.contains(" src="));
    }

    #[test]
    fn a_gap_is_no_text() {
        let html = sheet(&Sheet::table(["a"], []).under_a_gap());
        assert!(!html.contains("<pre"), "{html}");
    }
}
