//! A question of the parts that every format gives, and what is assumed where a file does not say them.

use std::path::Path;

use super::arguments::Arguments;
use super::{Given, Imported};
use planning::{ClusterDocument, Document, ModelDocument};
use planning::{SetupDocument, SizesDocument, TrainingDocument};

/// Tokens that a file without a number of steps is taken to train on.
pub(super) const TOKENS: f64 = 1e12;
/// Machine of a question that names none.
pub(super) const MACHINE: &str = "h100";
/// Devices of a node.
const NODE: u64 = 8;

/// Assumptions, a sentence each.
pub(super) type Notes = Vec<String>;

/// The parts of a question that a file has.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) model: SizesDocument,
    pub(super) sequence: u64,
    pub(super) attention: Option<String>,
    pub(super) batch: u64,
    pub(super) tokens: f64,
    pub(super) framework: Option<&'static str>,
    /// The machine that the file names, of those that are built in.
    pub(super) machine: Option<String>,
    pub(super) devices: u64,
    /// Without one, set-ups are searched.
    pub(super) setup: Option<SetupDocument>,
    pub(super) training: TrainingDocument,
}

impl Parts {
    /// The question of the file `path` with these `arguments`.
    pub(super) fn imported(
        self,
        path: &Path,
        given: &Given,
        mut notes: Notes,
        arguments: &Arguments,
    ) -> Imported {
        let (not_modelled, left_out) = arguments.left_out();
        notes.extend(not_modelled);
        let machine = given.machine.clone().or(self.machine).unwrap_or_else(|| {
            notes.push(format!("the machine is taken to be {MACHINE}: name yours with --machine"));
            MACHINE.to_owned()
        });
        let cluster = ClusterDocument {
            machine: Some(machine),
            devices: Some(vec![self.devices]),
            parts: None,
            profile: None,
            network: None,
            price: None,
        };
        let mut model = self.model;
        model.vocabulary = given.vocabulary.unwrap_or(model.vocabulary);
        let (mut setup, mut training) = (self.setup, self.training);
        if model.experts.is_none() {
            training = training.without_experts();
            setup.iter_mut().for_each(|setup| setup.expert_tensor = None);
        }
        let document = Document {
            title: path.file_stem().map(|stem| stem.to_string_lossy().into_owned()),
            model: ModelDocument::Sizes(model),
            sequence: Some(self.sequence),
            attention: self.attention,
            tokens: self.tokens,
            batch: self.batch,
            deadline_days: None,
            budget: None,
            confidence: None,
            contingency: None,
            storage: None,
            price: None,
            framework: self.framework.map(str::to_owned),
            plans: None,
            network: None,
            cluster: vec![cluster],
            setup,
            search: Default::default(),
            training,
            lengths: Default::default(),
            noise: Default::default(),
        };
        Imported { document, notes, measured: None, left_out, is_question: false }
    }
}

/// The length of training, as a file says it.
pub(super) struct Steps {
    pub(super) samples: Option<u64>,
    pub(super) steps: Option<u64>,
    /// Names of both in the file, or of one twice.
    pub(super) names: [String; 2],
}

impl Steps {
    /// The tokens that these are, by batches of `batch` samples of `sequence` tokens.
    #[allow(clippy::cast_precision_loss)] // Some 10^13.
    pub(super) fn tokens(
        self,
        given: &Given,
        (batch, sequence): (u64, u64),
        notes: &mut Notes,
    ) -> f64 {
        if let Some(tokens) = given.tokens {
            return tokens;
        }
        let of_steps = self.steps.map(|steps| steps.saturating_mul(batch));
        if let Some(samples) = self.samples.or(of_steps).filter(|samples| *samples > 0) {
            return samples as f64 * sequence as f64;
        }
        let [steps, samples] = self.names;
        let missing = match steps == samples {
            true => format!("{steps} is missing"),
            false => format!("neither {steps} nor {samples} is there"),
        };
        notes.push(format!("{missing}: {TOKENS:e} tokens are taken; give yours with --tokens"));
        TOKENS
    }
}

/// The fewest devices of a set-up, of which it needs a multiple.
pub(super) fn least_devices(setup: &SetupDocument) -> u64 {
    let dense = product([setup.tensor, setup.pipeline, setup.context]);
    let experts =
        setup.expert.unwrap_or(1).saturating_mul(setup.expert_tensor.or(setup.tensor).unwrap_or(1));
    let sparse = experts.saturating_mul(setup.pipeline.unwrap_or(1)).max(1);
    least_common(dense, sparse)
}

/// The fewest devices of whole nodes that are a multiple of `least`, of a file that does not say them.
pub(super) fn whole_nodes(least: u64, notes: &mut Notes) -> u64 {
    let devices = least_common(least, NODE);
    notes.push(format!("the file does not say how many devices there are: {devices} are taken, the fewest of the set-up in nodes of {NODE}; name yours with --devices"));
    devices
}

/// The product of the degrees that are given.
pub(super) fn product(degrees: [Option<u64>; 3]) -> u64 {
    degrees.into_iter().flatten().fold(1, u64::saturating_mul).max(1)
}

/// The least common multiple of two numbers, neither of them 0.
pub(super) fn least_common(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b)
}

/// The machine of those that are built in which a word of `text` names, such as `h100` in the name of a recipe.
pub(super) fn machine_in(text: &str) -> Option<String> {
    let text = text.to_lowercase();
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.find_map(|word| match word {
        "a100" => Some("a100-80g".to_owned()),
        word => scenarios::MACHINES.names().find(|name| *name == word).map(str::to_owned),
    })
}
