//! `lora-rank`, `lora-modules` and `frozen`: the weights that are not trained.

use std::ops::RangeInclusive;

use plan::{Adapters, Frozen, FrozenError, ModelError, Targets, Transformer};
use question::diagnostic::Diagnostic;
use question::{nearest, quote};

use crate::reader::Reader;

const RANK: &str = "training.lora-rank";
const MODULES: &str = "training.lora-modules";
const FROZEN: &str = "training.frozen";

/// The start of a value that names layers.
const LAYERS: &str = "layers:";
/// The most values of one of the lists: each is read once for each layer.
const MOST: usize = 1000;

impl Reader<'_> {
    /// `model` with the weights frozen that the question, or the file of the model as `given`, does not train.
    pub(crate) fn freezing(
        &self,
        model: &Transformer,
        given: Option<Frozen>,
    ) -> Result<Transformer, Diagnostic> {
        let training = &self.document.training;
        let lists = [(MODULES, &training.lora_modules), (FROZEN, &training.frozen)];
        for (path, list) in lists {
            if list.as_ref().is_some_and(|list| list.len() > MOST) {
                let message = format!("more than {MOST} values");
                return Err(self.wrong(path, message).with_help("write ranges of layers"));
            }
        }
        if let Some(given) = given {
            if training.lora_rank.is_some() || training.lora_modules.is_some() {
                let path = if training.lora_rank.is_some() { RANK } else { MODULES };
                let message = "the adapters are those of the adapter_config.json".to_owned();
                let cure =
                    "take lora-rank and lora-modules out, or name the config.json as the model";
                return Err(self.wrong(path, message).with_help(cure));
            }
            let own = self.frozen()?;
            let layers = [given.layers, own.layers].concat();
            let frozen = Frozen { adapters: given.adapters, layers, ..own };
            return model.freezing(frozen).map_err(|error| self.cannot_freeze(&error));
        }
        let frozen = Frozen { adapters: self.adapters()?, ..self.frozen()? };
        model.freezing(frozen).map_err(|error| self.cannot_freeze(&error))
    }

    /// The adapters, if there are any.
    fn adapters(&self) -> Result<Option<Adapters>, Diagnostic> {
        let training = &self.document.training;
        let Some(rank) = training.lora_rank else {
            return match training.lora_modules {
                Some(_) => {
                    let message =
                        "lora-modules names products with adapters, but lora-rank is missing";
                    let cure = "give lora-rank, such as 16, or take lora-modules out";
                    Err(self.wrong(MODULES, message.to_owned()).with_help(cure))
                }
                None => Ok(None),
            };
        };
        let Some(names) = &training.lora_modules else {
            return Ok(Some(Adapters { rank, targets: Targets::USUAL }));
        };
        let mut targets = Targets::default();
        for name in names {
            let own = Targets::named(name).ok_or_else(|| self.unknown_module(name))?;
            targets = targets.and(own);
        }
        if names.is_empty() {
            let message = "lora-modules is empty: no product has an adapter".to_owned();
            let cure = "name some, such as attention, or take lora-modules out";
            return Err(self.wrong(MODULES, message).with_help(cure));
        }
        Ok(Some(Adapters { rank, targets }))
    }

    fn unknown_module(&self, name: &str) -> Diagnostic {
        let near = nearest::question(name, Targets::names());
        let message =
            format!("lora-modules names {}, which has no adapter{near}", quote::clip(name));
        let cure = "write attention, mlp, all-linear, or some of linear_qkv, linear_proj, linear_fc1, linear_fc2, \
                    q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, in_proj and out_proj";
        self.wrong(MODULES, message).with_help(cure)
    }

    /// The parts that are frozen.
    fn frozen(&self) -> Result<Frozen, Diagnostic> {
        let mut frozen = Frozen::default();
        for name in self.document.training.frozen.iter().flatten() {
            match (name.as_str(), layers(name)) {
                ("embedding", _) => frozen.embedding = true,
                ("head", _) => frozen.head = true,
                (_, Some(range)) => frozen.layers.push(range),
                _ => return Err(self.unknown_part(name)),
            }
        }
        Ok(frozen)
    }

    fn unknown_part(&self, name: &str) -> Diagnostic {
        let near = nearest::question(name, ["embedding", "head", LAYERS]);
        let message =
            format!("frozen names {}, which is not a part of a model{near}", quote::clip(name));
        let cure =
            "write embedding, head, or layers by their numbers from 0, such as \"layers:0-23\"";
        self.wrong(FROZEN, message).with_help(cure)
    }

    /// The error at the key that is its cause.
    fn cannot_freeze(&self, error: &FrozenError) -> Diagnostic {
        let training = &self.document.training;
        let has_frozen = training.frozen.as_ref().is_some_and(|frozen| !frozen.is_empty());
        let (path, cure) = match error {
            FrozenError::Rank { .. } => (RANK, "write a rank such as 16"),
            FrozenError::TargetTwice { .. } => (MODULES, "take one of the two out"),
            FrozenError::NoTarget { .. } => (MODULES, "take it out, or write all-linear"),
            FrozenError::TargetOfLatents => (MODULES, "write attention or all-linear"),
            FrozenError::FrozenLayer { .. } => (FROZEN, "layers are numbered from 0"),
            FrozenError::AllFrozen if has_frozen => (FROZEN, "leave a part out of frozen"),
            FrozenError::AllFrozen => (MODULES, "write all-linear"),
            FrozenError::Model(ModelError::ManyKinds) => (FROZEN, "freeze whole runs of layers"),
            _ => (FROZEN, "take it out"),
        };
        self.wrong(path, error.to_string()).with_help(cure)
    }
}

/// The layers that `name` stands for: one, or from one to another.
fn layers(name: &str) -> Option<RangeInclusive<u64>> {
    let range = name.strip_prefix(LAYERS)?.trim();
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let (first, last) = match range.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(range)?, number(range)?),
    };
    (first <= last).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_one_or_a_range() {
        assert_eq!(layers("layers:0-23"), Some(0..=23));
        assert_eq!(layers("layers: 7"), Some(7..=7));
        for wrong in [
            "layers:",
            "layers:3-1",
            "layers:a-b",
            "layers:-1",
            "layers:1-",
            "0-23",
            "layers:1-2-3",
        ] {
            assert_eq!(layers(wrong), None, "{wrong}");
        }
    }
}
