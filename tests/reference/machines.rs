//! Machines and clusters that are built in: every key of their files, with its meaning and values.

use scenarios::{CLUSTERS, Folder, MACHINES};
use toml::{Table, Value};

use super::markdown::{code, table};

/// The keys of a machine's file. A key that is not here has no meaning in the book, which is an error.
const OF_MACHINES: &[(&str, &str)] = &[
    (
        "device.type",
        "The names of the device in published measurements, one or several: errors of predictions are of it.",
    ),
    ("device.memory", "Memory of a device, as frameworks see it."),
    (
        "device.reserve",
        "The part of the memory that no framework gets: CUDA context, buffers of NCCL, gaps between blocks.",
    ),
    ("device.peak-tflops", "Peak rate of 16-bit matrix products without sparsity, TFLOP/s."),
    (
        "device.peak-fp8-tflops",
        "Peak rate of 8-bit matrix products without sparsity, TFLOP/s; nothing where there are none.",
    ),
    (
        "device.peak-fp4-tflops",
        "Peak rate of 4-bit matrix products without sparsity, TFLOP/s; nothing where there are none.",
    ),
    (
        "device.block-formats",
        "Formats with a scale for each block of numbers that products take: `mxfp8`, `nvfp4`; both of a device with 4-bit products, unless given.",
    ),
    ("device.bandwidth", "Bandwidth of the device's memory."),
    ("device.watts", "Power that a device may draw."),
    ("device.per-node", "Devices of a node: those of one host."),
    (
        "device.domain",
        "Devices that share fast links: those of a node, unless given. Of a larger domain a job takes as many as divide its devices: 64 of a rack of 72 where groups are powers of two.",
    ),
    ("device.link", "Bandwidth of a device to the others of its domain, in each direction."),
    (
        "device.network",
        "Bandwidth of a device to other domains, in each direction: that of its NIC.",
    ),
    ("device.host-link", "Bandwidth of a link to the host's memory, in each direction."),
    ("device.devices-per-host-link", "Devices that share a link to the host."),
    ("efficiency.matmul", "Share of the peak rate that large matrix products reach."),
    (
        "efficiency.fill",
        "Elements of a product's result that fill the device once more: a product of M N results takes as long as one of M N + fill.",
    ),
    (
        "efficiency.depth",
        "Inner size that a product loses to its beginning and end: K takes as long as K + depth.",
    ),
    ("efficiency.flash", "Share of the peak rate that fused attention reaches."),
    ("efficiency.memory", "Share of the memory bandwidth that streaming kernels reach."),
    (
        "efficiency.link",
        "Share of the link bandwidth that rings of collectives within a node reach.",
    ),
    (
        "efficiency.ring",
        "Share of the network bandwidth that rings over nodes reach while gradients are reduced.",
    ),
    (
        "efficiency.shared-ring",
        "Of that, what is left where several rings meet on the NICs of a node.",
    ),
    (
        "efficiency.tensor-network",
        "Share of a node's network bandwidth that a collective of a tensor group over nodes reaches.",
    ),
    (
        "efficiency.sharded-ring",
        "The same as ring, of collectives that run layer by layer in every microbatch (ZeRO 3); as ring unless given.",
    ),
    (
        "efficiency.power",
        "Rate of products and attention over that of others of the generation; no rate is above its peak.",
    ),
    (
        "efficiency.bf16",
        "Rate of 16-bit products that all tokens meet, over that of experts in 16 bits, the head and the router.",
    ),
    (
        "efficiency.fp8",
        "Share of the 8-bit peak that products with one scale for a tensor reach, over that of 16 bits.",
    ),
    ("efficiency.fp8-block", "The same with a scale for each block; as fp8 unless given."),
    ("efficiency.mxfp8", "The same with a scale for each 32 numbers."),
    ("efficiency.nvfp4", "The same of the 4-bit peak."),
    (
        "efficiency.grouped",
        "Rate of the products of many experts in one kernel, over that of plain ones.",
    ),
    (
        "efficiency.head",
        "Rate of products of the head and the router, over that of plain ones in 16 bits.",
    ),
    (
        "efficiency.flash-backward",
        "How many times as long the backward of fused attention takes as the forward; 2.5 by its FLOPs.",
    ),
    (
        "efficiency.elementwise",
        "How many times as long kernels that do little for each byte take as their bytes.",
    ),
    ("efficiency.eager", "The same where no compiler fuses them, over that."),
    (
        "efficiency.stock",
        "How many times as long Megatron-LM computes with its defaults as in tuned recipes (`tuning = \"stock\"`).",
    ),
    (
        "efficiency.unfused-activation",
        "How many times as much the activation function of experts moves where it is not fused.",
    ),
    (
        "efficiency.fused-experts",
        "How many times as long experts take where the kernels around them are fused.",
    ),
    ("efficiency.tensor-exposed", "Share of the collectives of tensor groups that nothing hides."),
    ("efficiency.tensor-overlapped", "The same where they run beside products (overlap-tensor)."),
    (
        "efficiency.stage-overlapped",
        "Share of the transfers between stages that nothing hides where a stage has several chunks.",
    ),
    ("efficiency.context-exposed", "Share of the exchange of context groups that nothing hides."),
    (
        "efficiency.expert-link",
        "Share of the link bandwidth that all-to-alls of experts reach, by the bytes that are counted.",
    ),
    ("efficiency.expert-network", "Share of the network bandwidth that they reach."),
    (
        "efficiency.expert-overlapped",
        "Share of them that nothing hides where they run beside another microbatch (overlap-experts).",
    ),
    (
        "efficiency.expert-ring",
        "Share of the network bandwidth that rings of the gradients of experts reach.",
    ),
    ("efficiency.launch-experts", "The same as launch of a layer with experts."),
    (
        "efficiency.launch-latent",
        "How many times as long launches take with multi-head latent attention.",
    ),
    ("efficiency.expert-latency", "Time that a layer with experts takes besides, both ways."),
    (
        "efficiency.pass-latency",
        "Time that a stage takes for a microbatch besides, where no CUDA graph launches it.",
    ),
    ("efficiency.step-latency", "Time that a step takes besides."),
    (
        "efficiency.step-doubling",
        "What is added to that for each doubling of the devices beyond 64.",
    ),
    ("efficiency.hop", "Share of the network bandwidth that one transfer between stages reaches."),
    ("efficiency.collective-latency", "Time of a collective besides its bytes."),
    ("efficiency.hop-latency", "Time of a transfer between stages besides its bytes."),
    (
        "efficiency.launch",
        "Time of the host to launch all kernels of a layer's forward, recomputation and backward: a layer takes no less.",
    ),
    ("efficiency.launch-tensor", "How many times as long that takes with collectives in between."),
    ("price.on-demand", "Dollars for an hour of a device on demand."),
    ("price.reserved", "The same, reserved for long."),
    ("price.spot", "The same on the spot market."),
    ("price.preemptions-per-hour", "How often an hour a spot device is taken away."),
    (
        "failures.hours-between-failures",
        "Mean time between failures of one device with its share of node and network, hours.",
    ),
    ("failures.restart", "Time from a failure until the job computes again."),
    ("failures.checkpoint", "Rate at which one device writes a checkpoint."),
];

