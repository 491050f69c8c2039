//! The exact pass order of every family, p = 4 and m = 8, in the text form, made apart from the program.
//!
//! By the authors' own code, with F = B = W = 1 and no hops:
//!
//! - ZB-H1, ZB-H2, ZB-1p, ZB-2p and ZB-V by sail-sg/zero-bubble-pipeline-parallelism, branch `arxiv`
//!   (`efficiency.py`, `auto_schedule.py`, `v_schedule.py`); V-Min, V-Half, the adaptive V, 1F1B-V, GIS,
//!   GIS-H, GIS in groups of one and Seq1F1B (two segments) by its branch `main` (`zbv_greedy.py`,
//!   `v_auto_schedule.py`, `v1f1b.py`, `group_interleaved_1f1b.py`, `seq1f1b.py`); V-ZB by `zbv_greedy.py`
//!   too, fed with the block of the paper's table 1.
//! - The Zero Bubble heuristic without a limit by `zb.py` of `main`, with the unequal times below.
//! - 1F1B-I and the two overlapped families by Megatron-LM (`get_pp_rank_microbatches`,
//!   `get_schedule_table`); that without virtual stages is the same code with one chunk.
//! - STP by MICLAB-BUPT/STP (`schedule.py`), with m = 12: see below for its pairs.
//! - DualPipe and DualPipeV step by step as deepseek-ai/DualPipe (`dualpipe.py`, `dualpipev.py`).
//!
//! From definitions: GPipe, 1F1B, and PipeDream and PipeDream-2BW, whose run has the order of 1F1B. The
//! breadth-first pipeline, which torch and MaxText run with the backwards of a chunk from the last
//! microbatch on. Chimera and Hanayo were placed slot by slot on a grid; no published order was at hand.
//! PO-H and PO-F (p = 2, m = 3) have the passes of GIS in groups of one, and copies placed by hand.
//!
//! By scripts written from the rules that the families state, apart from the program: the timed families,
//! on the orders that they start from, with unequal times and hops; those that S and T are put into, on
//! orders of the authors' code or of files here. `vocab-1`, `vocab-2` and `interlaced` are likewise
//! constructed from the published blocks; in the two V-Half families F, B and W are the authors'
//! (`zbv_greedy.py`, with the block of their branch `v-half-vocab`), reordered as V-Half is.
//!
//! What the authors run with the output layer in shards is not quite that: `authors/` has the orders of
//! sail-sg/VocabularyParallelism and of the branch `v-half-vocab`, and a test what differs.

use std::fs;
use std::path::{Path, PathBuf};

use pipeline::{
    Bytes, Choice, Collectives, CopyTimes, Costs, Family, Footprint, Footprints, Metrics, Nanos,
    Order, PassTimes, Problem, Schedule, Shape, ShardTimes, Slot, peak_in_flight,
};
use sim::Replay;
use sim::timed::Nominal;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// F = B = W = 1 per chunk, no hops, and the paper's footprints of a layer: 34h + 5as between F and
/// B, 32h between B and W, with h = 4096, a = 32, s = 1024.
fn question(chunks_per_stage: u64) -> Problem {
    let shape = Shape::new(4, chunks_per_stage, 8).unwrap();
    let one = Nanos(1);
    let times = PassTimes::new(one, one, one);
    let (h, a, s) = (4096, 32, 1024);
    let held = Footprint { until_backward: Bytes(34 * h + 5 * a * s), until_weight: Bytes(32 * h) };
    let shard = ShardTimes { before: one, after: one };
    let costs = Costs::uniform(shape, times, Nanos(0))
        .with_shards(vec![shard; shape.stages()], Collectives::default());
    let problem = Problem::new(shape, costs).unwrap();
    problem.with_footprints(Footprints::uniform(shape, held)).unwrap()
}

/// Asserts that `family` makes the golden order, stage by stage, and returns how long it takes.
fn check(family: Family, chunks_per_stage: u64, golden: &str) -> Metrics {
    check_problem(family, &question(chunks_per_stage), golden)
}

