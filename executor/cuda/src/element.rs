//! Elements of tensors on a GPU.
#![forbid(unsafe_code)]

/// bf16: the upper half of an f32.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bf16(u16);

mod sealed {
    /// Element types of the kernels.
    pub trait Sealed {}
    impl Sealed for super::Bf16 {}
    impl Sealed for f32 {}
}

/// The element type of a tensor: [`Bf16`] or f32.
pub trait Element:
    sealed::Sealed + Copy + Default + Send + Sync + std::fmt::Debug + 'static
{
    /// Bytes of one element.
    const BYTES: usize;
    /// Its name, as configurations spell it.
    const NAME: &'static str;
    /// Whether it is bf16.
    const IS_BF16: bool;

    /// The nearest element, with ties to even.
    fn nearest(value: f64) -> Self;

    fn value(self) -> f64;

    /// Writes its bytes, least significant first, to `to`, which has as many.
    fn put(self, to: &mut [u8]);

    /// The inverse, from the first bytes of `from`; 0 if there are too few.
    fn read(from: &[u8]) -> Self;
}

impl Element for Bf16 {
    const BYTES: usize = 2;
    const NAME: &'static str = "bf16";
    const IS_BF16: bool = true;

    fn nearest(value: f64) -> Self {
        #[allow(clippy::cast_possible_truncation)] // rounds
        let bits = (value as f32).to_bits();
        let upper = if value.is_nan() {
            (bits >> 16) | 0x40
        } else {
            bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16
        };
        #[allow(clippy::cast_possible_truncation)] // 16 bits are left
        Self(upper as u16)
    }

    fn value(self) -> f64 {
        f64::from(f32::from_bits(u32::from(self.0) << 16))
    }

    fn put(self, to: &mut [u8]) {
        to.copy_from_slice(&self.0.to_le_bytes());
    }

    fn read(from: &[u8]) -> Self {
        Self(from.first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes)))
    }
}

impl Element for f32 {
    const BYTES: usize = 4;
    const NAME: &'static str = "f32";
    const IS_BF16: bool = false;

    fn nearest(value: f64) -> Self {
        #[allow(clippy::cast_possible_truncation)] // rounds
        let nearest = value as f32;
        nearest
    }

    fn value(self) -> f64 {
        f64::from(self)
    }

    fn put(self, to: &mut [u8]) {
        to.copy_from_slice(&self.to_le_bytes());
    }

    fn read(from: &[u8]) -> Self {
        from.first_chunk().map_or(0.0, |bytes| Self::from_le_bytes(*bytes))
    }
}

/// Numbers as the bytes of elements.
pub(crate) fn encode<E: Element>(values: &[f64]) -> Vec<u8> {
    let mut bytes = vec![0; values.len() * E::BYTES];
    let places = bytes.chunks_exact_mut(E::BYTES);
    values.iter().zip(places).for_each(|(value, place)| E::nearest(*value).put(place));
    bytes
}

/// The inverse.
pub(crate) fn decode<E: Element>(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(E::BYTES).map(|element| E::read(element).value()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bf16_rounds_to_the_nearest_and_ties_to_even() {
        let of = |value: f64| Bf16::nearest(value).value();
        assert_eq!(of(1.0), 1.0);
        assert_eq!(of(1.0 + 1.0 / 256.0), 1.0);
        assert_eq!(of(1.0 + 3.0 / 256.0), 1.0 + 4.0 / 256.0);
        assert_eq!(of(-3.140_625), -3.140_625);
        assert_eq!(of(3.4e38), f64::INFINITY);
        assert_eq!(of(f64::NEG_INFINITY), f64::NEG_INFINITY);
        assert!(of(f64::NAN).is_nan());
    }

    #[test]
    fn bytes_there_and_back() {
        let values = [0.0, 1.5, -2.0, 65536.0];
        assert_eq!(decode::<Bf16>(&encode::<Bf16>(&values)), values);
        assert_eq!(decode::<f32>(&encode::<f32>(&values)), values);
        assert_eq!(encode::<Bf16>(&[1.0]), [0x80, 0x3f]);
    }
}
