//! A line of a table of measured iterations as a run of the planner.

use std::path::Path;

use pipeline::{Choice, Family, LayerLayout, Semantics};
use plan::{
    Attention, Boundary, Cluster, Inputs, Loss, Machine, Precision, Recipe, Recompute, Reshard,
    Room, Setup, Software, Split, Transformer, Zero, number,
};

use super::columns::{Columns, Record};
use super::{Models, has_products};
use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::plan::{MAX_DEVICES, RESERVED, config};
use crate::{echo, nearest};

/// The largest batch.
const MAX_BATCH: u64 = 1 << 30;
/// The share of the launches that CUDA graphs of parts of a layer replace.
const PARTIAL_GRAPHS: f64 = 0.5;

/// An iteration that was measured.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its line in the table, from 1.
    pub line: u64,
    /// What it is, in a few words.
    pub name: String,
    /// The model.
    pub model: Transformer,
    /// The set-up.
    pub setup: Setup,
    /// How it was trained.
    pub recipe: Recipe,
    /// The layers of each chunk, if they are told.
    pub layout: Option<LayerLayout>,
    /// How long a step took, in seconds.
    pub seconds: f64,
    /// What repeats of it have in common.
    pub configuration: String,
}

impl Run {
    /// The devices that it ran on, of the kind `machine`.
    #[must_use]
    pub fn cluster(&self, machine: &Machine) -> Cluster {
        // A profile is of another question's model, and whether a run fits is not asked: it ran.
        let memory = pipeline::Bytes(1 << 60);
        let machine = Machine { memory, measured: None, ..machine.clone() };
        Cluster { parts: vec![(machine, self.setup.devices())] }
    }

    /// It on `cluster`, as the planner is asked.
    #[must_use]
    pub fn on<'a>(&'a self, cluster: &'a Cluster) -> Inputs<'a> {
        let layout = self.layout.as_ref();
        Inputs { layout, ..Inputs::new(&self.model, &self.recipe, cluster) }
    }
}

/// What is wrong with a line.
pub(super) enum Fault {
    /// One of its cells, in words.
    Cell(String),
    /// A file that it names.
    File(Diagnostic),
}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        Self::Cell(message)
    }
}

/// What lines are read with.
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

    /// The whole number of `column`, from 1 to `most`, if there is any.
    fn whole(self, column: &str, most: u64) -> Result<Option<u64>, String> {
        let text = self.text(column);
        if text.is_empty() {
            return Ok(None);
        }
        let size = text.parse().ok().filter(|size| (1..=most).contains(size));
        let wrong =
            || format!("{column} is `{}`: a whole number from 1 to {most}", echo::clip(text));
        size.ok_or_else(wrong).map(Some)
    }

    fn group(self, column: &str) -> Result<u64, String> {
        Ok(self.whole(column, MAX_DEVICES)?.unwrap_or(1))
    }

    /// Whether `column` says that something is on.
    fn is_on(self, column: &str) -> Result<bool, String> {
        match self.text(column) {
            "on" | "yes" | "true" => Ok(true),
            "" | "off" | "no" | "false" | "n/a" => Ok(false),
            other => Err(format!("{column} is `{}`: on, off, or empty", echo::clip(other))),
        }
    }

    /// The number of `column`, more than nothing, if there is any.
    fn amount(self, column: &str) -> Result<Option<f64>, String> {
        let text = self.text(column);
        if text.is_empty() {
            return Ok(None);
        }
        let amount = text.parse().ok().filter(|amount| (1e-9..=1e12).contains(amount));
        let wrong = || format!("{column} is `{}`: a number more than 0", echo::clip(text));
        amount.ok_or_else(wrong).map(Some)
    }
}

