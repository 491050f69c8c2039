//! Sweeps: the same bytes on any number of threads, killed or not, in one piece or in shards.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::cli::{debubble, refused, results, stdout};

const QUESTION: &str = r#"
schedule = ["1f1b", "zb-2p", "zb-heuristic"]
stages = 4
forward = "10ms"
backward-input = "11ms"
backward-weight = "7ms"
hidden = 4096
heads = 32
seq = 1024
"#;

const GRID: &str = r#"
[sweep]
microbatches = { from = 4, to = 64, factor = 2 }
memory-limit = { from = "0.125p", to = "3p", step = "0.125p" }
hop = ["0us", "500us"]
"#;

/// A folder with the scenario `grid.toml` of [`QUESTION`] and `axes`.
fn folder(axes: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("grid.toml"), format!("{QUESTION}{axes}")).unwrap();
    folder
}

fn sweep(folder: &Path, out: &str, more: &[&str]) -> std::process::Output {
    command(folder, out, more).output().unwrap()
}

fn command(folder: &Path, out: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_debubble"));
    command.current_dir(folder).args(["sweep", "grid.toml", "--out", out]).args(more);
    command
}

fn rows(file: &Path) -> Vec<csv::StringRecord> {
    csv::Reader::from_path(file).unwrap().records().map(Result::unwrap).collect()
}

#[test]
fn rows_come_in_the_order_of_the_axes() {
    let folder = folder(GRID);
    stdout(&sweep(folder.path(), "grid.csv", &[]));
    let file = folder.path().join("grid.csv");
    let rows = rows(&file);
    assert_eq!(rows.len(), 5 * 24 * 2 * 3);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("index,setting,memory-limit,hop,schedule,stages,microbatches,"));
    for (index, row) in rows.iter().enumerate() {
        assert_eq!(row[0], index.to_string());
        assert_eq!(&row[4], ["1f1b", "zb-2p", "zb-heuristic"][index % 3]);
        assert_eq!(&row[3], ["0us", "500us"][index / 3 % 2]);
        assert_eq!(row[6], (4 << (index / 144)).to_string());
        // Below one microbatch there is no answer, and the row says so.
        assert_eq!(row[18].is_empty(), !row[8].is_empty(), "{row:?}");
    }
    assert!(rows.iter().any(|row| row[18].contains("memory limit")));
    let limits: Vec<&str> = rows.iter().take(18).step_by(6).map(|row| &row[2]).collect();
    assert_eq!(limits, ["0.125p", "0.25p", "0.375p"]);
}

