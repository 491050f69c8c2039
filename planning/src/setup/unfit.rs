//! Why a set-up is none, at the key that is to blame, with a cure.

use plan::{Inputs, Setup, Unfit};
use question::diagnostic::Diagnostic;

use crate::Reader;

/// The keys that may be to blame, a message and a cure.
struct Blame {
    keys: &'static [&'static str],
    message: String,
    cure: String,
}

impl Reader<'_> {
    /// The error that `setup` is invalid for the reason `unfit`.
    pub(super) fn unfit(&self, unfit: Unfit, setup: &Setup, inputs: &Inputs<'_>) -> Diagnostic {
        let Blame { keys, message, cure } = match unfit {
            Unfit::Devices => devices(setup, inputs),
            Unfit::Tensor => tensor(setup, inputs),
            Unfit::Context => context(setup, inputs),
            Unfit::Expert => expert(setup, inputs),
            Unfit::Batch => batch(setup, inputs),
            Unfit::Layers => layers(setup, inputs),
            Unfit::Mixed => Blame {
                keys: &["pipeline"],
                message: format!(
                    "{} stages cannot be divided among the kinds of devices of {}",
                    setup.pipeline,
                    inputs.cluster.name()
                ),
                cure: "each kind must have as large a share of the stages as of the devices".into(),
            },
            Unfit::TooLarge => Blame {
                keys: &["microbatch", "pipeline"],
                message: unfit.to_string(),
                cure: "give larger microbatches, fewer chunks, or a smaller batch".to_owned(),
            },
            Unfit::Host | Unfit::Needless | Unfit::Exposed => Blame {
                keys: &["schedule"],
                message: unfit.to_string(),
                cure: "write a schedule that copies nothing, or give the machine's file a [host]"
                    .into(),
            },
            Unfit::Optimizer => Blame {
                keys: &["zero"],
                message: unfit.to_string(),
                cure: "write zero = 1, or optimizer = \"adamw\" in [training]".to_owned(),
            },
            Unfit::HostOptimizer => Blame {
                keys: &["zero"],
                message: unfit.to_string(),
                cure: "write zero = 1, or take optimizer-offload out of [training]".to_owned(),
            },
            Unfit::Endless => Blame {
                keys: &["tensor"],
                message: unfit.to_string(),
                cure: "the rates of the machine's file are far too low".to_owned(),
            },
            Unfit::Shards => Blame {
                keys: &["shard-groups"],
                message: format!(
                    "shard-groups is {}, which does not divide {} replicas",
                    setup.shard_groups, setup.data
                ),
                cure: "write a number that divides them".to_owned(),
            },
        };
        self.wrong(&self.first_given(keys), message).with_help(cure)
    }
}

fn devices(setup: &Setup, inputs: &Inputs<'_>) -> Blame {
    let Setup { data, tensor, pipeline, context, .. } = *setup;
    let (has, name) = (inputs.cluster.devices(), inputs.cluster.name());
    let group = tensor.saturating_mul(pipeline).saturating_mul(context);
    let message = format!(
        "data {data} x tensor {tensor} x pipeline {pipeline} x context {context} is {} devices, but the \
         cluster has {has} {name}",
        group.saturating_mul(data)
    );
    let cure = match has.is_multiple_of(group) {
        true => format!("write data = {}, or take data out", has / group),
        false => format!(
            "tensor x pipeline x context is {group}: give that number of devices times the replicas"
        ),
    };
    Blame { keys: &["data", "pipeline", "tensor", "context"], message, cure }
}

fn tensor(setup: &Setup, inputs: &Inputs<'_>) -> Blame {
    let model = inputs.model;
    let (heads, keys, ffn) = (model.heads, model.kv_heads, model.ffn);
    let fits = |tensor: &u64| {
        let repeated = tensor.is_multiple_of(keys);
        heads.is_multiple_of(*tensor)
            && ffn.is_multiple_of(*tensor)
            && (keys.is_multiple_of(*tensor) || repeated)
    };
    let sizes: Vec<String> =
        (1..=heads.min(64)).filter(fits).map(|size| size.to_string()).collect();
    Blame {
        keys: &["tensor"],
        message: format!(
            "tensor is {}, which does not divide {heads} heads, {keys} heads of keys and values and an \
             MLP of {ffn}",
            setup.tensor
        ),
        cure: format!("write one of {}", sizes.join(", ")),
    }
}

fn context(setup: &Setup, inputs: &Inputs<'_>) -> Blame {
    Blame {
        keys: &["context"],
        message: format!(
            "context is {}, but a sequence of {} tokens cannot be cut into {} equal parts, two for each \
             device",
            setup.context,
            inputs.model.sequence,
            setup.context.saturating_mul(2)
        ),
        cure: "write a power of two, or another sequence".to_owned(),
    }
}

fn expert(setup: &Setup, inputs: &Inputs<'_>) -> Blame {
    let Setup { expert, expert_tensor, data, tensor, context, .. } = *setup;
    let Some(experts) = inputs.model.experts else {
        return Blame {
            keys: &["expert"],
            message: format!("expert is {expert}, but the model has no experts"),
            cure: "take expert out".to_owned(),
        };
    };
    let ranks = data.saturating_mul(tensor).saturating_mul(context);
    if !inputs.model.ffn.is_multiple_of(expert_tensor) {
        let width = inputs.model.ffn;
        let message = format!(
            "expert-tensor is {expert_tensor}, which does not divide the width {width} of an expert"
        );
        let cure = "write expert-tensor = 1".to_owned();
        return Blame { keys: &["expert-tensor", "tensor"], message, cure };
    }
    if !experts.count.is_multiple_of(expert) {
        let message =
            format!("expert is {expert}, which does not divide {} experts", experts.count);
        let cure = "write a number that divides them".to_owned();
        return Blame { keys: &["expert"], message, cure };
    }
    Blame {
        keys: &["expert", "expert-tensor"],
        message: format!(
            "expert {expert} x expert-tensor {expert_tensor} does not divide the {ranks} devices of a \
             stage (data x tensor x context)"
        ),
        cure: "write less of expert, of expert-tensor, or of pipeline".to_owned(),
    }
}

fn batch(setup: &Setup, inputs: &Inputs<'_>) -> Blame {
    let together = setup.microbatch.saturating_mul(setup.data).max(1);
    let batch = inputs.recipe.batch;
    let near = (batch / together).max(1).saturating_mul(together);
    Blame {
        keys: &["microbatch", "data"],
        message: format!(
            "batch is {batch}, not a multiple of microbatch {} x data {}",
            setup.microbatch, setup.data
        ),
        cure: format!("write batch = {near}, or fewer replicas or samples of a microbatch"),
    }
}

fn layers(setup: &Setup, inputs: &Inputs<'_>) -> Blame {
    let chunks = setup.pipeline.saturating_mul(setup.chunks);
    Blame {
        keys: &["chunks", "pipeline", "layout"],
        message: format!(
            "pipeline {} x chunks {} is {chunks} chunks, but the model has {} layers",
            setup.pipeline, setup.chunks, inputs.model.layers
        ),
        cure: "give fewer stages or chunks".to_owned(),
    }
}
