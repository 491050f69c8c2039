//! `[efficiency]` of a machine's file: the share of its rates that it reaches.

use pipeline::Nanos;
use plan::Efficiency;
use question::keys::read::text;
use serde::Deserialize;

use super::range::within;

/// Keys that are left out are as in [`Efficiency::IDEAL`], except for all-to-alls and rings of experts, which are
/// as fast as other collectives, and launches of a layer with experts, which take as long as those of other layers.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct EfficiencyDocument {
    matmul: f64,
    fill: f64,
    depth: f64,
    flash: f64,
    memory: f64,
    link: f64,
    ring: f64,
    shared_ring: f64,
    sharded_ring: Option<f64>,
    tensor_network: f64,
    hop: f64,
    #[serde(deserialize_with = "text")]
    collective_latency: Option<Nanos>,
    #[serde(deserialize_with = "text")]
    hop_latency: Option<Nanos>,
    #[serde(deserialize_with = "text")]
    launch: Option<Nanos>,
    launch_tensor: f64,
    power: Option<f64>,
    bf16: Option<f64>,
    fp8: Option<f64>,
    fp8_block: Option<f64>,
    mxfp8: Option<f64>,
    nvfp4: Option<f64>,
    grouped: Option<f64>,
    head: Option<f64>,
    flash_backward: Option<f64>,
    elementwise: Option<f64>,
    eager: Option<f64>,
    stock: Option<f64>,
    unfused_activation: Option<f64>,
    fused_experts: Option<f64>,
    tensor_exposed: Option<f64>,
    tensor_overlapped: Option<f64>,
    stage_overlapped: Option<f64>,
    context_exposed: Option<f64>,
    expert_link: Option<f64>,
    expert_network: Option<f64>,
    expert_overlapped: Option<f64>,
    expert_ring: Option<f64>,
    #[serde(default, deserialize_with = "text")]
    launch_experts: Option<Nanos>,
    launch_latent: Option<f64>,
    #[serde(default, deserialize_with = "text")]
    expert_latency: Option<Nanos>,
    #[serde(default, deserialize_with = "text")]
    pass_latency: Option<Nanos>,
    #[serde(default, deserialize_with = "text")]
    step_latency: Option<Nanos>,
    #[serde(default, deserialize_with = "text")]
    step_doubling: Option<Nanos>,
}

impl EfficiencyDocument {
    /// Checks every number; the key that is wrong, and why.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        let shares = [
            ("matmul", Some(self.matmul)),
            ("flash", Some(self.flash)),
            ("memory", Some(self.memory)),
            ("link", Some(self.link)),
            ("ring", Some(self.ring)),
            ("shared-ring", Some(self.shared_ring)),
            ("sharded-ring", self.sharded_ring),
            ("tensor-network", Some(self.tensor_network)),
            ("hop", Some(self.hop)),
            ("bf16", self.bf16),
            ("fp8", self.fp8),
            ("fp8-block", self.fp8_block),
            ("mxfp8", self.mxfp8),
            ("nvfp4", self.nvfp4),
            ("tensor-exposed", self.tensor_exposed),
            ("tensor-overlapped", self.tensor_overlapped),
            ("stage-overlapped", self.stage_overlapped),
            ("context-exposed", self.context_exposed),
            ("expert-overlapped", self.expert_overlapped),
        ];
        for (key, share) in shares {
            within(key, share.unwrap_or(1.0), 1e-3, 1.0)?;
        }
        // What is counted may be more than what is moved, so that these may be above 1.
        let ratios = [
            ("power", self.power),
            ("grouped", self.grouped),
            ("head", self.head),
            ("flash-backward", self.flash_backward),
            ("elementwise", self.elementwise),
            ("eager", self.eager),
            ("stock", self.stock),
            ("unfused-activation", self.unfused_activation),
            ("fused-experts", self.fused_experts),
            ("expert-link", self.expert_link),
            ("expert-network", self.expert_network),
            ("expert-ring", self.expert_ring),
            ("launch-latent", self.launch_latent),
        ];
        for (key, ratio) in ratios {
            within(key, ratio.unwrap_or(1.0), 1e-3, 1e3)?;
        }
        within("fill", self.fill, 0.0, 1e12)?;
        within("depth", self.depth, 0.0, 1e6)?;
        within("launch-tensor", self.launch_tensor, 1.0, 1e3)
    }

    /// The shares, as the planner takes them.
    pub(super) fn rates(&self) -> Efficiency {
        let ideal = Efficiency::IDEAL;
        let seconds = |time: Option<Nanos>| plan::number(time.unwrap_or_default().0) / 1e9;
        let or = |given: Option<f64>, ideal: f64| given.unwrap_or(ideal);
        Efficiency {
            matmul: self.matmul,
            power: or(self.power, ideal.power),
            fill: self.fill,
            depth: self.depth,
            flash: self.flash,
            memory: self.memory,
            link: self.link,
            ring: self.ring,
            shared_ring: self.shared_ring,
            sharded_ring: or(self.sharded_ring, self.ring),
            tensor_network: self.tensor_network,
            hop: self.hop,
            collective_latency: seconds(self.collective_latency),
            hop_latency: seconds(self.hop_latency),
            launch: seconds(self.launch),
            launch_tensor: self.launch_tensor,
            bf16: or(self.bf16, ideal.bf16),
            fp8: or(self.fp8, ideal.fp8),
            fp8_block: or(self.fp8_block, or(self.fp8, ideal.fp8_block)),
            mxfp8: or(self.mxfp8, ideal.mxfp8),
            nvfp4: or(self.nvfp4, ideal.nvfp4),
            grouped: or(self.grouped, ideal.grouped),
            head: or(self.head, ideal.head),
            flash_backward: or(self.flash_backward, ideal.flash_backward),
            elementwise: or(self.elementwise, ideal.elementwise),
            eager: or(self.eager, ideal.eager),
            stock: or(self.stock, ideal.stock),
            unfused_activation: or(self.unfused_activation, ideal.unfused_activation),
            fused_experts: or(self.fused_experts, ideal.fused_experts),
            tensor_exposed: or(self.tensor_exposed, ideal.tensor_exposed),
            tensor_overlapped: or(self.tensor_overlapped, or(self.tensor_exposed, 1.0)),
            stage_overlapped: or(self.stage_overlapped, ideal.stage_overlapped),
            context_exposed: or(self.context_exposed, ideal.context_exposed),
            expert_link: or(self.expert_link, self.link),
            expert_network: or(self.expert_network, self.hop),
            expert_overlapped: or(self.expert_overlapped, ideal.expert_overlapped),
            expert_ring: or(self.expert_ring, self.ring),
            launch_experts: seconds(self.launch_experts.or(self.launch)),
            launch_latent: or(self.launch_latent, ideal.launch_latent),
            expert_latency: seconds(self.expert_latency),
            pass_latency: seconds(self.pass_latency),
            step_latency: seconds(self.step_latency),
            step_doubling: seconds(self.step_doubling),
        }
    }
}