fn check_problem(family: Family, problem: &Problem, golden: &str) -> Metrics {
    let schedule = family.schedule(problem).unwrap();
    let text = schedule.to_string();
    for (stage, (ours, theirs)) in text.lines().zip(golden.lines()).enumerate() {
        assert_eq!(ours, theirs, "{}, stage {stage}", family.name());
    }
    assert_eq!(text, golden, "{}", family.name());
    assert_eq!(golden.parse::<Schedule>().unwrap(), schedule, "{}", family.name());
    Replay::new().metrics(&schedule, problem.costs()).unwrap()
}

/// p = 4 and m = 8 with F = 2, B = 3, W = 1 per chunk, S = 2, T = 1 and hops of 1: for orders that are made
/// for the times given and equal their published ones where F = B = W.
fn unequal(chunks_per_stage: u64) -> Problem {
    let problem = question(chunks_per_stage);
    let shape = problem.shape();
    let times = PassTimes::new(Nanos(2), Nanos(3), Nanos(1));
    let shard = ShardTimes { before: Nanos(2), after: Nanos(1) };
    let costs = Costs::uniform(shape, times, Nanos(1))
        .with_shards(vec![shard; shape.stages()], Collectives::default());
    let footprints = problem.footprints().clone();
    Problem::new(shape, costs).unwrap().with_footprints(footprints).unwrap()
}

/// p = 2, v = 2 and m = 3 with passes of 10 and copies of 2: few enough to place copies by hand.
fn with_copies() -> Problem {
    let shape = Shape::new(2, 2, 3).unwrap();
    let ten = Nanos(10);
    let times = PassTimes::new(ten, ten, ten);
    let two = CopyTimes { out: Nanos(2), back: Nanos(2) };
    let costs = Costs::uniform(shape, times, Nanos(0)).with_copies(vec![two; 4]);
    Problem::new(shape, costs).unwrap()
}

/// Families whose orders are of [`unequal`] times.
const UNEQUAL: [Family; 5] = [
    Family::ZbHeuristic,
    Family::VMinTimed,
    Family::VHalfTimed,
    Family::Vocab1Timed,
    Family::Vocab2Timed,
];

/// The question that the order of `family` answers.
fn question_of(family: Family) -> Problem {
    let about = family.about();
    let chunks = about.chunks.of(None);
    match about.choice {
        Choice::Segments { default } => question(chunks).with_segments(default).unwrap(),
        Choice::Offload => with_copies(),
        _ if UNEQUAL.contains(&family) => unequal(chunks),
        _ if family == Family::Stp => question(chunks).with_microbatches(12).unwrap(),
        _ => question(chunks),
    }
}

/// Orders that are no family's own, each checked by itself below.
const APART: [&str; 1] = ["gis-group-1"];

/// Every family has its order, in a file that is called like it, and every file is a family's.
#[test]
fn every_family_has_its_order() {
    for family in Family::ALL {
        let file = folder().join(family.name()).with_extension("txt");
        let golden = fs::read_to_string(&file);
        let golden = golden.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        check_problem(family, &question_of(family), &golden);
    }
    for file in fs::read_dir(folder()).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let is_order = path.extension() == Some("txt".as_ref()) && !APART.contains(&name);
        assert!(!is_order || Family::named(name).is_some(), "there is no family {name}");
    }
}

