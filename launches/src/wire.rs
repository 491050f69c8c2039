//! How records come back from the copy: fields that end in a NUL after their length in bytes.

use std::io::{self, Read, Write};

/// The longest record.
pub(crate) const LONGEST: u64 = 2 << 20;

/// The bytes of a record of `fields`.
pub(crate) fn joined<'a>(fields: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    fields.into_iter().flat_map(|field| [field, &[0][..]].concat()).collect()
}

/// Writes the record `bytes`.
pub(crate) fn write(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    out.write_all(&[&length.to_le_bytes(), bytes].concat())?;
    out.flush()
}

/// The fields of the next record; `None` at the end.
pub(crate) fn read(from: &mut impl Read) -> Option<Vec<String>> {
    let mut length = [0; 4];
    from.read_exact(&mut length).ok()?;
    let length = u64::from(u32::from_le_bytes(length)).min(LONGEST);
    let mut bytes = Vec::new();
    from.take(length).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    Some(text.strip_suffix('\0')?.split('\0').map(str::to_owned).collect())
}
