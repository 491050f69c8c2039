//! Which device gets which samples of a minibatch, and in which microbatches.

use crate::cost::CostModel;
use crate::error::{FsdpError, count};
use crate::partition::{Counts, balanced, sum};

/// The most samples of one minibatch.
pub const MAX_SAMPLES: u64 = 1 << 16;

/// The most devices.
pub const MAX_DEVICES: u64 = 1 << 14;

/// The longest sample, in tokens.
pub const MAX_LENGTH: u64 = 1 << 24;

/// How a minibatch is packed into microbatches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Method {
    /// Sample i goes to device i mod N, one to a microbatch, the shortest first.
    LocalSort,
    /// Devices get equally many samples of nearly equal cost, in equally many microbatches.
    LbMicro,
    /// Devices get samples of nearly equal cost, each in as many microbatches as it needs.
    LbMini,
}

impl Method {
    pub const ALL: [Self; 3] = [Self::LocalSort, Self::LbMicro, Self::LbMini];

    /// The name in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LocalSort => "local-sort",
            Self::LbMicro => "lb-micro",
            Self::LbMini => "lb-mini",
        }
    }

    /// Whether all devices have equally many microbatches in every packing, as collectives need.
    #[must_use]
    pub const fn is_even(self) -> bool {
        !matches!(self, Self::LbMini)
    }
}

/// The samples of each microbatch of each device. Every sample is in one, and none holds more
/// tokens than its limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packing {
    method: Method,
    devices: Vec<Vec<Vec<u32>>>,
}

impl Packing {
    /// Packs samples of `lengths` tokens for `devices`, at most `limit` tokens to a microbatch.
    ///
    /// The rules are those of ODC (arXiv 2601.19362) and of its published code. LB-Micro and
    /// LB-Mini balance the predicted costs over the devices, and on each device over its
    /// microbatches, the costliest first; there are as few as the tokens allow and the balance
    /// fits into.
    pub fn new(
        method: Method,
        lengths: &[u32],
        devices: usize,
        limit: u64,
        model: CostModel,
    ) -> Result<Self, FsdpError> {
        check(method, lengths, devices, limit)?;
        let costs: Vec<f64> = lengths.iter().map(|&length| model.cost(length)).collect();
        let packer = Packer { lengths, costs: &costs, limit };
        let devices = match method {
            Method::LocalSort => packer.local_sort(devices),
            Method::LbMicro => packer.same(&balanced(&costs, devices, Counts::Equal)),
            Method::LbMini => {
                let parts = balanced(&costs, devices, Counts::Free);
                parts.iter().map(|part| packer.own(part)).collect()
            }
        };
        Ok(Self { method, devices })
    }

    /// How it was packed.
    #[must_use]
    pub const fn method(&self) -> Method {
        self.method
    }

    /// The numbers of the samples, by device and by microbatch, in the order in which they run.
    #[must_use]
    pub fn devices(&self) -> &[Vec<Vec<u32>>] {
        &self.devices
    }

    /// The number of microbatches that all devices have.
    pub fn common_microbatches(&self) -> Result<usize, FsdpError> {
        let microbatches = self.devices.first().map_or(0, Vec::len);
        let others = |(_, device): &(usize, &Vec<Vec<u32>>)| device.len() != microbatches;
        match self.devices.iter().enumerate().find(others) {
            None => Ok(microbatches),
            Some((other, device)) => Err(FsdpError::Deadlock {
                method: self.method.name(),
                device: 0,
                microbatches,
                other,
                others: device.len(),
            }),
        }
    }
}

