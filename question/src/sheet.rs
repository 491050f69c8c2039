//! Tables and text for people, before anybody lines the columns up.

/// Tables and text, one after the other. A terminal lines the columns up, a page makes a table of each.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Sheet {
    /// The parts from top to bottom.
    pub blocks: Vec<Block>,
}

/// A part of a [`Sheet`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Block {
    /// A table: the first column holds names, the others figures.
    Table {
        /// The names of the columns.
        header: Vec<String>,
        /// The rows, each with a cell for every column.
        rows: Vec<Vec<String>>,
    },
    /// Text as it is, with its line breaks.
    Text(String),
}

impl Sheet {
    /// A sheet of one table.
    #[must_use]
    pub fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Self {
        Self::default().and_table(header, rows)
    }

    /// This sheet with a table below.
    #[must_use]
    pub fn and_table(
        mut self,
        header: &[&str],
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Self {
        let header = header.iter().map(|&name| name.to_owned()).collect();
        self.blocks.push(Block::Table { header, rows: rows.into_iter().collect() });
        self
    }

    /// This sheet with `text` below.
    #[must_use]
    pub fn and_text(mut self, text: impl Into<String>) -> Self {
        self.blocks.push(Block::Text(text.into()));
        self
    }

    /// This sheet with `other` below.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.blocks.extend(other.blocks);
        self
    }
}
