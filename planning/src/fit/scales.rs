//! Scales of the efficiencies of a machine that a few iterations determine.

use plan::fit::Parameter;
use plan::{Efficiency, Machine};

/// An efficiency of a machine file.
pub struct Share {
    /// Its key in the table `[efficiency]`.
    pub key: &'static str,
    /// The largest value that a file may have.
    pub most: f64,
    /// Its field.
    pub field: fn(&mut Efficiency) -> &mut f64,
}

/// Efficiencies that are fitted together, by one factor.
pub struct Scale {
    /// Its name in answers.
    pub name: &'static str,
    /// Prior standard deviation of the logarithm of the factor. Machines of one type differ by power
    /// limits, clocks and software in compute speed, more in the layout and sharing of their links, and
    /// most in other traffic on the network while gradients are exchanged.
    sigma: f64,
    /// The efficiencies.
    pub shares: &'static [Share],
}

const fn share(key: &'static str, most: f64, field: fn(&mut Efficiency) -> &mut f64) -> Share {
    Share { key, most, field }
}

/// The fitted scales. More than these cannot be separated by a few iterations. Ratios to counted bytes
/// may be above 1, shares of rates may not.
pub const SCALES: [Scale; 3] = [
    Scale {
        name: "products and memory",
        sigma: 0.2,
        shares: &[
            share("power", RATIO, |rates| &mut rates.power),
            share("memory", 1.0, |rates| &mut rates.memory),
        ],
    },
    Scale {
        name: "links",
        sigma: 0.3,
        shares: &[
            share("link", 1.0, |rates| &mut rates.link),
            share("tensor-network", 1.0, |rates| &mut rates.tensor_network),
            share("hop", 1.0, |rates| &mut rates.hop),
            share("expert-link", RATIO, |rates| &mut rates.expert_link),
            share("expert-network", RATIO, |rates| &mut rates.expert_network),
        ],
    },
    Scale {
        name: "exchange of gradients",
        sigma: 0.5,
        shares: &[
            share("ring", 1.0, |rates| &mut rates.ring),
            share("expert-ring", RATIO, |rates| &mut rates.expert_ring),
        ],
    },
];

/// The largest ratio, and the least share of anything, in a machine's file.
const RATIO: f64 = 1e3;
const LEAST: f64 = 1e-3;

/// [`SCALES`] as constants of a fit: each has the prior 1, which is the machine as it is.
#[must_use]
pub fn parameters() -> Vec<Parameter> {
    let one =
        |scale: &Scale| Parameter { name: scale.name.to_owned(), prior: 1.0, sigma: scale.sigma };
    SCALES.iter().map(one).collect()
}

/// `machine` with the efficiencies of each of [`SCALES`] times its factor in `factors`, within the bounds of
/// files.
#[must_use]
pub fn scaled(machine: &Machine, factors: &[f64]) -> Machine {
    let mut machine = machine.clone();
    for (scale, factor) in SCALES.iter().zip(factors) {
        for share in scale.shares {
            let value = (share.field)(&mut machine.efficiency);
            *value = (*value * factor).clamp(LEAST, share.most);
        }
    }
    machine
}
