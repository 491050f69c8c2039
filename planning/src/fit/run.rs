//! A line of a table of measured iterations as a run of the planner.

use std::path::{Path, PathBuf};

use pipeline::{Bytes, LayerLayout};
use plan::{CalibratedRun, Cluster, Inputs, Machine, Recipe, Setup, Transformer, number};
use question::diagnostic::Diagnostic;
use question::host::Context;
use question::quote;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Models;
use super::columns::{Columns, Part, Record};
use crate::clusters::MAX_DEVICES;
use crate::framework::Framework;
use crate::{self as questions, Document, MemoryError, ModelDocument, SetupDocument};

/// The largest batch.
const MAX_BATCH: u64 = 1 << 30;

/// An iteration that was measured.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its line in the table, from 1.
    pub line: usize,
    /// A short description: model, devices, parallel degrees and precision.
    pub name: String,
    pub model: Transformer,
    /// The set-up.
    pub setup: Setup,
    /// How it was trained.
    pub recipe: Recipe,
    /// The layers of each chunk, if they are given.
    pub layout: Option<LayerLayout>,
    /// How long a step took, in seconds.
    pub seconds: f64,
    /// Identity of the configuration: equal for repeated runs.
    pub configuration: String,
}

impl Run {
    /// The devices that it ran on, of the kind `machine`.
    #[must_use]
    pub fn cluster(&self, machine: &Machine) -> Cluster {
        cluster(machine, self.setup.devices())
    }

    /// The set-up as a machine has it that is calibrated by it.
    #[must_use]
    pub fn calibrated(&self, is_unexplained: bool) -> CalibratedRun {
        self.setup.calibrated_run(&self.model, &self.recipe, is_unexplained)
    }

    /// The inputs of the planner for this run on `cluster`.
    #[must_use]
    pub fn on<'a>(&'a self, cluster: &'a Cluster) -> Inputs<'a> {
        let layout = self.layout.as_ref();
        Inputs { layout, ..Inputs::new(&self.model, &self.recipe, cluster) }
    }
}

/// `devices` of the kind `machine`, without its profile, which is of another model, and with ample memory: the run
/// did fit.
fn cluster(machine: &Machine, devices: u64) -> Cluster {
    let machine = Machine { memory: Bytes(1 << 60), measured: None, ..machine.clone() };
    Cluster { parts: vec![(machine, devices)] }
}

/// The fault of a line.
pub(super) enum Fault {
    /// An error in its cells, with a remedy.
    Cells(String, Option<String>),
    /// A file that it names.
    File(Diagnostic),
}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        Self::Cells(message, None)
    }
}

impl From<Diagnostic> for Fault {
    fn from(error: Diagnostic) -> Self {
        match error.is_placeless() {
            true => Self::Cells(error.message, error.help),
            false => Self::File(error),
        }
    }
}

/// The context in which lines are read.
pub(super) struct Reader<'a> {
    pub(super) context: &'a Context<'a>,
    /// The folder of the table: files of models are relative to it.
    pub(super) folder: &'a Path,
    pub(super) models: &'a Models<'a>,
    pub(super) machine: &'a Machine,
}

/// A line with its columns.
#[derive(Clone, Copy)]
struct Line<'a> {
    columns: &'a Columns,
    record: &'a Record,
}

impl<'a> Line<'a> {
    fn text(self, column: &str) -> &'a str {
        self.columns.text(self.record, column)
    }

    fn value<T: DeserializeOwned>(self, column: &str) -> Result<Option<T>, String> {
        let value = self.columns.value(self.record, column)?;
        let own = value.map(serde_json::from_value).transpose();
        own.map_err(|error| format!("{column}: {error}"))
    }

    /// The whole number of `column`, from 1 to `most`, if there is any.
    fn whole(self, column: &str, most: u64) -> Result<Option<u64>, String> {
        let own = self.value::<u64>(column)?;
        match own.filter(|size| !(1..=most).contains(size)) {
            Some(size) => Err(format!("{column} is {size}: it must be from 1 to {most}")),
            None => Ok(own),
        }
    }

    /// The keys of a table of the question, as that table.
    fn part<T: DeserializeOwned>(self, part: Part) -> Result<T, String> {
        let mut all = self.columns.part(self.record, part)?;
        as_keys_say(&mut all);
        serde_json::from_value(Value::Object(all)).map_err(|error| error.to_string())
    }
}

/// Words of published tables as the keys of a question have them.
fn as_keys_say(all: &mut Map<String, Value>) {
    let mut word = |key: &str, of: fn(&str) -> &str| {
        if let Some(Value::String(text)) = all.get_mut(key) {
            *text = of(&text.to_lowercase()).to_owned();
        }
    };
    word("dispatcher", |text| text);
    word("recompute", |text| text.split('(').next().unwrap_or_default().trim());
    word("cuda-graphs", |text| match text {
        "off" | "none" | "n/a" => "none",
        text if text.starts_with("full") => "full",
        _ => "partial",
    });
}