fn check(method: Method, lengths: &[u32], devices: usize, limit: u64) -> Result<(), FsdpError> {
    count("devices", devices as u64, 1, MAX_DEVICES)?;
    count("samples of a minibatch", lengths.len() as u64, 1, MAX_SAMPLES)?;
    count("the most tokens of a microbatch", limit, 1, MAX_SAMPLES * MAX_LENGTH)?;
    for (sample, &length) in lengths.iter().enumerate() {
        match u64::from(length) {
            0 => return Err(FsdpError::NoTokens { sample }),
            tokens if tokens > limit => return Err(FsdpError::TooLong { sample, length, limit }),
            tokens => count("the tokens of a sample", tokens, 1, MAX_LENGTH)?,
        };
    }
    let samples = lengths.len();
    if samples < devices {
        return Err(FsdpError::TooFew { samples, devices });
    }
    if method.is_even() && !samples.is_multiple_of(devices) {
        return Err(FsdpError::Uneven { method: method.name(), samples, devices });
    }
    Ok(())
}

/// The samples that microbatches are made from.
struct Packer<'a> {
    lengths: &'a [u32],
    costs: &'a [f64],
    limit: u64,
}

impl Packer<'_> {
    fn local_sort(&self, devices: usize) -> Vec<Vec<Vec<u32>>> {
        let samples = || (0u32..).take(self.lengths.len());
        let of = |device: usize| {
            let mut own: Vec<u32> = samples().skip(device).step_by(devices).collect();
            own.sort_by_key(|&sample| self.lengths[sample as usize]);
            own.into_iter().map(|sample| vec![sample]).collect()
        };
        (0..devices).map(of).collect()
    }

    /// As many microbatches for each of `parts`, the fewest with which all fit.
    fn same(&self, parts: &[Vec<u32>]) -> Vec<Vec<Vec<u32>>> {
        let fewest = parts.iter().map(|part| self.fewest(part)).max().unwrap_or(1);
        let most = parts.iter().map(Vec::len).max().unwrap_or(1);
        for microbatches in fewest..most {
            let cut = parts.iter().map(|part| self.cut(part, microbatches));
            if let Some(all) = cut.collect() {
                return all;
            }
        }
        parts.iter().map(|part| self.one_by_one(part)).collect()
    }

    /// The fewest microbatches for `part` with which all fit.
    fn own(&self, part: &[u32]) -> Vec<Vec<u32>> {
        let fewer = self.fewest(part)..part.len();
        let fitting = fewer.into_iter().find_map(|microbatches| self.cut(part, microbatches));
        fitting.unwrap_or_else(|| self.one_by_one(part))
    }

    /// The number of microbatches to begin with: what the tokens of `part` fill.
    fn fewest(&self, part: &[u32]) -> usize {
        let microbatches = self.tokens(part).div_ceil(self.limit);
        usize::try_from(microbatches).unwrap_or(usize::MAX).min(part.len())
    }

    fn tokens(&self, samples: &[u32]) -> u64 {
        samples.iter().map(|&sample| u64::from(self.lengths[sample as usize])).sum()
    }

    /// `part` in microbatches of nearly equal cost, the costliest first; `None` if one is too full.
    fn cut(&self, part: &[u32], microbatches: usize) -> Option<Vec<Vec<u32>>> {
        let costs: Vec<f64> = part.iter().map(|&sample| self.costs[sample as usize]).collect();
        let cut = balanced(&costs, microbatches, Counts::Free).into_iter();
        let numbers = |items: Vec<u32>| items.into_iter().map(|item| part[item as usize]).collect();
        let cut: Vec<Vec<u32>> = cut.map(numbers).collect();
        let fits = cut.iter().all(|samples| self.tokens(samples) <= self.limit);
        fits.then(|| self.costliest_first(cut))
    }

    fn one_by_one(&self, part: &[u32]) -> Vec<Vec<u32>> {
        self.costliest_first(part.iter().map(|&sample| vec![sample]).collect())
    }

    /// Of equal costs, the one with the later first sample goes first.
    fn costliest_first(&self, mut microbatches: Vec<Vec<u32>>) -> Vec<Vec<u32>> {
        let key = |samples: &Vec<u32>| (sum(self.costs, samples), samples.first().copied());
        microbatches.sort_by(|a, b| {
            let ((a, first), (b, second)) = (key(a), key(b));
            b.total_cmp(&a).then(second.cmp(&first))
        });
        microbatches
    }
}
