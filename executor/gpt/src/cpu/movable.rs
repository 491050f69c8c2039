//! Offloading on a core: the memory that stands for the device is freed, and other host memory
//! holds the content meanwhile.

use std::any::Any;

use pipeline::Bytes;

use crate::movable::{Movable, OnHost};
use runtime::DeviceError;

/// Memory for `len` elements that holds the concatenation of `parts`.
fn joined<E: Copy>(len: usize, parts: [&[E]; 2]) -> Result<Vec<E>, DeviceError> {
    let mut all = Vec::new();
    all.try_reserve_exact(len).map_err(|_| {
        let asked = Bytes((len as u64).saturating_mul(size_of::<E>() as u64));
        let message = format!("the host has no {asked} of memory left");
        DeviceError::Call { call: "allocation", message }
    })?;
    parts.into_iter().for_each(|part| all.extend_from_slice(part));
    Ok(all)
}

impl<E: Copy + Send + 'static> Movable for Vec<E> {
    fn elements(&self) -> usize {
        self.len()
    }

    fn element_bytes(&self) -> usize {
        size_of::<E>()
    }

    fn copy_out(&self, count: usize) -> Result<OnHost, DeviceError> {
        Ok(Box::new(joined(count, [&self[..count], &[]])?))
    }

    fn free(&mut self, count: usize) -> Result<(), DeviceError> {
        *self = joined(self.len() - count, [&self[count..], &[]])?;
        Ok(())
    }

    fn copy_back(&mut self, host: OnHost) -> Result<(), DeviceError> {
        let host: Box<dyn Any> = host;
        let Ok(host) = host.downcast::<Self>() else {
            let what = "the copy of this buffer on the host".to_owned();
            return Err(DeviceError::NotAtHand { what });
        };
        *self = joined(host.len() + self.len(), [&host, self])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_went_away_in_parts_comes_back_whole() {
        for count in 0..=5 {
            let mut buffer = vec![1.0f32, 2.0, 3.0, 4.0, 5.0];
            let host = buffer.copy_out(count).unwrap();
            buffer.free(count).unwrap();
            assert_eq!((buffer.elements(), buffer.capacity()), (5 - count, 5 - count));
            buffer.copy_back(host).unwrap();
            assert_eq!(buffer, [1.0, 2.0, 3.0, 4.0, 5.0]);
        }
        let mut other = vec![1u32];
        assert!(other.copy_back(vec![1.0f32].copy_out(1).unwrap()).is_err());
    }
}
