//! Recognises a file that was given in place of another, and the command it is for.

use std::path::Path;

use pipeline::torch_csv;
use serde::Serialize;
use serde_json::Value;

use crate::diagnostic::Diagnostic;
use crate::questions::{QUESTIONS, QuestionFile};
use crate::{python_json, quote};

/// The kind of a file.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum InputKind {
    /// The sizes of a model as Hugging Face writes them.
    ModelConfig,
    /// A profile, written by `debubble calibrate` or `debubble profile`.
    Profile,
    /// A device with rates and prices.
    Machine,
    /// Devices in nodes and their wires.
    Cluster,
    /// A certificate, written by `debubble search --certificate`.
    Certificate,
    /// A timeline, written by `--timeline`.
    Timeline,
    /// Trace events.
    Trace,
    /// An order of passes.
    Schedule,
    /// A launch script, a log or a configuration of a training framework.
    Run,
    /// A question, by its name in [`QUESTIONS`].
    #[serde(untagged)]
    Question(&'static str),
}

/// Keys that tell TOML files apart that ask nothing: the first row with a key of the file has its kind.
const TOML: [(InputKind, &[&str]); 4] = [
    (InputKind::Certificate, &["cost-ns", "bound-ns", "argument"]),
    (InputKind::Profile, &["half-width", "embedding"]),
    (InputKind::Machine, &["device", "efficiency"]),
    (InputKind::Cluster, &["intra", "inter", "devices-per-node"]),
];

impl InputKind {
    /// The kind of `text`, if its keys identify it.
    pub fn of(text: &str) -> Option<Self> {
        let json = python_json::as_json(text);
        if json.trim_start().starts_with(['{', '['])
            && let Some(value) = first_json(&json)
        {
            return Self::of_json(&value);
        }
        if let Ok(table) = toml::from_str::<toml::Table>(text) {
            let has = |keys: &[&str]| keys.iter().any(|key| table.contains_key(*key));
            let telling = files().map(|(kind, file)| (kind, file.telling));
            let usual = files().rev().map(|(kind, file)| (kind, file.usual));
            let mut all = telling.chain(TOML).chain(usual);
            return all.find(|(_, keys)| has(keys)).map(|(kind, _)| kind);
        }
        let is_schedule = torch_csv::read_either(text).is_ok();
        let is_run = || text.contains("num-layers") || text.contains("elapsed time per iteration");
        match is_schedule {
            true => Some(Self::Schedule),
            false => is_run().then_some(Self::Run),
        }
    }

    fn of_json(value: &Value) -> Option<Self> {
        let has = |key: &str| value.get(key).is_some();
        let kinds = [
            (Self::ModelConfig, ["model_type", "hidden_size", "num_hidden_layers", "n_embd"]),
            (Self::Timeline, ["steps", "costs", "placement", "order"]),
            (Self::Trace, ["traceEvents", "resourceSpans", "parent_id", "NvtxEvent"]),
        ];
        // The texts of a report of Nsight Systems.
        let has_texts = value.pointer("/data/0").is_some_and(Value::is_string);
        let known = kinds.into_iter().find(|(_, keys)| keys.iter().any(|key| has(key)));
        let is_trace = value.is_array() || has_texts;
        known.map(|(kind, _)| kind).or(is_trace.then_some(Self::Trace))
    }

    /// Whether a file of this kind is known by its keys.
    #[must_use]
    pub const fn has_keys(self) -> bool {
        !matches!(self, Self::Trace | Self::Schedule | Self::Run)
    }

    /// How files of this kind are answered, if they are questions.
    #[must_use]
    pub fn question(self) -> Option<&'static QuestionFile> {
        files().find(|(kind, _)| *kind == self).map(|(_, file)| file)
    }

    /// The kind, in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Question(_) => self.question().map_or("a question", |file| file.words),
            Self::ModelConfig => "the config.json of a model: it names no tokens and no machines",
            Self::Profile => "a profile, which `debubble calibrate` or `debubble profile` wrote",
            Self::Machine => "a machine, of which plans have clusters",
            Self::Cluster => "a cluster",
            Self::Certificate => "a certificate, for `debubble verify`",
            Self::Timeline => "a timeline, for `debubble compare`",
            Self::Trace => "a trace, for `debubble replay`",
            Self::Schedule => "a schedule",
            Self::Run => "a script, log or configuration of a training run, for `debubble advise`",
        }
    }

    /// The remedy for `file`, which is of this kind.
    fn cure(self, file: &str) -> String {
        match self {
            Self::Question(_) => self.question().map_or_else(String::new, |question| {
                format!("{} answers it", question.command.replace("FILE", file))
            }),
            Self::ModelConfig => format!(
                "`debubble plan {file} --tokens 1e12 --batch 1024 --machine h100 --devices 512` plans its training"
            ),
            Self::Profile => format!(
                "name it in a question: --profile {file}, and of a machine's profile --layers N"
            ),
            Self::Machine => format!("name it in a plan: [[cluster]] with machine = \"{file}\""),
            Self::Cluster => format!("name it in a question: --cluster {file}"),
            Self::Certificate => format!("`debubble verify {file}` checks it"),
            Self::Timeline => {
                format!("`debubble compare {file} OTHER.json` holds it against another one")
            }
            Self::Trace => format!("`debubble replay {file}` predicts its steps"),
            Self::Schedule => format!("name it in a question: --schedule {file}"),
            Self::Run => format!("`debubble advise {file}` says what to change of it"),
        }
    }
}

