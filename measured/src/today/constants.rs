//! The constants that are fitted to the rows: meaning, place in the planner, and prior of each.
//!
//! They stand in the files of machines (`scenarios/machines/`), and those of software here. Priors are
//! rounded: counts, data sheets, laws of power, measurements of others on single kernels, and where none of
//! these says anything, a first look at the rows, so that errors of held-out rows flatter a little.

use plan::fit::Parameter;
use plan::software::{TORCHTITAN, TORCHTITAN_ATTENTION};
use plan::{Efficiency, Machine, Recipe};
use planning::machines;
use question::Diagnostic;

use super::row::{Facts, Run};

/// Factor on the time of experts and their all-to-alls for each release before that of the constants.
const RELEASE: f64 = 1.0804;

/// The machine whose file has the values that all of Hopper share, and all machines.
const HOPPER: &str = "h100";
const BLACKWELL: &str = "b200";
/// The same of those with more 4-bit products.
const BLACKWELL_ULTRA: &str = "b300";

/// The bandwidth of a NIC beyond which all-to-alls get no faster: with 800 Gbit/s they take as long as with
/// 400.
const ALL_TO_ALL: f64 = 50e9;

/// The place of a constant in an [`Efficiency`].
type Place = fn(&mut Efficiency) -> &mut f64;

/// Which machines have a constant in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Machines {
    All,
    Hopper,
    Blackwell,
    /// With 4 times as many 4-bit products as 16-bit ones.
    BlackwellPlain,
    /// With 6 times as many.
    BlackwellUltra,
}