/// The keys of a cluster's file.
const OF_CLUSTERS: &[(&str, &str)] = &[
    ("nodes", "Nodes; as many as the stages need, unless given."),
    ("devices-per-node", "Devices of a node."),
    ("memory", "Memory of a device; not limited, unless given."),
    ("intra.bandwidth", "Bandwidth of a device to the others of its node, in each direction."),
    ("intra.latency", "Latency of a transfer within a node."),
    ("inter.nics", "NICs of a node, which neighbouring devices share."),
    ("inter.bandwidth", "Bandwidth of a NIC, in each direction."),
    ("inter.latency", "Latency of a transfer between nodes."),
    (
        "inter.oversubscription",
        "How many times the NICs together exceed what the network carries: 1, unless given.",
    ),
    ("host.bandwidth", "Bandwidth of a link to the host's memory, in each direction."),
    ("host.devices-per-link", "Devices that share a link to the host: 1, unless given."),
];

/// The machines of the planner: what their keys mean, and a table for each part of their files, with a
/// row for each machine.
pub fn machines() -> Result<String, String> {
    let files = files(MACHINES, OF_MACHINES)?;
    let meanings = OF_MACHINES.iter().map(|(key, meaning)| vec![code(key), (*meaning).to_owned()]);
    let mut text = table(&["key", "meaning"], meanings);
    let mut parts: Vec<&str> = OF_MACHINES.iter().filter_map(|(key, _)| part(key)).collect();
    parts.dedup();
    for one in parts {
        let keys = || OF_MACHINES.iter().map(|(key, _)| *key).filter(|key| part(key) == Some(one));
        let heads: Vec<String> = keys().map(|key| code(&key[one.len() + 1..])).collect();
        let head: Vec<&str> =
            ["machine"].into_iter().chain(heads.iter().map(String::as_str)).collect();
        let rows = files.iter().map(|(name, values)| {
            let values = keys().map(|key| value(values, key));
            [code(name)].into_iter().chain(values).collect()
        });
        text += &format!("\n`[{one}]` of each machine:\n\n{}", table(&head, rows));
    }
    Ok(text)
}

