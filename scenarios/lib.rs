//! The data files that are built in, so that they can be named where no file lies: clusters, machines,
//! and the settings and figures of published papers.
//!
//! One table for each folder. A file is added by putting it into the folder and its name into the table:
//!
//! ```
//! let cluster = scenarios::CLUSTERS.get("dgx-a100").ok_or("there is no such cluster")?;
//! assert!(cluster.contains("devices-per-node = 8"));
//! assert!(scenarios::MACHINES.names().any(|name| name == "h100"));
//!
//! // In a constant, a name that is not there is an error of the compiler.
//! const SETTINGS: &str = scenarios::PAPER.text("table5.toml");
//! assert!(SETTINGS.contains("[[setting]]"));
//! # Ok::<(), &str>(())
//! ```

/// A folder of built-in files, in the order in which messages list them.
#[derive(Clone, Copy, Debug)]
pub struct Folder(&'static [(&'static str, &'static str)]);

/// The files of a folder beside this one. Their names go without the extension `ext`.
macro_rules! folder {
    ($folder:literal, $ext:literal, [$($name:literal),* $(,)?]) => {
        Folder(&[$(($name, include_str!(concat!($folder, "/", $name, $ext)))),*])
    };
}

/// Clusters: devices per node, links within and between nodes, and links to the host's memory.
pub const CLUSTERS: Folder =
    folder!("clusters", ".toml", ["dgx-a100", "dgx-h100", "dgx-h200", "a100-roce", "a100-pcie"]);

/// Machines: rates, efficiencies, prices and failures of devices, for the planner.
pub const MACHINES: Folder = folder!(
    "machines",
    ".toml",
    [
        "a100-40g",
        "a100-80g",
        "a100-pcie",
        "a100-pcie-40g",
        "a800",
        "h100",
        "h100-96g",
        "h200",
        "h800",
        "h20",
        "gh200",
        "b200",
        "b300",
        "gb200",
        "gb300",
        "l20",
        "l40s",
        "rtx-4090",
        "mi300x",
        "mi325x",
        "mi355x",
        "ascend-910b",
    ]
);

/// Questions to begin with. Each says in `title` what it asks and in `source` where its figures come from.
pub const EXAMPLES: Folder = folder!(
    "examples",
    ".toml",
    [
        "first-look",
        "gpt-6.2b",
        "equal-times",
        "gpt-14.6b",
        "gpt-28.3b",
        "dense-70b",
        "moe-141b",
        "moe-overlap",
        "slow-stage",
        "slow-links",
        "unequal-microbatches",
    ]
);

/// Questions for the planner to begin with.
pub const PLANS: Folder = folder!("plan", ".toml", ["llama3-8b", "gpt3", "deepseek-v3"]);

/// Steps of reinforcement learning to begin with. The first line of each, a comment, is its title.
pub const RL: Folder = folder!(
    "rl",
    ".toml",
    ["grpo-7b", "grpo-7b-megatron", "long-responses", "separate-devices", "ppo"]
);

/// Questions of packing and communication to begin with. The first line of each, a comment, is its title.
pub const FSDP: Folder = folder!(
    "fsdp",
    ".toml",
    ["long-contexts", "model-on-machine", "nodes", "slow-pulls", "slow-device"]
);

/// Encoders in front of a language model to begin with. The first line of each, a comment, is its title.
pub const ENCODERS: Folder = folder!("encoder", ".toml", ["vit-22b", "model-on-machine", "frozen"]);

/// Keys of dead workers to begin with, beside those of a scenario. The first line of each, a comment, is its title.
pub const FAILURES: Folder = folder!("failures", ".toml", ["one-dead", "policies", "two-dead"]);

/// Published settings and figures, under the names of their files.
pub const PAPER: Folder = folder!(
    "paper",
    "",
    [
        "table2.toml",
        "table5.toml",
        "table8.toml",
        "interleave.toml",
        "fig9.csv",
        "vocabulary.csv",
        "vocabulary-scaling.csv",
        "vocabulary-tables.csv",
        "vocabulary-settings.csv",
        "headlines.csv",
        "expected-misses.csv",
        "independent-check.csv",
        "optimus.csv",
        "optimus-models.csv",
        "optimus-claims.csv",
        "odc.csv",
        "odc-lengths.csv",
        "odc-tasks.csv",
        "odc-models.csv",
        "odc-claims.csv",
        "controllable.csv",
        "offload-fig1.csv",
        "offload-fig15.csv",
        "offload-models.csv",
        "korthikanti2022.csv",
        "megatron2021.csv",
        "megatron2021-settings.csv",
        "megatron2021-zero3.csv",
        "vtrain-errors.csv",
        "vtrain-multi.toml",
        "zb-models.csv",
        "zb-throughput.csv",
        "zb-table6.csv",
        "zb-post-validation.csv",
        "overlap-pair.csv",
        "overlap-figures.csv",
        "overlap-models.csv",
        "overlap-runs.csv",
        "overlap-gains.csv",
        "overlap-settings.csv",
        "overlap-claims.csv",
        "recycle.csv",
        "recycle-claims.csv",
        "today-models.csv",
        "today-mlperf.csv",
        "today-megatron-bridge.csv",
        "today-fsdp.csv",
        "today-lora.csv",
        "today-nemo.csv",
        "today-simumax.csv",
        "today-torchtitan.csv",
        "today-ccl-bench.csv",
        "today-errors.csv",
        "sets-errors.csv",
        "calibrated-errors.csv",
        "trainings.csv",
    ]
);

/// The pipelines whose best known orders stand in `results/records`, a setting each.
pub const RECORDS: &str = include_str!("records.toml");

impl Folder {
    /// The text of the file `name`, if there is one.
    #[must_use]
    pub const fn get(self, name: &str) -> Option<&'static str> {
        let mut at = 0;
        while at < self.0.len() {
            let (known, text) = self.0[at];
            if equal(known.as_bytes(), name.as_bytes()) {
                return Some(text);
            }
            at += 1;
        }
        None
    }

    /// The text of the file `name`, for constants.
    ///
    /// # Panics
    /// If there is no such file: while the constant is compiled.
    #[must_use]
    pub const fn text(self, name: &str) -> &'static str {
        self.get(name).expect("the table has no file of this name")
    }

    /// The names and texts of all files.
    pub fn files(self) -> impl ExactSizeIterator<Item = (&'static str, &'static str)> {
        self.0.iter().copied()
    }

    /// The names of all files.
    pub fn names(self) -> impl ExactSizeIterator<Item = &'static str> {
        self.files().map(|(name, _)| name)
    }
}

