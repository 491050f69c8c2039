//! The kinds of questions: a row for each, from which schemas, help in two sizes, forms of the page, spelling of keys
//! and the recognition of files follow.

use scenarios::Folder;

use crate::encoder::EncoderKeys;
use crate::failures::FailureKeys;
use crate::fsdp::FsdpKeys;
use crate::keys::Keys;
use crate::keys::table::Row;
use crate::replay::ReplayKeys;
use crate::rl::RlKeys;
use crate::search::SearchKeys;
use crate::{Diagnostic, nearest, quote};

/// A kind of question.
pub struct QuestionKind {
    /// Its name: that of its schema, and of the command that answers it, if there is one.
    pub name: &'static str,
    /// What it asks, in a line.
    pub help: &'static str,
    /// Its schema as JSON, which ends with a line: `make reference` writes it.
    pub schema: &'static str,
    /// Its files, if it has any.
    pub file: Option<QuestionFile>,
    /// The keys that are flags.
    pub flags: &'static [&'static str],
    /// The rows of a question that is one table, whose headings group the fields of its form.
    pub rows: &'static [Row],
    /// The flags that `--help` shows of its command, where that has more than a screen or two, between blanks.
    pub few: &'static str,
    /// Questions to begin with.
    pub examples: Option<Folder>,
}

/// How files of a kind of question are known, and answered.
pub struct QuestionFile {
    /// Their kind in words.
    pub words: &'static str,
    /// The command that answers the file `FILE`, between backticks.
    pub command: &'static str,
    /// Keys that no other file has.
    pub telling: &'static [&'static str],
    /// Keys that tell its files from those of kinds above it, where no key of [`Self::telling`] does.
    pub usual: &'static [&'static str],
}

const NONE: QuestionKind = QuestionKind {
    name: "",
    help: "",
    schema: "",
    file: None,
    flags: &[],
    rows: &[],
    few: "",
    examples: None,
};

macro_rules! schema {
    ($name:literal) => {
        include_str!(concat!("../schemas/", $name, ".json"))
    };
}

/// All kinds of questions.
pub static QUESTIONS: [QuestionKind; 10] = [
    QuestionKind {
        name: "scenario",
        help: "A scenario, for simulate, sweep, search and export",
        schema: schema!("scenario"),
        file: Some(QuestionFile {
            words: "a scenario, for `debubble simulate`",
            command: "`debubble simulate FILE`",
            telling: &[],
            usual: &[
                "schedule",
                "stages",
                "microbatches",
                "forward",
                "backward-input",
                "backward",
                "setting",
            ],
        }),
        flags: Keys::NAMES,
        examples: Some(scenarios::EXAMPLES),
        ..NONE
    },
    QuestionKind {
        name: "sweep",
        help: "A scenario with axes, for sweep",
        schema: schema!("sweep"),
        file: Some(QuestionFile {
            words: "a scenario with axes, for `debubble sweep`",
            command: "`debubble sweep FILE --out rows.csv`",
            telling: &["sweep"],
            usual: &[],
        }),
        few: "out svg plot plot_over shard",
        ..NONE
    },
    QuestionKind {
        name: "plan",
        help: "A question for the planner",
        schema: schema!("plan"),
        file: Some(QuestionFile {
            words: "a question for `debubble plan`",
            command: "`debubble plan FILE`",
            telling: &["tokens", "batch", "deadline-days"],
            // The planner has a machine in each cluster.
            usual: &["model"],
        }),
        examples: Some(scenarios::PLANS),
        ..NONE
    },
    QuestionKind {
        name: "fsdp",
        help: "A study of packing and communication",
        schema: schema!("fsdp"),
        file: Some(QuestionFile {
            words: "a question for `debubble fsdp`",
            command: "`debubble fsdp FILE`",
            telling: &[
                "minibatch-size",
                "minibatches",
                "no-overlap",
                "owners",
                "packing-ratio",
                "pull-bandwidth",
            ],
            usual: &[],
        }),
        flags: FsdpKeys::NAMES,
        rows: FsdpKeys::ROWS,
        few: "devices minibatch_size packing_ratio max_tokens lengths cost method \
              communication model machine parameters bandwidth latency execute json csv svg",
        examples: Some(scenarios::FSDP),
    },
    QuestionKind {
        name: "rl",
        help: "A step of reinforcement learning",
        schema: schema!("rl"),
        file: Some(QuestionFile {
            words: "a question for `debubble rl`",
            command: "`debubble rl FILE`",
            telling: &[
                "critic",
                "mini-batch",
                "prompts",
                "prompt-lengths",
                "reference",
                "responses",
                "response-lengths",
                "rollout-budget",
                "rollout-devices",
            ],
            usual: &["machine"],
        }),
        flags: RlKeys::NAMES,
        rows: RlKeys::ROWS,
        few: "model machine devices prompts responses prompt_lengths response_lengths tensor \
              placement rollout_budget mini_batch max_tokens method communication \
              sequence_parallel json csv svg",
        examples: Some(scenarios::RL),
    },
    QuestionKind {
        name: "encoder",
        help: "An encoder in front of a language model",
        schema: schema!("encoder"),
        file: Some(QuestionFile {
            words: "a question for `debubble encoder`",
            command: "`debubble encoder FILE`",
            telling: &[
                "encoder-forward",
                "encoder-hidden",
                "encoder-layers",
                "encoder-tokens",
                "images",
                "own-stages",
            ],
            usual: &[],
        }),
        flags: EncoderKeys::NAMES,
        rows: EncoderKeys::ROWS,
        few: "schedule stages microbatches forward backward hop encoder_forward \
              encoder_backward frozen_encoder encoder_layers encoder_work placement \
              memory_limit model machine encoder_hidden json csv svg",
        examples: Some(scenarios::ENCODERS),
    },
    QuestionKind {
        name: "search",
        help: "The keys of a search, besides those of its scenario",
        schema: schema!("search"),
        flags: SearchKeys::NAMES,
        few: "memory_limits objective effort time_limit vary export certificate json svg",
        examples: Some(scenarios::EXAMPLES),
        ..NONE
    },
    QuestionKind {
        name: "failures",
        help: "The keys of dead workers, besides those of their schedules",
        schema: schema!("failures"),
        file: Some(QuestionFile {
            words: "a question for `debubble failures`, next to a scenario",
            command: "`debubble failures SCENARIO.toml --failures FILE`",
            telling: &["data-parallel", "dead", "most-dead", "mtbf"],
            usual: &[],
        }),
        flags: FailureKeys::NAMES,
        rows: FailureKeys::ROWS,
        few: "data_parallel dead peer_hop update staggered mtbf repair json",
        examples: Some(scenarios::FAILURES),
    },
    QuestionKind {
        name: "replay",
        help: "The changes of a run that are tried on its trace",
        schema: schema!("replay"),
        flags: ReplayKeys::NAMES,
        ..NONE
    },
    QuestionKind {
        name: "reproduce",
        help: "A question for published tables",
        schema: schema!("reproduce"),
        ..NONE
    },
];

