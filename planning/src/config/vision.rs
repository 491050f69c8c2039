//! The vision encoder of a config: its `vision_config`.

use std::slice;

use question::diagnostic::Diagnostic;
use serde_json::{Map, Value};

use super::{Config, File};

/// The key of the vision encoder.
pub(super) const PART: &str = "vision_config";

/// Kinds of models whose configs have the keys of the language model beside the `vision_config`.
const FLAT: [&str; 2] = ["qwen2_vl", "qwen2_5_vl"];

/// Kinds of encoders whose MLP has a gate whatever its activation is called, as their classes in `transformers` have it.
const GATED: [&str; 2] = ["pixtral", "qwen2_5_vl"];

/// A vision transformer, as a `vision_config` describes it.
#[derive(Clone, PartialEq, Debug)]
pub struct Vision {
    pub layers: u64,
    /// The hidden size.
    pub hidden: u64,
    /// Attention heads, if they are given.
    pub heads: Option<u64>,
    /// The width of the MLP, if it is given.
    pub ffn: Option<u64>,
    /// Whether the MLP has a gate.
    pub gated: bool,
    /// Patches of an image, if all images are resized to one size.
    pub tokens: Option<u64>,
    /// Layers whose tokens attend to those of a window alone.
    pub windows: Option<Windows>,
}

/// Windows of an encoder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Windows {
    /// Patches of a window.
    pub tokens: u64,
    /// Layers in which all tokens of an image attend to each other nevertheless.
    pub whole: u64,
}

/// Whether the config `all` has the keys of a language model beside its `vision_config`.
pub(super) fn is_flat(all: &Map<String, Value>) -> bool {
    let kind = all.get("model_type").and_then(Value::as_str);
    all.contains_key(PART) && kind.is_some_and(|kind| FLAT.contains(&kind))
}

/// The encoder that `part`, the `vision_config` of `file`, describes.
pub(super) fn of(file: &File<'_>, part: &Value) -> Result<Option<Vision>, Diagnostic> {
    let keys = match part {
        Value::Null => return Ok(None),
        Value::Object(keys) => keys,
        other => return Err(file.not("an object", PART, other)),
    };
    let file = File { part: PART, ..*file };
    let kind = keys.get("model_type").and_then(Value::as_str).unwrap_or_default();
    Config { file: &file, keys, model_type: kind }.vision().map(Some)
}

