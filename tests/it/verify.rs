//! Certificates: what holds is verified, what does not is refused, whatever was changed.

use std::fs;

use certificate::{BoundArgument, Certificate, MAX_BYTES, Refusal, verify};
use pipeline::{
    Bytes, CopyPart, Costs, Family, Footprint, Footprints, Kind, Limit, Limits, Memory, Nanos,
    Order, Pass, PassTimes, Placement, Problem, Schedule, Shape, Vocabulary,
};
use proptest::prelude::*;
use search::bounds::{self, Bound};
use search::{Instance, Objective};
use sim::Replay;

use crate::bench::uniform;
use crate::cli::{debubble, refused, run, stdout};
use crate::draw;

/// The same order with every backward split and every pass on its own, and without S and T.
fn split(schedule: &Schedule) -> Schedule {
    let apart = |pass: Pass| {
        match pass.kind {
            Kind::BW => [Some(Kind::B), Some(Kind::W)],
            Kind::S | Kind::T => [None, None],
            kind => [Some(kind), None],
        }
        .into_iter()
        .flatten()
        .map(move |kind| Pass { kind, ..pass })
    };
    let orders = schedule.orders().iter();
    let orders = orders.map(|order| {
        order.slots().flat_map(|slot| slot.passes()).flat_map(apart).collect::<Order>()
    });
    let shape = schedule.shape().with_vocabulary(Vocabulary::Whole).unwrap();
    Schedule::new(shape, schedule.placement(), orders.collect()).unwrap()
}

fn instance(certificate: &Certificate) -> Instance {
    let Certificate { schedule, costs, footprints, limits, objective, .. } = certificate.clone();
    let objective = match objective {
        certificate::Objective::Span => Objective::Span,
        certificate::Objective::Makespan => Objective::Makespan,
    };
    let (shape, placement) = (schedule.shape(), schedule.placement());
    Instance::new(shape, placement, costs, footprints, limits, objective).unwrap()
}

/// The certificate of `schedule` with `bound`.
fn claim(question: &Certificate, bound: Bound) -> Certificate {
    let stages = question.schedule.shape().stages();
    let argument =
        BoundArgument::new(bound.argument.name(), &bound.argument.stages(), stages).unwrap();
    Certificate { argument, bound: bound.cost, ..question.clone() }
}

/// A question without a bound yet, and what it costs.
fn question(
    schedule: Schedule,
    costs: Costs,
    footprints: Footprints,
    limits: Option<Limits>,
    makespan: bool,
) -> Certificate {
    let metrics = Replay::new().metrics(&schedule, &costs).unwrap();
    let (objective, cost) = match makespan {
        true => (certificate::Objective::Makespan, metrics.makespan()),
        false => (certificate::Objective::Span, metrics.span()),
    };
    let argument = BoundArgument::new("work", &[0], schedule.shape().stages()).unwrap();
    let bound = Nanos(0);
    let proof = certificate::Proof::default();
    Certificate {
        schedule,
        costs,
        footprints,
        limits,
        objective,
        cost,
        bound,
        argument,
        proof,
        backwards: certificate::Backwards::SplitOrWhole,
    }
}

