//! Sizes in bytes, as the files of profiles have them.

use pipeline::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::MAX_BYTES;

/// A size in bytes.
#[derive(Serialize, Deserialize, Clone, Copy)]
#[serde(try_from = "i64")]
pub(crate) struct Size(pub(crate) u64);

impl TryFrom<i64> for Size {
    type Error = String;

    fn try_from(bytes: i64) -> Result<Self, String> {
        let within = u64::try_from(bytes).ok().filter(|&bytes| bytes <= MAX_BYTES);
        within.map(Self).ok_or_else(|| {
            format!("{bytes} is not a size: bytes are whole numbers from 0 to {MAX_BYTES}")
        })
    }
}

/// Reads bytes as [`Size`] does.
pub(crate) fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Size::deserialize(deserializer).map(|size| size.0)
}

pub(crate) fn serialize<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(bytes.0)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    bytes(deserializer).map(Bytes)
}