impl Reader<'_> {
    /// The run of the line `at` of a table, if it can be one.
    pub(super) fn read(&self, columns: &Columns, record: &Record, at: usize) -> Result<Run, Fault> {
        let line = Line { columns, record };
        let setup = line.part::<SetupDocument>(Part::Setup)?;
        let groups = [setup.pipeline, setup.context].map(|size| size.unwrap_or(1));
        let together =
            groups.iter().try_fold(setup.tensor.unwrap_or(1), |all, one| all.checked_mul(*one));
        let devices = line.whole("devices", MAX_DEVICES)?;
        let devices = match (devices, setup.data, together) {
            (Some(devices), ..) => devices,
            (None, Some(data), Some(together)) => data.saturating_mul(together),
            _ => return Err("neither devices nor data is given".to_owned().into()),
        };
        if !(1..=MAX_DEVICES).contains(&devices) {
            return Err(format!("{devices} devices: from 1 to {MAX_DEVICES}").into());
        }
        let document = document(line, setup)?;
        let reader = questions::Reader {
            context: self.context,
            folder: self.folder,
            network_folder: self.folder,
            file: None,
            document: &document,
            memory_error: MemoryError::default(),
        };
        let model = self.model(line, &reader)?;
        let clusters = [cluster(self.machine, devices)];
        let recipe = reader.recipe(framework(line), &clusters)?;
        let asked = reader.setup(&model, &recipe, Framework::Any, &clusters)?;
        let asked = asked.ok_or_else(|| "it has no set-up".to_owned())?;
        let setup = asked.on(&clusters[0]);
        let seconds = seconds(line, devices, &recipe, &model)?;
        let peak = self.machine.peak_of(recipe.precision).unwrap_or(self.machine.peak);
        let tokens = number(recipe.batch) * number(model.sequence);
        let least = model.model_flops() * tokens / (peak * number(devices));
        if seconds < least {
            let name = &self.machine.name;
            return Err(Fault::Cells(
                format!(
                    "a step of {seconds:.3e} s is above the peak of {devices} {name}: it takes \
                     {least:.3e} s at 100 % of that"
                ),
                Some(
                    "check the time, the batch and the sequence, or name another --machine".into(),
                ),
            ));
        }
        Ok(Run {
            line: at,
            name: words(line, &setup),
            seconds,
            configuration: format!("{} {document:?} {devices}", line.text("mtp")),
            model,
            setup,
            recipe,
            layout: asked.layout,
        })
    }

    /// The model of a line: a file, or a name that is known.
    fn model(&self, line: Line<'_>, reader: &questions::Reader<'_>) -> Result<Transformer, Fault> {
        let name = line.text("model");
        if name.ends_with(".json") || name.contains('/') {
            return Ok(reader.model()?.transformer);
        }
        let mtp = line.value("mtp")?.unwrap_or(true);
        match (self.models)(name, reader.document.sequence, mtp) {
            Some(model) => Ok(model?),
            None => {
                let message = format!("there is no model `{}`", quote::clip(name));
                let cure = "name the config.json of one, relative to the table";
                Err(Fault::Cells(message, Some(cure.to_owned())))
            }
        }
    }
}

/// The framework of a line, whose name may have a version behind it.
fn framework(line: Line<'_>) -> Framework {
    let is_torchtitan = line.text("framework").to_lowercase().starts_with("torchtitan");
    if is_torchtitan { Framework::Torchtitan } else { Framework::Any }
}

/// The question that a line is.
fn document(line: Line<'_>, setup: SetupDocument) -> Result<Document, String> {
    let attention = line.text("attention");
    Ok(Document {
        sequence: line.whole("sequence", 1 << 24)?,
        attention: (!attention.is_empty()).then(|| attention.to_owned()),
        batch: line.whole("batch", MAX_BATCH)?.ok_or("batch is empty")?,
        setup: Some(setup),
        training: line.part(Part::Training)?,
        ..Document::of_model(ModelDocument::File(PathBuf::from(line.text("model"))))
    })
}

/// The step time in seconds: as given, or from the tokens per second.
fn seconds(
    line: Line<'_>,
    devices: u64,
    recipe: &Recipe,
    model: &Transformer,
) -> Result<f64, String> {
    if let Some(seconds) = line.value("step-seconds")? {
        return Ok(seconds);
    }
    let rate: Option<f64> = line.value("tokens-per-s-per-gpu")?;
    let rate = rate.ok_or("neither step-seconds nor tokens-per-s-per-gpu is given")?;
    Ok(number(recipe.batch) * number(model.sequence) / (rate * number(devices)))
}

fn words(line: Line<'_>, setup: &Setup) -> String {
    let Setup { data, tensor, pipeline, context, expert, chunks, .. } = *setup;
    let groups = [("t", tensor), ("c", context), ("e", expert), ("p", pipeline), ("v", chunks)];
    let degrees = groups.iter().filter(|(_, size)| *size > 1);
    let degrees: String = degrees.map(|(name, size)| format!(" {name}{size}")).collect();
    let model = Path::new(line.text("model"));
    // A config.json is known by its folder.
    let named = match model.file_name() {
        Some(file) if file == "config.json" => model.parent().and_then(Path::file_name),
        _ if model.extension().is_some_and(|ending| ending == "json") => model.file_stem(),
        _ => model.file_name(),
    };
    let named = named.map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into());
    let precision = line.text("precision");
    let precision = if precision.is_empty() { String::new() } else { format!(" {precision}") };
    format!("{} on {}, d{data}{degrees}{precision}", quote::clip(&named), setup.devices())
}
