//! The types of the columns of a sweep's rows, those of its axes found in their values.

use std::io::Read;

use csv::{ByteRecord, Reader};
use question::sweep::columns::{self, ColumnKind};

/// The types of the columns `names`, if they are known before there are rows.
#[must_use]
pub fn known(names: &[&str]) -> Option<Vec<ColumnKind>> {
    names.iter().map(|name| columns::kind(name)).collect()
}

/// The types of the columns `names` of `rows`: as known, or the first of whole number, number, truth and text
/// that all values of a column are.
pub fn of<R: Read>(names: &[&str], rows: &mut Reader<R>) -> csv::Result<Vec<ColumnKind>> {
    const NARROWEST_FIRST: [ColumnKind; 3] =
        [ColumnKind::Whole, ColumnKind::Decimal, ColumnKind::Truth];
    let fixed: Vec<Option<ColumnKind>> = names.iter().map(|name| columns::kind(name)).collect();
    let mut fits = vec![[true; NARROWEST_FIRST.len()]; fixed.len()];
    let mut row = ByteRecord::new();
    while rows.read_byte_record(&mut row)? {
        for ((value, fits), _) in row.iter().zip(&mut fits).zip(&fixed).filter(|(_, f)| f.is_none())
        {
            for (fits, kind) in fits.iter_mut().zip(NARROWEST_FIRST) {
                *fits = *fits && (value.is_empty() || is(value, kind));
            }
        }
    }
    let found = |fits: &[bool; 3]| fits.iter().position(|fits| *fits);
    let kind = |(fixed, fits): (&Option<ColumnKind>, _)| {
        fixed.unwrap_or_else(|| found(fits).map_or(ColumnKind::Text, |at| NARROWEST_FIRST[at]))
    };
    Ok(fixed.iter().zip(&fits).map(kind).collect())
}

fn is(value: &[u8], kind: ColumnKind) -> bool {
    let text = std::str::from_utf8(value).unwrap_or_default();
    // Words such as nan and infinity are not numbers of an axis.
    let digits = text.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit());
    match kind {
        ColumnKind::Whole => digits && text.parse::<i64>().is_ok(),
        ColumnKind::Decimal => digits && text.parse::<f64>().is_ok(),
        ColumnKind::Truth => text.parse::<bool>().is_ok(),
        ColumnKind::Text => true,
    }
}

#[cfg(test)]
mod tests {
    use csv::ReaderBuilder;

    use super::*;

    #[test]
    fn an_axis_is_the_narrowest_of_what_its_values_are() {
        let of = |names: &[&str], rows: &str| {
            of(names, &mut ReaderBuilder::new().has_headers(false).from_reader(rows.as_bytes()))
        };
        let rows = "1,1.5,true,1us,nan,1,\n2,2,false,2us,1,,\n";
        let found = of(&["a", "b", "c", "d", "e", "f", "g"], rows).unwrap();
        let (whole, text) = (ColumnKind::Whole, ColumnKind::Text);
        assert_eq!(
            found,
            [whole, ColumnKind::Decimal, ColumnKind::Truth, text, text, whole, whole]
        );
        assert_eq!(of(&["schedule", "a"], "1,2\n").unwrap(), [text, whole]);
    }
}
