//! Tables of the page, with bars behind the numbers of a row.

use question::sheet::Sheet;

use crate::html::escape;

/// A table under construction: rows of texts, with a bar behind each.
pub(super) struct Table<'a> {
    /// The name for screen readers.
    pub(super) name: &'a str,
    pub(super) header: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    /// How many of the first columns are words, not numbers.
    pub(super) words: usize,
    /// The row that stands out.
    pub(super) taken: Option<usize>,
    /// The last cell of each row, as HTML; none where rows have none.
    pub(super) bars: Vec<String>,
}

impl<'a> Table<'a> {
    pub(super) fn of(name: &'a str, sheet: Sheet) -> Self {
        let (header, rows) = sheet.into_rows();
        Self { name, header, rows, words: 1, taken: None, bars: Vec::new() }
    }

    /// The table with a bar behind each row, as long as its share of the longest.
    pub(super) fn with_bars(self, values: impl IntoIterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.into_iter().collect();
        let most = values.iter().copied().fold(0.0, f64::max);
        let bar = |value: f64| format!("<i style=\"width:{:.1}%\"></i>", percent(value, most));
        Self { bars: values.into_iter().map(bar).collect(), ..self }
    }

    /// As HTML, which scrolls by itself where it is wide.
    pub(super) fn html(&self) -> String {
        let kinds: Vec<&str> = (0..self.header.len())
            .map(|at| if at < self.words { " class=\"w\"" } else { "" })
            .collect();
        let head = self
            .header
            .iter()
            .zip(&kinds)
            .map(|(cell, kind)| format!("<th scope=\"col\"{kind}>{}</th>", escape(cell)));
        let (class, more) = match self.bars.is_empty() {
            true => ("", ""),
            false => (" class=\"bars\"", "<td></td>"),
        };
        let head: String = head.collect();
        let body: String = (0..self.rows.len()).map(|row| self.row(row, &kinds)).collect();
        format!(
            "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table{class}>\n\
             <thead><tr>{head}{more}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n",
            escape(self.name)
        )
    }

    fn row(&self, row: usize, kinds: &[&str]) -> String {
        let cells = self.rows[row].iter().zip(kinds);
        let cells: String =
            cells.map(|(cell, kind)| format!("<td{kind}>{}</td>", escape(cell))).collect();
        let class = if self.taken == Some(row) { " class=\"taken\"" } else { "" };
        let bar = self.bars.get(row);
        let bar = bar.map_or_else(String::new, |bar| {
            format!("<td class=\"bar\" aria-hidden=\"true\">{bar}</td>")
        });
        format!("<tr{class}>{cells}{bar}</tr>\n")
    }
}

/// `value` in percent of `most`, at least nothing.
pub(super) fn percent(value: f64, most: f64) -> f64 {
    if most > 0.0 { (100.0 * value / most).clamp(0.0, 100.0) } else { 0.0 }
}
