//! The keys of a question that say what the pipeline runs on.

use pipeline::{Bytes, Nanos};

use super::table::{Lists, keys};
use crate::values::hardware::{
    BoundaryKey, CommunicationModeKey, FullKey, PartKey, ProtocolKey, ReductionKey, SeatingKey,
    SharingKey,
};

keys! {
    /// The keys of a question about the cluster, transfers, memory and the step boundary.
    pub struct HardwareKeys: "Cluster, memory and step boundary", Lists::OfTexts;

    /// Cluster of the pipeline: dgx-a100, dgx-h100, dgx-h200, a100-roce, a100-pcie, or a file of
    /// that form, in a scenario first looked for in its folder [default: links that are never
    /// shared, with --hop]
    cluster: Option<String>, label: "Cluster", value: "NAME|FILE";
    /// Which device each stage sits on: contiguous, across-nodes, or a list such as 0,0,1,1
    /// [default: contiguous]
    seating: Option<SeatingKey>, label: "Devices of the stages", value: "HOW";
    /// Size of one output or gradient [default: 2 bytes x hidden x seq x microbatch-size]
    message: Option<Bytes>, label: "Message between stages (bytes)", value: "SIZE";
    /// How transfers share a wire: fair (at once, max-min) or queue (one by one) [default: fair]
    sharing: Option<SharingKey>, label: "Sharing of a wire", value: "HOW";
    /// When a transfer begins: eager, or rendezvous:AHEAD, when the receiver is AHEAD slots before
    /// the one that needs it, one by one between two stages [default: eager]
    protocol: Option<ProtocolKey>, label: "Transfer protocol", value: "HOW";
    /// Whether communication is overlapped, or blocking: on the compute stream
    /// [default: overlapped]
    communication: Option<CommunicationModeKey>, label: "Overlap of communication", value: "HOW";
    /// Steps run in sequence [default: 1]
    steps: Option<u32>, label: "Steps in sequence", value: "N";
    /// How stages wait for each other between steps: barrier, asynchronous, or
    /// post-validation:PROBABILITY that it fails [default: barrier]
    boundary: Option<BoundaryKey>, label: "Step boundary", value: "HOW";
    /// Time of the all-reduce at the barrier, or of one hop of post-validation [default: 0ns]
    exchange: Option<Nanos>, label: "All-reduce at the step boundary", value: "TIME";
    /// Time of the optimizer on a stage [default: 0ns]
    optimizer: Option<Nanos>, label: "Time of the optimizer", value: "TIME";
    /// Time to take an optimizer step back [default: 0ns]
    rollback: Option<Nanos>, label: "Time of a rollback", value: "TIME";
    /// Time to reduce the gradients of one chunk over data-parallel replicas: TIME, exposed after
    /// the stage's last pass, or TIME:overlapped, from the chunk's last W on [default: 0ns]
    gradient_reduction: Option<ReductionKey>, label: "Gradient reduction of a chunk", value: "TIME[:HOW]";
    /// Resident bytes of a stage (weights, gradients, optimizer state); or one per stage
    resident: Option<Vec<Bytes>>, label: "Resident memory of a stage", value: "SIZE,..";
    /// Vocabulary V: with --hidden and --layers-per-stage, what stages hold all the time follows
    /// from the parameters, the embedding on the first chunk's stage, the LM head on the last's
    vocabulary: Option<u64>, label: "Vocabulary size (V)", value: "V";
    /// Bytes per parameter of weights, gradients and optimizer state
    /// [default: 18 = 2 + 4 + 12, bf16 with fp32 gradients, master weights and Adam moments]
    bytes_per_parameter: Option<u64>, label: "Bytes per parameter", value: "N";
    /// Memory of every device; or one per device [default: the cluster's]
    device_memory: Option<Vec<Bytes>>, label: "Memory of a device", value: "SIZE,..";
    /// Part of each activation that is on the host between F and B, from 0 to 1; the cluster, or
    /// --offload-time and its like, say how long it takes [default: 0; for po-h and po-f 1]
    offload: Option<PartKey>, label: "Offloaded share of activations", value: "PART";
    /// How many slots before its backward an activation is called back from the host [default: 2]
    reload_ahead: Option<u32>, label: "Reload before B (slots)", value: "SLOTS", signed: false;
    /// Most copies to the host that are in flight when a stage goes on after a forward that --offload copies: it waits
    /// for earlier ones, with 0 for each; as fine_grained_offloading_max_inflight_offloads of Megatron-LM
    /// [default: no limit, so that no pass waits for a copy to the host]
    max_inflight_offloads: Option<u32>, label: "Most copies to the host in flight", value: "N", signed: false;
    /// Behaviour where a device is full: report it, or let passes wait [default: report]
    when_full: Option<FullKey>, label: "Full device", value: "HOW";
}
