//! Times tensors that two stages hand to each other from device to device.

use std::time::{Duration, Instant};

use executor::{At, DeviceError, Ops};

use crate::clock::Marks;
use crate::sample::Source;

/// A tensor that goes to the other end and back, by the clock of the near one: one series, of the
/// time one way.
pub struct HandOvers<O: Ops> {
    near: O,
    far: O,
    tensor: Option<O::Tensor>,
    marks: Marks,
    began: Instant,
}

impl<O: Ops> HandOvers<O> {
    /// A tensor of `bytes`, at least one element.
    pub fn new([mut near, far]: [O; 2], bytes: usize) -> Result<Self, DeviceError> {
        let len = (bytes / near.element_bytes()).max(1);
        let mut tensor = near.tensor(len)?;
        near.write(&[0.0], At::start(&mut tensor))?;
        let (marks, began) = (Marks::new(), Instant::now());
        Ok(Self { near, far, tensor: Some(tensor), marks, began })
    }
}

impl<O: Ops> Source for HandOvers<O> {
    type Error = DeviceError;

    fn round(&mut self, series: &mut [Vec<u64>]) -> Result<(), DeviceError> {
        let Self { near, far, tensor, marks, .. } = self;
        let none = || DeviceError::NotAtHand { what: "the tensor to hand over".to_owned() };
        let there = tensor.take().ok_or_else(none)?;
        marks.mark(near)?;
        let handed = near.send(there)?;
        let there = far.receive(handed)?;
        let handed = far.send(there)?;
        *tensor = Some(near.receive(handed)?);
        marks.mark(near)?;
        far.synchronize()?;
        let times = marks.read(near)?;
        series[0].extend(times.windows(2).map(|ends| ends[1].saturating_sub(ends[0]) / 2));
        Ok(())
    }

    fn elapsed(&mut self) -> Duration {
        self.began.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use executor::Cpu;
    use pipeline::Bytes;

    use super::*;
    use crate::measure::{hand_over_times, launch_time, traffic};
    use crate::sample::Rule;
    use profile::LinkKind;

    #[test]
    fn tensors_go_there_and_back_at_every_size() {
        let time = Duration::from_secs(1);
        let rule = Rule {
            warm_up: 1,
            at_least: 5,
            at_most: 5,
            half_width: 0.5,
            rise: Duration::ZERO,
            time,
        };
        let (mut count, message) = (0, Bytes(4096));
        let ends = || Ok([Cpu::<f32>::new(), Cpu::new()]);
        let kind = LinkKind::HandOver;
        let link = hand_over_times(kind, message, 0, &rule, ends, || count += 1).unwrap();
        let sizes: Vec<_> = link.alone().into_iter().map(|(bytes, _)| bytes).collect();
        assert_eq!(count, traffic(kind, message).len());
        assert_eq!(sizes.len(), count, "each size alone, and nothing else");
        assert!(sizes.contains(&4096) && link.time(4096).is_some());
        assert!(launch_time(Cpu::<f32>::new(), &rule).unwrap().samples().len() >= 5);
    }
}
