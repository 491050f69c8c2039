//! Traces without names of passes, of which is known what ran.

mod made;

use pipeline::{Family, Kind, Nanos};
use serde_json::{Value, json};

use self::made::{Made, Peers};
use crate::{Lack, NotInferred, OpType, Operation, Reader, Trace, TraceError};

fn read(ranks: &[Value]) -> Result<Trace, TraceError> {
    let mut reader = Reader::within(u64::MAX);
    for rank in ranks {
        reader.add(serde_json::to_vec(rank).unwrap())?;
    }
    reader.finish()
}

fn sorted(mut operations: Vec<Operation>) -> Vec<Operation> {
    operations.sort_by_key(|one| (one.step, one.dp_rank, one.stage, one.start));
    operations
}

/// Checks that the traces of `made` are read as the run that they are.
fn check(made: &Made) {
    let trace = read(&made.ranks()).unwrap();
    assert!(trace.lacks.contains(&Lack::Names), "{:?}", trace.lacks);
    assert_eq!(trace.lacks.contains(&Lack::Stages), made.peers == Peers::Unsaid);
    assert_eq!(sorted(trace.operations.clone()), sorted(made.expected()));
    let run = crate::Run::new(trace).unwrap();
    let measured: Vec<Nanos> = run.steps().iter().map(crate::Step::measured).collect();
    assert_eq!(run.predict(&crate::Times::measured(&run)), measured);
}

#[test]
fn kernels_of_1f1b_are_passes() {
    let made = Made::new(4, 1, 8);
    check(&made);
    check(&Made { peers: Peers::InGroup, ..made.clone() });
    check(&Made { peers: Peers::Unsaid, ..made.clone() });
    check(&Made { marks: false, ..made.clone() });
    check(&Made { replicas: 2, ..made });
    for stages in [2, 3] {
        check(&Made { together: true, ..Made::new(stages, 1, 5) });
        check(&Made { family: Family::GPipe, ..Made::new(stages, 1, 4) });
    }
}

#[test]
fn kernels_of_interleaved_1f1b_are_passes() {
    for (stages, chunks) in [(2, 2), (2, 3), (4, 2), (4, 3)] {
        let made = Made::new(stages, chunks, 8);
        check(&made);
        check(&Made { replicas: 2, marks: false, ..made.clone() });
        check(&Made { peers: Peers::Unsaid, steps: 1, ..made });
    }
    check(&Made { together: true, ..Made::new(4, 2, 8) });
}

#[test]
fn split_backwards_are_b_and_w() {
    let made = Made { family: Family::ZbH1, ..Made::new(2, 1, 6) };
    let trace = read(&made.ranks()).unwrap();
    let of_last =
        |all: Vec<Operation>| sorted(all.into_iter().filter(|one| one.stage == 1).collect());
    let found = of_last(trace.operations);
    assert_eq!(found, of_last(made.expected()));
    assert!(found.iter().any(|one| one.optype == OpType::Pass(Kind::W)));
}

/// The reason why `ranks` are refused.
fn reason(ranks: &[Value]) -> NotInferred {
    match read(ranks) {
        Err(TraceError::Unnamed(reason)) => reason,
        Err(error) => panic!("{error}"),
        Ok(trace) => panic!("{} operations", trace.operations.len()),
    }
}

/// `ranks` without the events of the rank `number` for which `is` is true.
fn without(ranks: &[Value], number: usize, is: impl Fn(&Value) -> bool) -> Vec<Value> {
    let mut ranks = ranks.to_vec();
    ranks[number]["traceEvents"].as_array_mut().unwrap().retain(|event| !is(event));
    ranks
}

fn is_called(event: &Value, name: &str) -> bool {
    event["name"].as_str().unwrap().starts_with(name)
}

#[test]
fn what_cannot_be_inferred_is_refused() {
    let made = Made::new(2, 1, 4);
    let ranks = made.ranks();
    let nodes = |event: &Value| is_called(event, "autograd");
    assert_eq!(reason(&without(&ranks, 1, nodes)), NotInferred::NoAutograd { rank: 1 });
    let messages = |event: &Value| is_called(event, "c10d") || is_called(event, "record");
    assert_eq!(reason(&without(&ranks, 0, messages)), NotInferred::NoSends { rank: 0 });
    let launches = |event: &Value| event["args"]["correlation"] == 1;
    let all_launches = |event: &Value| event["cat"] == "cuda_runtime";
    assert_eq!(reason(&without(&ranks, 1, all_launches)), NotInferred::NoKernels { rank: 1 });
    // One kernel of several changes the time of a pass, and no more.
    assert!(read(&without(&ranks, 1, launches)).is_ok());
    let first_send = |event: &Value| messages(event) && event["ts"].as_u64() < Some(20);
    let one = Made { steps: 1, ..made.clone() }.ranks();
    let lost = without(&one, 0, |event| first_send(event) && !is_called(event, "c10d::recv"));
    assert!(
        matches!(reason(&lost), NotInferred::Ranks | NotInferred::Chain { .. }),
        "{}",
        reason(&lost)
    );
    let mut to_itself = ranks.clone();
    for event in to_itself[0]["traceEvents"].as_array_mut().unwrap() {
        if event["args"]["Dst Rank"] == 1 && event["ts"].as_u64() > Some(60) {
            event["args"]["Dst Rank"] = json!(0);
        }
    }
    let peers = NotInferred::Peers { rank: 0, value: "outputs", peers: [1, 0] };
    assert_eq!(reason(&to_itself), peers);
    let unmarked = Made { marks: false, ..made }.ranks();
    let last_step = |event: &Value| event["ts"].as_u64() > Some(140) && event["cat"] == "cpu_op";
    let cut = reason(&without(&unmarked, 1, last_step));
    assert!(matches!(cut, NotInferred::Steps { rank: 1, steps: 2, .. }), "{cut}");
}

#[test]
fn ranks_that_are_not_there_are_named() {
    let ranks = Made { replicas: 2, ..Made::new(4, 1, 4) }.ranks();
    let missing = |ranks: &[Value]| match read(ranks) {
        Err(TraceError::RanksMissing { missing, .. }) => missing,
        other => panic!("{other:?}"),
    };
    let mut lost = ranks.clone();
    lost.remove(5);
    assert_eq!(missing(&lost), [5]);
    assert_eq!(missing(&ranks[..2]), [2, 3, 4, 5, 6, 7]);
    // The other pipeline has all stages.
    let one: Vec<Value> = ranks.iter().step_by(2).cloned().collect();
    let lacks = read(&one).unwrap().lacks;
    assert!(lacks.contains(&Lack::Ranks { given: 4, world: 8 }), "{lacks:?}");
    let twice = [ranks[0].clone(), ranks[0].clone()];
    assert!(matches!(read(&twice), Err(TraceError::RankTwice { rank: 0 })));
}

#[test]
fn the_first_step_may_be_cut() {
    let made = Made { steps: 3, ..Made::new(2, 1, 4) };
    let cut = |event: &Value| event["cat"] == "cpu_op" && event["ts"].as_u64() < Some(30);
    let ranks = without(&made.ranks(), 0, cut);
    let trace = read(&ranks).unwrap();
    assert!(trace.lacks.contains(&Lack::CutSteps { steps: vec![3] }), "{:?}", trace.lacks);
    let whole: Vec<Operation> = made.expected().into_iter().filter(|one| one.step > 3).collect();
    assert_eq!(sorted(trace.operations), sorted(whole));
}