/// The meaning of a constant.
#[derive(Clone, Copy)]
enum Meaning {
    /// A number in the files of some machines.
    Of(Machines, Place),
    /// Factor on the rate of products and attention of its generation that a machine sustains: by its
    /// power.
    Power(&'static str),
    /// The share of the network that all-to-alls of experts reach, up to [`ALL_TO_ALL`].
    ExpertNetwork,
    /// The rate of 8-bit products of Blackwell with a scale for each block, over that with one for a tensor.
    BlockScales,
    /// How long experts and their all-to-alls take for each release.
    Release,
    /// How long torchtitan computes.
    Torchtitan,
    /// How long its attention takes.
    TorchtitanAttention,
}

pub(super) struct Constant {
    pub(super) name: &'static str,
    prior: f64,
    /// Of its logarithm.
    sigma: f64,
    meaning: Meaning,
}

const fn of(
    name: &'static str,
    prior: f64,
    sigma: f64,
    machines: Machines,
    place: Place,
) -> Constant {
    Constant { name, prior, sigma, meaning: Meaning::Of(machines, place) }
}

const fn power(name: &'static str, prior: f64, machine: &'static str) -> Constant {
    Constant { name, prior, sigma: 0.1, meaning: Meaning::Power(machine) }
}

use Machines::{All, Blackwell, BlackwellPlain, BlackwellUltra, Hopper};

/// All of them. Priors of powers: watts over those of the reference, by peak rates.
pub(super) static CONSTANTS: &[Constant] = &[
    of("matmul, Hopper", 0.73, 0.08, Hopper, |rates| &mut rates.matmul),
    of("matmul, Blackwell", 0.73, 0.08, Blackwell, |rates| &mut rates.matmul),
    of("fp8, Hopper", 0.85, 0.10, Hopper, |rates| &mut rates.fp8),
    of("fp8, Blackwell", 0.75, 0.10, Blackwell, |rates| &mut rates.fp8),
    Constant { name: "mxfp8 over fp8", prior: 0.95, sigma: 0.03, meaning: Meaning::BlockScales },
    of("nvfp4", 0.55, 0.15, BlackwellPlain, |rates| &mut rates.nvfp4),
    of("nvfp4, Blackwell Ultra", 0.40, 0.15, BlackwellUltra, |rates| &mut rates.nvfp4),
    of("fill, Hopper", 2.2e6, 0.30, Hopper, |rates| &mut rates.fill),
    of("fill, Blackwell", 2.4e6, 0.30, Blackwell, |rates| &mut rates.fill),
    power("power of h100-96g", 0.714, "h100-96g"),
    power("power of b200", 1.0, "b200"),
    power("power of gb200", 1.08, "gb200"),
    power("power of b300", 1.10, "b300"),
    power("power of gb300", 1.26, "gb300"),
    of("grouped, Hopper", 0.65, 0.20, Hopper, |rates| &mut rates.grouped),
    of("grouped, Blackwell", 0.65, 0.20, Blackwell, |rates| &mut rates.grouped),
    of("flash, Hopper", 0.50, 0.15, Hopper, |rates| &mut rates.flash),
    of("flash, Blackwell", 0.75, 0.15, Blackwell, |rates| &mut rates.flash),
    of("elementwise, Hopper", 1.25, 0.20, Hopper, |rates| &mut rates.elementwise),
    of("elementwise, Blackwell", 3.0, 0.40, Blackwell, |rates| &mut rates.elementwise),
    of("unfused-activation", 5.0, 0.40, All, |rates| &mut rates.unfused_activation),
    of("launch", 5e-3, 0.25, All, |rates| &mut rates.launch),
    of("launch-experts", 8e-3, 0.25, All, |rates| &mut rates.launch_experts),
    of("launch-latent", 2.0, 0.25, All, |rates| &mut rates.launch_latent),
    of("tensor-exposed", 0.50, 0.25, All, |rates| &mut rates.tensor_exposed),
    of("tensor-overlapped", 0.35, 0.25, All, |rates| &mut rates.tensor_overlapped),
    of("stage-overlapped", 0.5, 0.30, All, |rates| &mut rates.stage_overlapped),
    of("expert-link", 1.0, 0.25, All, |rates| &mut rates.expert_link),
    Constant { name: "expert-network", prior: 0.90, sigma: 0.20, meaning: Meaning::ExpertNetwork },
    of("expert-overlapped", 0.25, 0.30, All, |rates| &mut rates.expert_overlapped),
    of("ring", 0.50, 0.25, All, |rates| &mut rates.ring),
    of("expert-ring", 0.40, 0.30, All, |rates| &mut rates.expert_ring),
    of("step-latency", 20e-3, 0.30, All, |rates| &mut rates.step_latency),
    of("step-doubling", 30e-3, 0.30, All, |rates| &mut rates.step_doubling),
    of("fused-experts", 0.90, 0.05, Blackwell, |rates| &mut rates.fused_experts),
    of("eager", 1.5, 0.20, All, |rates| &mut rates.eager),
    Constant { name: "release", prior: 1.07, sigma: 0.02, meaning: Meaning::Release },
    Constant { name: "torchtitan", prior: 1.15, sigma: 0.08, meaning: Meaning::Torchtitan },
    Constant {
        name: "torchtitan, attention",
        prior: 1.2,
        sigma: 0.15,
        meaning: Meaning::TorchtitanAttention,
    },
];

/// Factor on the compute time of Megatron-LM with its defaults, on a machine without a measured run of
/// them.
pub(super) const STOCK: f64 = 1.15;

/// The current value of each constant in the planner.
pub(super) fn in_use() -> Result<Vec<f64>, Diagnostic> {
    let built_in = machines::built_in()?;
    let known = |name: &str| {
        let own = built_in.iter().find(|machine| machine.name == name);
        own.map(|machine| machine.efficiency)
            .ok_or_else(|| Diagnostic::new(format!("no machine {name} is built in")))
    };
    let one = |constant: &Constant| -> Result<f64, Diagnostic> {
        Ok(match constant.meaning {
            Meaning::Of(machines, place) => *place(&mut known(reference(machines))?),
            Meaning::Power(name) => known(name)?.power,
            Meaning::ExpertNetwork => known(HOPPER)?.expert_network,
            Meaning::BlockScales => {
                let rates = known(BLACKWELL)?;
                rates.mxfp8 / rates.fp8
            }
            Meaning::Release => RELEASE,
            Meaning::Torchtitan => TORCHTITAN,
            Meaning::TorchtitanAttention => TORCHTITAN_ATTENTION,
        })
    };
    CONSTANTS.iter().map(one).collect()
}

const fn reference(machines: Machines) -> &'static str {
    match machines {
        All | Hopper => HOPPER,
        Blackwell | BlackwellPlain => BLACKWELL,
        BlackwellUltra => BLACKWELL_ULTRA,
    }
}

/// All as parameters of a fit.
pub(super) fn parameters() -> Vec<Parameter> {
    let one = |constant: &Constant| Parameter {
        name: constant.name.to_owned(),
        prior: constant.prior,
        sigma: constant.sigma,
    };
    CONSTANTS.iter().map(one).collect()
}

/// Whether `machine` is of the generation that these rows measure, so that constants are set in it.
fn has(machines: Machines, machine: &Machine) -> bool {
    let ultra = machine.peak_fp4.is_some_and(|four| four > 5.0 * machine.peak);
    match (machines, machine.peak_fp8, machine.peak_fp4) {
        (_, None, _) => false,
        (All, ..) => true,
        (Hopper, _, four) => four.is_none(),
        (Blackwell, _, four) => four.is_some(),
        (BlackwellPlain, _, four) => four.is_some() && !ultra,
        (BlackwellUltra, ..) => ultra,
    }
}