/// The kind of question called `name`.
pub fn named(name: &str) -> Result<&'static QuestionKind, Diagnostic> {
    let names = || QUESTIONS.iter().map(|one| one.name);
    QUESTIONS.iter().find(|one| one.name == name).ok_or_else(|| {
        let near = nearest::question(name, names());
        let message = format!("there is no question `{}`{near}", quote::clip(name));
        let all = names().collect::<Vec<_>>().join(", ");
        Diagnostic::new(message).with_help(format!("the questions are {all}"))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::*;

    /// The labels of `properties` by key; a key of a scenario is defined elsewhere in `schema`.
    fn labels<'a>(schema: &'a Value, properties: &'a Value) -> BTreeMap<&'a str, &'a str> {
        let label = |(name, key): (&'a String, &'a Value)| {
            let reference = key["$ref"].as_str().and_then(|path| path.strip_prefix('#'));
            let key = reference.map_or(key, |path| schema.pointer(path).unwrap());
            (name.as_str(), key["title"].as_str().unwrap_or_default())
        };
        properties.as_object().unwrap().iter().map(label).collect()
    }

    #[test]
    fn every_key_that_forms_show_has_a_label_of_its_own() {
        let mut seen = 0;
        for one in QUESTIONS.iter().filter(|one| one.examples.is_some()) {
            let schema: Value = serde_json::from_str(one.schema).unwrap();
            let mut tables = vec![labels(&schema, &schema["properties"])];
            let definitions = schema["definitions"].as_object().unwrap().values();
            let of_tables = definitions.filter(|one| one["properties"].is_object());
            tables.extend(of_tables.map(|one| labels(&schema, &one["properties"])));
            for mut table in tables {
                // A scenario has these around its keys: they are not fields.
                for apart in ["convention", "setting", "source", "sweep", "title"] {
                    table.remove(apart);
                }
                let mut labels: Vec<&str> = table.values().copied().collect();
                seen += labels.len();
                labels.sort_unstable();
                assert!(!labels.contains(&""), "without a label: {table:?}");
                assert!(labels.windows(2).all(|pair| pair[0] != pair[1]), "{labels:?}");
                for (key, label) in table {
                    let begins = label.starts_with(|c: char| c.is_ascii_uppercase());
                    assert!(begins && label.len() <= 42, "{key}: {label}");
                }
            }
        }
        assert!(seen > 200, "{seen}");
    }
}