impl Config<'_> {
    fn vision(&self) -> Result<Vision, Diagnostic> {
        let whole = self.size(&["num_hidden_layers", "depth"])?;
        // Llama 3.2 has gated layers behind the others.
        let layers = whole.saturating_add(self.optional(&["num_global_layers"])?.unwrap_or(0));
        // Qwen2-VL has the hidden size of the language model in `hidden_size`.
        let hidden = self.size(&["embed_dim", "hidden_size"])?;
        let activation = self.keys.get("hidden_act").and_then(Value::as_str);
        Ok(Vision {
            layers,
            hidden,
            heads: self.optional(&["num_attention_heads", "num_heads", "attention_heads"])?,
            ffn: self.width(hidden)?,
            gated: GATED.contains(&self.model_type) || activation == Some("silu"),
            tokens: self.patches("image_size")?.map(|side| side.saturating_mul(side)),
            windows: self.windows(layers)?,
        })
    }

    /// A size that an encoder cannot do without.
    fn size(&self, names: &[&str]) -> Result<u64, Diagnostic> {
        match self.optional(names)? {
            Some(0) => Err(self.file.wrong(names[0], format!("{} is 0", names.join(" or ")))),
            Some(size) => Ok(size),
            None => {
                let message = format!("its vision_config has no {}", names.join(" or "));
                let cure = "give the sizes of the encoder: --encoder-hidden and --encoder-layers";
                Err(self.file.wrong(PART, message).with_help(cure))
            }
        }
    }

    /// The width of the MLP, in numbers or over the hidden size.
    fn width(&self, hidden: u64) -> Result<Option<u64>, Diagnostic> {
        const RATIO: &str = "mlp_ratio";
        let given = match (self.optional(&["intermediate_size"])?, self.keys.get(RATIO)) {
            (Some(width), _) => return Ok(Some(width)),
            (None, None | Some(Value::Null)) => return Ok(None),
            (None, Some(given)) => given,
        };
        let ratio = given.as_f64().filter(|ratio| (0.1..=100.0).contains(ratio));
        let ratio = ratio.ok_or_else(|| self.file.not("a factor from 0.1 to 100", RATIO, given))?;
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss
        )]
        // Hidden sizes are far below 2^53.
        Ok(Some((hidden as f64 * ratio) as u64))
    }

    /// The patches along `key`, a length in pixels.
    fn patches(&self, key: &str) -> Result<Option<u64>, Diagnostic> {
        let (Some(pixels), Some(patch)) = (self.pixels(key)?, self.pixels("patch_size")?) else {
            return Ok(None);
        };
        match pixels.checked_div(patch) {
            Some(patches) if patches > 0 => Ok(Some(patches)),
            _ => {
                Err(self.file.wrong(key, format!("{key} is {pixels}, and a patch {patch} pixels")))
            }
        }
    }

    /// A length in pixels: a number, or the same number for both sides.
    fn pixels(&self, key: &str) -> Result<Option<u64>, Diagnostic> {
        let given = match self.keys.get(key) {
            None | Some(Value::Null) => return Ok(None),
            Some(given) => given,
        };
        let sides = match given {
            Value::Array(sides) => sides.as_slice(),
            one => slice::from_ref(one),
        };
        let (first, rest) = sides.split_first().unwrap_or((&Value::Null, &[]));
        match first.as_u64().filter(|_| rest.len() < 2 && rest.iter().all(|side| side == first)) {
            Some(pixels) => Ok(Some(pixels)),
            None => {
                Err(self.file.not("a number of pixels, or the same for both sides", key, given))
            }
        }
    }

    /// The windows of Qwen2.5-VL, in all but some layers.
    fn windows(&self, layers: u64) -> Result<Option<Windows>, Diagnostic> {
        const WHOLE: &str = "fullatt_block_indexes";
        let Some(whole) = self.keys.get(WHOLE).filter(|given| !given.is_null()) else {
            return Ok(None);
        };
        let Some(side) = self.patches("window_size")? else { return Ok(None) };
        let is_layer = |one: &Value| one.as_u64().is_some_and(|at| at < layers);
        match whole {
            Value::Array(all) if all.iter().all(is_layer) && all.len() as u64 <= layers => {
                Ok(Some(Windows { tokens: side.saturating_mul(side), whole: all.len() as u64 }))
            }
            other => Err(self.file.not("a list of layers", WHOLE, other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    fn read(part: &Value) -> Result<Option<Vision>, String> {
        let text = json!({ "vision_config": part }).to_string();
        let file = File { path: Path::new("config.json"), text: &text, part: "text_config" };
        of(&file, part).map_err(|error| error.to_string())
    }

    #[test]
    fn the_keys_of_each_kind_are_read() {
        // As published: SigLIP in Gemma 3, Qwen2-VL, Qwen2.5-VL, Pixtral, InternVL, Llama 3.2.
        let siglip = json!({ "hidden_size": 1152, "intermediate_size": 4304, "num_attention_heads": 16,
            "num_hidden_layers": 27, "image_size": 896, "patch_size": 14, "model_type": "siglip_vision_model" });
        let plain = Vision {
            layers: 27,
            hidden: 1152,
            heads: Some(16),
            ffn: Some(4304),
            gated: false,
            tokens: Some(4096),
            windows: None,
        };
        assert_eq!(read(&siglip), Ok(Some(plain.clone())));
        let qwen2 = json!({ "depth": 32, "embed_dim": 1280, "mlp_ratio": 4, "num_heads": 16, "hidden_size": 3584,
            "patch_size": 14, "spatial_merge_size": 2 });
        let wide = Vision { layers: 32, hidden: 1280, ffn: Some(5120), tokens: None, ..plain };
        assert_eq!(read(&qwen2), Ok(Some(wide.clone())));
        let qwen2_5 = json!({ "depth": 32, "hidden_act": "silu", "hidden_size": 1280, "intermediate_size": 3420,
            "num_heads": 16, "out_hidden_size": 3584, "patch_size": 14, "window_size": 112,
            "fullatt_block_indexes": [7, 15, 23, 31] });
        let windows = Some(Windows { tokens: 64, whole: 4 });
        let gated = Vision { ffn: Some(3420), gated: true, windows, ..wide.clone() };
        assert_eq!(read(&qwen2_5), Ok(Some(gated)));
        let pixtral = json!({ "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
            "num_attention_heads": 16, "image_size": 1024, "patch_size": 16, "hidden_act": "gelu", "model_type": "pixtral" });
        assert!(read(&pixtral).is_ok_and(|one| one.is_some_and(|one| one.gated)));
        let intern = json!({ "hidden_size": 3200, "intermediate_size": 12800, "num_attention_heads": 25,
            "num_hidden_layers": 45, "image_size": [448, 448], "patch_size": [14, 14] });
        assert!(read(&intern).is_ok_and(|one| one.is_some_and(|one| one.tokens == Some(1024))));
        let llama = json!({ "hidden_size": 1280, "intermediate_size": 5120, "attention_heads": 16,
            "num_hidden_layers": 32, "num_global_layers": 8, "image_size": 560, "patch_size": 14 });
        assert!(read(&llama).is_ok_and(|one| one.is_some_and(|one| one.layers == 40)));
        assert_eq!(read(&Value::Null), Ok(None));
    }

    #[test]
    fn what_makes_no_encoder_is_refused_with_a_cure() {
        let good =
            json!({ "hidden_size": 64, "num_hidden_layers": 2, "num_heads": 4, "patch_size": 14 });
        assert!(read(&good).is_ok());
        for (key, value, message) in [
            ("hidden_size", Value::Null, "its vision_config has no embed_dim or hidden_size"),
            ("num_hidden_layers", json!(0), "num_hidden_layers or depth is 0"),
            ("num_heads", json!("four"), "num_heads is \"four\": it must be a whole number"),
            ("mlp_ratio", json!(-1), "mlp_ratio is -1: it must be a factor"),
            (
                "image_size",
                json!([448, 224]),
                "image_size is [448,224]: it must be a number of pixels",
            ),
            ("image_size", json!(7), "image_size is 7, and a patch 14 pixels"),
            ("image_size", json!([]), "image_size is []"),
            ("fullatt_block_indexes", json!([9]), "fullatt_block_indexes is [9]"),
        ] {
            let mut part = good.clone();
            part["window_size"] = json!(112);
            part[key] = value;
            let refused = read(&part).err().unwrap_or_default();
            assert!(refused.contains(message), "{message}: {refused}");
        }
        assert!(read(&json!(7)).is_err_and(|error| error.contains("vision_config is 7")));
    }
}
