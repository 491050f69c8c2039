//! The questions of the planner: a [`Document`] as it is written, and a [`Question`], whole and checked.
//!
//! With them comes what they name: models as a `config.json` of Hugging Face has them ([`config`]), machine
//! files ([`machines`]), and tables of a user's iterations, by which a machine is fitted ([`fit`]).
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::path::{Path, PathBuf};
//!
//! use planning::{MemoryError, read};
//! use question::Context;
//!
//! let text = r#"
//!     tokens = 1e12
//!     batch = 1024
//!     sequence = 4096
//!     model = { layers = 32, hidden = 4096, heads = 32, vocabulary = 32000 }
//!     cluster = [{ machine = "h100", devices = [64, 128] }]
//! "#;
//! let files = BTreeMap::from([(PathBuf::from("plan.toml"), text.as_bytes().to_vec())]);
//! let context = Context::new(&files);
//! let question = read(&context, Path::new("plan.toml"), MemoryError::default())?;
//! assert_eq!(question.clusters.len(), 2);
//!
//! // What is wrong stands at its key.
//! let files = BTreeMap::from([(PathBuf::from("plan.toml"), text.replace("h100", "h1").into())]);
//! let Err(error) = read(&Context::new(&files), Path::new("plan.toml"), MemoryError::default())
//! else { unreachable!() };
//! assert!(error.message.contains("h1"));
//! # Ok::<(), question::Diagnostic>(())
//! ```

mod checked;
mod clusters;
pub mod config;
mod document;
pub mod encoder;
mod experts;
pub mod fit;
mod flags;
mod framework;
mod frozen;
mod graphs;
mod lengths;
pub mod machines;
mod memory_error;
pub mod models;
pub mod network;
mod noise;
mod reader;
pub mod rl;
pub mod samples;
mod search;
mod setup;
mod sizes;
mod software;
mod streams;
mod training;
mod tried;

use std::path::Path;

use plan::Attention;
use question::diagnostic::Diagnostic;
use question::host::Context;
use question::kinds::{self, InputKind};

pub use self::checked::Question;
pub use self::clusters::Paid;
pub use self::document::{
    ClusterDocument, Document, LengthsDocument, ModelDocument, NoiseDocument, PartDocument,
    SearchDocument, SetupDocument, SizesDocument, TrainingDocument,
};
pub use self::flags::PlanFlags;
pub use self::framework::Framework;
pub use self::lengths::Packed;
pub use self::memory_error::MemoryError;
use self::reader::Reader;
pub use self::search::default_schedules;
pub use self::software::SoftwareKey;
pub use self::training::RESERVED;

/// The largest question.
pub const MAX_FILE: u64 = 1 << 20;

/// Reads the question in `path` and checks it; `memory_error` is the part by which the memory of a plan may
/// be underestimated.
pub fn read(
    context: &Context<'_>,
    path: &Path,
    memory_error: MemoryError,
) -> Result<Question, Diagnostic> {
    read_with(context, path, memory_error, &PlanFlags::default())
}

/// The same with the keys of `flags` in place of those of the file, which may be a `config.json` or the name of a model.
pub fn read_with(
    context: &Context<'_>,
    path: &Path,
    memory_error: MemoryError,
    flags: &PlanFlags,
) -> Result<Question, Diagnostic> {
    if PlanFlags::is_named(context, path) {
        return of_model(context, path, memory_error, flags);
    }
    let text = context.read_toml(path, MAX_FILE)?;
    read_text(context, path, &text, memory_error, flags)
}

/// The same of the `text` of the file `path`.
pub fn read_text(
    context: &Context<'_>,
    path: &Path,
    text: &str,
    memory_error: MemoryError,
    flags: &PlanFlags,
) -> Result<Question, Diagnostic> {
    if PlanFlags::is_config(path, text) {
        return of_model(context, path, memory_error, flags);
    }
    let document: Document = toml::from_str(text)
        .map_err(|error| Diagnostic::toml(path, text, &error, &[]))
        .map_err(|error| kinds::misplaced(path, text, &[InputKind::Question("plan")], error))
        .map_err(|error| match error.help {
            None if error.message.ends_with(" is missing") => error.with_help(EXAMPLE),
            _ => error,
        })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    // Lines of the file say nothing of keys that flags give.
    let file = flags.is_empty().then_some((path, text));
    let document = &flags.over(document);
    let network_folder = if flags.network.is_some() { Path::new("") } else { folder };
    Reader { context, folder, network_folder, file, document, memory_error }.question()
}

