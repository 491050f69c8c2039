//! What a script asks of Slurm in its first comments.

use super::value::Value;

/// Numbers of nodes and of devices or tasks on each.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Batch {
    pub(crate) nodes: Option<u64>,
    pub(crate) devices: Option<u64>,
    pub(crate) tasks: Option<u64>,
    /// Devices of all nodes.
    pub(crate) all: Option<u64>,
}

impl Batch {
    /// What the lines `#SBATCH` of `text` ask for, up to its first command.
    pub(super) fn of(text: &str) -> Self {
        let mut own = Self::default();
        let is_before = |line: &&str| line.trim().is_empty() || line.starts_with('#');
        for line in
            text.lines().take_while(is_before).filter_map(|line| line.strip_prefix("#SBATCH"))
        {
            let mut words = line.split_whitespace();
            while let Some(word) = words.next().filter(|word| !word.starts_with('#')) {
                let (name, value) = match word.split_once('=') {
                    Some((name, value)) => (name, Some(value)),
                    None if !word.starts_with("--") && word.len() > 2 && word.is_ascii() => {
                        (&word[..2], Some(&word[2..]))
                    }
                    None => (word, words.next()),
                };
                own.set(name, value.unwrap_or_default());
            }
        }
        own
    }

    fn set(&mut self, name: &str, value: &str) {
        let number = |value: &str| value.rsplit(':').next().and_then(|last| last.parse().ok());
        let place = match name {
            "--nodes" | "-N" => &mut self.nodes,
            "--gpus-per-node" | "--gres" => &mut self.devices,
            "--ntasks-per-node" => &mut self.tasks,
            "--gpus" | "-G" => &mut self.all,
            _ => return,
        };
        match name {
            "--gres" => {
                let device = value.split(',').find(|part| part.split(':').next() == Some("gpu"));
                *place = device.and_then(|device| number(device).or(Some(1))).or(*place);
            }
            _ => *place = number(value),
        }
    }

    /// The variables that Slurm sets by it.
    pub(super) fn variables(&self) -> impl Iterator<Item = (String, Value)> {
        let all = [
            ("SLURM_NNODES", self.nodes),
            ("SLURM_JOB_NUM_NODES", self.nodes),
            ("SLURM_NTASKS_PER_NODE", self.tasks),
            ("SLURM_GPUS_ON_NODE", self.devices),
        ];
        let value = |(name, value): (&str, Option<u64>)| {
            Some((name.to_owned(), Value::of(value?.to_string())))
        };
        all.into_iter().filter_map(value)
    }
}
