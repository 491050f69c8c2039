//! The gradients of weights that two stages hold, as bytes for their all-reduce.

use crate::model::chunk::Chunk;
use crate::model::device::sum_bytes;
use crate::operands::At;
use crate::ops::Ops;
use runtime::DeviceError;

/// Bytes of the gradients of `chunks` in a message.
pub(super) fn shared_bytes<O: Ops>(ops: &O, chunks: &[(u16, Chunk<O>)]) -> usize {
    let parameters: usize = chunks.iter().map(|(_, chunk)| chunk.layout.parameters()).sum();
    parameters * sum_bytes(ops.element_bytes())
}

/// The gradients of `chunks`, chunk by chunk, in the precision of accumulators.
pub(super) fn share<O: Ops>(
    ops: &mut O,
    chunks: &[(u16, Chunk<O>)],
) -> Result<Vec<u8>, DeviceError> {
    let is_single = sum_bytes(ops.element_bytes()) == 4;
    let mut bytes = Vec::with_capacity(shared_bytes(ops, chunks));
    for (_, chunk) in chunks {
        for value in ops.read_accumulator(&chunk.gradients)? {
            #[allow(clippy::cast_possible_truncation)] // It was read from an f32.
            match is_single {
                true => bytes.extend((value as f32).to_le_bytes()),
                false => bytes.extend(value.to_le_bytes()),
            }
        }
    }
    Ok(bytes)
}

/// Adds the gradients in `bytes`, as [`share`] encodes them, to those of `chunks`.
///
/// The sum of two f32 in f64, rounded to f32, is their sum in f32: f64 has more than twice the bits.
pub(super) fn merge<O: Ops>(
    ops: &mut O,
    chunks: &mut [(u16, Chunk<O>)],
    bytes: &[u8],
) -> Result<(), DeviceError> {
    let width = sum_bytes(ops.element_bytes());
    let expected = shared_bytes(ops, chunks);
    if bytes.len() != expected {
        let message = format!("{} bytes of gradients instead of {expected}", bytes.len());
        return Err(DeviceError::Call { call: "merging gradients", message });
    }
    let mut theirs = bytes.chunks_exact(width).map(number);
    for (_, chunk) in chunks {
        let mut sums = ops.read_accumulator(&chunk.gradients)?;
        sums.iter_mut().zip(&mut theirs).for_each(|(sum, their)| *sum += their);
        ops.write_accumulator(&sums, At::start(&mut chunk.gradients))?;
    }
    Ok(())
}

/// The number in these bytes: an f32 or an f64.
fn number(bytes: &[u8]) -> f64 {
    match (<[u8; 4]>::try_from(bytes), <[u8; 8]>::try_from(bytes)) {
        (Ok(single), _) => f32::from_le_bytes(single).into(),
        (_, Ok(double)) => f64::from_le_bytes(double),
        _ => f64::NAN,
    }
}
