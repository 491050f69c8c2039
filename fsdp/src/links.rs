//! The links between devices, and how the parameters lie on them.

use pipeline::{Bandwidth, Bytes, Nanos};

use crate::error::{FsdpError, count};
use crate::packing::MAX_DEVICES;

/// How parameters and gradients travel. Every device has one port in and one out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Links {
    /// The rate of each port.
    pub bandwidth: Bandwidth,
    /// The latency of one message.
    pub latency: Nanos,
    /// The parameters of all layers; the gradients are as large.
    pub parameters: Bytes,
    /// The number of devices that own parameters in on-demand communication, equally many each: the
    /// first ones; all devices by default. With collectives every device owns its share.
    pub owners: Option<usize>,
    /// Whether transfers hide behind computing: the next layer is fetched, and gradients are sent,
    /// while a layer computes.
    pub overlap: bool,
}

impl Links {
    /// Checks the links between `devices`.
    ///
    /// # Errors
    /// If there are no owners, or more than devices.
    pub(crate) fn check(&self, devices: usize) -> Result<(), FsdpError> {
        count("devices", devices as u64, 1, MAX_DEVICES)?;
        count("owners", self.owners(devices) as u64, 1, devices as u64)?;
        Ok(())
    }

    pub(crate) fn owners(&self, devices: usize) -> usize {
        self.owners.unwrap_or(devices)
    }

    /// The parameters of one of `layers`, rounded up.
    pub(crate) fn of_layer(&self, layers: u16) -> u64 {
        self.parameters.0.div_ceil(u64::from(layers.max(1)))
    }

    /// How long a ring over `devices` takes to gather one of `layers`, or to reduce and scatter its
    /// gradients: (N-1) messages of 1/N of it, one after the other (Thakur, Rabenseifner and Gropp,
    /// 2005).
    pub(crate) fn ring(&self, layers: u16, devices: usize) -> u64 {
        let devices = devices as u128;
        let part = u128::from(self.of_layer(layers)).div_ceil(devices.max(1));
        let rate = u128::from(self.bandwidth.bytes_per_second());
        let message = u128::from(self.latency.0) + (part * 1_000_000_000).div_ceil(rate);
        u64::try_from(message * devices.saturating_sub(1)).unwrap_or(u64::MAX)
    }
}

/// The buffers of on-demand communication for parameters of a size M over N devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffers {
    /// The buffer of one client on a server: M/N, rounded up.
    pub per_client: Bytes,
    /// The buffers of all clients on a server.
    pub per_server: Bytes,
}

impl Buffers {
    /// The buffers for `parameters` over `devices`.
    #[must_use]
    pub const fn of(parameters: Bytes, devices: usize) -> Self {
        let devices = if devices == 0 { 1 } else { devices as u64 };
        let per_client = Bytes(parameters.0.div_ceil(devices));
        Self { per_client, per_server: Bytes(per_client.0.saturating_mul(devices)) }
    }
}
