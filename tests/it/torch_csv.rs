//! Orders go to `torch.distributed.pipelining` and come back: what is exported as its CSV is, read again,
//! the same order; what torch cannot run is refused with the reason.

use std::fs;

use pipeline::{Family, Semantics, Vocabulary};
use tempfile::TempDir;

use crate::cli::{results, run, said, stdout};

const TIMES: &str = "--forward 10ms --backward-input 11ms --backward-weight 7ms --hop 1ms \
                     --vocab-s 1ms --vocab-t 1ms --offload-time 5ms";

/// Exports `schedule` for four stages and eight microbatches.
fn exported(schedule: &str) -> std::process::Output {
    run(&format!(
        "export --format torch-csv --schedule {schedule} --stages 4 --microbatches 8 {TIMES}"
    ))
}

/// The result of `schedule`, a name or a file, without its name.
fn simulated(schedule: &str, chunks: u64) -> serde_json::Value {
    let question = format!("--stages 4 --microbatches 8 --chunks {chunks} {TIMES}");
    let mut result =
        results(&format!("simulate --json --schedule {schedule} {question}")).remove(0);
    result["schedule"] = "same".into();
    result
}

#[test]
fn every_order_comes_back_as_it_went() {
    let folder = TempDir::new().unwrap();
    let mut held = 0;
    for family in Family::ALL {
        let output = exported(family.name());
        if output.status.code() != Some(0) {
            continue;
        }
        let file = folder.path().join(format!("{}.csv", family.name()));
        fs::write(&file, stdout(&output)).unwrap();
        let file = file.to_str().unwrap();
        let chunks = results(&format!(
            "simulate --json --schedule {} --stages 4 --microbatches 8 {TIMES}",
            family.name()
        ))[0]["chunks"]
            .as_u64()
            .unwrap();
        if family.about().choice != pipeline::Choice::Offload {
            assert_eq!(
                simulated(file, chunks),
                simulated(family.name(), chunks),
                "{}",
                family.name()
            );
        }
        held += 1;
    }
    assert!(held >= 20, "torch can hold only {held}");
}

#[test]
fn what_torch_cannot_run_is_refused_with_the_reason() {
    for family in Family::ALL {
        let about = family.about();
        let why = match about.choice {
            _ if about.vocabulary != Vocabulary::Whole => "no passes of the output layer in shards",
            pipeline::Choice::Segments { .. } => "no segments of a microbatch",
            _ if about.semantics == Semantics::Asynchronous => "no updates while the pipeline runs",
            _ if about.placement == pipeline::Placement::Mirrored => "every chunk on one rank",
            _ => continue,
        };
        let output = exported(family.name());
        assert_eq!(output.status.code(), Some(2), "{}", family.name());
        let said = said(&output);
        assert!(said.contains("torch cannot run it") && said.contains(why), "{said}");
    }
}

#[test]
fn copies_to_the_host_are_left_out_with_a_word() {
    let output = exported("po-h");
    assert!(String::from_utf8_lossy(&output.stderr).contains("copies to the host are left out"));
    assert!(stdout(&output).lines().all(|row| !row.contains('|')));
}

#[test]
fn a_wrong_file_says_where() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("order.csv");
    fs::write(&file, "0F0,0B0\n1F0,1Q0\n").unwrap();
    let file = file.to_str().unwrap();
    let output = run(&format!("simulate --schedule {file} --stages 2 --microbatches 1 {TIMES}"));
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("row 2, cell 2: `1Q0` is not an action"), "{}", said(&output));
}
