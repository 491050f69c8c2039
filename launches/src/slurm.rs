//! The variables that Slurm sets for a job or a step of it.

use std::collections::BTreeMap;

/// Options of Slurm that are read: by their long and short names.
const READ: [(&str, &str); 8] = [
    ("nodes", "N"),
    ("ntasks", "n"),
    ("ntasks-per-node", ""),
    ("gres", ""),
    ("gpus-per-node", ""),
    ("gpus", "G"),
    ("cpus-per-task", "c"),
    ("job-name", "J"),
];

/// Values of options by their long names; the first of each counts.
#[derive(Default)]
pub(crate) struct Job {
    options: BTreeMap<&'static str, String>,
}

impl Job {
    /// Adds the options among `words`.
    pub(crate) fn add_words(&mut self, words: &[String]) {
        self.add(words.iter().map(String::as_str));
    }

    /// Sets option `name`, unless it is set.
    pub(crate) fn set(&mut self, name: &'static str, value: String) {
        self.options.entry(name).or_insert(value);
    }

    /// Adds option `name` by the variable `variable` of this process.
    pub(crate) fn add_variable(&mut self, name: &'static str, variable: &str) {
        if let Ok(value) = std::env::var(variable) {
            self.set(name, value);
        }
    }

    /// Whether option `name` is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.options.contains_key(name)
    }

    /// Adds the options in the lines `#SBATCH` of a script.
    pub(crate) fn add_script(&mut self, text: &str) {
        for line in text.lines().filter_map(|line| line.trim_end().strip_prefix("#SBATCH")) {
            self.add(line.split_whitespace().take_while(|word| !word.starts_with('#')));
        }
    }

    fn add<'a>(&mut self, words: impl Iterator<Item = &'a str>) {
        let mut words = words.peekable();
        while let Some(word) = words.next() {
            let (name, value) = match (word.strip_prefix("--"), word.strip_prefix('-')) {
                (Some(long), _) => match long.split_once('=') {
                    Some((name, value)) => (name, Some(value)),
                    None => (long, None),
                },
                (None, Some(short)) if short.is_char_boundary(1) && !short.is_empty() => {
                    let (name, value) = short.split_at(1);
                    (name, Some(value.trim_start_matches('=')).filter(|value| !value.is_empty()))
                }
                _ => continue,
            };
            let Some((long, _)) = READ.iter().find(|own| own.0 == name || own.1 == name) else {
                continue;
            };
            let value = value.or_else(|| words.next_if(|next| !next.starts_with('-')));
            let value = value.unwrap_or_default().trim_matches(['"', '\'']).to_owned();
            self.options.entry(long).or_insert(value);
        }
    }

    /// The number of option `name`: the last part of `gpu:a100:8`, the first of `2-4`.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        let value = self.options.get(name)?;
        let device = value.split(',').find(|part| part.starts_with("gpu")).unwrap_or(value);
        device.rsplit(':').next()?.split('-').next()?.parse().ok().filter(|own| *own > 0)
    }

    /// The variables of a job by these options, with `nodes` and `gpus` of each where they do not say them.
    pub(crate) fn variables(&self, nodes: u64, gpus: u64) -> Vec<(String, String)> {
        let nodes = self.number("nodes").unwrap_or(nodes);
        let all = self.number("gpus").map(|all| all.div_ceil(nodes));
        let each = self.number("gpus-per-node").or(self.number("gres")).or(all);
        let own = self.number("ntasks-per-node");
        let tasks = self.number("ntasks").unwrap_or(own.unwrap_or(1).saturating_mul(nodes));
        let list = match nodes {
            1 => "node0".to_owned(),
            _ => format!("node[0-{}]", nodes - 1),
        };
        let folder = std::env::current_dir().unwrap_or_default().display().to_string();
        let job_name = self.options.get("job-name").map_or("job", String::as_str).to_owned();
        let all = [
            ("NNODES JOB_NUM_NODES", nodes.to_string()),
            ("NTASKS NPROCS", tasks.to_string()),
            ("NTASKS_PER_NODE TASKS_PER_NODE", own.unwrap_or(tasks.div_ceil(nodes)).to_string()),
            ("GPUS_ON_NODE GPUS_PER_NODE", each.unwrap_or(gpus).to_string()),
            ("CPUS_PER_TASK", self.number("cpus-per-task").unwrap_or(8).to_string()),
            ("CPUS_ON_NODE", "64".to_owned()),
            ("JOB_ID JOBID", "1001".to_owned()),
            ("PROCID LOCALID NODEID", "0".to_owned()),
            ("JOB_NODELIST NODELIST", list),
            ("JOB_NAME", job_name),
            ("JOB_PARTITION JOB_ACCOUNT", "gpu".to_owned()),
            ("SUBMIT_DIR", folder),
        ];
        let named = |(names, value): (&'static str, String)| {
            names.split(' ').map(move |name| (format!("SLURM_{name}"), value.clone()))
        };
        all.into_iter().flat_map(named).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_in_all_their_forms() {
        let words = ["-N4", "-n", "32", "--job-name", "a b", "--gres=gpu:a100:4,ssd:1", "run.sh"];
        let mut job = Job::default();
        job.add_words(&words.map(str::to_owned));
        job.add_script(
            "#!/bin/bash\n#SBATCH --nodes=9-12 # many\n#SBATCH -c 7\n#SBATCH --exclusive",
        );
        let is = |name: &str| {
            let all = job.variables(1, 8);
            all.into_iter().find(|(own, _)| own == name).map(|(_, value)| value).unwrap()
        };
        let names = ["NNODES", "NTASKS", "NTASKS_PER_NODE", "GPUS_ON_NODE", "CPUS_PER_TASK"];
        let values = names.map(|name| is(&format!("SLURM_{name}")));
        assert_eq!(values, ["4", "32", "8", "4", "7"]);
        assert_eq!(is("SLURM_JOB_NODELIST"), "node[0-3]");
    }
}
