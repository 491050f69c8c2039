//! The exact pass orders of small published schedules, p = 4 and m = 8, in the text form.
//!
//! ZB-H1, ZB-H2, ZB-1p, ZB-2p and ZB-V were made by the authors' own schedulers
//! (sail-sg/zero-bubble-pipeline-parallelism, branch `arxiv`: `efficiency.py`, `auto_schedule.py`,
//! `v_schedule.py`) with F = B = W = 1 and no hops; V-Min, V-Half and 1F1B-V likewise (branch
//! `main`: `zbv_greedy.py`, `v1f1b.py`); 1F1B-I by Megatron's interleaved schedule.
//! GPipe and 1F1B follow from their definitions.
//!
//! GIS, GIS-H, GIS in groups of one and Seq1F1B (m = 4, two segments) were made by the same authors'
//! schedulers of branch `main` (`group_interleaved_1f1b.py`, `seq1f1b.py`). DualPipe and DualPipeV
//! follow, step by step, deepseek-ai/DualPipe (`dualpipe.py`, `dualpipev.py`). Chimera and Hanayo
//! were placed slot by slot on a grid, apart from the program; no published order was at hand.
//!
//! No published order with the output layer in shards was at hand. Those of `vocab-1`, `vocab-2` and
//! `interlaced` equal a construction of the same blocks apart from the program; those of the two V-Half
//! families, and of the families that S and T are put into, keep what the program makes, which laws and
//! closed forms hold.

use std::fs;
use std::path::Path;

use pipeline::{
    Bytes, Choice, Collectives, CopyTimes, Costs, Family, Footprint, Footprints, Metrics, Nanos,
    PassTimes, Problem, Schedule, Shape, ShardTimes,
};
use sim::Replay;
use sim::timed::Nominal;

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

/// Orders of other questions than [`question`], each checked by itself below.
const APART: [&str; 2] = ["gis-group-1", "po-f"];

/// A file that is called like a family holds its order: a family needs no test of its own for that.
#[test]
fn what_is_called_like_a_family_is_its_order() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut families = 0;
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if APART.contains(&&name[..]) || path.extension() != Some("txt".as_ref()) {
            continue;
        }
        let family = Family::named(&name).unwrap_or_else(|| panic!("there is no family {name}"));
        let about = family.about();
        let problem = question(about.chunks.of(None));
        let problem = match about.choice {
            Choice::Segments { default } => problem.with_segments(default).unwrap(),
            _ => problem,
        };
        check_problem(family, &problem, &fs::read_to_string(&path).unwrap());
        families += 1;
    }
    assert!(families >= 23, "{families}");
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

/// The order of 1F1B over the whole run.
#[test]
fn pipedream() {
    for family in [Family::PipeDream, Family::PipeDream2Bw] {
        check(family, 1, include_str!("../golden/1f1b.txt"));
    }
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
fn chimera() {
    check(Family::Chimera, 1, include_str!("../golden/chimera.txt"));
}

#[test]
fn hanayo() {
    check(Family::Hanayo, 2, include_str!("../golden/hanayo.txt"));
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

#[test]
fn one_f_one_b_v() {
    check(Family::OneFOneBV, 2, include_str!("../golden/1f1b-v.txt"));
}

/// PO-F, p = 2, v = 2, m = 3, passes of 10, copies of 2, with its copies, placed by hand.
///
/// Stage 0 copies out from 0, 4, 8, .. and back from 2, 6, 10, ..: F0.0 ends at 10 and B0.0 starts at
/// 80, so it is out from 12 and back from 66, which ends by 80 - 10; four slots have ended by then.
/// F2.0 ends at 30 and B2.0 starts at 50: no more than 12 are left, three round trips, so it stays.
/// F0.1 (40, 140) is out from 40 and back from 126, F2.1 (80, 110) from 80 and 98, F0.2 (110, 190) from
/// 112 and 178, F2.2 (140, 170) from 140 and 158. Stage 1 copies back first.
#[test]
fn po_f() {
    let shape = Shape::new(2, 2, 3).unwrap();
    let ten = Nanos(10);
    let times = PassTimes::new(ten, ten, ten);
    let two = CopyTimes { out: Nanos(2), back: Nanos(2) };
    let costs = Costs::uniform(shape, times, Nanos(0)).with_copies(vec![two; 4]);
    let problem = Problem::new(shape, costs).unwrap();
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
