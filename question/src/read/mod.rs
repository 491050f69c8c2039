//! Tables of TOML as keys, with the spans of their values.

mod spans;

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue, Deserializer, Error};

use crate::host::Context;
use crate::keys::field::Plain;
use crate::keys::read::{self as written, Object};
use crate::keys::{HardwareKeys, Keys};
pub use spans::KeySpans;

/// The keys of a table with the one entry `key`.
pub(crate) fn single(
    key: Spanned<DeString<'_>>,
    value: Spanned<DeValue<'_>>,
) -> Result<Keys, Error> {
    let mut table = DeTable::new();
    let span = value.span();
    table.insert(key, value);
    keys(Spanned::new(span, table))
}

/// The number that is written as `label`, as a text if it is `quoted`.
pub(crate) fn plain(label: &str, quoted: bool) -> Plain {
    match (quoted, label.parse::<u64>(), label.parse::<f64>()) {
        (false, Ok(whole), _) => Plain::Whole(whole),
        (false, _, Ok(number)) => Plain::Number(number),
        _ => Plain::Text(label.to_owned()),
    }
}

/// The key `key` with the number that is written as `label`, as a text if it is `quoted`.
pub(crate) fn number(key: &str, label: &str, quoted: bool) -> Result<Keys, String> {
    let value = match plain(label, quoted) {
        Plain::Whole(whole) => Value::from(whole),
        Plain::Number(number) => Value::from(number),
        _ => Value::from(label),
    };
    let entry: Object = std::iter::once((key.to_owned(), value)).collect();
    let keys = match HardwareKeys::NAMES.contains(&key) {
        true => written::read(entry).map(|hardware| Keys { hardware, ..Keys::default() }),
        false => written::read(entry),
    };
    keys.map_err(|error| error.to_string())
}

/// The keys of a table; those of the hardware are a set of their own.
pub(crate) fn keys(mut table: Spanned<DeTable<'_>>) -> Result<Keys, Error> {
    let hardware = take(&mut table, HardwareKeys::NAMES)?;
    let keys: Keys = whole(table)?;
    Ok(Keys { hardware, ..keys })
}

/// `value`, if it is a table.
pub(crate) fn as_table(value: Spanned<DeValue<'_>>) -> Option<Spanned<DeTable<'_>>> {
    let span = value.span();
    match value.into_inner() {
        DeValue::Table(table) => Some(Spanned::new(span, table)),
        _ => None,
    }
}

/// Removes the entries `names` from `table` and reads them; errors point at their spans.
pub(crate) fn take<T: DeserializeOwned>(
    table: &mut Spanned<DeTable<'_>>,
    names: &[&str],
) -> Result<T, Error> {
    let span = table.span();
    let mut taken = DeTable::new();
    for name in names {
        if let Some((key, value)) = table.get_mut().remove_entry(*name) {
            taken.insert(key, value);
        }
    }
    whole(Spanned::new(span, taken))
}

fn whole<T: DeserializeOwned>(table: Spanned<DeTable<'_>>) -> Result<T, Error> {
    T::deserialize(Deserializer::from(table))
}

impl Keys {
    /// Reads the profiles from `folder`, unless their paths are absolute; and the cluster, if it is
    /// a file there.
    pub fn files_in(&mut self, context: &Context<'_>, folder: &Path) {
        let paths = [
            &mut self.profile,
            &mut self.slowdown_profile,
            &mut self.chain_file,
            &mut self.microbatch_work_file,
        ];
        for path in paths.into_iter().flatten() {
            *path = folder.join(&*path);
        }
        if let Some(lengths) = &mut self.microbatch_lengths {
            lengths.file_in(folder);
        }
        for schedule in self.schedule.iter_mut().flatten() {
            let beside = folder.join(&*schedule);
            if schedule.contains(['/', '.']) && context.exists(&beside) {
                *schedule = beside.to_string_lossy().into_owned();
            }
        }
        if let Some(cluster) = &mut self.hardware.cluster {
            let beside = folder.join(&*cluster);
            if cluster.contains(['/', '.']) && context.exists(&beside) {
                *cluster = beside.to_string_lossy().into_owned();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number of a range is read as one that stands in a file.
    #[test]
    fn a_number_is_read_as_in_a_file() {
        let mut accepted = 0;
        for key in Keys::NAMES.iter().chain(HardwareKeys::NAMES) {
            for label in
                ["5", "0", "1.5", "0.25", "5ms", "0.5p", "3GiB", "10GB/s", "18446744073709551615"]
            {
                for quoted in [false, true] {
                    let quote = if quoted { "\"" } else { "" };
                    let text = format!("{key} = {quote}{label}{quote}");
                    // Without quotes a number with a unit is not TOML.
                    let Ok(table) = DeTable::parse(&text) else { continue };
                    let in_file = keys(table).map_err(|error| error.message().to_owned());
                    let read = number(key, label, quoted);
                    accepted += usize::from(read.is_ok());
                    assert_eq!(read.is_ok(), in_file.is_ok(), "{text}: {read:?}, {in_file:?}");
                    assert_eq!(read.ok(), in_file.ok(), "{text}");
                }
            }
        }
        assert!(accepted > 150, "{accepted}");
    }
}
