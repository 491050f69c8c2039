//! Unpacks LZMA in the browser. Browsers themselves unpack gzip alone, of which the library takes a third more.

use std::io::{Cursor, Read};

use lzma_rust2::LzmaReader;
use wasm_bindgen::prelude::{JsError, wasm_bindgen};

/// The most memory for unpacking, in KiB.
const MOST_KIB: u32 = 64 << 10;

/// The content of `packed`, a file of LZMA with a header.
///
/// # Errors
/// If it is none, or takes more memory than a page can be expected to have.
#[wasm_bindgen]
pub fn unpack(packed: &[u8]) -> Result<Vec<u8>, JsError> {
    let mut content = Vec::new();
    let reader = LzmaReader::new_mem_limit(Cursor::new(packed), MOST_KIB, None);
    let read = reader.and_then(|mut reader| reader.read_to_end(&mut content));
    read.map(|_| content).map_err(|error| JsError::new(&error.to_string()))
}
