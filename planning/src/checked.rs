//! A question of the planner, whole and checked.

use std::path::PathBuf;

use pipeline::{Bandwidth, LayerLayout};
use plan::{Cluster, Noise, Recipe, Setup, Transformer};
use question::diagnostic::Diagnostic;

use crate::clusters::Paid;
use crate::framework::Framework;
use crate::lengths::Packed;
use crate::network::Network;
use crate::reader::wrong;
use crate::search::{Open, Search};
use crate::setup::Asked;

/// A question, whole and checked.
#[derive(Clone)]
pub struct Question {
    /// The title of the answer.
    pub title: String,
    /// The model to train.
    pub model: Transformer,
    /// The base of the frequencies of rotary positions, if the model's config has it.
    pub rotary_base: Option<u64>,
    /// The assumptions that were made where the model was read, a sentence each.
    pub model_assumed: Vec<String>,
    /// The tokens to train on.
    pub tokens: f64,
    /// The days after which training must be done.
    pub deadline_days: Option<f64>,
    /// The dollars that training may cost.
    pub budget: Option<f64>,
    /// The odds with which a plan must meet deadline and budget.
    pub confidence: f64,
    /// How many times as long as its steps training takes.
    pub contingency: Option<f64>,
    /// The rate at which storage takes a checkpoint from all devices together, if it limits them.
    pub storage: Option<Bandwidth>,
    /// The price that is paid for machines.
    pub paid: Paid,
    /// The number of plans that are reported for each cluster.
    pub plans: usize,
    /// The clusters to choose from.
    pub clusters: Vec<Cluster>,
    /// The network of each, where that was measured: its machine has the rates.
    pub networks: Vec<Option<Network>>,
    pub(crate) search: Search,
    pub(crate) asked: Option<Asked>,
    /// Whether the software that the question leaves out is searched.
    pub(crate) software_searched: bool,
    /// The keys of software that it leaves out.
    pub(crate) open: Open,
    /// The file of the question and its text, if it has one.
    pub(crate) file: Option<(PathBuf, String)>,
    /// The training framework that must run the plan.
    pub framework: Framework,
    /// The recipe of training.
    pub recipe: Recipe,
    /// The same of stock Megatron-LM, where the question does not say whose software runs.
    pub stock: Option<Recipe>,
    /// Sequences that documents were packed into, if the question gives their lengths.
    pub packed: Option<Packed>,
    /// Whether the context groups of the set-up are dealt anew in every microbatch, each as large as its
    /// documents need; only where there are such sequences.
    pub dynamic_context: bool,
    /// How tokens get to their experts, by name.
    pub dispatcher: &'static str,
    /// How durations differ, and slow devices.
    pub noise: Noise,
}

impl Question {
    /// The set-up that is asked for, on `cluster`; none where set-ups are searched.
    #[must_use]
    pub fn setup_on(&self, cluster: &Cluster) -> Option<Setup> {
        self.asked.as_ref().map(|asked| asked.on(cluster))
    }

    /// The same question about `setup` alone, with the layers of each chunk in `layout` where it has
    /// [`Split::Layout`](plan::Split::Layout).
    #[must_use]
    pub fn of_setup(&self, setup: Setup, layout: Option<LayerLayout>) -> Self {
        let asked = Asked { setup, data: Some(setup.data), layout };
        Self { asked: Some(asked), software_searched: false, ..self.clone() }
    }

    /// The same question with the rates of the machines' files; nothing where no network was measured.
    #[must_use]
    pub fn with_built_in_networks(&self) -> Option<Self> {
        let mut question = self.clone();
        for (cluster, network) in question.clusters.iter_mut().zip(&mut question.networks) {
            if let Some(network) = network.take() {
                cluster
                    .parts
                    .iter_mut()
                    .for_each(|(machine, _)| machine.efficiency = network.built_in);
            }
        }
        let is_measured = self.networks.iter().any(Option::is_some);
        is_measured.then_some(question)
    }

    /// The error that the set-up of `[setup]` cannot be run, because of `cause`.
    #[must_use]
    pub fn not_run(&self, cause: &str) -> Diagnostic {
        let file = self.file.as_ref().map(|(path, text)| (path.as_path(), text.as_str()));
        let message = format!("the set-up cannot be run: {cause}");
        let cure = "change its schedule, its stages, or its microbatches";
        wrong(file, "setup", message).with_help(cure)
    }
}
