//! The bubble that is printed of every schedule is that of the replay wherever its text says so.
//!
//! The text itself is what is computed here: clauses between semicolons, each of them a formula or a
//! bound, behind words and a colon or nothing, and in front of the domain where it holds. A clause
//! without a domain is in words, or quotes the source.

use pipeline::{
    Choice, Collectives, CopyTimes, Costs, Family, Nanos, PassTimes, Problem, Semantics, Shape,
    ShardTimes, SteadyState,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use sim::Replay;

/// A fraction.
type Value = (i128, i128);

/// What the letters of a formula stand for; times are those of a stage.
type Letters = [(char, i128); 8];

fn less(a: Value, b: Value) -> bool {
    a.0 * b.1 < b.0 * a.1
}

/// Reads a formula and computes it as it goes: factors stand beside one another.
struct Reader<'a> {
    rest: &'a str,
    letters: &'a Letters,
}

impl Reader<'_> {
    fn takes(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn sum(&mut self) -> Value {
        let mut sum = self.product();
        loop {
            let sign = if self.takes("+") {
                1
            } else if self.takes("-") {
                -1
            } else {
                return sum;
            };
            let next = self.product();
            sum = (sum.0 * next.1 + sign * next.0 * sum.1, sum.1 * next.1);
        }
    }

    fn product(&mut self) -> Value {
        let mut product = self.factor();
        while !self.rest.is_empty() && !self.rest.starts_with(['+', '-', ',', ')']) {
            let divides = self.takes("/");
            let (mut up, mut down) = self.factor();
            if divides {
                (up, down) = (down, up);
            }
            product = (product.0 * up, product.1 * down);
        }
        product
    }

    fn factor(&mut self) -> Value {
        for name in ["max(", "min(", "ceil(", "("] {
            if self.takes(name) {
                let first = self.sum();
                let second = if self.takes(",") { self.sum() } else { first };
                assert!(self.takes(")"), "no bracket in front of {:?}", self.rest);
                return match name {
                    "ceil(" => ((first.0 + first.1 - 1).div_euclid(first.1), 1),
                    "max(" => {
                        if less(first, second) {
                            second
                        } else {
                            first
                        }
                    }
                    _ => {
                        if less(second, first) {
                            second
                        } else {
                            first
                        }
                    }
                };
            }
        }
        let digits = self.rest.len() - self.rest.trim_start_matches(char::is_numeric).len();
        let (number, rest) = self.rest.split_at(digits.max(1));
        self.rest = rest;
        let letter = self.letters.iter().find(|(letter, _)| number.starts_with(*letter));
        (letter.map_or_else(|| number.parse().unwrap(), |(_, value)| *value), 1)
    }
}

fn value(formula: &str, letters: &Letters) -> Value {
    let text = formula.replace(' ', "");
    let mut reader = Reader { rest: &text, letters };
    let value = reader.sum();
    assert_eq!(reader.rest, "", "{formula}");
    value
}

/// Whether all conditions hold, of which each is one, or one of several.
fn holds(conditions: &str, letters: &Letters) -> bool {
    conditions.replace(", ", " and ").split(" and ").all(|condition| {
        condition.split(" or ").any(|one| holds_one(one.trim_start_matches("and "), letters))
    })
}

/// Whether a condition holds: "a divides b", or values between relations.
fn holds_one(condition: &str, letters: &Letters) -> bool {
    if let Some((divisor, number)) = condition.split_once(" divides ") {
        let [(a, b), (c, d)] = [value(number, letters), value(divisor, letters)];
        return a * d % (b * c) == 0;
    }
    let words: Vec<&str> = condition.split(' ').collect();
    words.windows(3).step_by(2).all(|part| {
        let [a, b] = [part[0], part[2]].map(|side| value(side, letters));
        match part[1] {
            "=" => !less(a, b) && !less(b, a),
            "<=" => !less(b, a),
            ">=" => !less(a, b),
            ">" => less(b, a),
            other => panic!("{other} in {condition}"),
        }
    })
}

/// A clause that states a bubble.
struct Form<'a> {
    groups: &'a str,
    formula: &'a str,
    domain: &'a str,
}

impl<'a> Form<'a> {
    /// `None` for a clause in words, and for one that quotes the source.
    fn of(clause: &'a str) -> Option<Self> {
        if clause.starts_with("published: ") {
            return None;
        }
        let (before, stated) = clause.split_once(": ").unwrap_or(("", clause));
        let form = |(formula, domain)| Self { groups: before, formula, domain };
        let everywhere = || stated.strip_suffix(" for all times").map(|formula| (formula, ""));
        let form = stated.split_once(" where ").or_else(everywhere).map(form);
        let in_words = stated.len() > 1 && stated.chars().take(2).all(char::is_lowercase);
        assert!(form.is_some() || in_words, "where does {clause:?} hold?");
        form
    }

    /// Whether `bubble` is what the formula says of it.
    fn says(&self, letters: &Letters, bubble: i128) -> bool {
        let bubble = (bubble, 1);
        let formula = self.formula.trim_start_matches("or ");
        let of = |text: &str| value(text, letters);
        if let Some(most) = formula.strip_prefix("at most ") {
            return !less(of(most.split(", as ").next().unwrap()), bubble);
        } else if let Some(bound) = formula.strip_prefix("below ") {
            return less(bubble, of(bound));
        } else if let Some((least, most)) = formula.split_once(" to ") {
            return !less(bubble, of(least)) && !less(of(most), bubble);
        }
        let mut parts = formula.trim_end_matches(',').split(", ");
        let mut exact = parts.next().unwrap();
        for part in parts.filter(|part| !part.starts_with("as ")) {
            let (other, condition) = part.split_once(" if ").unwrap();
            exact = if holds(condition, letters) { other } else { exact };
        }
        let exact = of(exact);
        !less(exact, bubble) && !less(bubble, exact)
    }
}

