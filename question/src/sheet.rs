//! Tables and text for people, before layout.

use std::fmt;

/// Tables and text, one after the other. A terminal lines the columns up, a page makes a table of each.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Sheet {
    /// The parts from top to bottom.
    pub blocks: Vec<Block>,
}

/// A part of a [`Sheet`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Block {
    /// The answer in a sentence, or in one for each setting, a line each.
    Headline(String),
    /// A table: the first column holds names, the others figures.
    Table {
        /// The names of the columns.
        header: Vec<String>,
        /// The rows, each with a cell for every column.
        rows: Vec<Vec<String>>,
        /// The numbers of the rows that a headline names.
        best: Vec<usize>,
    },
    /// Text as it is, with its line breaks.
    Text(String),
}

impl Sheet {
    /// A sheet of one table.
    #[must_use]
    pub fn table(
        header: impl IntoIterator<Item = impl ToString>,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Self {
        let header = header.into_iter().map(|name| name.to_string()).collect();
        let rows = rows.into_iter().collect();
        Self { blocks: vec![Block::Table { header, rows, best: Vec::new() }] }
    }

    /// The heading of each column of its first table, and the rows.
    #[must_use]
    pub fn into_rows(self) -> (Vec<String>, Vec<Vec<String>>) {
        let mut tables = self.blocks.into_iter().filter_map(|block| match block {
            Block::Table { header, rows, .. } => Some((header, rows)),
            Block::Headline(_) | Block::Text(_) => None,
        });
        tables.next().unwrap_or_default()
    }

    /// Its first table with the columns at `places` alone.
    #[must_use]
    pub fn columns(self, places: &[usize]) -> Self {
        let (header, rows) = self.into_rows();
        let of = |row: &Vec<String>| -> Vec<String> {
            places.iter().filter_map(|&at| row.get(at).cloned()).collect()
        };
        Self::table(of(&header), rows.iter().map(of))
    }

    /// This sheet below `headline`, if it says anything.
    #[must_use]
    pub fn headed(mut self, headline: &str) -> Self {
        if !headline.is_empty() {
            self.blocks.insert(0, Block::Headline(headline.to_owned()));
        }
        self
    }

    /// This sheet with the rows `best` of its last table marked.
    #[must_use]
    pub fn with_best(mut self, rows: impl IntoIterator<Item = usize>) -> Self {
        if let Some(Block::Table { best, .. }) = self.blocks.last_mut() {
            best.extend(rows);
        }
        self
    }

    /// This sheet with `text` below.
    #[must_use]
    pub fn and_text(mut self, text: impl AsRef<str>) -> Self {
        self.push_text(text.as_ref());
        self
    }

    /// This sheet with `other` below.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.push(other);
        self
    }

    /// This sheet with an empty line above.
    #[must_use]
    pub fn under_a_gap(self) -> Self {
        let mut all = Self::default().and_text("\n");
        all.push(self);
        all
    }

    /// Adds `text` below.
    pub fn push_text(&mut self, text: &str) {
        match self.blocks.last_mut() {
            _ if text.is_empty() => {}
            Some(Block::Text(last)) => last.push_str(text),
            _ => self.blocks.push(Block::Text(text.to_owned())),
        }
    }

    /// Adds `other` below.
    pub fn push(&mut self, other: Self) {
        for block in other.blocks {
            match block {
                Block::Text(text) => self.push_text(&text),
                block => self.blocks.push(block),
            }
        }
    }
}

impl fmt::Write for Sheet {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push_text(text);
        Ok(())
    }
}