/// Schedules in no particular order, under limits with little or much room beyond what they hold.
fn drawn() -> impl Strategy<Value = Certificate> {
    let held = prop::collection::vec(draw::footprint(), 15);
    let room = prop::option::weighted(0.9, prop::collection::vec(0..20u64, 5));
    let again = (any::<(u16, u64)>(), prop::collection::vec([0..40u64, 0..9u64], 15));
    let again = prop::option::of(again);
    (draw::schedule(), held, again, room, any::<bool>(), any::<bool>()).prop_filter_map(
        "microbatches go both ways",
        |((schedule, costs), held, again, room, alike, makespan)| {
            if schedule.placement() == Placement::Mirrored {
                return None;
            }
            let (wanted, seed, again) =
                again.map_or((0, 0, vec![[0; 2]; 15]), |((a, b), c)| (a, b, c));
            let schedule = draw::recomputing(&split(&schedule), wanted, seed);
            let own = |chunk: u16| {
                let number = usize::from(chunk);
                schedule.recomputes(chunk).then(|| again[if alike { 0 } else { number }])
            };
            let all = 0..schedule.shape().chunks();
            let [times, kept] = [0, 1].map(|part| {
                all.clone().map(|chunk| own(chunk).map(|both| both[part])).collect::<Vec<_>>()
            });
            let times = times.into_iter().map(|time| time.map(Nanos)).collect();
            let costs =
                Costs::new(costs.chunks().to_vec(), Nanos(0)).with_hops(costs.hops().clone());
            let costs = if schedule.has_recompute() { costs.with_recompute(times) } else { costs };
            let chunks = usize::from(schedule.shape().chunks());
            let held: Vec<Footprint> =
                (0..chunks).map(|chunk| held[if alike { 0 } else { chunk }]).collect();
            let least = |(at, kept): (usize, Option<u64>)| {
                kept.map(|kept| Bytes(kept).min(held[at].until_backward))
            };
            let kept = kept.into_iter().enumerate().map(least).collect();
            let footprints = Footprints::new(held.clone());
            let footprints =
                if schedule.has_recompute() { footprints.with_kept(kept) } else { footprints };
            let peaks = Memory::of(&schedule, &footprints).unwrap().peak;
            let limits = room.map(|room| {
                let limits = peaks.iter().zip(room).map(|(peak, room)| *peak + Bytes(room));
                Limits::new(schedule.shape(), &limits.collect::<Vec<_>>()).unwrap()
            });
            Some(question(schedule, costs, footprints, limits, makespan))
        },
    )
}

/// A small pipeline in the manner of the paper under `limit`, ordered by the heuristic, with its
/// best bound.
fn heuristic([p, m]: [u64; 2], limit: u64) -> Certificate {
    let shape = Shape::new(p, 1, m).unwrap();
    let costs = uniform(shape, [18_522, 18_086, 9_337], 601);
    let footprint = Footprint { until_backward: Bytes(201), until_weight: Bytes(74) };
    let footprints = Footprints::uniform(shape, footprint);
    let problem = Problem::new(shape, costs.clone()).unwrap();
    let problem = problem.with_footprints(footprints.clone()).unwrap();
    let schedule = Family::ZbHeuristic.schedule(&problem.with_limit(Limit::times_p(limit)));
    let limits = Limits::new(shape, &[Bytes(p * limit * 201)]).unwrap();
    let question = question(schedule.unwrap(), costs, footprints, Some(limits), false);
    claim(&question, bounds::best(&instance(&question)))
}

