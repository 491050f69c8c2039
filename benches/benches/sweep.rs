//! How many questions a sweep answers in a second on one thread and on two: the whole program, from
//! reading the grid to the file on disk. Needs `cargo build --release` before it, as `make bench`
//! does.

#![allow(clippy::disallowed_methods, clippy::print_stdout)] // A bench has a clock and prints.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// Schedules of a grid, and its hops, each a question of every schedule. Orders of the first do not look at times: its
/// questions are timed in lanes.
const GRIDS: [(&[&str], u64); 2] =
    [(&["zb-h1"], 21_000), (&["1f1b", "zb-h1", "zb-h2", "zb-2p", "zb-v"], 4_200)];

const QUESTION: &str = r#"
stages = 8
microbatches = 32
forward = "10ms"
backward-input = "10ms"
backward-weight = "8ms"
hidden = 4096
heads = 32
seq = 1024
"#;

/// The program beside the benches.
fn program() -> PathBuf {
    let bench = env::current_exe().expect("the bench has a path");
    let program = bench.ancestors().nth(2).expect("the bench lies in a folder of its profile");
    let program = program.join(format!("debubble{}", env::consts::EXE_SUFFIX));
    assert!(program.exists(), "{} is missing: cargo build --release", program.display());
    program
}

fn sweep(criterion: &mut Criterion) {
    let folder = env::temp_dir().join(format!("debubble-bench-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for the rows");
    let program = program();
    for (schedules, hops) in GRIDS {
        let last = hops - 1;
        let axes =
            format!("[sweep]\nhop = {{ from = \"0us\", to = \"{last}us\", step = \"1us\" }}\n");
        let text = format!("schedule = {schedules:?}\n{QUESTION}{axes}");
        fs::write(folder.join("grid.toml"), text).expect("room for the grid");
        let name = format!("sweep, p=8 m=32, {}", schedules.join(" "));
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(hops * schedules.len() as u64)).sample_size(10);
        for threads in ["1", "2"] {
            group.bench_function(format!("{threads} threads"), |bencher| {
                bencher.iter(|| {
                    let mut command = Command::new(&program);
                    command.current_dir(&folder).args(["sweep", "grid.toml", "--out", "rows.csv"]);
                    command.env("RAYON_NUM_THREADS", threads).stderr(Stdio::null());
                    assert!(command.status().is_ok_and(|status| status.success()));
                });
            });
        }
        group.finish();
    }
    fs::remove_dir_all(&folder).expect("the folder was made above");
}

criterion_group!(benches, sweep);
criterion_main!(benches);