/// The orders that the authors run with the output layer in shards beside ours, with passes of 1: the
/// longest span without hops and with hops of 1, and the most chunks in flight.
///
/// 1F1B: on the last stage their BW comes one S sooner, in `vocab-1` the second forward that barriers make
/// room for comes later, in `vocab-2` the last T is behind all BW: hops cost less, all else is equal.
/// Interlaced: all forwards before the first BW come before the first S, so that later stages hold more.
/// V-Half: their branch does not rearrange warm-up and cool-down, so that stages wait longer.
#[test]
fn orders_of_the_authors_that_differ() {
    let span = |schedule: &Schedule, hop: u64| {
        let shape = schedule.shape();
        let times = PassTimes::new(Nanos(1), Nanos(1), Nanos(1));
        let shard = ShardTimes { before: Nanos(1), after: Nanos(1) };
        let costs = Costs::uniform(shape, times, Nanos(hop))
            .with_shards(vec![shard; shape.stages()], Collectives::default());
        Replay::new().metrics(schedule, &costs).unwrap().span().0
    };
    for (family, spans, most) in [
        (Family::Vocab1, [[49, 49], [58, 62]], [[6, 5, 4, 3]; 2]),
        (Family::Vocab2, [[49, 49], [59, 61]], [[5, 4, 3, 2]; 2]),
        (Family::Interlaced1F1B, [[49, 49], [55, 55]], [[6, 5, 4, 3], [6, 4, 3, 1]]),
        (Family::VHalfVocab1, [[81, 66], [110, 87]], [[10; 4]; 2]),
        (Family::VHalfVocab2, [[78, 67], [103, 88]], [[8; 4]; 2]),
    ] {
        let file = folder().join("authors").join(family.name()).with_extension("txt");
        let theirs: Schedule = fs::read_to_string(file).unwrap().parse().unwrap();
        let ours = family.schedule(&question_of(family)).unwrap();
        assert_ne!(theirs, ours);
        for (schedule, at) in [(&theirs, 0), (&ours, 1)] {
            let took = [0, 1].map(|hop| span(schedule, hop));
            assert_eq!(took, spans.map(|spans| spans[at]), "{}", family.name());
            assert_eq!(peak_in_flight(schedule), most[at], "{}", family.name());
        }
    }
}

/// STP as the authors' code has it for p stages and m microbatches. Their pairs of two forwards, and of a forward and
/// a W, are passes one after the other here.
#[test]
fn stp_is_that_of_the_authors() {
    let unpaired = |order: &Order| -> Vec<Slot> {
        let slots = order.slots().flat_map(|slot| match slot.is_overlap() {
            true => vec![slot],
            false => slot.passes().map(Slot::One).collect(),
        });
        slots.collect()
    };
    let sizes = [(2, 5), (2, 6), (3, 8), (4, 11), (4, 12), (4, 16), (6, 18), (8, 24)];
    for (stages, microbatches) in sizes {
        let file = folder().join(format!("authors/stp-{stages}-{microbatches}.txt"));
        let theirs: Schedule = fs::read_to_string(file).unwrap().parse().unwrap();
        let shape = Shape::new(stages, 2, microbatches).unwrap();
        let one = PassTimes::new(Nanos(1), Nanos(1), Nanos(1));
        let problem = Problem::new(shape, Costs::uniform(shape, one, Nanos(0))).unwrap();
        let ours = Family::Stp.schedule(&problem).unwrap();
        assert_eq!((theirs.shape(), theirs.placement()), (ours.shape(), ours.placement()));
        for (ours, theirs) in ours.orders().iter().zip(theirs.orders()) {
            assert_eq!(ours.slots().collect::<Vec<_>>(), unpaired(theirs));
        }
        // The published bubble, (p-1)(F+B-W) of chunks, with their pairs and without.
        let work = 6 * microbatches;
        for schedule in [&ours, &theirs] {
            let span = Replay::new().metrics(schedule, problem.costs()).unwrap().span();
            assert_eq!(span, Nanos(work + stages - 1));
        }
    }
}

#[test]
fn gpipe() {
    let metrics = check(Family::GPipe, 1, include_str!("../golden/gpipe.txt"));
    assert_eq!(metrics.makespan(), Nanos(33)); // (m+p-1)(F+B+W)
}

#[test]
fn one_f_one_b() {
    let metrics = check(Family::OneFOneB, 1, include_str!("../golden/1f1b.txt"));
    assert_eq!(metrics.makespan(), Nanos(33)); // (m+p-1)(F+B+W)
}

#[test]
fn interleaved() {
    let metrics = check(Family::Interleaved, 2, include_str!("../golden/1f1b-i.txt"));
    assert_eq!(metrics.makespan(), Nanos(57)); // (m + (p-1)/v)(F+B+W) of a stage
}

#[test]
fn zb_h1() {
    let metrics = check(Family::ZbH1, 1, include_str!("../golden/zb-h1.txt"));
    assert_eq!((metrics.makespan(), metrics.span()), (Nanos(27), Nanos(27)));
}

#[test]
fn zb_h2() {
    let metrics = check(Family::ZbH2, 1, include_str!("../golden/zb-h2.txt"));
    assert_eq!(metrics.span(), Nanos(24));
}

