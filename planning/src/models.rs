//! Models by the names that recipes call them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::SizesDocument;

/// Sizes of models: facts of their own `config.json`.
const TABLE: &str = include_str!("models.toml");

/// How models are named, for those who named none of them.
pub const NAMES: &str =
    "as its authors call it, such as llama3.1-70b, qwen3-235b-a22b or deepseek-v3";

/// Words behind a name that say how a model was trained, not its sizes.
const ENDINGS: [&str; 10] =
    ["instruct", "base", "chat", "hf", "pt", "it", "v01", "v03", "thinking2507", "2507"];

#[derive(Deserialize)]
struct Table {
    model: Vec<Entry>,
    /// Sizes of vocabularies by the beginnings of names of tokenizers.
    tokenizer: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct Entry {
    names: Vec<String>,
    /// The parameters that its authors publish, in 10^9.
    #[cfg(test)]
    billions: Option<f64>,
    sizes: SizesDocument,
}

/// The table, which a test reads whole.
static MODELS: LazyLock<Option<Table>> = LazyLock::new(|| toml::from_str(TABLE).ok());

fn table() -> impl Iterator<Item = &'static Entry> {
    MODELS.iter().flat_map(|table| &table.model)
}

/// The size of the vocabulary of the tokenizer called `name`.
#[must_use]
pub fn of_tokenizer(name: &str) -> Option<u64> {
    let mut all = MODELS.iter().flat_map(|table| &table.tokenizer);
    all.find(|(own, _)| name.starts_with(*own)).map(|(_, size)| *size)
}

/// The small letters and digits of `name`, without the organisation in front.
fn plain(name: &str) -> String {
    let name = name.rsplit('/').next().unwrap_or(name).to_lowercase();
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let name = name.strip_prefix("meta").unwrap_or(&name);
    name.to_owned()
}

/// The sizes of the model called `name`, such as `meta-llama/Llama-3.1-8B`.
#[must_use]
pub fn named(name: &str) -> Option<SizesDocument> {
    let mut name = plain(name);
    loop {
        let is_it = |entry: &&Entry| entry.names.iter().any(|own| plain(own) == name);
        if let Some(entry) = table().find(is_it) {
            return Some(entry.sizes.clone());
        }
        let ending = ENDINGS.iter().find(|ending| name.ends_with(*ending))?;
        name.truncate(name.len() - ending.len());
    }
}

/// The first name of each model.
#[must_use]
pub fn names() -> Vec<String> {
    table().filter_map(|entry| entry.names.first().cloned()).collect()
}

/// The sizes of the model whose name `text` begins with, the longest of them, as in `llama31_405b_pretrain_config`.
#[must_use]
pub fn begins(text: &str) -> Option<SizesDocument> {
    let text = plain(text);
    if ["debug", "tiny", "test"].iter().any(|word| text.contains(word)) {
        return None;
    }
    let length = |entry: &Entry| -> Option<usize> {
        let fitting = entry.names.iter().map(|own| plain(own)).filter(|own| text.starts_with(own));
        fitting.map(|own| own.len()).max()
    };
    let found = table().filter_map(|entry| Some((length(entry)?, entry)));
    found.max_by_key(|(length, _)| *length).map(|(_, entry)| entry.sizes.clone())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use question::Context;

    use super::*;
    use crate::document::{Document, ModelDocument};
    use crate::memory_error::MemoryError;

    const QUESTION: &str = "tokens = 1e12\nbatch = 1024\nsequence = 2048\nmodel = \"x\"\n\
                            cluster = [{ machine = \"h100\", devices = [512] }]\n";

    #[test]
    fn every_model_has_the_parameters_that_are_published() {
        let table = toml::from_str::<Table>(TABLE).unwrap().model;
        assert!(table.len() > 50);
        let files = BTreeMap::new();
        let mut wrong = Vec::new();
        for entry in table {
            let mut document: Document = toml::from_str(QUESTION).unwrap();
            document.model = ModelDocument::Sizes(entry.sizes.clone());
            let error = MemoryError::default();
            let question = crate::check(&Context::new(&files), Path::new(""), &document, error);
            match (question, entry.billions) {
                (Err(why), _) => wrong.push(format!("{:?}: {why:?}", entry.names)),
                (Ok(question), Some(billions)) => {
                    #[allow(clippy::cast_precision_loss)]
                    let own = question.model.parameters() as f64 / 1e9;
                    // Published numbers have three digits.
                    if (own / billions - 1.0).abs() > 0.008 {
                        wrong.push(format!("{:?}: {own} beside {billions}", entry.names));
                    }
                }
                (Ok(_), None) => {}
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn names_are_known_as_recipes_write_them() {
        for (name, layers) in [
            ("meta-llama/Meta-Llama-3.1-405B-Instruct", 126),
            ("Qwen/Qwen3-30B-A3B-Base", 48),
            ("deepseek-ai/DeepSeek-V2-Lite", 27),
            ("mistralai/Mixtral-8x22B-v0.1", 56),
            ("llama4_17Bx16E", 48),
        ] {
            assert_eq!(named(name).map(|sizes| sizes.layers), Some(layers), "{name}");
        }
        assert_eq!(named("llama9-8b"), None);
        let of = |text| begins(text).map(|sizes| sizes.hidden);
        assert_eq!(of("llama31_405b_pretrain_1024gpu_h100_bf16_config"), Some(16384));
        assert_eq!(of("qwen3_next_80b_a3b_pretrain_config"), Some(2048));
        assert_eq!(of("wan_14b"), None);
    }
}