impl Reader<'_> {
    /// The run of a line, if it can be one.
    pub(super) fn read(&self, columns: &Columns, record: &Record) -> Result<Run, Fault> {
        let line = Line { columns, record };
        let sequence = line.whole("sequence", 1 << 24)?;
        let model = self.model(line, sequence)?;
        let setup = setup(line)?;
        let recipe = recipe(line)?;
        let layout = layout(line)?;
        let seconds = seconds(line, &setup, &recipe, &model)?;
        let run = Run {
            line: record.position().map_or(0, csv::Position::line),
            name: words(line, &setup),
            configuration: configuration(line, &setup, &recipe, model.sequence),
            setup: Setup {
                split: if layout.is_some() { Split::Layout } else { setup.split },
                ..setup
            },
            model,
            recipe,
            layout,
            seconds,
        };
        has_products(self.machine, &run)?;
        let cluster = run.cluster(self.machine);
        match run.on(&cluster).cost(&run.setup) {
            Ok(_) => Ok(run),
            Err(error) => Err(Fault::Cell(format!("it is no set-up of the model: {error}"))),
        }
    }

    fn model(&self, line: Line<'_>, sequence: Option<u64>) -> Result<Transformer, Fault> {
        let attention = match line.text("attention") {
            "" | "flash" => Attention::Flash,
            "core" => Attention::Core,
            other => {
                return Err(format!("attention is `{}`: flash or core", echo::clip(other)).into());
            }
        };
        let name = line.text("model");
        let is_file = name.ends_with(".json") || name.contains('/');
        if is_file {
            let path = self.folder.join(name);
            let read = config::read(self.context, &path, sequence, attention);
            return read.map(|model| model.transformer).map_err(Fault::File);
        }
        match (self.models)(name, sequence) {
            Some(model) => Ok(model?),
            None => {
                let message = format!(
                    "there is no model `{}`: name the config.json of one, relative to the table",
                    echo::clip(name)
                );
                Err(message.into())
            }
        }
    }
}

fn setup(line: Line<'_>) -> Result<Setup, String> {
    let [tensor, pipeline, context] =
        [line.group("tensor")?, line.group("pipeline")?, line.group("context")?];
    let together = [pipeline, context].iter().try_fold(tensor, |all, one| all.checked_mul(*one));
    let together = together.filter(|together| *together <= MAX_DEVICES);
    let together = together.ok_or("tensor, pipeline and context are too large together")?;
    let data = line.whole("data", MAX_DEVICES)?;
    let data = match (line.whole("devices", MAX_DEVICES)?, data) {
        (Some(devices), told) => {
            let fits = devices.is_multiple_of(together)
                && told.is_none_or(|data| data == devices / together);
            let data = fits.then_some(devices / together);
            data.ok_or_else(|| {
                let groups = format!("tensor {tensor} x pipeline {pipeline} x context {context}");
                let data = told.map_or(String::new(), |data| format!(" x data {data}"));
                format!("{groups}{data} does not make {devices} devices")
            })?
        }
        (None, Some(data)) => data,
        (None, None) => return Err("neither devices nor data is told".to_owned()),
    };
    let chunks = line.group("chunks")?;
    Ok(Setup {
        data,
        tensor,
        pipeline,
        context,
        expert: line.group("expert")?,
        expert_tensor: line.whole("expert_tensor", MAX_DEVICES)?.unwrap_or(tensor),
        zero: zero(line)?,
        reshard: Reshard::AfterForward,
        shard_groups: 1,
        microbatch: line.whole("microbatch", MAX_BATCH)?.unwrap_or(1),
        chunks,
        family: family(line, chunks)?,
        recompute: recompute(line)?,
        split: Split::Even,
        vocabulary_parallel: false,
    })
}

fn zero(line: Line<'_>) -> Result<Zero, String> {
    let text = line.text("zero");
    if text.is_empty() {
        return Ok(Zero::Optimizer);
    }
    let stage = text.parse().ok().and_then(Zero::numbered);
    stage.ok_or_else(|| format!("zero is `{}`: stages are 0 to 3", echo::clip(text)))
}

fn family(line: Line<'_>, chunks: u64) -> Result<Family, String> {
    let name = line.text("schedule");
    if name.is_empty() {
        return Ok(if chunks > 1 { Family::Interleaved } else { Family::OneFOneB });
    }
    let known = Family::named(name).filter(|family| {
        let about = family.about();
        let segments = matches!(about.choice, Choice::Segments { .. });
        !segments && about.semantics != Semantics::Asynchronous
    });
    known.ok_or_else(|| {
        let near = nearest::question(name, Family::ALL.into_iter().map(Family::name));
        format!("there is no schedule `{}` to plan with{near}", echo::clip(name))
    })
}