#[test]
fn zb_1p() {
    let metrics = check(Family::Zb1p, 1, include_str!("../golden/zb-1p.txt"));
    assert_eq!(metrics.span(), Nanos(27));
}

#[test]
fn zb_2p() {
    let metrics = check(Family::Zb2p, 1, include_str!("../golden/zb-2p.txt"));
    assert_eq!(metrics.span(), Nanos(24));
}

#[test]
fn zb_v() {
    let metrics = check(Family::ZbV, 2, include_str!("../golden/zb-v.txt"));
    assert_eq!(metrics.span(), Nanos(48));
}

#[test]
fn gis() {
    let metrics = check(Family::Gis, 2, include_str!("../golden/gis.txt"));
    assert_eq!(metrics.makespan(), Nanos(54));
}

#[test]
fn gis_h() {
    let golden = include_str!("../golden/gis-h.txt");
    assert_eq!(check(Family::GisH, 2, golden).makespan(), Nanos(56));
    let groups_of_two = question(2).with_group(2);
    assert_eq!(check_problem(Family::Gis, &groups_of_two, golden).makespan(), Nanos(56));
}

#[test]
fn gis_in_groups_of_one() {
    let golden = include_str!("../golden/gis-group-1.txt");
    let metrics = check_problem(Family::Gis, &question(2).with_group(1), golden);
    assert_eq!(metrics.makespan(), Nanos(57)); // 72 with the gaps of the published grid
}

#[test]
fn seq1f1b() {
    let problem = question(1).with_segments(2).unwrap();
    let golden = include_str!("../golden/seq1f1b.txt");
    let metrics = check_problem(Family::Seq1F1B, &problem, golden);
    assert_eq!(metrics.makespan(), Nanos(33)); // (m k + p-1)(F+B+W) of a segment
}

#[test]
fn dualpipe() {
    let metrics = check(Family::DualPipe, 1, include_str!("../golden/dualpipe.txt"));
    assert_eq!((metrics.makespan(), metrics.span()), (Nanos(26), Nanos(26)));
}

#[test]
fn dualpipe_v() {
    let metrics = check(Family::DualPipeV, 2, include_str!("../golden/dualpipe-v.txt"));
    assert_eq!((metrics.makespan(), metrics.span()), (Nanos(54), Nanos(54)));
}

#[test]
fn v_min() {
    let metrics = check(Family::VMin, 2, include_str!("../golden/v-min.txt"));
    assert_eq!(metrics.span(), Nanos(59));
}

#[test]
fn v_half() {
    let metrics = check(Family::VHalf, 2, include_str!("../golden/v-half.txt"));
    assert_eq!(metrics.span(), Nanos(53));
}

/// PO-F, p = 2, v = 2, m = 3, passes of 10, copies of 2, with its copies, placed by hand.
///
/// Stage 0 copies out from 0, 4, 8, .. and back from 2, 6, 10, ..: F0.0 ends at 10 and B0.0 starts at
/// 80, so it is out from 12 and back from 66, which ends by 80 - 10; four slots have ended by then.
/// F2.0 ends at 30 and B2.0 starts at 50: no more than 12 are left, three round trips, so it stays.
/// F0.1 (40, 140) is out from 40 and back from 126, F2.1 (80, 110) from 80 and 98, F0.2 (110, 190) from
/// 112 and 178, F2.2 (140, 170) from 140 and 158. Stage 1 copies back first. PO-H does the same with the chunks
/// 0 and 1 only.
#[test]
fn po_f() {
    let problem = with_copies();
    let metrics = check_problem(Family::PoF, &problem, include_str!("../golden/po-f.txt"));
    assert_eq!(metrics.makespan(), Nanos(210));
    let footprints = problem.footprints();
    let schedule = Family::PoF.schedule(&problem).unwrap();
    let copies = sim::timed::host_copies(&schedule, &Nominal(problem.costs()), footprints);
    let of_stage = copies.iter().filter(|copy| copy.stage == 0);
    let begins: Vec<[u64; 2]> = of_stage.map(|copy| [copy.out[0].0, copy.back[0].0]).collect();
    // Each begins once the slots have ended that have by its planned begin, and its stream is free.
    assert_eq!(begins, [[10, 60], [40, 120], [80, 90], [110, 160], [140, 150]]);
}
