//! Machines and clusters that are built in: every key of their files, with its meaning and values.

use plan::RATES;
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

/// The machines of the planner: what their keys mean, how rates are measured, and a table for each part of their files,
/// with a row for each machine.
pub fn machines() -> Result<String, String> {
    let rates = RATES.iter().map(|rate| (format!("efficiency.{}", rate.key), rate.about));
    let rates: Vec<(String, &str)> = rates.collect();
    let of_rates = rates.iter().map(|(key, about)| (key.as_str(), *about));
    let at = OF_MACHINES.iter().position(|(key, _)| part(key) == Some("price")).unwrap_or_default();
    let (device, rest) = OF_MACHINES.split_at(at);
    let all: Vec<(&str, &str)> =
        device.iter().copied().chain(of_rates).chain(rest.iter().copied()).collect();
    let files = files(MACHINES, &all)?;
    let meanings = OF_MACHINES.iter().map(|(key, meaning)| vec![code(key), (*meaning).to_owned()]);
    let mut text = table(&["key", "meaning"], meanings);
    let row = |rate: &plan::Rate| {
        let texts = [rate.about.to_owned(), rate.otherwise.to_string(), rate.source.to_owned()];
        [code(rate.key)].into_iter().chain(texts).collect()
    };
    text += "\nRates in `[efficiency]`, the value of one that is left out, and the measurement that gives it. Ideal is 1, of flash-backward 2.5, of a \
             time 0:\n\n";
    text += &table(&["rate", "meaning", "unless given", "measurement"], RATES.iter().map(row));
    let mut parts: Vec<&str> = all.iter().filter_map(|(key, _)| part(key)).collect();
    parts.dedup();
    for one in parts {
        let keys = || all.iter().map(|(key, _)| *key).filter(|key| part(key) == Some(one));
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
