//! Tables by their columns: a heading and a cell of each.

use pipeline::{Bytes, Nanos};

use crate::format;

/// A value as a cell of a table: times and sizes in their units, `-` where there is none.
pub trait Cell {
    /// Its text.
    fn cell(&self) -> String;
}

/// Types whose text form is their cell.
macro_rules! as_they_are {
    ($($type:ty)*) => {
        $(impl Cell for $type {
            fn cell(&self) -> String {
                self.to_string()
            }
        })*
    };
}

as_they_are!(str String u16 u32 u64 usize);

impl Cell for Nanos {
    fn cell(&self) -> String {
        format::time(*self)
    }
}

impl Cell for Bytes {
    fn cell(&self) -> String {
        format::size(*self)
    }
}

impl Cell for bool {
    fn cell(&self) -> String {
        if *self { "yes" } else { "no" }.to_owned()
    }
}

impl<C: Cell> Cell for Option<C> {
    fn cell(&self) -> String {
        self.as_ref().map_or_else(|| "-".to_owned(), Cell::cell)
    }
}

impl<C: Cell + ?Sized> Cell for &C {
    fn cell(&self) -> String {
        (**self).cell()
    }
}

/// A [`Sheet`](crate::sheet::Sheet) of one table: a row for each `ROW` of `ROWS`, and under each heading a
/// [`Cell`]. A column `HEADING[condition]` is there where the condition holds; a heading that is no literal stands in
/// brackets.
///
/// ```
/// use pipeline::Nanos;
/// use question::table;
///
/// let steps = [("1f1b", Nanos(27_273_000), None), ("zb-h1", Nanos(22_500_000), Some(4u64))];
/// let has_peaks = steps.iter().any(|(.., peak)| peak.is_some());
/// let sheet = table!(
///     (name, step, peak) = steps,
///     "schedule" = name,
///     "step" = step,
///     "peak"[has_peaks] = peak,
/// );
/// # use question::sheet::Sheet;
/// # let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
/// # let rows = [row(["1f1b", "27.273 ms", "-"]), row(["zb-h1", "22.500 ms", "4"])];
/// # assert_eq!(sheet, Sheet::table(["schedule", "step", "peak"], rows));
/// ```
#[macro_export]
macro_rules! table {
    ($row:pat = $rows:expr, $($heading:tt $([$shown:expr])? = $cell:expr),+ $(,)?) => {{
        let header = [$($(if !$shown { None } else)? { Some(ToString::to_string(&$heading)) }),+];
        $crate::sheet::Sheet::table(
            header.into_iter().flatten(),
            $rows.into_iter().map(|$row| {
                let cells =
                    [$($(if !$shown { None } else)? { Some($crate::cell::Cell::cell(&$cell)) }),+];
                cells.into_iter().flatten().collect::<Vec<String>>()
            }),
        )
    }};
}