/// The value that `text` is, or its first line.
fn first_json(text: &str) -> Option<Value> {
    let line = || text.trim_start().lines().next().unwrap_or_default();
    serde_json::from_str(text).or_else(|_| serde_json::from_str(line())).ok()
}

fn files() -> impl DoubleEndedIterator<Item = (InputKind, &'static QuestionFile)> {
    QUESTIONS.iter().filter_map(|kind| Some((InputKind::Question(kind.name), kind.file.as_ref()?)))
}

/// The error of the file at `path` with content `text`, read as one of `wanted`: that it is of another kind, if so,
/// else `error`.
pub fn misplaced(path: &Path, text: &str, wanted: &[InputKind], error: Diagnostic) -> Diagnostic {
    match InputKind::of(text).filter(|kind| !wanted.contains(kind)) {
        Some(kind) => {
            let file = quote::path(path);
            Diagnostic::new(format!("{file} is {}", kind.words())).with_help(kind.cure(&file))
        }
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_of_its_kind() {
        for (folder, kind) in [
            (scenarios::RL, InputKind::Question("rl")),
            (scenarios::FSDP, InputKind::Question("fsdp")),
            (scenarios::ENCODERS, InputKind::Question("encoder")),
            (scenarios::FAILURES, InputKind::Question("failures")),
            (scenarios::PLANS, InputKind::Question("plan")),
            (scenarios::EXAMPLES, InputKind::Question("scenario")),
            (scenarios::MACHINES, InputKind::Machine),
            (scenarios::CLUSTERS, InputKind::Cluster),
        ] {
            for (name, text) in folder.files() {
                assert_eq!(InputKind::of(text), Some(kind), "{name}");
            }
        }
    }

    #[test]
    fn a_config_as_python_writes_it_is_one() {
        let config = "{\"hidden_size\": 4096, \"limit\": [Infinity, NaN]}";
        assert_eq!(InputKind::of(config), Some(InputKind::ModelConfig));
    }

    #[test]
    fn spans_and_reports_are_traces_by_their_first_line() {
        let lines = [
            "{\"resourceSpans\": []}",
            "{\"name\": \"megatron.train\", \"parent_id\": null}",
            "{\"data\": [\"cudaLaunchKernel\"]}",
        ];
        for line in lines {
            assert_eq!(InputKind::of(line), Some(InputKind::Trace), "{line}");
            assert_eq!(InputKind::of(&format!("{line}\n{{}}\n")), Some(InputKind::Trace), "{line}");
        }
        assert_eq!(InputKind::of("{\"data\": [1]}\n{}"), None);
    }

    #[test]
    fn a_profile_has_a_machine_and_is_no_question() {
        let profile = "half-width = 0.01\n[machine]\ncpu = \"x\"\n";
        assert_eq!(InputKind::of(profile), Some(InputKind::Profile));
    }

    #[test]
    fn a_question_with_a_model_is_known_by_keys_of_its_own() {
        let model = "model = \"qwen2.5-7b\"\n";
        for (more, kind) in [
            ("machine = \"h100\"\n", InputKind::Question("rl")),
            ("prompts = 8\n", InputKind::Question("rl")),
            ("minibatch-size = 4\n", InputKind::Question("fsdp")),
            ("encoder-hidden = 1024\n", InputKind::Question("encoder")),
            ("tokens = 1e12\n", InputKind::Question("plan")),
            ("", InputKind::Question("plan")),
        ] {
            assert_eq!(InputKind::of(&format!("{model}{more}")), Some(kind), "{more}");
        }
    }
}