/// A question: p, v, m; F, B and W of a chunk; the group, the segments, S and T.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    shape: [u64; 3],
    times: [u64; 3],
    group: u64,
    segments: u64,
    shard: [u64; 2],
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let time = || prop_oneof![0..6u64, 0..40u64];
    let times = (0..6u8, [time(), time(), time()]).prop_map(|(kind, [f, b, w])| match kind {
        0 => [f, f, f],
        1 => [b + w, b, w],
        2 => [f, b, w.min(f).min(b)],
        3 => [f, b.min(2 * f), 2 * f - b.min(2 * f)],
        4 => [f, f, w.min(f)],
        _ => [f, b, w],
    });
    let rest = (1..=8u64, 1..=4u64, 0..20u64, 0..4u8, 0..8u64, [0..6u64, 0..6u64]);
    (times, rest).prop_map(|(times, (p, v, more, long, group, shard))| {
        let group = 1 + group % p;
        let m = match long {
            0 => p * (1 + more % 5),
            1 => 2 * p + more,
            2 => group * (2 + more),
            _ => 1 + more,
        };
        Drawn { shape: [p, v, m], times, group, segments: v, shard }
    })
}

/// The letters, and the bubble of `family`; `None` where it cannot do the shape.
fn bubble(family: Family, form: &Form<'_>, drawn: Drawn) -> Option<(Letters, i128)> {
    let about = family.about();
    let ([p, v, m], [f, b, w]) = (drawn.shape, drawn.times);
    let v = about.chunks.of(Some(v));
    let steady = SteadyState::of(p, m);
    let (segments, run) = match (about.choice, about.semantics) {
        (Choice::Segments { .. }, _) => (drawn.segments, m * drawn.segments),
        (_, Semantics::Asynchronous) => (1, m * u64::from(steady.updates())),
        _ => (1, m),
    };
    let group = match form.groups {
        "in groups of g" => drawn.group,
        "in groups of g = ceil(p/2)" => p.div_ceil(2),
        _ => p,
    };
    let shape = Shape::new(p, v, run).unwrap();
    let [before, after] = drawn.shard.map(Nanos);
    let shards = vec![ShardTimes { before, after }; shape.stages()];
    let copies = vec![CopyTimes { out: Nanos(0), back: Nanos(0) }; shape.chunks().into()];
    let times = PassTimes::new(Nanos(f), Nanos(b), Nanos(w));
    let costs = Costs::uniform(shape, times, Nanos(0)).with_copies(copies);
    let costs = costs.with_shards(shards, Collectives::default());
    let mut problem = Problem::new(shape, costs).unwrap();
    if form.groups == "in groups of g" {
        problem = problem.with_group(group);
    }
    if segments > 1 {
        problem = problem.with_segments(u32::try_from(segments).unwrap()).unwrap();
    }
    let schedule = family.schedule(&problem).ok()?;
    let mut replay = Replay::new();
    let metrics = match about.semantics {
        Semantics::Asynchronous => {
            steady.metrics(shape, &replay.timeline(&schedule, problem.costs()).unwrap())
        }
        Semantics::Synchronous => replay.metrics(&schedule, problem.costs()).unwrap(),
    };
    let whole = |time: u64| i128::from(time * v * segments);
    let letters = [
        ('p', p.into()),
        ('v', v.into()),
        ('m', m.into()),
        ('g', group.into()),
        ('k', segments.into()),
        ('F', whole(f)),
        ('B', whole(b)),
        ('W', whole(w)),
    ];
    Some((letters, i128::from((metrics.span() - metrics.work()).0)))
}

/// A formula is right wherever its domain holds, and its domain leaves out questions where it is wrong:
/// none is narrower than it need be in all that is drawn.
#[test]
fn every_bubble_is_right_where_it_says_so() {
    let mut forms = 0;
    for family in Family::ALL {
        for form in family.about().bubble.split("; ").filter_map(Form::of) {
            let mut runner = TestRunner::deterministic();
            let (mut inside, mut wrong_outside) = (0, 0);
            for _ in 0..400 {
                let drawn = drawn().new_tree(&mut runner).unwrap().current();
                let Some((letters, bubble)) = bubble(family, &form, drawn) else { continue };
                let is_right = form.says(&letters, bubble);
                if form.domain.is_empty() || holds(form.domain, &letters) {
                    let Form { formula, domain, .. } = form;
                    let name = family.name();
                    assert!(
                        is_right,
                        "{name}: {bubble} is not {formula} where {domain}: {drawn:?}"
                    );
                    inside += 1;
                } else if !is_right {
                    wrong_outside += 1;
                }
            }
            let name = family.name();
            assert!(inside >= 20, "{name}: {inside} of {} where {}", form.formula, form.domain);
            let narrow = form.domain.is_empty() || wrong_outside > 0;
            assert!(narrow, "{name}: {} holds beyond {}", form.formula, form.domain);
            forms += 1;
        }
    }
    assert!(forms >= 25, "{forms}");
}
