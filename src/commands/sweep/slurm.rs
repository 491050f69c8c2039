//! The script that runs a sweep as an array of SLURM jobs.

use std::path::Path;

/// A script for `sbatch`: `count` jobs, one shard each, and a job that merges them.
///
/// `sweep` are the words of the command line without those about parts.
pub(super) fn script(program: &Path, sweep: &[String], out: &Path, count: u64) -> String {
    let program = quoted(&program.to_string_lossy());
    let sweep = sweep.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let out = quoted(&out.to_string_lossy());
    format!(
        r#"#!/bin/bash
# A sweep in {count} shards, one per job of an array, and a job that merges them once all are done.
#
#   sbatch THIS_FILE      begins, from the folder that the paths below are relative to
#   the same once more    after a job was killed: shards go on from where they ended
#
# Shards are written next to the output and may run on any nodes that share the folder.
#SBATCH --job-name=debubble-sweep
#SBATCH --array=1-{count}
#SBATCH --cpus-per-task=2
#SBATCH --requeue
#SBATCH --output=debubble-sweep-%A-%a.log
set -eu
out={out}
# The first job of the array hands in the merge, which waits for all of them.
if [ "$SLURM_ARRAY_TASK_ID" = 1 ] && [ "${{SLURM_RESTART_COUNT:-0}}" = 0 ]; then
  shards=()
  for number in $(seq 1 {count}); do shards+=("$out.shard-$number-of-{count}"); done
  sbatch --job-name=debubble-merge --dependency="afterok:$SLURM_ARRAY_JOB_ID" \
    --output=debubble-merge-%j.log \
    --wrap="$(printf '%q ' {program} sweep --merge "${{shards[@]}}" --out "$out")"
fi
export RAYON_NUM_THREADS="${{SLURM_CPUS_PER_TASK:-2}}"
exec {program} sweep {sweep} --out "$out.shard-$SLURM_ARRAY_TASK_ID-of-{count}" \
  --shard "$SLURM_ARRAY_TASK_ID/{count}"
"#
    )
}

/// `word` as one word of a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:=@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}
