//! Orders go to Primus as tables of nodes: every pass once and in its order, every receive behind its send, no deadlock,
//! copies between forward and backward; what Primus cannot run is refused with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use pipeline::{Choice, Family, Kind, Pass, Placement, Schedule, Semantics, Vocabulary};
use serde_json::Value;
use tempfile::TempDir;

use crate::cli::{run, said, stdout};

const TIMES: &str = "--forward 10ms --backward-input 11ms --backward-weight 7ms --hop 1ms \
                     --vocab-s 1ms --vocab-t 1ms --offload-time 5ms";

fn exported(schedule: &str, form: &str, more: &str) -> std::process::Output {
    run(&format!(
        "export --format {form} --schedule {schedule} --stages 4 --microbatches 8 {TIMES} {more}"
    ))
}

/// The nodes of each rank.
fn ranks(document: &Value) -> Vec<&Vec<Value>> {
    document["table"].as_array().unwrap().iter().map(|nodes| nodes.as_array().unwrap()).collect()
}

fn number(node: &Value, key: &str) -> u64 {
    node[key].as_u64().unwrap_or_else(|| panic!("{node} has no {key}"))
}

/// A transfer: its letter, the ranks at its ends, the microbatch, and the chunk that takes it.
type Transfer = (String, u64, u64, u64, u64);

fn transfer(node: &Value) -> Option<(bool, Transfer)> {
    let kind = node["func_type"].as_str().unwrap();
    let (is_send, taken) = match kind {
        "SF" | "SB" => (true, number(&node["args"], "send_to_chunk")),
        "RF" | "RB" => (false, number(node, "chunk")),
        _ => return None,
    };
    let ends = ["from_pp_rank", "to_pp_rank"].map(|key| number(&node["args"], key));
    Some((is_send, (kind[1..].to_owned(), ends[0], ends[1], number(node, "mini_batch"), taken)))
}

/// Runs the table as Primus does: neighbouring transfers of one step begin together, and wait for all of their sends. Gives
/// the nodes that have run.
fn ran(document: &Value) -> usize {
    let ranks = ranks(document);
    let (mut at, mut begun): (Vec<usize>, _) = (vec![0; ranks.len()], BTreeSet::new());
    let mut moved = true;
    while moved {
        moved = false;
        for (rank, nodes) in ranks.iter().enumerate() {
            while at[rank] < nodes.len() {
                let step = |node: &Value| number(&node["args"], "time_step");
                let first = &nodes[at[rank]];
                let own = nodes[at[rank]..]
                    .iter()
                    .map_while(|node| transfer(node).filter(|_| step(node) == step(first)));
                let batch: Vec<(bool, Transfer)> = own.collect();
                let mut here = begun.clone();
                here.extend(batch.iter().map(|(is_send, one)| (*is_send, one.clone())));
                // Both ends of a batch begin it.
                moved |= here.len() > begun.len();
                begun = here;
                if batch.iter().any(|(is_send, one)| !begun.contains(&(!is_send, one.clone()))) {
                    break;
                }
                at[rank] += batch.len().max(1);
                moved = true;
            }
        }
    }
    at.iter().sum()
}

/// Checks passes, their order, transfers and copies of `document` against `schedule`.
fn holds(name: &str, document: &Value, schedule: &Schedule) {
    let stages = schedule.shape().stages();
    let ranks = ranks(document);
    for (rank, nodes) in ranks.iter().enumerate() {
        let passes = |nodes: &[Value]| -> Vec<(String, u64, u64)> {
            let is_pass = |node: &&Value| {
                ["F", "B", "W", "BW"].contains(&node["func_type"].as_str().unwrap())
            };
            let one = |node: &Value| {
                (
                    node["func_type"].as_str().unwrap().to_owned(),
                    number(node, "mini_batch"),
                    number(node, "chunk"),
                )
            };
            nodes.iter().filter(is_pass).map(one).collect()
        };
        let expected: Vec<(String, u64, u64)> = schedule.orders()[rank]
            .slots()
            .flat_map(|slot| {
                // In a pair F stands first, and W of a whole backward behind it.
                let mut own: Vec<_> = slot.passes().collect();
                own.sort_by_key(|pass| pass.kind != Kind::F);
                if let [first, Pass { kind: Kind::BW, chunk, microbatch }] = own[..] {
                    let part = |kind| Pass { kind, chunk, microbatch };
                    own = vec![first, part(Kind::B), part(Kind::W)];
                }
                own
            })
            .map(|pass| {
                (
                    format!("{:?}", pass.kind),
                    u64::from(pass.microbatch),
                    u64::from(pass.chunk) / stages as u64,
                )
            })
            .collect();
        assert_eq!(passes(nodes), expected, "{name}, rank {rank}");
        copies_lie_between(name, nodes);
    }
    let all: usize = ranks.iter().map(|nodes| nodes.len()).sum();
    assert_eq!(ran(document), all, "{name} waits for ever");
}