proptest! {
    #![proptest_config(draw::cases(200))]

    #[test]
    fn every_bound_found_is_shown_by_the_checker_and_not_a_nanosecond_more(drawn in drawn()) {
        for bound in bounds::all(&instance(&drawn)) {
            let held = claim(&drawn, bound);
            prop_assert!(held.bound <= held.cost, "{bound:?} is above {}", held.cost);
            let verdict = verify(&held.to_string());
            prop_assert!(verdict.is_ok(), "{bound:?}: {verdict:?}\n{held}");
            let raised = Bound { cost: bound.cost + Nanos(1), ..bound };
            let raised = claim(&Certificate { cost: held.cost + Nanos(1), ..drawn.clone() }, raised);
            let text = raised.to_string();
            prop_assert!(matches!(verify(&text), Err(Refusal::Cost { .. })), "{text}");
            if bound.cost < drawn.cost {
                let raised = Certificate { cost: drawn.cost, ..raised };
                let refusal = verify(&raised.to_string());
                prop_assert!(matches!(refusal, Err(Refusal::Bound { .. })), "{bound:?}: {refusal:?}");
            }
        }
    }

    /// Where the first stage holds whole microbatches and no W beside.
    #[test]
    fn meetings_are_shown_by_the_checker_and_not_a_nanosecond_more(
        stages in prop::collection::vec([10..90u64, 10..90u64, 1..90u64], 2..6),
        hop in 0..9u64,
        held in 2..5u64,
        more in 2..20u64,
        [until_weight, spare] in [1..20u64, 0..20u64],
    ) {
        let shape = Shape::new(stages.len() as u64, 1, held + more).unwrap();
        let times = stages.iter().map(|times| {
            let [f, b, w] = times.map(Nanos);
            PassTimes::new(f, b, w)
        });
        let costs = Costs::new(times.collect(), Nanos(hop));
        let one = Footprint { until_backward: Bytes(20), until_weight: Bytes(until_weight) };
        let footprints = Footprints::uniform(shape, one);
        let limit = Bytes(20 * held + spare % until_weight);
        let problem = Problem::new(shape, costs.clone()).unwrap();
        let problem = problem.with_footprints(footprints.clone()).unwrap();
        let problem = problem.with_limit(Limit::Bytes(limit));
        let schedule = split(&Family::ZbHeuristic.schedule(&problem).unwrap());
        let limits = Limits::new(shape, &[limit]).unwrap();
        let question = question(schedule, costs, footprints, Some(limits), false);
        let all = bounds::all(&instance(&question));
        let own = all.into_iter().find(|bound| bound.argument.name() == "meetings");
        if let Some(bound) = own {
            let held = claim(&question, bound);
            prop_assert_eq!(verify(&held.to_string()).map(|verdict| verdict.bound), Ok(bound.cost));
            let raised = claim(&question, Bound { cost: bound.cost + Nanos(1), ..bound });
            let refused = matches!(verify(&raised.to_string()), Err(Refusal::Bound { .. }));
            prop_assert!(refused || bound.cost == question.cost, "{raised}");
        }
    }

    #[test]
    fn a_certificate_written_is_read_back(drawn in drawn()) {
        prop_assert_eq!(Certificate::read(&drawn.to_string()), Ok(drawn));
    }
}

/// Arguments that name stages and rest on no proof besides.
pub(crate) const ARGUMENTS_OF_STAGES: [&str; 10] = [
    "work",
    "trip",
    "path",
    "head",
    "tail",
    "head-and-tail",
    "fill",
    "cycles",
    "meetings",
    "little",
];

/// Changes the number of `text` that is the `at`-th, counted round, to `number`.
fn with_number(text: &str, at: usize, change: impl Fn(u64) -> u64) -> String {
    let is_digit = |c: char| c.is_ascii_digit();
    let starts: Vec<usize> = text
        .match_indices(is_digit)
        .map(|(place, _)| place)
        .filter(|&place| place == 0 || !text[..place].ends_with(is_digit))
        .collect();
    let start = starts[at % starts.len()];
    let end = text[start..].find(|c| !is_digit(c)).map_or(text.len(), |length| start + length);
    let number = text[start..end].parse().unwrap_or(0);
    format!("{}{}{}", &text[..start], change(number), &text[end..])
}

/// `text` with one thing changed: a number, two passes of a stage, a line, a character.
fn mutated(text: &str, what: u8, [one, other]: [usize; 2], by: u64) -> String {
    match what {
        0 => with_number(text, one, |number| number.wrapping_add(by) >> 1 << 1),
        1 => with_number(text, one, |number| number + 1),
        2 => with_number(text, one, |number| number.saturating_sub(1)),
        3 => {
            // Bound and gap together, so that they still fit.
            let line = |key: &str| text.lines().find(|line| line.starts_with(key)).unwrap();
            let number = |key| line(key).split(" = ").nth(1).unwrap().parse::<u64>().unwrap();
            let (bound, gap) = (number("bound-ns"), number("gap-ns"));
            let by = by % (gap + 1);
            let text = text.replace(line("bound-ns"), &format!("bound-ns = {}", bound + by));
            text.replace(line("gap-ns"), &format!("gap-ns = {}", gap - by))
        }
        4 => {
            let mut words: Vec<&str> = text.split(' ').collect();
            let count = words.len();
            words.swap(one % count, other % count);
            words.join(" ")
        }
        5 => {
            let mut lines: Vec<&str> = text.lines().collect();
            let (one, other) = (one % lines.len(), other % lines.len());
            if by.is_multiple_of(2) {
                lines.swap(one, other);
            } else {
                lines.remove(one);
            }
            lines.join("\n")
        }
        6 => {
            let places: Vec<usize> = text.char_indices().map(|(place, _)| place).collect();
            let at = places[one % places.len()];
            let other = char::from(b' ' + u8::try_from(by % 95).unwrap());
            format!("{}{other}{}", &text[..at], &text[at + 1..])
        }
        _ => {
            let names = ARGUMENTS_OF_STAGES;
            let old = names.iter().find(|name| text.contains(&format!("\"{name}\""))).unwrap();
            text.replace(&format!("\"{old}\""), &format!("\"{}\"", names[one % names.len()]))
        }
    }
}