/// The part of a file that `key` is in.
fn part(key: &str) -> Option<&str> {
    key.split_once('.').map(|(part, _)| part)
}

/// The clusters of the event engine.
pub fn clusters() -> Result<String, String> {
    all(CLUSTERS, OF_CLUSTERS)
}

/// A file that is built in: its name, and all values by their keys.
type File = (&'static str, Vec<(String, String)>);

/// The files of `folder`, whose keys must all be among `meanings`.
fn files(folder: Folder, meanings: &[(&str, &str)]) -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    for (name, text) in folder.files() {
        let table: Table = toml::from_str(text).map_err(|error| format!("{name}: {error}"))?;
        let mut values = Vec::new();
        flatten("", &table, &mut values);
        let unknown = |(key, _): &&(String, String)| {
            key != "source" && meanings.iter().all(|(known, _)| known != key)
        };
        if let Some((key, _)) = values.iter().find(unknown) {
            return Err(format!("{name}: the key {key} has no meaning in tests/reference"));
        }
        files.push((name, values));
    }
    Ok(files)
}

/// The value of `key`, or a dash.
fn value(values: &[(String, String)], key: &str) -> String {
    let found = values.iter().find(|(known, _)| known == key);
    found.map_or("-".to_owned(), |(_, value)| value.clone())
}

/// A row for each key, with its meaning and its value in every file of `folder`.
fn all(folder: Folder, meanings: &[(&str, &str)]) -> Result<String, String> {
    let files = files(folder, meanings)?;
    let rows = meanings.iter().map(|(key, meaning)| {
        let values = files.iter().map(|(_, values)| value(values, key));
        [code(key), (*meaning).to_owned()].into_iter().chain(values).collect()
    });
    let names = files.iter().map(|(name, _)| *name);
    let head: Vec<&str> = ["key", "meaning"].into_iter().chain(names).collect();
    Ok(table(&head, rows))
}

/// The values of `table` as text, by their whole names.
fn flatten(path: &str, table: &Table, into: &mut Vec<(String, String)>) {
    for (key, value) in table {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match value {
            Value::Table(table) => flatten(&path, table, into),
            Value::String(text) => into.push((path, text.clone())),
            Value::Array(all) => {
                let texts =
                    all.iter().map(|one| one.as_str().map_or(one.to_string(), str::to_owned));
                into.push((path, texts.collect::<Vec<_>>().join(", ")));
            }
            other => into.push((path, other.to_string())),
        }
    }
}