/// `==`, which is not yet to be had in constants.
const fn equal(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::{fs, path::Path};

    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods)] // The folders are what is checked.
    fn every_file_of_a_folder_is_in_its_table() {
        let folders = [
            ("clusters", CLUSTERS, ".toml"),
            ("machines", MACHINES, ".toml"),
            ("examples", EXAMPLES, ".toml"),
            ("plan", PLANS, ".toml"),
            ("rl", RL, ".toml"),
            ("fsdp", FSDP, ".toml"),
            ("encoder", ENCODERS, ".toml"),
            ("failures", FAILURES, ".toml"),
            ("paper", PAPER, ""),
        ];
        for (name, folder, extension) in folders {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
            let files = fs::read_dir(path).unwrap();
            let there: BTreeSet<String> =
                files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
            // Given to `debubble` as files, and read by tests alone.
            let given = [
                "cuda-graphs.toml",
                "deepseek-v3.2.toml",
                "fig9-sweep.toml",
                "llama3-405b.toml",
                "llama3-70b-lora.toml",
                "llama3-70b.toml",
                "llama3-8b-a800.toml",
                "llama3-8b-muon.toml",
                "moe.toml",
                "today-memory.csv",
            ];
            let given = BTreeSet::from(given.map(str::to_owned));
            let told = folder.names().map(|name| format!("{name}{extension}")).collect();
            assert_eq!(there.difference(&given).cloned().collect::<BTreeSet<_>>(), told, "{name}");
            assert!(folder.files().all(|(name, text)| folder.get(name) == Some(text)));
        }
    }

    #[test]
    fn a_name_must_be_whole() {
        for name in ["", "h10", "h1000", "h100.toml"] {
            assert_eq!(MACHINES.get(name), None, "{name}");
        }
    }
}
