//! The rows of a sweep as pictures: which are asked for, and their rows, one by one.

mod lines;
mod maps;
mod pareto;

use std::io::Read;

use csv::{Reader, StringRecord};

use crate::Width;
use question::sweep::axis::Axis;
use question::sweep::columns::column_of;
use question::sweep::grid::Grid;
use question::{Context, Diagnostic};

/// The most panels and points of a picture: more cannot be read.
pub(super) const MOST: (u64, u64) = (36, 100_000);

/// The kind of picture of a sweep.
pub enum Kind<'a> {
    /// The bubble over the axis of that name, or the last one of numbers.
    Lines {
        /// The key of the axis, if one is named.
        over: Option<&'a str>,
    },
    /// The bubble over two axes.
    Maps {
        /// The keys of the two axes, across and down.
        keys: &'a [String],
    },
    /// The bubble against the peak memory.
    Pareto,
}

impl<'a> Kind<'a> {
    /// The kind that suits the axes of `grid`: maps over `keys`, which [`axes_of_maps`] says; lines over an axis of
    /// numbers; and where there is none, the bubble against the peak memory.
    #[must_use]
    pub fn suited(grid: &Grid, keys: &'a [String]) -> Self {
        match keys {
            [] if lines::check(grid, None).is_ok() => Self::Lines { over: None },
            [] => Self::Pareto,
            keys => Self::Maps { keys },
        }
    }
}

/// The two axes of heat maps of `grid`, those that vary fastest; none where it has fewer than two of several values,
/// or maps cannot be drawn.
#[must_use]
pub fn axes_of_maps(grid: &Grid) -> Vec<String> {
    let varies = |axis: &&Axis| axis.key != "schedule" && axis.count() > 1;
    let fastest = grid.axes.iter().rev().filter(varies);
    let keys: Vec<String> = fastest.take(2).map(|axis| axis.key.clone()).collect();
    if maps::check(grid, &keys).is_ok() { keys } else { Vec::new() }
}

/// Checks that `pictures` of `grid` can be drawn.
pub fn check<'a>(
    grid: &Grid,
    pictures: impl ExactSizeIterator<Item = &'a Kind<'a>>,
) -> Result<(), Diagnostic> {
    if pictures.len() > 0 && grid.questions > MOST.1 {
        return Err(Diagnostic::new(format!("--plot: more than {} points", MOST.1)));
    }
    pictures.into_iter().try_for_each(|picture| match *picture {
        Kind::Lines { over } => lines::check(grid, over),
        Kind::Maps { keys } => maps::check(grid, keys),
        Kind::Pareto => pareto::check(grid),
    })
}

/// Draws `picture` of the rows of `grid`, which `csv` has with their names, in that `width`.
pub fn draw(
    context: &Context<'_>,
    grid: &Grid,
    picture: &Kind<'_>,
    csv: impl Read,
    width: Option<Width>,
) -> Result<String, Diagnostic> {
    let rows = Rows::of(csv)?;
    match *picture {
        Kind::Lines { over } => lines::svg(grid, rows, over, width),
        Kind::Maps { keys } => maps::svg(context, grid, rows, (keys, width)),
        Kind::Pareto => pareto::svg(context, grid, rows, width),
    }
}

/// The rows of a sweep, one by one, by the names of their columns.
pub(super) struct Rows<R> {
    reader: Reader<R>,
    names: StringRecord,
    row: StringRecord,
}

impl<R: Read> Rows<R> {
    fn of(csv: R) -> Result<Self, Diagnostic> {
        let mut reader = Reader::from_reader(csv);
        let names = reader.headers().map_err(|error| unreadable(&error))?.clone();
        Ok(Self { reader, names, row: StringRecord::new() })
    }

    /// Goes to the next row, and says whether there is one.
    pub(super) fn next(&mut self) -> Result<bool, Diagnostic> {
        self.reader.read_record(&mut self.row).map_err(|error| unreadable(&error))
    }

    /// The field of the row in column `name`.
    pub(super) fn field(&self, name: &str) -> &str {
        let at = self.names.iter().position(|one| one == name);
        at.and_then(|at| self.row.get(at)).unwrap_or_default()
    }

    /// Likewise, if it is a number.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.field(name).parse().ok()
    }

    /// Whether the answer of the row keeps its memory limit and fills no device, where there is either.
    pub(super) fn fits(&self) -> Option<bool> {
        if !self.field("out_of_memory_device").is_empty() {
            return Some(false);
        }
        self.field("fits").parse().ok()
    }

    /// The title of the row's panel: its setting, and its values of the axes that `own` takes.
    pub(super) fn panel(&self, grid: &Grid, own: impl Fn(&Axis) -> bool) -> String {
        let axes = grid.axes.iter().filter(|axis| own(axis));
        let axes = axes.map(|axis| format!("{}={}", axis.key, self.field(&column_of(axis))));
        let setting = Some(self.field("setting").to_owned()).filter(|name| !name.is_empty());
        setting.into_iter().chain(axes).collect::<Vec<_>>().join(", ")
    }
}

fn unreadable(error: &csv::Error) -> Diagnostic {
    Diagnostic::new(format!("the rows of the sweep cannot be read back: {error}"))
}

/// The index of the `wanted` item among `all`, after adding it if need be.
pub fn place<T>(all: &mut Vec<T>, wanted: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> usize {
    all.iter().position(wanted).unwrap_or_else(|| {
        all.push(new());
        all.len() - 1
    })
}

/// How many panels a picture has of which there is one for each setting and value of the axes that
/// `own` takes.
pub fn panels(grid: &Grid, own: impl Fn(&Axis) -> bool) -> u64 {
    let counts = grid.axes.iter().filter(|axis| own(axis)).map(Axis::count);
    counts.fold(grid.scenario.settings.len().max(1) as u64, u64::saturating_mul)
}

/// Refuses more panels than can be read, before anything is answered.
pub fn check_panels(flag: &str, count: u64) -> Result<(), Diagnostic> {
    if count <= MOST.0 {
        return Ok(());
    }
    let message = format!(
        "{flag} would draw {count} panels, one for each setting and value of the other axes: at most {}",
        MOST.0
    );
    let cure = "draw a sweep of fewer values, or answer this one without a picture";
    Err(Diagnostic::new(message).with_help(cure))
}

/// The title above all panels.
pub fn title(grid: &Grid, of: &str) -> String {
    grid.scenario.title.clone().unwrap_or_else(|| format!("Sweep: {of}"))
}
