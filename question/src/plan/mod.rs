//! The questions of the planner: a [`Document`] as it is written, and a [`Question`], whole and checked.

pub mod config;
mod document;
mod experts;
pub mod fit;
mod framework;
mod lengths;
pub mod machines;
mod noise;
mod search;
mod setup;
mod sizes;
mod software;
mod streams;
mod training;

use std::path::{Path, PathBuf};

use pipeline::{Bandwidth, Bytes};
use plan::{Attention, Cluster, Noise, Recipe, Transformer};

pub use self::document::{
    ClusterDocument, Document, ModelDocument, NoiseDocument, PartDocument, SearchDocument,
    TrainingDocument,
};
pub use self::experts::ImbalanceKey;
pub use self::framework::Framework;
pub use self::lengths::{LengthsDocument, Packed};
use self::search::Search;
use self::setup::Asked;
pub use self::setup::SetupDocument;
pub use self::sizes::SizesDocument;
use self::software::Open;
pub use self::software::SoftwareKey;
use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::kinds::{self, InputKind};
use crate::read::KeySpans;

/// The largest question.
const MAX_FILE: u64 = 1 << 20;
/// The most devices of a cluster.
const MAX_DEVICES: u64 = 1 << 20;
/// The most clusters of a question.
const MAX_CLUSTERS: usize = 256;

/// Memory that the framework and its libraries take of a device beside the model, unless the question
/// says.
pub const RESERVED: Bytes = Bytes(1 << 30);

/// The price of a machine that is paid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paid {
    /// By the hour, without an obligation.
    OnDemand,
    /// For machines that are taken for long.
    Reserved,
    /// For machines that can be withdrawn at any time.
    Spot,
}

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
    search: Search,
    asked: Option<Asked>,
    /// Whether the software that the question leaves out is searched.
    software_searched: bool,
    /// The keys of software that it leaves out.
    open: Open,
    /// The file of the question and its text, if it has one.
    file: Option<(PathBuf, String)>,
    /// The training framework that must run the plan.
    pub framework: Framework,
    /// The recipe of training.
    pub recipe: Recipe,
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

/// The underprediction of memory to allow for, as a share of the prediction, by the software that runs.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct MemoryError {
    /// With Megatron-LM.
    pub megatron: f64,
    /// With torchtitan.
    pub torchtitan: f64,
}

impl MemoryError {
    const fn of(self, framework: Framework) -> f64 {
        match framework {
            Framework::Any | Framework::Megatron => self.megatron,
            Framework::Torchtitan => self.torchtitan,
        }
    }
}

/// Reads the question in `path` and checks it; `memory_error` is the part by which the memory of a plan may
/// be underestimated.
///
/// # Errors
/// If the file cannot be read or understood, or the question makes no sense.
pub fn read(
    context: &Context<'_>,
    path: &Path,
    memory_error: MemoryError,
) -> Result<Question, Diagnostic> {
    let text = context.read_toml(path, MAX_FILE)?;
    let document: Document = toml::from_str(&text)
        .map_err(|error| Diagnostic::toml(path, &text, &error, &[]))
        .map_err(|error| kinds::misplaced(path, &text, &[InputKind::Plan], error))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    Reader { context, folder, file: Some((path, &text)), document: &document, memory_error }
        .question()
}

/// Checks the question `document`, whose files lie in `folder`, as [`read`] does. Errors name the key.
///
/// # Errors
/// If one of its files cannot be read, or the question makes no sense.
pub fn check(
    context: &Context<'_>,
    folder: &Path,
    document: &Document,
    memory_error: MemoryError,
) -> Result<Question, Diagnostic> {
    Reader { context, folder, file: None, document, memory_error }.question()
}

impl Question {
    /// The error that the set-up of `[setup]` cannot be run, because of `cause`.
    #[must_use]
    pub fn not_run(&self, cause: &str) -> Diagnostic {
        let file = self.file.as_ref().map(|(path, text)| (path.as_path(), text.as_str()));
        let message = format!("the set-up cannot be run: {cause}");
        let cure = "change its schedule, its stages, or its microbatches";
        wrong(file, "setup", message).with_help(cure)
    }
}

/// An error at the value of `key`, a path of [`KeySpans`] or a name that one table has, in `file`.
fn wrong(file: Option<(&Path, &str)>, key: &str, message: String) -> Diagnostic {
    let error = match file {
        Some((path, text)) => {
            Diagnostic::at(path, text, KeySpans::of_text(text).find(key), message)
        }
        None => Diagnostic::new(message),
    };
    error.about(key)
}