/// What `schedule` costs in the pipeline of `certificate`, by replay.
pub(crate) fn replayed(certificate: &Certificate, schedule: &Schedule) -> Nanos {
    let metrics = Replay::new().metrics(schedule, &certificate.costs).unwrap();
    match certificate.objective {
        certificate::Objective::Span => metrics.span(),
        certificate::Objective::Makespan => metrics.makespan(),
    }
}

/// Whether `schedule` fits the limits of `certificate`.
pub(crate) fn fits(certificate: &Certificate, schedule: &Schedule) -> bool {
    let memory = Memory::of(schedule, &certificate.footprints).unwrap();
    certificate.limits.as_ref().is_none_or(|limits| memory.over(limits).is_none())
}

/// Asserts that what is verified is so, by other means than the checker's.
fn assert_true(text: &str) {
    let certificate = Certificate::read(text).unwrap();
    let Certificate { schedule, cost, bound, .. } = &certificate;
    assert_eq!(replayed(&certificate, schedule), *cost);
    assert!(fits(&certificate, schedule));
    assert!(*bound <= bounds::best(&instance(&certificate)).cost, "{text}");
}

proptest! {
    #![proptest_config(draw::cases(400))]

    #[test]
    fn a_changed_certificate_is_refused_or_still_true(
        limit in 1..3u64,
        shape in prop::sample::select(&[[2, 4], [3, 6], [4, 8]][..]),
        what in 0..8u8,
        places: [usize; 2],
        by: u64,
    ) {
        let text = heuristic(shape, limit).to_string();
        prop_assert!(verify(&text).is_ok());
        let changed = mutated(&text, what, places, by);
        if verify(&changed).is_ok() {
            assert_true(&changed);
        }
    }
}

#[test]
fn what_is_wrong_is_said() {
    let certificate = heuristic([4, 8], 1);
    let text = certificate.to_string();
    let reason = |changed: &Certificate| verify(&changed.to_string()).unwrap_err();
    let cost = certificate.cost;
    let lower = cost - Nanos(1);
    let changed = Certificate { cost: lower, bound: lower, ..certificate.clone() };
    assert!(matches!(reason(&changed), Refusal::Cost { found, .. } if found == cost));
    let limits = Limits::new(certificate.schedule.shape(), &[Bytes(700)]).unwrap();
    let changed = Certificate { limits: Some(limits), ..certificate.clone() };
    assert!(matches!(reason(&changed), Refusal::Memory { limit: Bytes(700), .. }));
    let changed = text.replacen("B0.0 ", "", 1).replacen("F0.1 ", "F0.1 B0.0 ", 1);
    assert!(matches!(verify(&changed), Err(Refusal::Schedule(_) | Refusal::Cost { .. })));
    let swapped = text.replacen("F0.0 F0.1", "B0.0 F0.0", 1);
    assert!(matches!(verify(&swapped), Err(Refusal::Schedule(_))));
    for (old, new, part) in [
        ("version = 2", "version = 3", "version 3"),
        ("\"looped\"", "\"mirrored\"", "`looped` and `vee`"),
        ("\"looped\"", "\"vee\"", ""),
        ("stages = [", "stages = [9, ", "argument"),
        ("gap-ns = ", "gap-ns = 1", "gap"),
        ("hop-ns = 601", "hop-ns = -601", "601"),
        ("hop-ns = 601", "hop-ns = nan", "NaN"),
        ("hop-ns = 601", "hop-ns = 18446744073709551615", ""),
        ("hop-ns = 601", "hop-ns = 9223372036854775807", "the times"),
        ("until-weight-bytes = [74, ", "until-weight-bytes = [", "3 numbers"),
        ("forward-ns", "forwards-ns", "forwards-ns"),
    ] {
        let changed = text.replacen(old, new, 1);
        assert_ne!(changed, text, "{old}");
        match verify(&changed) {
            Err(refusal) => assert!(refusal.to_string().contains(part), "{refusal}"),
            // One chunk per stage lies the same way in a V.
            Ok(_) => assert_eq!(new, "\"vee\""),
        }
    }
}

