//! Number formats of products in torchtitan.
//!
//! Sources: `config/job_config.py` and `components/quantization/` of 0.2.2, and the latter of its main branch of
//! 21 August 2026, whose converters stand in the configuration of the model and have no arguments.

use plan::Precision;
use planning::Question;

use super::super::super::priced::Plan;

/// The format of a plan as 0.2.x has it.
#[derive(Default)]
pub(super) struct Formats {
    /// The converters of `[model]`.
    converters: Vec<&'static str>,
    /// Tables of `[quantize]`.
    tables: String,
    /// What is missing, a sentence each.
    pub(super) lacks: Vec<String>,
}

impl Formats {
    /// Those of `plan`.
    pub(super) fn of(question: &Question, plan: &Plan) -> Self {
        let own = &plan.finalist.costed().setup;
        let precision = question.recipe.precision;
        let mut formats = Self::default();
        let (linear, recipe, grouped) = match precision {
            Precision::Bf16 => return formats,
            Precision::Fp8 => ("float8", "tensorwise", ""),
            Precision::MxFp8 => ("mx", "mxfp8_cublas", "recipe_name = \"mxfp8\"\n"),
            Precision::Fp8Block | Precision::NvFp4 => {
                formats.lacks.push(format!(
                    "{}: not in torchtitan 0.2.x, which trains in BF16 with these settings",
                    precision.name()
                ));
                return formats;
            }
        };
        let is_mx = precision == Precision::MxFp8;
        formats.converters.push(if is_mx {
            "quantize.linear.mx"
        } else {
            "quantize.linear.float8"
        });
        let kept = list(&kept(question, "output"));
        formats.tables += &format!(
            "\n[quantize.linear.{linear}]\nrecipe_name = \"{recipe}\"\nfilter_fqns = [{kept}]\n"
        );
        // Its FP8 of experts asserts that there is neither pipeline nor context group.
        let has_grouped = is_mx || (own.pipeline == 1 && own.context == 1);
        match (question.model.experts.is_some(), has_grouped) {
            (false, _) => {}
            (true, true) => {
                let converter =
                    if is_mx { "quantize.grouped_mm.mx" } else { "quantize.grouped_mm.float8" };
                formats.converters.push(converter);
                formats.tables +=
                    &format!("\n[quantize.grouped_mm.{linear}]\n{grouped}fqns = [\"experts\"]\n");
            }
            (true, false) => formats.lacks.push(format!(
                "{}: the experts train in BF16, for torchtitan 0.2.x has FP8 of experts without pipeline and context \
                 groups alone",
                precision.name()
            )),
        }
        if is_mx && own.tensor > 1 {
            formats.lacks.push(
                "mxfp8: torchtitan 0.2.x compiles no model with tensor groups in it".to_owned(),
            );
        }
        formats
    }

    /// The table `[model]`, if anything is converted.
    pub(super) fn model(&self) -> String {
        match self.converters.is_empty() {
            true => String::new(),
            false => format!(
                "\n[model] # add its name and flavor\n# They need torchao, and [compile] enable = true to be fast.\n\
                 converters = [{}]\n",
                list(&self.converters)
            ),
        }
    }

    /// The tables of `[quantize]`.
    pub(super) fn tables(&self) -> &str {
        &self.tables
    }
}

/// What the configuration of the model needs in the main branch; none for 16 bits.
pub(super) fn of_main(question: &Question) -> Option<String> {
    let precision = question.recipe.precision;
    let name = precision.name();
    let (linear, experts, recipe) = match precision {
        Precision::Bf16 => return None,
        Precision::Fp8 => (
            "Float8LinearConverter",
            Some("Float8GroupedExpertsConverter"),
            "; it has scales of rows, and none of tensors",
        ),
        Precision::MxFp8 => ("MXFP8LinearConverter", Some("MXFP8GroupedExpertsConverter"), ""),
        Precision::NvFp4 => ("NVFP4LinearConverter", None, ""),
        Precision::Fp8Block => {
            return Some(format!(
                "{name}: not in torchtitan, which trains in BF16 with these arguments"
            ));
        }
    };
    let has_experts = question.model.experts.is_some();
    let experts = match experts.filter(|_| has_experts) {
        Some(converter) => format!(" and {converter}"),
        None => String::new(),
    };
    let left = match (has_experts, precision) {
        (true, Precision::NvFp4) => "; its experts stay in BF16",
        _ => "",
    };
    Some(format!(
        "{name}: not in these arguments, which train in BF16: name {linear}{experts} under quantization in the \
         model_registry(..) of the configuration, without {}{recipe}{left}",
        kept(question, "lm_head").join(" and "),
    ))
}

/// The modules that stay in 16 bits; the head is called `head`.
fn kept(question: &Question, head: &'static str) -> Vec<&'static str> {
    let has_head = question.recipe.head == Precision::Bf16;
    let has_router = question.model.experts.is_some();
    let head = has_head.then_some(head);
    head.into_iter().chain(has_router.then_some("router.gate")).collect()
}

/// `names` with quotes, and commas between.
fn list(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    names.join(", ")
}
