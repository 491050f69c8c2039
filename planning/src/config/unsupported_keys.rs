//! Refuses configs with keys that are unknown or unsupported: they may change parameters, FLOPs or memory.

use std::collections::BTreeSet;

use question::diagnostic::Diagnostic;
use serde_json::Value;

use super::keys::{self, Neutral};
use super::names::shown;
use super::{Config, families};

/// The most keys of one list that a message names.
const MOST_NAMED: usize = 30;

/// Formats in which the weights of new models were published; weights in any other format were quantized later.
const PUBLISHED_FORMATS: [&str; 2] = ["fp8", "mxfp4"];

/// Keys of one unsupported feature.
struct Refused<'a> {
    reason: &'static str,
    keys: Vec<&'a str>,
}

impl Config<'_> {
    /// The remedy for a model that is not read: the table to type, with what is known of it.
    pub(super) fn cure(&self) -> String {
        let read = match families::is_known(self.model_type) {
            true => format!("configs of {} are read. ", families::families()),
            false => String::new(),
        };
        format!(
            "{read}A table [model] describes layers with attention to all tokens, in windows, of latents, \
             sparse or linear, with Mamba-2, MLPs and experts; the config says {}. If a key changes neither \
             parameters nor FLOPs nor memory, take it out of the file",
            self.typed(),
        )
    }

    /// Checks every key except those in `read`, for samples of `sequence` tokens; `windows` is whether windows
    /// are on where no key switches them on or off.
    pub(super) fn check_keys(
        &self,
        read: &[&str],
        sequence: u64,
        windows: bool,
    ) -> Result<(), Diagnostic> {
        let mut refused: Vec<Refused> = Vec::new();
        let mut unknown: BTreeSet<&str> = BTreeSet::new();
        for (key, value) in self.keys {
            let understood = read.iter().any(|names| keys::has(names, key));
            if value.is_null() || understood || keys::is_harmless(key) {
                continue;
            }
            match keys::feature_of(key) {
                None => {
                    unknown.insert(key);
                }
                Some(feature) if self.is_neutral(feature.neutral, value, sequence, windows) => {}
                Some(feature) => {
                    let is_recurrent =
                        matches!(feature.neutral, Neutral::Layers) && names_no_window(value);
                    let reason = if is_recurrent { keys::RECURRENT } else { feature.reason };
                    match refused.iter_mut().find(|one| one.reason == reason) {
                        Some(one) => one.keys.push(key),
                        None => refused.push(Refused { reason, keys: vec![key] }),
                    }
                }
            }
        }
        let unplanned = families::unplanned(self.model_type);
        if unplanned.is_none() && refused.is_empty() && unknown.is_empty() {
            return Ok(());
        }
        let mut sentences = Vec::new();
        if let Some(reason) = unplanned {
            sentences.push(format!("{} is not planned: {reason}", self.kind()));
        }
        if !refused.is_empty() {
            let all: Vec<String> = refused
                .iter()
                .map(|one| format!("{} ({})", one.reason, named(one.keys.iter().copied())))
                .collect();
            sentences.push(format!("its keys describe what is not planned: {}", all.join(", ")));
        }
        if !unknown.is_empty() {
            let is_strange = unplanned.is_none() && !families::is_known(self.model_type);
            let of = match is_strange {
                true => format!("{} is not known, nor are its keys", self.kind()),
                false => {
                    "keys that are not known, and may change parameters, FLOPs or memory".into()
                }
            };
            sentences.push(format!("{of}: {}", named(unknown.iter().copied())));
        }
        let first = refused.first().map(|one| one.keys[0]).or(unknown.first().copied());
        let message = sentences.join("; ");
        Err(self.file.wrong(first.unwrap_or("model_type"), message).with_help(self.cure()))
    }

    /// Whether the model is the same with `value` as without it.
    fn is_neutral(&self, neutral: Neutral, value: &Value, sequence: u64, windows: bool) -> bool {
        let harmless = || self.windows_are_harmless(sequence, windows);
        match neutral {
            Neutral::Values(all) => all.contains(&value.to_string().as_str()),
            Neutral::Window => {
                !self.is_switched_on(windows) || value.as_u64().is_some_and(|it| it >= sequence)
            }
            Neutral::Layers => value.as_array().is_some_and(|layers| {
                layers.iter().all(|layer| match layer.as_str() {
                    Some("full_attention") => true,
                    Some("sliding_attention") => harmless(),
                    _ => false,
                })
            }),
            Neutral::WindowPattern => harmless(),
            Neutral::Indexers => {
                value.as_array().is_some_and(|layers| layers.iter().all(|layer| layer == "full"))
            }
            Neutral::Published => value["quant_method"]
                .as_str()
                .is_some_and(|method| PUBLISHED_FORMATS.contains(&method)),
        }
    }

    /// Whether attention windows are switched on; `windows` is the default.
    pub(super) fn is_switched_on(&self, windows: bool) -> bool {
        match self.keys.get("use_sliding_window") {
            None | Some(Value::Null) => windows,
            Some(switch) => *switch != Value::Bool(false),
        }
    }

    /// Whether no window is shorter than the sequence.
    fn windows_are_harmless(&self, sequence: u64, windows: bool) -> bool {
        let window = self.keys.get("sliding_window").and_then(Value::as_u64);
        !self.is_switched_on(windows) || window.is_some_and(|window| window >= sequence)
    }
}

/// Whether `value` is a list of layers, of which none attends in windows.
fn names_no_window(value: &Value) -> bool {
    let is_in_windows = |layer: &str| ["sliding_attention", "chunked_attention"].contains(&layer);
    value.as_array().is_some_and(|layers| {
        let mut names = layers.iter().map(Value::as_str);
        !layers.is_empty() && names.all(|name| name.is_some_and(|name| !is_in_windows(name)))
    })
}

/// Names of keys in a message.
fn named<'a>(keys: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = keys.len().saturating_sub(MOST_NAMED);
    let names: Vec<String> = keys.take(MOST_NAMED).map(shown).collect();
    names.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
}
