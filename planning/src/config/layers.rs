//! The kind of each layer of a config: how it mixes tokens, and whether it has experts.

use plan::{Ffn, LayerKind, Mixer};
use question::diagnostic::Diagnostic;
use serde_json::Value;

use super::Config;
use super::families::{Family, Mixing};
use super::names::shown;

/// The most layers of which kinds are made: a model with more is refused by its sizes.
const MAX_LAYERS: u64 = 1 << 14;

/// The kinds of the layers of a model, and the window of those that have one.
pub(super) struct Layers {
    pub(super) kinds: Vec<LayerKind>,
    pub(super) window: Option<u64>,
}

impl Config<'_> {
    /// The kinds of the `layers` of a model of `family`, trained on samples of `sequence` tokens.
    pub(super) fn layers(
        &self,
        family: &Family,
        layers: u64,
        sequence: u64,
    ) -> Result<Layers, Diagnostic> {
        let count = layers.min(MAX_LAYERS);
        let window = self.window(family)?.filter(|window| *window < sequence);
        let mixers = match family.mixing {
            Mixing::Full => vec![Mixer::Full; index(count)],
            mixing => match self.keys.get("layer_types").filter(|list| !list.is_null()) {
                Some(list) => self.listed_mixers(mixing, list, layers, window.is_some())?,
                None => self.mixers(mixing, count, window.is_some())?,
            },
        };
        let has_experts = self.experts_of_layers(family, count)?;
        let ffn = |has: bool| if has { Ffn::Experts } else { Ffn::Dense };
        let kinds = mixers.into_iter().zip(has_experts);
        let kinds = kinds.map(|(mixer, has)| LayerKind::of(mixer, ffn(has))).collect();
        Ok(Layers { kinds, window })
    }

    /// The tokens of a window, where any layer may have one.
    fn window(&self, family: &Family) -> Result<Option<u64>, Diagnostic> {
        match family.mixing {
            Mixing::Full | Mixing::Linear(_) => Ok(None),
            Mixing::LastWindows if !self.is_switched_on(family.windows) => Ok(None),
            Mixing::Windows | Mixing::LastWindows | Mixing::Period(_) => {
                self.optional(&["sliding_window"])
            }
            Mixing::Chunks => self.optional(&["attention_chunk_size"]),
        }
    }

    /// How layers mix tokens by the list `layer_types`.
    fn listed_mixers(
        &self,
        mixing: Mixing,
        list: &Value,
        layers: u64,
        windows: bool,
    ) -> Result<Vec<Mixer>, Diagnostic> {
        const KEY: &str = "layer_types";
        let Value::Array(list) = list else {
            return Err(self.file.not("a list of names", KEY, list));
        };
        let one = |name: &Value| match (name.as_str(), mixing) {
            (Some("full_attention"), _) => Ok(Mixer::Full),
            (Some("sliding_attention" | "chunked_attention"), _) if !windows => Ok(Mixer::Full),
            (Some("sliding_attention" | "chunked_attention"), _) => Ok(Mixer::Window),
            (Some("linear_attention"), Mixing::Linear(_)) => Ok(Mixer::Linear),
            (Some(other), _) => {
                let message = format!("{KEY} has `{}`, which is not planned", shown(other));
                Err(self.file.wrong(KEY, message))
            }
            (None, _) => Err(self.file.not("a name", KEY, name)),
        };
        let mixers = list.iter().map(one).collect::<Result<Vec<_>, _>>()?;
        if mixers.iter().all(|mixer| *mixer == Mixer::Full) {
            return Ok(vec![Mixer::Full; index(layers.min(MAX_LAYERS))]);
        }
        match mixers.len() as u64 == layers {
            true => Ok(mixers),
            false => {
                let message =
                    format!("{KEY} names {} layers, but there are {layers}", mixers.len());
                Err(self.file.wrong(KEY, message))
            }
        }
    }

    /// The mixers of the layers of a config without a list of them.
    fn mixers(&self, mixing: Mixing, layers: u64, windows: bool) -> Result<Vec<Mixer>, Diagnostic> {
        let window = if windows { Mixer::Window } else { Mixer::Full };
        let but_every = |period: u64, other: Mixer| {
            move |layer: u64| match (layer + 1) % period {
                0 => Mixer::Full,
                _ => other,
            }
        };
        let all = 0..layers;
        Ok(match mixing {
            Mixing::Full => all.map(|_| Mixer::Full).collect(),
            Mixing::Windows => all.map(|_| window).collect(),
            Mixing::LastWindows => {
                let from = self.optional(&["max_window_layers"])?.unwrap_or(0);
                all.map(|layer| if layer >= from { window } else { Mixer::Full }).collect()
            }
            Mixing::Period(usual) if windows => {
                let period = self.period(usual)?;
                all.map(but_every(period, window)).collect()
            }
            Mixing::Period(_) => all.map(|_| Mixer::Full).collect(),
            Mixing::Linear(usual) => {
                let period = self.step("full_attention_interval", usual)?;
                all.map(but_every(period, Mixer::Linear)).collect()
            }
            Mixing::Chunks => match self.numbers("no_rope_layers")?.filter(|all| !all.is_empty()) {
                // Layers with rotary positions are in chunks, and have a one there.
                Some(rotary) => {
                    let is = |layer: u64| rotary.get(index(layer)).is_none_or(|one| *one != 0);
                    all.map(|layer| if is(layer) { window } else { Mixer::Full }).collect()
                }
                None => {
                    let period = self.step("no_rope_layer_interval", 4)?;
                    all.map(but_every(period, window)).collect()
                }
            },
        })
    }

    /// Every how many layers one attends to all tokens: a number, or a pattern such as `LLLG`.
    fn period(&self, usual: u64) -> Result<u64, Diagnostic> {
        let names = ["sliding_window_pattern", "_sliding_window_pattern"];
        let Some(name) = names.into_iter().find(|name| self.has(name)) else { return Ok(usual) };
        let Some(pattern) = self.keys[name].as_str() else { return self.step(name, usual) };
        let local = pattern.strip_suffix('G').filter(|rest| rest.chars().all(|it| it == 'L'));
        let wrong = || self.file.not("a number, or a pattern such as LLLG", name, &self.keys[name]);
        local.map(|rest| rest.len() as u64 + 1).ok_or_else(wrong)
    }

    /// Whether each layer has experts, by the list `mlp_layer_types`, if it is there.
    fn listed_experts(&self, layers: u64) -> Result<Option<Vec<bool>>, Diagnostic> {
        const KEY: &str = "mlp_layer_types";
        let Some(list) = self.keys.get(KEY).filter(|list| !list.is_null()) else { return Ok(None) };
        let one = |name: &Value| match name.as_str() {
            Some("sparse") => Some(true),
            Some("dense") => Some(false),
            _ => None,
        };
        let listed: Option<Vec<bool>> =
            list.as_array().and_then(|all| all.iter().map(one).collect());
        match listed.filter(|listed| listed.len() as u64 == layers) {
            Some(listed) => Ok(Some(listed)),
            None => {
                let wanted = format!("a list of dense or sparse for each of {layers} layers");
                Err(self.file.not(&wanted, KEY, list))
            }
        }
    }

    /// The mixers of the layers of a model with Mamba-2 or attention in each.
    pub(super) fn mamba_mixers(&self, layers: u64) -> Result<Vec<Mixer>, Diagnostic> {
        let count = layers.min(MAX_LAYERS);
        if let Some(attending) = self.numbers("attn_layer_indices")? {
            let mixer = |layer| if attending.contains(&layer) { Mixer::Full } else { Mixer::Mamba };
            return Ok((0..count).map(mixer).collect());
        }
        let keys = ["layer_types", "layers_block_type"];
        let Some(key) = keys.into_iter().find(|key| self.has(key)) else {
            return Err(self.missing(&[keys[0], "attn_layer_indices"]));
        };
        let one = |name: &Value| match name.as_str()? {
            "mamba" => Some(Mixer::Mamba),
            "attention" | "full_attention" => Some(Mixer::Full),
            _ => None,
        };
        let list = self.keys[key].as_array();
        let mixers: Option<Vec<Mixer>> = list.and_then(|all| all.iter().map(one).collect());
        let wanted = format!("a list of mamba or attention for each of {layers} layers");
        let mixers = mixers.filter(|mixers| mixers.len() as u64 == layers);
        mixers.ok_or_else(|| self.file.not(&wanted, key, &self.keys[key]))
    }

    /// Whether each layer has experts.
    fn experts_of_layers(&self, family: &Family, layers: u64) -> Result<Vec<bool>, Diagnostic> {
        if family.experts.is_none() {
            return Ok(vec![false; index(layers)]);
        }
        self.listed_experts(layers)?.map_or_else(|| self.named_layers(layers), Ok)
    }

    /// Every how many layers something is: the number at `key`, which is not zero, or `usual`.
    pub(super) fn step(&self, key: &str, usual: u64) -> Result<u64, Diagnostic> {
        match self.optional(&[key])? {
            Some(0) => Err(self.file.wrong(key, format!("{key} is 0: it must be from 1"))),
            step => Ok(step.unwrap_or(usual)),
        }
    }

    /// The list of numbers at `key`, no longer than layers are many.
    pub(super) fn numbers(&self, key: &str) -> Result<Option<Vec<u64>>, Diagnostic> {
        let value = self.keys.get(key).filter(|value| !value.is_null());
        let Some(value) = value else { return Ok(None) };
        let wrong = || self.file.not("a list of whole numbers", key, value);
        let list = value.as_array().filter(|list| list.len() as u64 <= MAX_LAYERS);
        let numbers = list.ok_or_else(wrong)?.iter().map(Value::as_u64);
        numbers.collect::<Option<Vec<u64>>>().ok_or_else(wrong).map(Some)
    }

    /// The kinds of the layers of a hybrid: a letter each, or a name.
    pub(super) fn hybrid_kinds(&self) -> Result<Vec<LayerKind>, Diagnostic> {
        const LETTERS: &str = "hybrid_override_pattern";
        let lists = ["layers_block_type", "layer_types"];
        if let Some(letters) = self.keys.get(LETTERS).filter(|letters| !letters.is_null()) {
            let wrong =
                || self.file.not("a string of M, *, - and E, a layer each", LETTERS, letters);
            let kinds = letters.as_str().and_then(|all| {
                let all: Option<Vec<LayerKind>> = all.chars().map(LayerKind::of_letter).collect();
                all.filter(|all| !all.is_empty())
            });
            return kinds.ok_or_else(wrong);
        }
        let Some(key) = lists.into_iter().find(|key| self.has(key)) else {
            return Err(self.missing(&[LETTERS, lists[0]]));
        };
        let letter = |name: &Value| match name.as_str()? {
            "mamba" | "linear_attention" => Some('M'),
            "attention" | "full_attention" => Some('*'),
            "mlp" => Some('-'),
            "moe" => Some('E'),
            _ => None,
        };
        let kinds = self.keys[key].as_array().and_then(|list| {
            list.iter().map(|name| letter(name).and_then(LayerKind::of_letter)).collect()
        });
        let wanted = "a list of mamba, attention, mlp and moe";
        kinds.ok_or_else(|| self.file.not(wanted, key, &self.keys[key]))
    }
}

/// A count of layers as an index.
fn index(layers: u64) -> usize {
    usize::try_from(layers).unwrap_or(usize::MAX)
}
