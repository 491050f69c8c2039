//! Clusters as data files, and the ones built in.

use std::path::Path;

use pipeline::{Bandwidth, Bytes, Nanos};
use serde::Deserialize;
use sim::cluster::{Cluster, ClusterSpec, Host, Inter, Intra};

use crate::built_in::BuiltIn;
use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::keys::read::text;

/// The clusters that can be named without a file.
const CLUSTERS: BuiltIn = BuiltIn { what: "cluster", folder: scenarios::CLUSTERS };

/// The form of a cluster file.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Document {
    #[serde(rename = "source", default)]
    _source: String,
    /// As many as the stages need, unless given.
    nodes: Option<u64>,
    devices_per_node: u64,
    #[serde(default, deserialize_with = "text")]
    memory: Option<Bytes>,
    intra: IntraDocument,
    inter: InterDocument,
    host: Option<HostDocument>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IntraDocument {
    #[serde(deserialize_with = "text")]
    bandwidth: Option<Bandwidth>,
    #[serde(default, deserialize_with = "text")]
    latency: Option<Nanos>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InterDocument {
    nics: u64,
    #[serde(deserialize_with = "text")]
    bandwidth: Option<Bandwidth>,
    #[serde(default, deserialize_with = "text")]
    latency: Option<Nanos>,
    oversubscription: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct HostDocument {
    #[serde(deserialize_with = "text")]
    bandwidth: Option<Bandwidth>,
    /// 1 unless given.
    devices_per_link: Option<u64>,
}

/// The cluster in the file `name`, or the built-in one of that name, with room for `stages`.
pub fn named(context: &Context<'_>, name: &str, stages: usize) -> Result<Cluster, Diagnostic> {
    let path = Path::new(name);
    let content = CLUSTERS.text(context, name, path)?;
    let document: Document =
        toml::from_str(&content).map_err(|error| Diagnostic::toml(path, &content, &error, &[]))?;
    let impossible = |error| Diagnostic::new(format!("cluster {name}: {error}"));
    let spec = spec(&document, stages)
        .map_err(|message| Diagnostic::new(format!("cluster {name}: {message}")))?;
    Cluster::new(spec).map_err(impossible)
}

fn spec(document: &Document, stages: usize) -> Result<ClusterSpec, String> {
    let Document { nodes, devices_per_node, memory, intra, inter, host, .. } = document;
    let missing = |what: &str| format!("{what} has no bandwidth");
    let factor = inter.oversubscription.unwrap_or(1.0);
    if !(1.0..=10_000.0).contains(&factor) {
        return Err(format!("an oversubscription of {factor}: it must be from 1 to 10000"));
    }
    let host = host.as_ref().map(|host| {
        let bandwidth = host.bandwidth.ok_or_else(|| missing("host"))?;
        Ok::<_, String>(Host { bandwidth, devices_per_link: host.devices_per_link.unwrap_or(1) })
    });
    Ok(ClusterSpec {
        nodes: nodes.unwrap_or_else(|| (stages as u64).div_ceil((*devices_per_node).max(1))),
        devices_per_node: *devices_per_node,
        memory: *memory,
        intra: Intra {
            bandwidth: intra.bandwidth.ok_or_else(|| missing("intra"))?,
            latency: intra.latency.unwrap_or_default(),
        },
        inter: Inter {
            nics: inter.nics,
            bandwidth: inter.bandwidth.ok_or_else(|| missing("inter"))?,
            latency: inter.latency.unwrap_or_default(),
            oversubscription_percent: percent(factor),
        },
        host: host.transpose()?,
    })
}

/// A factor from 1 to 10,000 in whole percent.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn percent(factor: f64) -> u64 {
    (factor * 100.0).round() as u64
}
