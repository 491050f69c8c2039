//! Reads a pass as it is written.

use pipeline::{Kind, Pass};

/// A pass as it is written: kind, chunk, microbatch.
pub(crate) fn read_pass(word: &str) -> Option<Pass> {
    let kind = match word.get(..1)? {
        "F" => Kind::F,
        "B" => Kind::B,
        "W" => Kind::W,
        "R" => Kind::R,
        _ => return None,
    };
    let (chunk, microbatch) = word[1..].split_once('.')?;
    let plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if !plain(chunk) || !plain(microbatch) {
        return None;
    }
    Some(Pass { kind, chunk: chunk.parse().ok()?, microbatch: microbatch.parse().ok()? })
}
