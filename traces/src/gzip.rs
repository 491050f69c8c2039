//! Unpacks files that are compressed with gzip, as profilers write them, within bounds.

use std::borrow::Cow;
use std::io::Read;

use flate2::bufread::MultiGzDecoder;

use crate::error::TraceError;

/// First bytes of such a file.
const MAGIC: [u8; 2] = [0x1f, 0x8b];
/// The most bytes of a file when it is unpacked.
const MAX_UNPACKED: u64 = 2 << 30;
/// The most bytes that a byte of a trace unpacks to. Traces in JSON take 10 to 50; deflate packs up to 1032 equal
/// bytes into one.
const MAX_RATIO: u64 = 400;
/// Bytes that a tiny file may unpack to, whatever its ratio.
const SMALL: u64 = 1 << 20;
/// Bytes for which memory is asked at a time.
const PIECE: usize = 1 << 20;

/// The bytes of `content`, unpacked where they are compressed with gzip, in at most `memory` bytes.
pub fn unpacked(content: &[u8], memory: u64) -> Result<Cow<'_, [u8]>, TraceError> {
    if !content.starts_with(&MAGIC) {
        return Ok(Cow::Borrowed(content));
    }
    let packed = u64::try_from(content.len()).unwrap_or(u64::MAX);
    let by_ratio = packed.saturating_mul(MAX_RATIO).max(SMALL);
    let most = MAX_UNPACKED.min(by_ratio).min(memory);
    let too_large = TraceError::Unpacked { packed, most };
    let mut all = Vec::new();
    let mut bytes = MultiGzDecoder::new(content);
    loop {
        let have = all.len();
        let room = most.saturating_sub(u64::try_from(have).unwrap_or(u64::MAX));
        let piece = usize::try_from(room.saturating_add(1)).unwrap_or(PIECE).min(PIECE);
        if all.try_reserve(piece).is_err() {
            return Err(too_large);
        }
        all.resize(have + piece, 0);
        let read = bytes.read(&mut all[have..]);
        let read = read.map_err(|error| TraceError::Gzip(error.to_string()))?;
        all.truncate(have + read);
        if u64::try_from(all.len()).unwrap_or(u64::MAX) > most {
            return Err(too_large);
        }
        if read == 0 {
            return Ok(Cow::Owned(all));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).expect("a list takes all");
        encoder.finish().expect("a list takes all")
    }

    #[test]
    fn what_was_packed_is_unpacked() {
        let long: Vec<u8> =
            (0..3_000_000u32).flat_map(|at| at.wrapping_mul(at).to_le_bytes()).collect();
        for bytes in [b"[]".as_slice(), b"", &long] {
            let packed = packed(bytes);
            assert_eq!(unpacked(&packed, u64::MAX).unwrap().as_ref(), bytes);
            let twice = [packed.clone(), packed].concat();
            assert_eq!(unpacked(&twice, u64::MAX).unwrap().as_ref(), bytes.repeat(2));
        }
        assert!(matches!(unpacked(b"[]", 0), Ok(Cow::Borrowed(b"[]"))));
    }

    #[test]
    fn bombs_and_damaged_files_are_refused() {
        let bomb = packed(&vec![b' '; 40 << 20]);
        let error = unpacked(&bomb, u64::MAX).unwrap_err();
        assert!(matches!(error, TraceError::Unpacked { .. }), "{error}");
        assert!(error.to_string().contains("more than any trace"), "{error}");
        let error = unpacked(&packed(b"[1, 2, 3]"), 8).unwrap_err();
        assert!(matches!(error, TraceError::Unpacked { most: 8, .. }), "{error}");
        let whole = packed(b"[{\"ph\": \"X\"}]");
        for cut in 2..whole.len() - 1 {
            assert!(matches!(unpacked(&whole[..cut], u64::MAX), Err(TraceError::Gzip(_))), "{cut}");
        }
    }
}
