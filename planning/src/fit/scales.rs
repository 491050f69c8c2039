//! Scales of the efficiencies of a machine that a few iterations determine.

use plan::fit::Parameter;
use plan::{Machine, Rate};

/// Efficiencies that are fitted together, by one factor.
pub struct Scale {
    /// Its name in answers.
    pub name: &'static str,
    /// Prior standard deviation of the logarithm of the factor. Machines of one type differ by power
    /// limits, clocks and software in compute speed, more in the layout and sharing of their links, and
    /// most in other traffic on the network while gradients are exchanged.
    sigma: f64,
    /// Keys of the efficiencies.
    keys: &'static [&'static str],
}

impl Scale {
    /// The rates that are fitted together.
    pub fn rates(&self) -> impl Iterator<Item = &'static Rate> {
        self.keys.iter().filter_map(|key| Rate::named(key))
    }
}

/// The fitted scales. More than these cannot be separated by a few iterations. Ratios to counted bytes
/// may be above 1, shares of rates may not.
pub const SCALES: [Scale; 3] = [
    Scale { name: "products and memory", sigma: 0.2, keys: &["power", "memory"] },
    Scale {
        name: "links",
        sigma: 0.3,
        keys: &["link", "tensor-network", "hop", "expert-link", "expert-network"],
    },
    Scale { name: "exchange of gradients", sigma: 0.5, keys: &["ring", "expert-ring"] },
];

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
        for rate in scale.rates() {
            let value = (rate.field)(&mut machine.efficiency);
            let [least, most] = rate.form.range();
            *value = (*value * factor).clamp(least, most);
        }
    }
    machine
}