/// The cure of a question without a key that it needs.
const EXAMPLE: &str =
    "a question has model, tokens, batch and tables [[cluster]], as scenarios/plan/gpt3.toml";

/// The question of a `config.json`, or of the name of a model.
fn of_model(
    context: &Context<'_>,
    path: &Path,
    memory_error: MemoryError,
    flags: &PlanFlags,
) -> Result<Question, Diagnostic> {
    let document = flags.of_model(context, path)?;
    check(context, Path::new(""), &document, memory_error)
}

/// Checks the question `document`, whose files lie in `folder`, as [`read`] does. Errors name the key.
pub fn check(
    context: &Context<'_>,
    folder: &Path,
    document: &Document,
    memory_error: MemoryError,
) -> Result<Question, Diagnostic> {
    Reader { context, folder, network_folder: folder, file: None, document, memory_error }
        .question()
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
        let config::Model { transformer: model, rotary_base, assumed, frozen, .. } =
            self.model()?;
        let model = self.freezing(&model, frozen)?;
        let plans = document.plans.unwrap_or(3);
        if !(1..=1000).contains(&plans) {
            return Err(self.wrong("plans", format!("plans is {plans}: from 1 to 1000")));
        }
        let (clusters, networks) = self.clusters(&model)?;
        let framework = self.framework()?;
        let search = self.search(&model, framework)?;
        let noise = self.noise(&clusters)?;
        let packed = self.packed(model.sequence)?;
        let (recipe, stock) = self.recipes(&model, framework, &clusters, packed.as_ref())?;
        let (software_searched, open) = self.open(recipe.software.tuning)?;
        let asked = self.setup(&model, &recipe, framework, &clusters)?;
        self.check_reshard()?;
        let dynamic_context = self.dynamic_context(packed.as_ref(), framework, model.sequence)?;
        Ok(Question {
            title: document.title.clone().unwrap_or_else(|| "Plans".to_owned()),
            tokens: document.tokens,
            deadline_days: document.deadline_days,
            budget: self.within("budget", document.budget, [0.01, 1e15])?,
            confidence: self.confidence()?,
            contingency: self.within("contingency", document.contingency, [1.0, 100.0])?,
            storage: document.storage,
            paid: self.paid(&clusters)?,
            plans: usize::try_from(plans).unwrap_or(1),
            clusters,
            networks,
            search,
            software_searched,
            open,
            framework,
            recipe,
            stock,
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

    /// The odds that are asked for: one in a hundred at least of either.
    fn confidence(&self) -> Result<f64, Diagnostic> {
        const KEY: &str = "confidence";
        let given = self.within(KEY, self.document.confidence, [0.01, 0.99])?;
        let has_limit = self.document.deadline_days.is_some() || self.document.budget.is_some();
        if given.is_some() && !has_limit {
            let message = "confidence is about a deadline or a budget, and there is neither";
            let help = "add deadline-days or budget, or leave confidence out";
            return Err(self.wrong(KEY, message.to_owned()).with_help(help));
        }
        Ok(given.unwrap_or(0.5))
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

    pub(crate) fn model(&self) -> Result<config::Model, Diagnostic> {
        let attention = self.attention()?;
        match &self.document.model {
            ModelDocument::File(file) => {
                let sequence = self.document.sequence;
                let wanted = config::Wanted { sequence, attention, vision: false };
                config::read(self.context, &self.folder.join(file), wanted)
            }
            ModelDocument::Sizes(sizes) => {
                let transformer = self.sizes(sizes, attention)?;
                let assumed = Vec::new();
                Ok(config::Model {
                    transformer,
                    rotary_base: None,
                    assumed,
                    frozen: None,
                    vision: None,
                })
            }
        }
    }
}
