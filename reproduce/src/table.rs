//! A published table: its sources, cells, picture and searches.

use question::Diagnostic;
use question::scenario::Scenario;
use question::sheet::Sheet;

use super::cell::Cell;
use super::contender::Contender;
use super::picture::Picture;
use super::sources::Sources;

/// A published table or figure that can be reproduced.
pub struct Table {
    /// The name by which questions ask for it.
    pub name: &'static str,
    /// A line that describes it.
    pub help: &'static str,
    /// The names of the files with its settings and figures, the settings first.
    pub sources: &'static [&'static str],
    /// Whether it quotes cells of other tables, which are made before it.
    pub(super) is_summary: bool,
    /// Makes all its cells.
    pub(super) cells: fn(&Table, &Sources<'_>) -> Result<Contents, Diagnostic>,
    /// Describes the picture of its cells, under a title.
    pub(super) picture: Option<fn(&str, &[Cell]) -> Picture>,
    /// Lists the schedules to search for each of its settings, if its rates can be improved by a
    /// search.
    pub(super) contenders: Option<Contenders>,
}

/// Lists the searches that are made for every setting of a table.
type Contenders = fn(&Sources<'_>) -> Result<Vec<Contender>, Diagnostic>;

pub(super) struct Contents {
    pub(super) title: String,
    pub(super) cells: Vec<Cell>,
    /// The cells as a person reads them.
    pub(super) sheet: Sheet,
}

impl Contents {
    /// The contents of `table`: its `cells`, with those that are expected to miss, as `sheet` shows them.
    pub(super) fn of(
        table: &Table,
        sources: &Sources<'_>,
        title: impl Into<String>,
        cells: Vec<Cell>,
        sheet: impl FnOnce(&[Cell]) -> Sheet,
    ) -> Result<Self, Diagnostic> {
        let cells = sources.expecting(table.name, cells)?;
        Ok(Self { title: title.into(), sheet: sheet(&cells), cells })
    }
}

impl Table {
    /// Whether orders that are better than the published ones can be searched for its cells.
    #[must_use]
    pub const fn can_be_searched(&self) -> bool {
        self.contenders.is_some()
    }

    /// Whether its cells are quoted from other tables, so that totals leave it out.
    #[must_use]
    pub const fn quotes(&self) -> bool {
        self.is_summary
    }

    /// The title that its settings give, or its name.
    pub(super) fn title(&self, scenario: &Scenario) -> String {
        scenario.title.clone().unwrap_or_else(|| self.name.to_owned())
    }

    pub(super) fn settings(&self) -> &'static str {
        self.sources.first().copied().unwrap_or_default()
    }
}
