//! A table of text with headings between its rows, never wider than a terminal.

/// Columns between two columns of a table.
const GAP: usize = 2;
/// A column of words is not cut narrower than this.
const NARROWEST: usize = 12;

/// A table whose rows stand under headings.
pub(super) struct HeadedTable {
    /// The names of the columns.
    pub(super) header: Vec<&'static str>,
    /// Number of text columns, aligned left; the rest are numbers.
    pub(super) words: usize,
    /// The columns whose text may go on in the next line, at a blank.
    pub(super) folded: Vec<usize>,
    /// The columns that may be left out where the table is too wide, in order; the first before any
    /// text is folded, the rest after.
    pub(super) optional: Vec<usize>,
    /// Headings and rows.
    pub(super) lines: Vec<Line>,
}

/// A line of a [`HeadedTable`].
pub(super) enum Line {
    /// Text over the whole width.
    Heading(String),
    /// A cell for each column.
    Row(Vec<String>),
}

impl HeadedTable {
    /// The text, at most `width` columns wide as long as numbers leave room for words, and the names of the columns
    /// that are left out for that.
    pub(super) fn text(&self, width: usize) -> (String, Vec<&'static str>) {
        let whole: Vec<Option<usize>> =
            (0..self.header.len()).map(|at| Some(self.width(at))).collect();
        let without = |count: usize| {
            let mut widths = whole.clone();
            self.optional[..count].iter().for_each(|&at| widths[at] = None);
            widths
        };
        // The first goes before text is folded, the rest only once folding does not suffice.
        let first = usize::from(sum(&whole) > width).min(self.optional.len());
        let folded = (first..=self.optional.len()).map(|count| (count, without(count)));
        let folded = folded.map(|(count, widths)| (count, self.fold(widths, width)));
        let all: Vec<(usize, Vec<Option<usize>>)> = folded.collect();
        let fitting = all.iter().find(|(_, widths)| sum(widths) <= width);
        let Some((count, widths)) = fitting.or(all.last()) else { return Default::default() };
        let header: Vec<String> = self.header.iter().map(ToString::to_string).collect();
        let mut text = self.row(&header, widths);
        for line in &self.lines {
            match line {
                Line::Heading(heading) => text += &(cut(heading, width) + "\n"),
                Line::Row(cells) => text += &self.row(cells, widths),
            }
        }
        (text, self.optional[..*count].iter().map(|&at| self.header[at]).collect())
    }

    /// `widths` with folded columns as narrow as `width` asks for, the first of them first.
    fn fold(&self, mut widths: Vec<Option<usize>>, width: usize) -> Vec<Option<usize>> {
        for &column in &self.folded {
            let over = sum(&widths).saturating_sub(width);
            widths[column] =
                widths[column].map(|whole| whole.saturating_sub(over).max(NARROWEST.min(whole)));
        }
        widths
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.lines.iter().filter_map(|line| match line {
            Line::Heading(_) => None,
            Line::Row(cells) => cells.get(column).map(|cell| cell.chars().count()),
        });
        cells.max().unwrap_or(0).max(self.header[column].chars().count())
    }

    /// One row in lines of the `widths` of its columns.
    fn row(&self, cells: &[String], widths: &[Option<usize>]) -> String {
        let shown = widths.iter().enumerate().filter_map(|(at, width)| Some((at, (*width)?)));
        let cells: Vec<(usize, usize, Vec<String>)> = shown
            .map(|(at, width)| match self.folded.contains(&at) {
                true => (at, width, folded(&cells[at], width)),
                false => (at, width, vec![cells[at].clone()]),
            })
            .collect();
        let lines = cells.iter().map(|(_, _, lines)| lines.len()).max().unwrap_or(0);
        let line = |number: usize| {
            let cells = cells.iter().map(|(at, width, lines)| {
                let cell = lines.get(number).map_or("", String::as_str);
                match *at < self.words {
                    true => format!("{cell:<width$}"),
                    false => format!("{cell:>width$}"),
                }
            });
            let line = cells.collect::<Vec<_>>().join(&" ".repeat(GAP));
            line.trim_end().to_owned() + "\n"
        };
        (0..lines).map(line).collect()
    }
}

/// The columns of a line of `widths`, with the gaps between them.
fn sum(widths: &[Option<usize>]) -> usize {
    let shown = widths.iter().flatten();
    shown.clone().sum::<usize>() + GAP * shown.count().saturating_sub(1)
}

/// `text` in lines of at most `width`, parted at blanks.
fn folded(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// `text`, shortened to `width` columns with three dots.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(3)).collect();
    kept + "..."
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> HeadedTable {
        let row = |cells: [&str; 4]| Line::Row(cells.map(str::to_owned).into());
        HeadedTable {
            header: vec!["set-up", "step", "dollars", "MFU"],
            words: 1,
            folded: vec![0],
            optional: vec![3, 1],
            lines: vec![
                Line::Heading("16 devices of a machine with a long name".to_owned()),
                row(["d8 t2 p16 v2 b1 z1", "1.5 s", "12", "40 %"]),
                row(["d1", "12.5 s", "1,234", "7 %"]),
            ],
        }
    }

    #[test]
    fn a_wide_table_is_told_whole() {
        let expected = "\
set-up                step  dollars   MFU
16 devices of a machine with a long name
d8 t2 p16 v2 b1 z1   1.5 s       12  40 %
d1                  12.5 s    1,234   7 %
";
        assert_eq!(table().text(100), (expected.to_owned(), vec![]));
    }

    #[test]
    fn a_narrow_one_leaves_columns_out_and_then_folds_words() {
        let expected = "\
set-up          step  dollars
16 devices of a machine wi...
d8 t2 p16 v2   1.5 s       12
b1 z1
d1            12.5 s    1,234
";
        assert_eq!(table().text(29), (expected.to_owned(), vec!["MFU"]));
        let expected = "\
set-up        dollars
16 devices of a ma...
d8 t2 p16 v2       12
b1 z1
d1              1,234
";
        assert_eq!(table().text(21), (expected.to_owned(), vec!["MFU", "step"]));
    }
}
