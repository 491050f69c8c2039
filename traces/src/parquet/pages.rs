//! The pages of a column, decompressed and checked before anything of them is decoded.
//!
//! The library believes what headers of pages say: how much they decompress to, how many values a
//! dictionary has. Here memory is only taken for what the bytes that are there can decompress to, and
//! a page that holds fewer values than it promises is refused.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, Type};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;
use snap::raw::{Decoder, decompress_len};

/// The most that Snappy makes of one byte: an element of 3 bytes copies at most 64.
const MOST_OF_A_BYTE: usize = 22;

/// How the pages of a column are compressed.
#[derive(Clone, Copy)]
enum Codec {
    Plain,
    Snappy,
}

/// The pages of a column in one row group.
pub(super) struct Pages {
    /// The pages as they stand in the file.
    raw: SerializedPageReader<Bytes>,
    codec: Codec,
    physical: Type,
    name: String,
    has_dictionary: bool,
    /// Values that are still to come.
    left: usize,
}

impl Pages {
    /// The pages of `column` in the file `content`, of a row group of `rows` rows.
    pub(super) fn new(content: &Bytes, column: &ColumnChunkMetaData, rows: usize) -> Result<Self> {
        let name = column.column_path().string();
        let codec = match column.compression() {
            Compression::UNCOMPRESSED => Codec::Plain,
            Compression::SNAPPY => Codec::Snappy,
            other => {
                let message = format!(
                    "column {name} is compressed with {other}: write it with Snappy, or uncompressed"
                );
                return Err(ParquetError::General(message));
            }
        };
        check_place(column, content.len())?;
        // To the library all is uncompressed: it would take what a header says for a page.
        let plain = column.clone().into_builder().set_compression(Compression::UNCOMPRESSED);
        let raw =
            SerializedPageReader::new(Arc::new(content.clone()), &plain.build()?, rows, None)?;
        let physical = column.column_type();
        Ok(Self { raw, codec, physical, name, has_dictionary: false, left: rows })
    }

    fn wrong(&self, what: &str) -> ParquetError {
        ParquetError::General(format!("column {}: {what}", self.name))
    }

    fn decompressed(&self, bytes: &Bytes) -> Result<Bytes> {
        let length = match self.codec {
            Codec::Plain => return Ok(bytes.clone()),
            Codec::Snappy if bytes.is_empty() => return Ok(Bytes::new()),
            Codec::Snappy => {
                decompress_len(bytes).map_err(|error| self.wrong(&error.to_string()))?
            }
        };
        if length > bytes.len().saturating_mul(MOST_OF_A_BYTE) {
            let what = format!("a page of {} bytes says that it holds {length}", bytes.len());
            return Err(self.wrong(&what));
        }
        let mut into = Vec::new();
        into.try_reserve_exact(length).map_err(|_| self.wrong("there is no memory for a page"))?;
        into.resize(length, 0);
        let written = Decoder::new().decompress(bytes, &mut into);
        written.map_err(|error| self.wrong(&error.to_string()))?;
        Ok(into.into())
    }

    /// `page` decompressed and checked.
    fn checked(&mut self, page: Page) -> Result<Page> {
        let values = page.num_values() as usize;
        if !page.is_data_page() {
            let Page::DictionaryPage { buf, num_values, encoding, is_sorted } = page else {
                return Err(self.wrong("a page of an unknown kind"));
            };
            let buf = self.decompressed(&buf)?;
            if self.held(&buf, values).is_none() {
                let what =
                    format!("its dictionary does not hold the {values} values that it promises");
                return Err(self.wrong(&what));
            }
            self.has_dictionary = true;
            return Ok(Page::DictionaryPage { buf, num_values, encoding, is_sorted });
        }
        let Some(left) = self.left.checked_sub(values) else {
            return Err(self.wrong("it has more values than its row group has rows"));
        };
        self.left = left;
        let is_index =
            matches!(page.encoding(), Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY);
        if is_index && !self.has_dictionary {
            return Err(self.wrong("it lacks its dictionary"));
        }
        // Decoders of other encodings take memory for as many values as a few bytes claim.
        if self.physical == Type::BYTE_ARRAY && !is_index && page.encoding() != Encoding::PLAIN {
            let what = format!(
                "its text is encoded as {}: write it with a dictionary, or plain",
                page.encoding()
            );
            return Err(self.wrong(&what));
        }
        self.whole(page)
    }

    /// A page of data, decompressed.
    fn whole(&self, mut page: Page) -> Result<Page> {
        match &mut page {
            Page::DataPage { buf, .. } => *buf = self.decompressed(buf)?,
            Page::DataPageV2 {
                buf,
                def_levels_byte_len,
                rep_levels_byte_len,
                is_compressed,
                ..
            } => {
                let levels = u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len);
                let Some(levels) = usize::try_from(levels).ok().filter(|&at| at <= buf.len())
                else {
                    return Err(self.wrong("the levels of a page are longer than the page"));
                };
                if *is_compressed && matches!(self.codec, Codec::Snappy) {
                    let values = self.decompressed(&buf.slice(levels..))?;
                    *buf = [&buf[..levels], &values].concat().into();
                    *is_compressed = false;
                }
            }
            Page::DictionaryPage { .. } => {}
        }
        Ok(page)
    }

    /// Nothing if `bytes` do not begin with `values` plain values.
    fn held(&self, bytes: &[u8], values: usize) -> Option<()> {
        let width = match self.physical {
            Type::INT32 | Type::FLOAT => 4,
            Type::INT64 | Type::DOUBLE => 8,
            Type::BYTE_ARRAY => {
                let mut rest = bytes;
                for _ in 0..values {
                    let (length, behind) = rest.split_first_chunk::<4>()?;
                    rest = behind.get(usize::try_from(u32::from_le_bytes(*length)).ok()?..)?;
                }
                return Some(());
            }
            _ => return None,
        };
        (values.checked_mul(width)? <= bytes.len()).then_some(())
    }
}

/// Refuses a column that would begin before the file or end behind it.
fn check_place(column: &ColumnChunkMetaData, file: usize) -> Result<()> {
    let first = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
    let [from, length] = [first, column.compressed_size()].map(u64::try_from);
    let end = from.ok().zip(length.ok()).and_then(|(from, length)| from.checked_add(length));
    if end.is_some_and(|end| end <= file as u64) {
        return Ok(());
    }
    Err(ParquetError::General(format!(
        "column {} of a row group begins at byte {first} and has {} bytes, of a file of {file}",
        column.column_path().string(),
        column.compressed_size()
    )))
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        match self.raw.get_next_page()? {
            Some(page) => self.checked(page).map(Some),
            None => Ok(None),
        }
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.raw.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.get_next_page().map(drop)
    }
}