/// Checks that an activation is copied if and only if its forward says so, out before back, behind the forward and
/// before the backward.
fn copies_lie_between(name: &str, nodes: &[Value]) {
    let mut seen: BTreeMap<(u64, u64), String> = BTreeMap::new();
    for node in nodes {
        let cell = (number(node, "mini_batch"), number(node, "chunk"));
        let own = seen.entry(cell).or_default();
        match node["func_type"].as_str().unwrap() {
            "F" if node["args"]["should_offload"] == true => own.push('f'),
            "F" => own.push('F'),
            "B" | "BW" => own.push('B'),
            kind @ ("O" | "R") => own.push_str(kind),
            _ => {}
        }
    }
    for (cell, order) in seen {
        assert!(["FB", "fORB"].contains(&order.as_str()), "{name}, {cell:?}: {order}");
    }
}

#[test]
fn every_table_has_all_passes_and_runs() {
    let (mut held, mut copied) = (0, 0);
    for family in Family::ALL {
        for more in ["", "--offload 1", "--microbatches 13"] {
            let output = exported(family.name(), "primus", more);
            if output.status.code() != Some(0) {
                assert_eq!(output.status.code(), Some(2), "{}: {}", family.name(), said(&output));
                continue;
            }
            let text = stdout(&exported(family.name(), "text", more));
            let schedule: Schedule = text.parse().unwrap();
            let document: Value = serde_json::from_str(&stdout(&output)).unwrap();
            holds(family.name(), &document, &schedule);
            let is_copied = document["offload"] == true;
            assert_eq!(is_copied, schedule.copies().is_some(), "{}", family.name());
            held += 1;
            copied += usize::from(is_copied);
        }
    }
    assert!(held >= 25 && copied >= 9, "{held} tables, {copied} with copies");
}

#[test]
fn pairs_of_a_v_stand_together() {
    let text = "F0.0 F0.1 F3.0 F3.1&B3.0 W3.0 B0.0 B3.1 W0.0 W3.1 B0.1 W0.1\n\
                F1.0 F2.0 F1.1 F2.1 B2.0 B1.0 W2.0 W1.0 B2.1 B1.1 W2.1 W1.1\n";
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("pairs.txt");
    fs::write(&file, text).unwrap();
    let output = run(&format!("export --format primus --schedule {}", file.display()));
    let document: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(document["combined_forward_backward"], true);
    holds("pairs", &document, &text.parse().unwrap());
    let rank = ranks(&document)[0];
    let whole = text.replace("F3.1&B3.0 W3.0", "F3.1&BW3.0");
    fs::write(&file, &whole).unwrap();
    let output = run(&format!("export --format primus --schedule {}", file.display()));
    let of_whole: Value = serde_json::from_str(&stdout(&output)).unwrap();
    holds("whole", &of_whole, &whole.parse().unwrap());
    let at = rank.iter().position(|node| node["args"]["combined_node"] == true).unwrap();
    let group = serde_json::json!(["(F|1|1)", "(B|0|1)"]);
    for (node, kind) in rank[at..at + 2].iter().zip(["F", "B"]) {
        assert_eq!((&node["func_type"], &node["args"]["combined_group"]), (&kind.into(), &group));
    }
}

#[test]
fn what_primus_cannot_run_is_refused_with_the_reason() {
    for family in Family::ALL {
        let about = family.about();
        let why = match about.choice {
            Choice::Segments { .. } => "no segments of a microbatch",
            _ if about.semantics == Semantics::Asynchronous => "no updates while the pipeline runs",
            _ if about.placement == Placement::Mirrored => "every chunk on one rank",
            _ if about.vocabulary != Vocabulary::Whole => "no passes of the output layer in shards",
            _ => continue,
        };
        let output = exported(family.name(), "primus", "");
        assert_eq!(output.status.code(), Some(2), "{}", family.name());
        let said = said(&output);
        assert!(said.contains("Primus cannot run it") && said.contains(why), "{said}");
    }
}

#[test]
fn a_search_writes_the_form_that_the_name_ends_in() {
    let folder = TempDir::new().unwrap();
    let written = |name: &str| {
        let file = folder.path().join(name);
        let question = format!("--stages 4 --microbatches 12 --chunks 2 {TIMES} --activation 1GiB");
        let question = question.replace(" --vocab-s 1ms --vocab-t 1ms --offload-time 5ms", "");
        let search = format!(
            "search {question} --placement v --memory-limit 0.75p --export {}",
            file.display()
        );
        let output = run(&search);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        fs::read_to_string(file).unwrap()
    };
    let text = written("best.txt");
    let schedule: Schedule = text.parse().unwrap();
    assert_eq!(written("best.csv"), pipeline::torch_csv::write(&schedule).unwrap());
    let table = written("best.json");
    assert_eq!(table, pipeline::primus::write(&schedule).unwrap());
    let document: Value = serde_json::from_str(&table).unwrap();
    holds("searched", &document, &schedule);
    let nodes: usize = ranks(&document).iter().map(|nodes| nodes.len()).sum();
    // 96 F, B and W each, 84 transfers each way with two ends.
    assert_eq!(nodes, 3 * 96 + 4 * 84);
}