struct Reader<'a> {
    context: &'a Context<'a>,
    folder: &'a Path,
    /// The file of the question and its text, if it has one.
    file: Option<(&'a Path, &'a str)>,
    document: &'a Document,
    memory_error: MemoryError,
}

impl Reader<'_> {
    fn question(&self) -> Result<Question, Diagnostic> {
        let document = self.document;
        if !(1.0..=1e18).contains(&document.tokens) {
            let message = format!("tokens is {}: it must be from 1 to 1e18", document.tokens);
            return Err(self.wrong("tokens", message));
        }
        if let Some(days) = document.deadline_days.filter(|days| !(*days > 0.0 && *days <= 1e6)) {
            let message = format!("deadline-days is {days}: it must be more than 0");
            return Err(self.wrong("deadline-days", message));
        }
        if document.batch == 0 || document.batch > 1 << 30 {
            let message = format!("batch is {}: it must be from 1 to 2^30", document.batch);
            return Err(self.wrong("batch", message));
        }
        let config::Model { transformer: model, rotary_base, assumed } = self.model()?;
        let plans = document.plans.unwrap_or(3);
        if !(1..=1000).contains(&plans) {
            return Err(self.wrong("plans", format!("plans is {plans}: from 1 to 1000")));
        }
        let clusters = self.clusters(&model)?;
        let framework = self.framework()?;
        let search = self.search(&model, framework)?;
        let noise = self.noise(&clusters)?;
        let packed = self.packed(model.sequence)?;
        let mut recipe = Recipe {
            attended: packed.as_ref().map_or(1.0, Packed::mean),
            imbalance: self.imbalance(&model, framework)?,
            ..self.recipe(framework, &clusters)?
        };
        recipe.software.streams = self.streams(&model)?;
        let (software_searched, open) = self.open(recipe.software.tuning, &clusters)?;
        let asked = self.setup(&model, &recipe, framework, &clusters)?;
        let dynamic_context = self.dynamic_context(packed.as_ref(), framework, model.sequence)?;
        Ok(Question {
            title: document.title.clone().unwrap_or_else(|| "Plans".to_owned()),
            tokens: document.tokens,
            deadline_days: document.deadline_days,
            budget: self.within("budget", document.budget, [0.01, 1e15])?,
            contingency: self.within("contingency", document.contingency, [1.0, 100.0])?,
            storage: document.storage,
            paid: self.paid(&clusters)?,
            plans: usize::try_from(plans).unwrap_or(1),
            clusters,
            search,
            software_searched,
            open,
            framework,
            recipe,
            packed,
            dynamic_context,
            dispatcher: self.dispatcher()?.0,
            asked,
            file: self.file.map(|(path, text)| (path.to_owned(), text.to_owned())),
            noise,
            model,
            rotary_base,
            model_assumed: assumed,
        })
    }

    /// The value of `key`, if it is given: from `least` to `most`.
    fn within(
        &self,
        key: &str,
        given: Option<f64>,
        [least, most]: [f64; 2],
    ) -> Result<Option<f64>, Diagnostic> {
        match given {
            Some(value) if !(least..=most).contains(&value) => {
                let name = key.rsplit('.').next().unwrap_or(key);
                Err(self.wrong(key, format!("{name} is {value}: from {least} to {most}")))
            }
            given => Ok(given),
        }
    }

    /// An error at the value of `key`, a path of [`KeySpans`] or a name that one table has.
    fn wrong(&self, key: &str, message: String) -> Diagnostic {
        wrong(self.file, key, message)
    }

    /// `error`, at the value of `key` unless it has a place of its own.
    fn at(&self, key: &str, error: Diagnostic) -> Diagnostic {
        match error.is_placeless() {
            true => {
                let placed = self.wrong(key, error.message);
                error.help.into_iter().fold(placed, Diagnostic::with_help)
            }
            false => error,
        }
    }

    fn attention(&self) -> Result<Attention, Diagnostic> {
        match self.document.attention.as_deref() {
            None | Some("flash") => Ok(Attention::Flash),
            Some("core") => Ok(Attention::Core),
            Some(other) => {
                Err(self.wrong("attention", format!("attention is `{other}`: write flash or core")))
            }
        }
    }

    fn model(&self) -> Result<config::Model, Diagnostic> {
        let attention = self.attention()?;
        match &self.document.model {
            ModelDocument::File(file) => config::read(
                self.context,
                &self.folder.join(file),
                self.document.sequence,
                attention,
            ),
            ModelDocument::Sizes(sizes) => {
                let transformer = self.sizes(sizes, attention)?;
                Ok(config::Model { transformer, rotary_base: None, assumed: Vec::new() })
            }
        }
    }

    fn clusters(&self, model: &Transformer) -> Result<Vec<Cluster>, Diagnostic> {
        let mut all = Vec::new();
        for (number, one) in self.document.cluster.iter().enumerate() {
            all.extend(self.cluster(&format!("cluster.{number}"), one, model)?);
        }
        if all.is_empty() || all.len() > MAX_CLUSTERS {
            let message = format!("{} clusters: from 1 to {MAX_CLUSTERS}", all.len());
            return Err(self.wrong("cluster", message));
        }
        Ok(all)
    }

    /// The clusters of the table `one` at `path`.
    fn cluster(
        &self,
        path: &str,
        one: &ClusterDocument,
        model: &Transformer,
    ) -> Result<Vec<Cluster>, Diagnostic> {
        match (&one.machine, &one.devices, &one.parts) {
            (Some(name), Some(devices), None) => {
                let key = format!("{path}.machine");
                let named = machines::named(self.context, name, self.folder);
                let mut machine = named.map_err(|error| self.at(&key, error))?;
                if let Some(profile) = &one.profile {
                    let file = self.folder.join(profile);
                    let measured = machines::measured(self.context, &file, model);
                    let placed = |error| self.at(&format!("{path}.profile"), error);
                    machine.measured = Some(measured.map_err(placed)?);
                }
                self.set_price(&format!("{path}.price"), one.price, &mut machine)?;
                let key = format!("{path}.devices");
                let of = |&devices: &u64| {
                    self.check_devices(&key, devices)?;
                    Ok(Cluster { parts: vec![(machine.clone(), devices)] })
                };
                devices.iter().map(of).collect()
            }
            (None, None, Some(parts)) if one.profile.is_none() && one.price.is_none() => {
                Ok(vec![self.mixed(&format!("{path}.parts"), parts)?])
            }
            _ => {
                let message = "a cluster has a machine and its devices, or parts".to_owned();
                Err(self.wrong(path, message))
            }
        }
    }

    /// Sets the price of an hour of a device of `machine`, if one is given.
    fn set_price(
        &self,
        key: &str,
        given: Option<f64>,
        machine: &mut plan::Machine,
    ) -> Result<(), Diagnostic> {
        let Some(dollars) = self.within(key, given, [1e-6, 1e6])? else { return Ok(()) };
        let rate = machine.price.spot.map_or(0.0, |(_, rate)| rate);
        machine.price = plan::Price {
            on_demand: dollars,
            reserved: Some(dollars),
            spot: Some((dollars, rate)),
        };
        Ok(())
    }

    /// A cluster of several kinds of machines, those of the list `parts` at `path`.
    fn mixed(&self, path: &str, parts: &[PartDocument]) -> Result<Cluster, Diagnostic> {
        if parts.is_empty() {
            return Err(self.wrong(path, "parts is empty".to_owned()));
        }
        let parts = parts.iter().enumerate().map(|(number, part)| {
            let named = machines::named(self.context, &part.machine, self.folder);
            let key = format!("{path}.{number}.machine");
            let mut machine = named.map_err(|error| self.at(&key, error))?;
            self.set_price(&format!("{path}.{number}.price"), part.price, &mut machine)?;
            self.check_devices(&format!("{path}.{number}.devices"), part.devices)?;
            Ok((machine, part.devices))
        });
        Ok(Cluster { parts: parts.collect::<Result<_, Diagnostic>>()? })
    }

    fn check_devices(&self, key: &str, devices: u64) -> Result<(), Diagnostic> {
        if (1..=MAX_DEVICES).contains(&devices) {
            return Ok(());
        }
        Err(self.wrong(key, format!("{devices} devices: from 1 to {MAX_DEVICES}")))
    }

    fn paid(&self, clusters: &[Cluster]) -> Result<Paid, Diagnostic> {
        let paid = match self.document.price.as_deref() {
            None | Some("on-demand") => return Ok(Paid::OnDemand),
            Some("reserved") => Paid::Reserved,
            Some("spot") => Paid::Spot,
            Some(other) => {
                let message = format!("price is `{other}`: write on-demand, reserved or spot");
                return Err(self.wrong("price", message));
            }
        };
        let lacks = |machine: &plan::Machine| match paid {
            Paid::Spot => machine.price.spot.is_none(),
            _ => machine.price.reserved.is_none(),
        };
        let machines = clusters.iter().flat_map(|cluster| &cluster.parts);
        match machines.map(|(machine, _)| machine).find(|machine| lacks(machine)) {
            Some(machine) => {
                let message = format!("the machine {} has no such price", machine.name);
                Err(self.wrong("price", message))
            }
            None => Ok(paid),
        }
    }
}
