//! A table of text with headings between its rows, never wider than a terminal.

/// Columns between two columns of a table.
const GAP: usize = 2;
/// A column of words is not cut narrower than this.
const NARROWEST: usize = 12;

/// A table whose rows stand under headings.
pub(super) struct HeadedTable {
    /// The names of the columns.
    pub(super) header: Vec<&'static str>,
    /// How many columns are words, which begin to the left; the others are numbers.
    pub(super) words: usize,
    /// The column whose text may go on in the next line, at a blank.
    pub(super) folded: usize,
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
    /// The text, at most `width` columns wide as long as numbers leave room for words; columns from
    /// number `optional` on are left out, the last first, if there is no room for them.
    pub(super) fn text(&self, width: usize, optional: usize) -> String {
        let mut widths: Vec<usize> = (0..self.header.len()).map(|at| self.width(at)).collect();
        while widths.len() > optional && sum(&widths) > width {
            widths.pop();
        }
        let over = sum(&widths).saturating_sub(width);
        let folded = &mut widths[self.folded];
        *folded = folded.saturating_sub(over).max(NARROWEST.min(*folded));
        let header: Vec<String> = self.header.iter().map(ToString::to_string).collect();
        let mut text = self.row(&header, &widths);
        for line in &self.lines {
            match line {
                Line::Heading(heading) => text += &(cut(heading, width) + "\n"),
                Line::Row(cells) => text += &self.row(cells, &widths),
            }
        }
        text
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.lines.iter().filter_map(|line| match line {
            Line::Heading(_) => None,
            Line::Row(cells) => cells.get(column).map(|cell| cell.chars().count()),
        });
        cells.max().unwrap_or(0).max(self.header[column].chars().count())
    }

    /// One row in lines of the `widths` of its columns.
    fn row(&self, cells: &[String], widths: &[usize]) -> String {
        let folded = folded(&cells[self.folded], widths[self.folded]);
        let lines = folded.iter().enumerate().map(|(number, part)| {
            let cells = widths.iter().enumerate().map(|(column, &width)| {
                let cell = match (column == self.folded, number) {
                    (true, _) => part,
                    (false, 0) => &cells[column][..],
                    (false, _) => "",
                };
                match column < self.words {
                    true => format!("{cell:<width$}"),
                    false => format!("{cell:>width$}"),
                }
            });
            let line = cells.collect::<Vec<_>>().join(&" ".repeat(GAP));
            line.trim_end().to_owned() + "\n"
        });
        lines.collect()
    }
}

fn sum(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
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

/// `text`, or as much of it as has room in `width` columns, with three dots.
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
            folded: 0,
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
        assert_eq!(table().text(100, 3), expected);
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
        assert_eq!(table().text(29, 3), expected);
    }
}