#[test]
fn hostile_texts_are_refused() {
    let huge = " ".repeat(MAX_BYTES + 1);
    assert_eq!(verify(&huge), Err(Refusal::TooLarge { bytes: MAX_BYTES + 1 }));
    let deep = format!("a = {}", "[".repeat(1_000_000));
    let text = heuristic([2, 4], 1).to_string();
    let many = text.replacen("F0.0", "F0.4294967295", 1);
    // What bounds do not know.
    let copied = Certificate {
        schedule: heuristic([4, 8], 1).schedule.offloaded(CopyPart::WHOLE, 1),
        ..heuristic([4, 8], 1)
    };
    assert!(copied.schedule.copies().is_some());
    assert_eq!(verify(&copied.to_string()), Err(Refusal::Beyond));
    for text in ["", "schedule", &deep, &many, &text[..text.len() / 2]] {
        assert!(verify(text).is_err());
    }
}

#[test]
fn the_command_prints_what_it_checked_and_says_by_its_exit_code_whether_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.cert").display().to_string();
    let certificate = heuristic([8, 24], 1);
    fs::write(&path, certificate.to_string()).unwrap();
    let text = stdout(&run(&format!("verify {path}")));
    for part in ["576 passes on 8 stages", "stage 0", "this order is optimal", "argument `"] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&stdout(&run(&format!("verify {path} --json")))).unwrap();
    assert_eq!(json["holds"], true);
    assert_eq!(json["gap_ns"], 0);
    let lower = Certificate { cost: certificate.cost - Nanos(1), ..certificate.clone() };
    let lower = Certificate { bound: lower.cost, ..lower };
    fs::write(&path, lower.to_string()).unwrap();
    let output = run(&format!("verify {path}"));
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("The certificate is refused: ") && text.contains("costs"), "{text}");
    fs::write(&path, "not a certificate").unwrap();
    refused(&debubble(["verify", &path]), &["one.cert", "cannot be read"]);
    refused(&debubble(["verify", "/no/such/file"]), &["/no/such/file"]);
}

#[test]
fn the_published_optimum_of_a_setting_is_certified() {
    // 1.5B, p = 8, m = 24 at 1p: a bubble of 15.85 % (Zero Bubble, table 5) is the best there is.
    let certificate = heuristic([8, 24], 1);
    let verdict = verify(&certificate.to_string()).unwrap();
    assert!(verdict.is_optimal());
    let work = 24 * (18_522 + 18_086 + 9_337);
    let rate = 1.0 - f64::from(work) / verdict.cost.0 as f64;
    assert!((rate - 0.158_519_69).abs() < 1e-8, "{rate}");
}

#[test]
fn the_golden_certificate_is_what_is_written() {
    let golden = include_str!("../golden/optimal.cert");
    assert_eq!(heuristic([4, 8], 1).to_string(), golden);
    assert!(verify(golden).unwrap().is_optimal());
}
