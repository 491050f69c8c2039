//! `cuda-graph-modules`: the modules of layers that partial CUDA graphs capture.

use plan::{Capture, Ffn, Graphs, LayerKind, Mixer, Transformer};
use question::diagnostic::Diagnostic;
use question::nearest;

use crate::framework::Framework;
use crate::reader::Reader;

const KEY: &str = "training.cuda-graph-modules";

impl Reader<'_> {
    /// The modules that graphs of the question capture; none without partial ones, and none of torchtitan.
    pub(crate) fn capture(
        &self,
        model: &Transformer,
        framework: Framework,
    ) -> Result<Capture, Diagnostic> {
        let training = &self.document.training;
        let is_partial = training.cuda_graphs.as_deref() == Some(Graphs::Partial.name());
        let is_own = framework != Framework::Torchtitan;
        let Some(names) = &training.cuda_graph_modules else {
            return Ok(if is_partial && is_own { Capture::DEFAULT } else { Capture::NONE });
        };
        let mut capture = Capture::NONE;
        for name in names {
            capture = capture.and(self.captured(name, model)?);
        }
        let modules = [Capture::EXPERTS, Capture::ROUTER, Capture::PREPROCESS];
        let [whole, router, before] = modules.map(|one| capture.has(one));
        let pads = training.pad_to_capacity == Some(true);
        let rules = [
            (!is_partial, "is of partial graphs: write cuda-graphs = \"partial\", or take it out"),
            (!is_own, "is of Megatron-LM, and framework is torchtitan: take it out"),
            (names.is_empty(), "is empty: name modules, for whole layers such as attn and mlp"),
            (whole && (router || before), "has moe, which captures the router, too: take one out"),
            (before && !router, "has moe_preprocess without moe_router: add it"),
            (
                whole && !pads,
                "has moe, which needs the same rows in every step: set pad-to-capacity = true",
            ),
        ];
        let Some((_, rule)) = rules.into_iter().find(|(is_broken, _)| *is_broken) else {
            return Ok(capture);
        };
        let (fault, cure) = rule.split_once(": ").unwrap_or((rule, ""));
        Err(self.wrong(KEY, format!("cuda-graph-modules {fault}")).with_help(cure))
    }

    /// The module `name`, which some layer of `model` must have.
    fn captured(&self, name: &str, model: &Transformer) -> Result<Capture, Diagnostic> {
        let known = Capture::NAMES.map(|(known, _)| known);
        let found = Capture::NAMES.into_iter().find(|(known, _)| *known == name);
        let has = |kind: &LayerKind| match name {
            "attn" => !matches!(kind.mixer, Mixer::Mamba | Mixer::None),
            "mamba" => kind.mixer == Mixer::Mamba,
            "mlp" => kind.ffn == Ffn::Dense,
            _ => kind.ffn == Ffn::Experts,
        };
        let brief: String = name.chars().take(40).collect();
        let fault = match found {
            Some((_, module)) if model.layer_kinds().iter().any(has) => return Ok(module),
            Some(_) => "which no layer of the model has".to_owned(),
            None => format!("which is no module{}", nearest::question(&brief, known)),
        };
        let message = format!("cuda-graph-modules names `{brief}`, {fault}");
        Err(self.wrong(KEY, message).with_help(format!("write those of {}", known.join(", "))))
    }
}