impl Constant {
    /// Whether the prediction of `run` may depend on it.
    pub(super) fn concerns(&self, run: &Run) -> bool {
        let experts = run.model.experts.is_some();
        match self.meaning {
            Meaning::Of(machines, _) => has(machines, &run.machine),
            Meaning::BlockScales => has(Blackwell, &run.machine),
            Meaning::Power(name) => run.machine.name == name,
            Meaning::ExpertNetwork => has(All, &run.machine) && experts,
            Meaning::Release => experts && run.facts.releases_before > 0,
            Meaning::Torchtitan | Meaning::TorchtitanAttention => run.facts.torchtitan,
        }
    }
}

/// The machine with constants of these `values`.
pub(super) fn machine_with(machine: &Machine, values: &[f64]) -> Machine {
    let mut own = machine.clone();
    let mut scale = own.efficiency.power;
    for (constant, &value) in CONSTANTS.iter().zip(values) {
        match constant.meaning {
            Meaning::Of(machines, place) if has(machines, machine) => {
                *place(&mut own.efficiency) = value;
            }
            Meaning::ExpertNetwork if has(All, machine) => {
                own.efficiency.expert_network = value * (ALL_TO_ALL / machine.network).min(1.0);
            }
            Meaning::BlockScales if has(Blackwell, machine) => {
                own.efficiency.mxfp8 = own.efficiency.fp8 * value;
            }
            Meaning::Power(name) if name == machine.name => scale = value,
            _ => {}
        }
    }
    own.efficiency.power = scale;
    own
}

/// The recipe with constants of these `values`, of software with `facts`.
pub(super) fn recipe_with(recipe: &Recipe, experts: bool, facts: Facts, values: &[f64]) -> Recipe {
    let mut own = recipe.clone();
    let releases = i32::try_from(facts.releases_before).unwrap_or(0);
    for (constant, &value) in CONSTANTS.iter().zip(values) {
        match constant.meaning {
            Meaning::Release if experts => {
                own.software.experts *= value.powi(releases);
                own.software.all_to_all *= value.powi(releases);
            }
            Meaning::Torchtitan if facts.torchtitan => own.software.compute *= value,
            Meaning::TorchtitanAttention if facts.torchtitan => own.software.attention *= value,
            _ => {}
        }
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The machines that rows were measured on.
    const MEASURED: [&str; 7] = ["h100", "h100-96g", "h200", "b200", "gb200", "b300", "gb300"];

    #[test]
    fn machines_hold_what_the_constants_in_use_say() {
        let values = in_use().unwrap();
        assert!(CONSTANTS.len() <= 40 && values.len() == CONSTANTS.len());
        for machine in machines::built_in().unwrap() {
            if !MEASURED.contains(&machine.name.as_str()) {
                continue;
            }
            let mut expected = machine_with(&machine, &values).efficiency;
            let network = [expected.expert_network, machine.efficiency.expert_network];
            assert!((network[0] / network[1] - 1.0).abs() < 2e-3, "{}: {network:?}", machine.name);
            let mut own = machine.efficiency;
            for constant in CONSTANTS {
                let Meaning::Of(machines, place) = constant.meaning else { continue };
                if has(machines, &machine) {
                    let (expected, own) = (*place(&mut expected), *place(&mut own));
                    let name = (constant.name, &machine.name);
                    assert!((expected / own - 1.0).abs() < 2e-3, "{name:?}: {expected} {own}");
                }
            }
        }
    }

    #[test]
    fn constants_reach_the_machines_and_software_that_they_are_of() {
        let machine = machines::of_device("GB300").unwrap();
        let mut values = in_use().unwrap();
        let at = |name: &str| CONSTANTS.iter().position(|one| one.name == name).unwrap();
        let before = machine_with(&machine, &values).efficiency;
        values[at("power of gb300")] *= 1.1;
        values[at("fp8, Hopper")] *= 2.0;
        let after = machine_with(&machine, &values).efficiency;
        assert!((after.power / before.power - 1.1).abs() < 1e-12);
        assert_eq!((after.fp8, after.memory), (before.fp8, before.memory));
        values[at("nvfp4, Blackwell Ultra")] = 0.5;
        assert!((machine_with(&machine, &values).efficiency.nvfp4 - 0.5).abs() < 1e-12);
    }
}