fn recompute(line: Line<'_>) -> Result<Recompute, String> {
    let name = line.text("recompute");
    if name.is_empty() {
        return Ok(Recompute::None);
    }
    Recompute::named(name).ok_or_else(|| {
        let name = echo::clip(name);
        format!("recompute is `{name}`: none, selective, full, or names of modules")
    })
}

fn layout(line: Line<'_>) -> Result<Option<LayerLayout>, String> {
    let text = line.text("layout");
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|error| format!("layout: {error}"))
}

fn recipe(line: Line<'_>) -> Result<Recipe, String> {
    let batch = line.whole("batch", MAX_BATCH)?.ok_or("batch is empty")?;
    Ok(Recipe {
        batch,
        gradient_bytes: line.whole("gradient_bytes", 64)?.unwrap_or(4),
        optimizer_bytes: 12,
        weight_bytes: 2,
        logit_bytes: 6,
        sequence_parallel: true,
        scatter_gather: true,
        overlap_gradients: true,
        overlap_parameters: true,
        loss: Loss::Fused,
        boundary: Boundary::Barrier,
        reserved: RESERVED,
        room: Room::default(),
        precision: precision(line)?,
        head: Precision::Bf16,
        software: software(line)?,
        imbalance: 1.0,
        attended: 1.0,
    })
}

fn precision(line: Line<'_>) -> Result<Precision, String> {
    let name = line.text("precision");
    if name.is_empty() {
        return Ok(Precision::Bf16);
    }
    Precision::named(name).ok_or_else(|| {
        let names = Precision::ALL.map(Precision::name).join(", ");
        format!("precision is `{}`: one of {names}", echo::clip(name))
    })
}

fn software(line: Line<'_>) -> Result<Software, String> {
    let dispatcher = line.text("dispatcher").to_lowercase();
    let sends_once = match dispatcher.as_str() {
        "" | "alltoall" | "plain" => false,
        "deepep" | "hybridep" => true,
        other => {
            let other = echo::clip(other);
            return Err(format!("dispatcher is `{other}`: alltoall, deepep, hybridep, or empty"));
        }
    };
    let graphs = match line.text("cuda_graphs") {
        "" | "off" | "none" | "n/a" => 0.0,
        text if text.starts_with("full") => 1.0,
        _ => PARTIAL_GRAPHS,
    };
    let is_compiled = line.text("compile").is_empty() || line.is_on("compile")?;
    Ok(Software {
        graphs,
        overlap_experts: line.is_on("expert_overlap")?,
        overlap_tensor: line.is_on("tensor_overlap")?,
        sends_once,
        overlap_transfers: true,
        fused_experts: true,
        eager: !is_compiled,
        ..Software::default()
    })
}

/// The step, as it is told or from the tokens of a second.
fn seconds(
    line: Line<'_>,
    setup: &Setup,
    recipe: &Recipe,
    model: &Transformer,
) -> Result<f64, String> {
    if let Some(seconds) = line.amount("step_seconds")? {
        return Ok(seconds);
    }
    let rate = line.amount("tokens_per_s_per_gpu")?;
    let rate = rate.ok_or("neither step_seconds nor tokens_per_s_per_gpu is told")?;
    let tokens = number(recipe.batch) * number(model.sequence);
    Ok(tokens / (rate * number(setup.devices())))
}

fn words(line: Line<'_>, setup: &Setup) -> String {
    let Setup { data, tensor, pipeline, context, expert, chunks, .. } = *setup;
    let groups =
        [("tp", tensor), ("pp", pipeline), ("vp", chunks), ("cp", context), ("ep", expert)];
    let told = groups.iter().filter(|(_, size)| *size > 1);
    let told: String = told.map(|(name, size)| format!(" {name}{size}")).collect();
    let model = Path::new(line.text("model"));
    // A config.json is known by its folder.
    let named = match model.file_name() {
        Some(file) if file == "config.json" => model.parent().unwrap_or(model),
        _ => model,
    };
    let named = named.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
    format!("{} on {}{told} dp{data}", echo::clip(&named), setup.devices())
}

fn configuration(line: Line<'_>, setup: &Setup, recipe: &Recipe, sequence: u64) -> String {
    format!("{} {sequence} {setup:?} {recipe:?} {}", line.text("model"), line.text("layout"))
}
