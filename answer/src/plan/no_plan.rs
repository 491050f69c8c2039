//! Why a question has no plan, and changes with which it would have one.

use std::collections::BTreeMap;

use plan::{
    Capture, Cluster, Machine, Optimizer, Orders, Overflow, Recipe, Setup, Software, Unfit, Update,
    Watch,
};
use planning::{Framework, Question};
use question::Diagnostic;

use super::answer::{Planner, Searched};
use super::ground::ground;

/// The most devices of a cluster that is proposed.
const LARGEST: u64 = 1 << 16;

impl Planner<'_> {
    /// Why there is no plan.
    pub(super) fn no_plan(&self, searched: &[Searched]) -> Diagnostic {
        match self.context.cut_short() {
            true => Diagnostic::new("interrupted before any plan was found".to_owned()),
            false => self.fits_nowhere(searched),
        }
    }

    /// That the model fits on none of the clusters, and the smallest that would do.
    fn fits_nowhere(&self, searched: &[Searched]) -> Diagnostic {
        let nearest: Option<&(Setup, Overflow)> = searched
            .iter()
            .filter_map(|one| one.found.nearest.as_ref())
            .min_by_key(|(_, lacks)| lacks.needs.0 - lacks.has.0);
        let reasons = reasons(searched);
        let Some((setup, lacks)) = nearest else {
            let all = match (reasons.is_empty(), self.question.framework) {
                (false, _) => reasons,
                (true, Framework::Any) => {
                    "no product of tensor, pipeline and context divides the devices".to_owned()
                }
                (true, framework) => format!(
                    "no product of tensor, pipeline and context divides the devices, or {} does not \
                     run those that do",
                    framework.title()
                ),
            };
            let message = format!("no set-up can be run on these clusters: {all}");
            let cure = match self.nearest_batches() {
                Some(batches) => {
                    format!("write batch = {batches}, or name more values in [search]")
                }
                None => "name more values in [search]".to_owned(),
            };
            return Diagnostic::new(message).with_help(cure);
        };
        let message = format!(
            "the model fits on none of these clusters: the nearest set-up ({}, {}) needs {} on stage \
             {}, of {}",
            setup.schedule_name(),
            super::tables::setup(setup),
            question::format::size(lacks.needs),
            lacks.stage,
            question::format::size(lacks.has),
        );
        let keys = self.keys_that_help();
        let cure = match self.smallest() {
            _ if !keys.is_empty() => format!("it would fit with {}", keys.join(", or with ")),
            Some(cluster) => {
                let (devices, name) = (cluster.devices(), cluster.name());
                let is_smaller = |one: &Cluster| one.devices() >= devices && one.name() == name;
                let others = match self.question.clusters.iter().any(is_smaller) {
                    true => format!("; what became of the set-ups on more devices: {reasons}"),
                    false => String::new(),
                };
                format!(
                    "the smallest cluster that would hold it: {devices} devices of {name} (doubled \
                     from one, under the same [search]){others}"
                )
            }
            None => format!(
                "under this [search], no cluster of these machines up to {LARGEST} devices would hold \
                 it: name more values of tensor, pipeline or recompute there"
            ),
        };
        let on_host = match keys.is_empty() && self.fits_on_host() {
            true => "; it would fit with optimizer-offload = 1 in [training], for a longer step",
            false => "",
        };
        Diagnostic::new(message).with_help(cure + on_host)
    }

    /// The keys with which some set-up would fit these clusters, each with its value.
    fn keys_that_help(&self) -> Vec<String> {
        let recipe = &self.question.recipe;
        let changed = [
            (
                "gradient-bytes = 2 in [training], gradients in 16 bits",
                Recipe { gradient_bytes: recipe.gradient_bytes.min(2), ..recipe.clone() },
            ),
            (
                "optimizer-bytes = 8 in [training], moments in 16 bits",
                Recipe {
                    optimizer: Optimizer {
                        bytes: recipe.optimizer.bytes.map(|bytes| bytes.min(8)),
                        ..recipe.optimizer
                    },
                    ..recipe.clone()
                },
            ),
            (
                "cuda-graphs = \"none\" in [training], without their static buffers",
                Recipe {
                    software: Software { graphs: 0.0, capture: Capture::NONE, ..recipe.software },
                    ..recipe.clone()
                },
            ),
        ];
        let changed = changed.iter().filter(|(_, recipe)| self.would_fit_with(recipe));
        changed.map(|(words, _)| (*words).to_owned()).collect()
    }

    /// Whether another `recipe` has a set-up that fits these clusters.
    fn would_fit_with(&self, recipe: &Recipe) -> bool {
        let mut question = self.question.clone();
        question.recipe = recipe.clone();
        let planner = Planner { context: self.context, question: &question };
        let (orders, mut clusters) = (Orders::default(), question.clusters.iter());
        *recipe != self.question.recipe && clusters.any(|cluster| planner.holds(cluster, &orders))
    }

    /// Whether it would fit with the optimizer's state in the memory of hosts.
    fn fits_on_host(&self) -> bool {
        let Question { recipe, framework, clusters, .. } = self.question;
        let mut machines = clusters.iter().flat_map(|cluster| &cluster.parts);
        let optimizer = Optimizer { on_host: 1.0, ..recipe.optimizer };
        optimizer.update == Update::AdamW
            && *framework != Framework::Torchtitan
            && machines.all(|(machine, _)| machine.host.is_some())
            && self.would_fit_with(&Recipe { optimizer, ..recipe.clone() })
    }

    /// The batches next to that of the question that some set-up divides, in words; `None` where
    /// set-ups fail for other reasons.
    fn nearest_batches(&self) -> Option<String> {
        let Question { model, recipe, clusters, .. } = self.question;
        let (mut below, mut above) = (None, None);
        for cluster in clusters {
            let setups = self.question.setups(cluster)?;
            let undivided =
                |setup: &&Setup| plan::check(setup, model, recipe, cluster) == Err(Unfit::Batch);
            for setup in setups.iter().filter(undivided) {
                let together = setup.microbatch.saturating_mul(setup.data).max(1);
                let least = recipe.batch / together * together;
                below = below.max(Some(least).filter(|batch| *batch > 0));
                let next = least.saturating_add(together);
                above = Some(above.map_or(next, |known: u64| known.min(next)));
            }
        }
        let both: Vec<String> = below.into_iter().chain(above).map(|one| one.to_string()).collect();
        (!both.is_empty()).then(|| both.join(" or "))
    }

    /// The fewest devices, doubled from one, of any of the machines on which this question has a plan.
    fn smallest(&self) -> Option<Cluster> {
        let machines = machines(&self.question.clusters);
        let orders = Orders::default();
        let doubled = std::iter::successors(Some(1), |devices| Some(2 * devices));
        doubled
            .take_while(|&devices| devices <= LARGEST)
            .flat_map(|devices| machines.iter().map(move |machine| (devices, *machine)))
            .map(|(devices, machine)| Cluster { parts: vec![(machine.clone(), devices)] })
            .find(|cluster| self.holds(cluster, &orders))
    }

    /// Whether some set-up runs on `cluster`.
    fn holds(&self, cluster: &Cluster, orders: &Orders<'_>) -> bool {
        let Some(setups) = self.question.setups(cluster) else { return false };
        let stop = || self.context.stopped();
        let watch = Watch { done: &|_| {}, stop: &stop, orders };
        let ground = ground(self.question, cluster);
        let (_, best) = plan::run_with(&ground, &setups, 1, watch);
        !best.is_empty()
    }
}

/// Why set-ups of `searched` were left out, and how many for each reason.
fn reasons(searched: &[Searched]) -> String {
    let mut all: BTreeMap<&str, u64> = BTreeMap::new();
    for (reason, count) in searched.iter().flat_map(|one| &one.found.left_out) {
        *all.entry(reason).or_default() += count;
    }
    let all: Vec<String> =
        all.iter().map(|(reason, count)| format!("{count} x {reason}")).collect();
    all.join("; ")
}

/// Every machine of `clusters`, by name, once.
fn machines<'a>(clusters: impl IntoIterator<Item = &'a Cluster>) -> Vec<&'a Machine> {
    let mut machines: Vec<&Machine> = Vec::new();
    for (machine, _) in clusters.into_iter().flat_map(|cluster| &cluster.parts) {
        if machines.iter().all(|known| known.name != machine.name) {
            machines.push(machine);
        }
    }
    machines
}
