//! The clock of a device, read between its kernels.

use std::time::Instant;

use executor::{DeviceError, Ops};

/// Marks moments in the order of the kernels of a device.
#[derive(Debug)]
pub(crate) struct Marks {
    epoch: Instant,
    host: Vec<u64>,
}

impl Marks {
    pub(crate) fn new() -> Self {
        Self { epoch: Instant::now(), host: Vec::new() }
    }

    /// The host's clock, in nanoseconds.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Marks this moment.
    pub(crate) fn mark<O: Ops>(&mut self, ops: &mut O) -> Result<(), DeviceError> {
        ops.stamp()?;
        self.host.push(self.now());
        Ok(())
    }

    /// The moments marked since the last call, in nanoseconds: by the clock of the device, or by the
    /// host's where kernels are done when their call returns.
    pub(crate) fn read<O: Ops>(&mut self, ops: &mut O) -> Result<Vec<u64>, DeviceError> {
        ops.synchronize()?;
        let host = std::mem::take(&mut self.host);
        match ops.stamps(self.epoch)? {
            None => Ok(host),
            Some(device) if device.len() == host.len() => Ok(device),
            Some(device) => Err(DeviceError::NotAtHand {
                what: format!("a stamp for each of {} marks ({} came)", host.len(), device.len()),
            }),
        }
    }
}
