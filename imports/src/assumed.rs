//! What a step of reinforcement learning assumes where the file of its run does not say it.

use fsdp::Lengths;
use question::rl::RlKeys;
use question::values::packing::LengthsKey;

use super::Given;
use super::arguments::Wrong;
use super::assemble::MACHINE;
use super::shell::{END, UNKNOWN};
use super::verl::{MEDIAN, MEDIANS, SIGMA};

/// Prompts of an update, of which argument `name` counts `all` responses, `each` of a prompt.
pub(super) fn prompts_of(name: &str, all: u64, each: u64) -> Result<u64, Wrong> {
    let each = each.max(1);
    if !all.is_multiple_of(each) {
        let message = format!("{all} are not whole prompts of {each} responses");
        return Err(Wrong::new(name, message));
    }
    Ok(all / each)
}

/// What is given besides the file, and the notes on what is assumed.
pub(super) struct Assumed<'a> {
    pub(super) given: &'a Given,
    /// Sentences, with the key that is assumed.
    pub(super) notes: &'a mut Vec<(Option<&'static str>, String)>,
    /// The kind of the file in words.
    pub(super) file: &'static str,
}

impl Assumed<'_> {
    pub(super) fn note(&mut self, key: &'static str, text: String) {
        self.notes.push((Some(key), text));
    }

    /// The model by the last part of its `path`, which is its name.
    pub(super) fn model(&mut self, path: Option<&str>) -> Option<String> {
        if let Some(name) = &self.given.model {
            return Some(name.clone());
        }
        let path = path.unwrap_or_default().trim_matches(['\'', '"', '/']);
        let name = path.rsplit('/').next().unwrap_or_default();
        if name.is_empty() || name.contains([UNKNOWN, END, '$']) {
            let text = format!("the {} does not say the model: name it with --model", self.file);
            self.note("model", text);
            return None;
        }
        Some(name.to_owned())
    }

    pub(super) fn machine(&mut self) -> String {
        let given = self.given.machine.clone();
        given.unwrap_or_else(|| {
            let text =
                format!("the {} names no machine: {MACHINE} is assumed (--machine)", self.file);
            self.note("machine", text);
            MACHINE.to_owned()
        })
    }

    /// The law of the lengths of `what`, `prompt` or `response`, of which only the longest is known, if that is.
    pub(super) fn lengths(&mut self, what: &str, most: Option<u64>) -> Result<LengthsKey, String> {
        let at = usize::from(what == "response");
        let key = ["prompt-lengths", "response-lengths"][at];
        let file = self.file;
        let Some(most) = most else {
            let base = RlKeys::default();
            let law = if at == 0 { base.prompt_lengths } else { base.response_lengths };
            let text =
                format!("the {file} does not say the longest {what}: {law} is assumed (--{key})");
            self.note(key, text);
            return Ok(law);
        };
        let most = u32::try_from(most).map_err(|_| format!("{most} tokens are too many"))?;
        let median = (most / MEDIAN).clamp(1, MEDIANS[at]);
        let law = Lengths::log_normal(median, SIGMA[at], most.max(1));
        let law = law.map_err(|fault| fault.to_string())?;
        let text = format!(
            "the {file} has only the longest {what}, {most} tokens: a median of {median} is assumed (--{key} file:FILE \
             takes those of a run)"
        );
        self.note(key, text);
        Ok(LengthsKey::Known(law, format!("lognormal:{median}:{}:{most}", SIGMA[at])))
    }
}