#[test]
fn figure_9_is_a_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fig9.csv");
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/paper/fig9-sweep.toml");
    stdout(&debubble(["sweep".as_ref(), scenario.as_ref(), "--out".as_ref(), file.as_os_str()]));
    let json = stdout(&debubble(["reproduce", "fig9", "--json", "--no-files"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    let cells = json["cells"].as_array().unwrap();
    let rows = rows(&file);
    assert_eq!(rows.len(), cells.len());
    for (row, cell) in rows.iter().zip(cells) {
        assert_eq!(cell["row"], format!("{}, {}", &row[1], &row[2]));
        assert_eq!(cell["column"], row[3]);
        // The reader of JSON may be off by the last bit.
        let ours = cell["ours"].as_f64().unwrap();
        assert!((ours - row[7].parse::<f64>().unwrap()).abs() < 1e-15);
    }
}

#[test]
fn the_picture_has_every_answer() {
    let axes = "[sweep]\nmicrobatches = [4, 8]\nmemory-limit = [\"1p\", \"2p\", \"3p\"]\n";
    let folder = folder(axes);
    stdout(&sweep(folder.path(), "grid.csv", &["--plot", "grid.svg"]));
    let svg = fs::read_to_string(folder.path().join("grid.svg")).unwrap();
    // A circle per panel and limit for the first schedule, and one in the legend.
    assert_eq!(svg.matches("<circle").count(), 2 * 3 + 1);
    assert!(svg.contains("microbatches=8") && svg.contains("memory-limit, in p"));
    let map = ["--plot", "map.svg", "--plot-map", "memory-limit,microbatches"];
    stdout(&sweep(folder.path(), "grid.csv", &map));
    let svg = fs::read_to_string(folder.path().join("map.svg")).unwrap();
    // A cell per question on a white ground.
    assert_eq!(svg.matches("<rect").count(), 18 + 1);
    let wrong = sweep(folder.path(), "no.csv", &["--plot", "no.svg", "--plot-map", "hop"]);
    refused(&wrong, &["--plot-map takes two axes"]);
    let wrong = sweep(folder.path(), "no.csv", &["--plot", "no.svg", "--plot-over", "hop"]);
    refused(&wrong, &["--plot-over hop: there is no such axis"]);
    assert!(!folder.path().join("no.csv").exists());
}

#[test]
fn rows_say_what_simulate_says() {
    let folder =
        folder("[sweep]\nmicrobatches = [8]\nslowdown = [[\"stage:1=1.5\"]]\nseed = [3]\n");
    stdout(&sweep(folder.path(), "grid.csv", &["--hop", "500us"]));
    let rows = rows(&folder.path().join("grid.csv"));
    let results = results(
        "simulate --stages 4 --microbatches 8 --schedule 1f1b,zb-2p,zb-heuristic --forward 10ms \
         --backward-input 11ms --backward-weight 7ms --hidden 4096 --heads 32 --seq 1024 \
         --hop 500us --slowdown stage:1=1.5 --seed 3 --json",
    );
    for (row, result) in rows.iter().zip(&results) {
        let rate = result["bubble_rate"].as_f64().unwrap();
        assert!((rate - row[8].parse::<f64>().unwrap()).abs() < 1e-15);
        assert_eq!(row[10].parse().ok(), result["span_ns"].as_u64());
        assert_eq!(row[11].parse().ok(), result["makespan_ns"].as_u64());
    }
}

#[test]
fn threads_and_shards_change_no_byte() {
    let folder = folder(GRID);
    let at = |name: &str| folder.path().join(name);
    stdout(&command(folder.path(), "one.csv", &[]).env("RAYON_NUM_THREADS", "1").output().unwrap());
    stdout(&command(folder.path(), "two.csv", &[]).env("RAYON_NUM_THREADS", "2").output().unwrap());
    let whole = fs::read(at("one.csv")).unwrap();
    assert_eq!(whole, fs::read(at("two.csv")).unwrap());
    for number in 1..=7 {
        let (out, shard) = (format!("{number}.csv"), format!("{number}/7"));
        stdout(&sweep(folder.path(), &out, &["--shard", &shard]));
    }
    let merge = |shards: &[&str]| {
        let shards = shards.iter().map(|name| at(name).into_os_string());
        let words = ["sweep".into(), "--out".into(), at("merged.csv").into(), "--merge".into()];
        debubble(words.into_iter().chain(shards))
    };
    let all = ["3.csv", "1.csv", "7.csv", "2.csv", "5.csv", "4.csv", "6.csv"];
    stdout(&merge(&all));
    assert_eq!(whole, fs::read(at("merged.csv")).unwrap());
    refused(&merge(&all[1..]), &["missing: shard 3/7"]);
    refused(&merge(&[&all[..], &["1.csv"]].concat()), &["shard 1/7 comes twice"]);
    refused(&merge(&["one.csv"]), &["it is not a shard of a sweep"]);
    stdout(&sweep(folder.path(), "foreign.csv", &["--shard", "3/7", "--hidden", "64"]));
    let foreign = [&["foreign.csv"], &all[1..]].concat();
    refused(&merge(&foreign), &["is not of the same sweep"]);
    let mut torn = fs::read(at("3.csv")).unwrap();
    torn.truncate(torn.len() - 30);
    fs::write(at("3.csv"), torn).unwrap();
    refused(&merge(&all), &["3.csv", "damaged or not complete"]);
}

#[test]
fn killed_and_resumed_is_the_same() {
    let axes = "[sweep]\nmicrobatches = [32, 64]\nmemory-limit = { from = \"1p\", to = \"3p\", \
                step = \"0.01p\" }\nhop = { from = \"0us\", to = \"70us\", step = \"10us\" }\n";
    let folder = folder(axes);
    stdout(&sweep(folder.path(), "whole.csv", &[]));
    let (out, journal) = (folder.path().join("out.csv"), folder.path().join("out.csv.partial"));
    let mut kills = 0;
    for wait in [40, 75, 55, 90, 60, 110] {
        let mut child =
            command(folder.path(), "out.csv", &[]).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(wait));
        // On Unix, this is SIGKILL.
        child.kill().unwrap();
        if child.wait().unwrap().success() {
            break;
        }
        kills += 1;
    }
    assert!(kills > 0);
    // A block torn in the middle, as after a power cut.
    if let Ok(mut bytes) = fs::read(&journal) {
        bytes.extend([7; 100]);
        fs::write(&journal, bytes).unwrap();
    }
    stdout(&sweep(folder.path(), "out.csv", &[]));
    assert_eq!(fs::read(&out).unwrap(), fs::read(folder.path().join("whole.csv")).unwrap());
    assert!(!journal.exists());
}

#[test]
fn a_full_disk_loses_nothing() {
    let folder = folder(GRID);
    stdout(&sweep(folder.path(), "whole.csv", &[]));
    // Files of at most 32 blocks, and an error instead of a signal beyond.
    let line = format!(
        "trap '' XFSZ; ulimit -f 32; exec '{}' sweep grid.toml --out out.csv",
        env!("CARGO_BIN_EXE_debubble")
    );
    let full = Command::new("sh").current_dir(folder.path()).args(["-c", &line]).output().unwrap();
    refused(
        &full,
        &["cannot write out.csv.partial", "rows are kept", "run the same command again"],
    );
    assert!(fs::metadata(folder.path().join("out.csv.partial")).unwrap().len() > 1000);
    let resumed = sweep(folder.path(), "out.csv", &[]);
    stdout(&resumed);
    assert!(String::from_utf8_lossy(&resumed.stderr).contains("were answered before"));
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    assert_eq!(read("out.csv"), read("whole.csv"));
}

#[test]
fn foreign_journals_are_refused() {
    let folder = folder(GRID);
    let journal = folder.path().join("out.csv.partial");
    let other = "# debubble sweep 0123456789abcdef shard 1/1 questions 720 version 0.0.9\n";
    fs::write(&journal, other).unwrap();
    let output = sweep(folder.path(), "out.csv", &[]);
    refused(&output, &["is of another sweep or version", "0123456789abcdef", "remove it"]);
    assert_eq!(fs::read_to_string(&journal).unwrap(), other);
    fs::write(folder.path().join("file"), "").unwrap();
    refused(&sweep(folder.path(), "file/out.csv", &[]), &["file is not a folder"]);
}

#[test]
fn a_malformed_sweep_ends_before_anything_runs() {
    let cases = [
        ("[sweep]\nmicrobatches = []", "1 to 100000 listed values"),
        ("[sweep]", "[sweep] has no axis"),
        ("sweep = 3", "begin it with [sweep]"),
        ("[sweep]\nmicrobatches = 8", "an axis is a list"),
        ("[sweep]\nmicrobatches = [8, 8]", "microbatches is 8 twice"),
        ("[sweep]\nmicrobatches = [8, \"x\"]", "a whole number, from 0 on, is needed"),
        ("[sweep]\nmicrobaches = [8]", "no key `microbaches`"),
        ("[sweep]\nstages = [8]\nmicrobatches = [8]", "given once more"),
        ("[sweep]\nhop = [\"1us\"]", "--microbatches missing"),
        ("[sweep]\nmicrobatches = [8]\nhop = [\"1\"]", "has no unit"),
        ("[sweep]\nmicrobatches = [8]\nreplicas = [0]", "number of replicas must be from 1"),
        ("[sweep]\nmicrobatches = { from = 8 }", "either step or factor"),
        ("[sweep]\nmicrobatches = { from = 8, to = 4, step = 1 }", "to must not be less"),
        ("[sweep]\nmicrobatches = { from = 1, to = 4, step = 0.5 }", "microbatches: invalid"),
        ("[sweep]\nmicrobatches = { from = 1, to = 4, by = 1 }", "and nothing else"),
        ("[sweep]\nmicrobatches = { from = -1, to = 4, step = 1 }", "not a decimal number"),
        ("[sweep]\nmicrobatches = { from = 1, to = 9, factor = 1 }", "factor more than 1"),
        ("[sweep]\nmicrobatches = { from = 1, to = 9, factor = 1.5 }", "list the values"),
        (
            "[sweep]\nmicrobatches = [4]\nhop = { from = \"1us\", to = \"1ms\", step = \"1us\" }",
            "same unit",
        ),
        (
            "[sweep]\nmicrobatches = [4]\nseed = { from = 0, to = 999999999, step = 1 }",
            "more than 100000000",
        ),
        ("[sweep]\nmicrobatches = [4]\ncluster = [\"dgx-a10\"]", "there is no cluster `dgx-a10`"),
        ("[sweep]\nmicrobatches = [4]\nslowdown-profile = [\"none.csv\"]", "none.csv"),
    ];
    for (axes, part) in cases {
        let folder = folder(axes);
        refused(&sweep(folder.path(), "out.csv", &[]), &[part]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{axes}");
    }
    let folder = folder(GRID);
    refused(&sweep(folder.path(), "out.csv", &["--microbatches", "4"]), &["given once more"]);
    refused(&sweep(folder.path(), "out.csv", &["--shard", "5/4"]), &["a shard is NUMBER/COUNT"]);
    let grid = folder.path().join("grid.toml");
    refused(&debubble(["simulate".as_ref(), grid.as_os_str()]), &["it is for `debubble sweep`"]);
}

#[test]
fn the_slurm_script_is_a_script() {
    let folder = folder(GRID);
    let script = stdout(&sweep(folder.path(), "a grid.csv", &["--slurm", "3", "--hidden", "64"]));
    for part in ["#SBATCH --array=1-3", "afterok:", "--merge", "out='a grid.csv'", "--hidden 64"] {
        assert!(script.contains(part), "no {part} in {script}");
    }
    fs::write(folder.path().join("grid.sh"), script).unwrap();
    let check = Command::new("bash").arg("-n").arg(folder.path().join("grid.sh")).status();
    assert!(check.is_ok_and(|status| status.success()));
    // Without SLURM: the same jobs, one after the other, and `sbatch` a shell that waits for them.
    let fake = "sbatch() { for word; do case $word in --wrap=*) echo \"${word#--wrap=}\" > merge.sh;; esac; done; }; export -f sbatch;";
    let jobs = "for number in 1 2 3; do SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=$number bash grid.sh; done";
    let line = format!("{fake} {jobs} && bash merge.sh");
    let run = Command::new("bash").current_dir(folder.path()).args(["-c", &line]).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    stdout(&sweep(folder.path(), "whole.csv", &["--hidden", "64"]));
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    assert_eq!(read("a grid.csv"), read("whole.csv"));
}
