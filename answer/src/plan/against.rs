//! Two answers side by side: the set-ups that were asked for, or the plans to take.

use pipeline::Bytes;
use plan::number;
use planning::Question;
use question::sheet::Sheet;
use question::{Diagnostic, format, object, table};
use serde::{Serialize, Serializer};

use super::parts::Part;
use super::priced::{Plan, seconds};
use super::setup_report::{MemoryItem, fit, has_graphs, memory_items};
use super::{Planned, SetupReport, resolvable_difference};
use super::{quantities, tables};

/// Two answers whose plans are held against each other.
pub struct Against<'a> {
    /// The two.
    pub sides: [&'a Planned; 2],
    /// The plan of each that is compared, by its place among its plans.
    plans: [usize; 2],
}

/// One quantity of both plans.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Line {
    /// Name of the figure.
    pub name: &'static str,
    /// Unit of both.
    pub unit: &'static str,
    /// Of the first plan.
    pub first: f64,
    pub second: f64,
}

impl Line {
    /// By how much the second is more than the first.
    #[must_use]
    pub fn difference(&self) -> f64 {
        self.second - self.first
    }

    /// The same as a share of the first; nothing of nothing.
    #[must_use]
    pub fn relative(&self) -> Option<f64> {
        (self.first != 0.0).then(|| self.difference() / self.first)
    }

    /// How both values are written: with as many digits as the larger one has use for.
    fn written(&self) -> impl Fn(f64) -> String + use<> {
        let digits = match self.first.abs().max(self.second.abs()) {
            10_000.0.. => 0,
            100.0.. => 2,
            10.0.. => 3,
            _ => 4,
        };
        move |value| match digits {
            0 => quantities::amount(value),
            _ => format!("{value:.digits$}"),
        }
    }
}

impl<'a> Against<'a> {
    /// Compares the plan to take of `first` with that of `second`. Where none fits, the given set-up is
    /// taken all the same.
    pub fn of(first: &'a Planned, second: &'a Planned) -> Result<Self, Diagnostic> {
        let place = |planned: &Planned| {
            let plans = &planned.answer.plans;
            let winner = planned.winner();
            let own = winner.and_then(|one| plans.iter().position(|plan| std::ptr::eq(plan, one)));
            own.or((!plans.is_empty()).then_some(0)).ok_or_else(|| {
                let message = format!("there is no plan of {} to compare", planned.question.title);
                Diagnostic::new(message)
            })
        };
        let plans = [place(first)?, place(second)?];
        Ok(Self { sides: [first, second], plans })
    }

    /// The question and the plan of each side.
    fn both(&self) -> [(&'a Question, &'a Plan); 2] {
        [0, 1].map(|side| {
            let Planned { question, answer, .. } = self.sides[side];
            (question, &answer.plans[self.plans[side]])
        })
    }

    /// Every part of a step of both, in seconds, and the step; parts that neither has are left out.
    #[must_use]
    pub fn time(&self) -> Vec<Line> {
        let [first, second] = self.both().map(|(_, plan)| plan.all_parts());
        let of = |parts: &[Part], name| {
            parts.iter().filter(|part| part.name == name).map(Part::seconds).sum()
        };
        let line =
            |name| Line { name, unit: "s", first: of(&first, name), second: of(&second, name) };
        let names = merged(first.iter().map(|part| part.name), second.iter().map(|part| part.name));
        let [step, other] = self.both().map(|(_, plan)| seconds(plan.step));
        let all = Line { name: "all", unit: "s", first: step, second: other };
        names.into_iter().map(line).chain([all]).collect()
    }

    /// Every part of the memory of the fullest device of both, in GiB, and all of it.
    #[must_use]
    pub fn memory(&self) -> Vec<Line> {
        let full = self.both().map(|(_, plan)| plan.finalist.evaluation.fullest().1);
        let graphs = self.both().iter().any(|(_, plan)| has_graphs(plan));
        let [first, second] = full.map(|memory| memory_items(&memory, graphs));
        let gib = |bytes: u64| number(bytes) / f64::from(1 << 30);
        let of = |parts: &[MemoryItem], name| {
            gib(parts.iter().filter(|one| one.name == name).map(|one| one.bytes).sum())
        };
        let line =
            |name| Line { name, unit: "GiB", first: of(&first, name), second: of(&second, name) };
        let names = merged(first.iter().map(|one| one.name), second.iter().map(|one| one.name));
        let [sum, other] = full.map(|memory| gib(memory.sum().0));
        let all = Line { name: "all", unit: "GiB", first: sum, second: other };
        names.into_iter().map(line).chain([all]).collect()
    }

    /// Figures of both plans: rates, days and dollars.
    #[must_use]
    pub fn figures(&self) -> Vec<Line> {
        let both = self.both();
        let reports = both.map(|(question, plan)| SetupReport::of(question, plan));
        let line = |name, unit, of: fn(&SetupReport, &Plan) -> f64| Line {
            name,
            unit,
            first: of(&reports[0], both[0].1),
            second: of(&reports[1], both[1].1),
        };
        vec![
            line("tokens/s per device", "", |reports, _| reports.tokens_per_second_per_device),
            line("TFLOP/s per device", "", |reports, _| reports.tflops_per_device),
            line("MFU", "%", |_, plan| 100.0 * plan.mfu),
            line("days", "", |_, plan| plan.days),
            line("GPU-hours", "", |_, plan| plan.gpu_hours),
            line("dollars", "", |_, plan| plan.dollars),
        ]
    }

    /// The faster plan, its speed-up, and the differences in memory and dollars, in words: a line each.
    #[must_use]
    pub fn verdict(&self) -> Vec<String> {
        let [(_, first), (_, second)] = self.both();
        let mut lines = vec![self.faster(), self.more_headroom(), self.cheaper()];
        let apart = seconds(second.step) / seconds(first.step) - 1.0;
        let least = resolvable_difference(first, second);
        // The same batch on the same kind of machine is off by the same.
        if first.kind == second.kind && self.tokens() && apart.abs() <= least {
            lines.push(format!(
                "predictions do not tell steps less than {} apart",
                format::percent(least)
            ));
        }
        for (name, (_, plan)) in NAMES.into_iter().zip(self.both()) {
            if plan.shortage.is_some() {
                lines.push(format!("the {name} {}", fit(plan)));
            }
        }
        lines
    }

    /// Whether both have as many tokens in a step.
    fn tokens(&self) -> bool {
        let [first, second] = self
            .both()
            .map(|(question, _)| question.recipe.batch.saturating_mul(question.model.sequence));
        first == second
    }

    /// Which trains more tokens a second.
    fn faster(&self) -> String {
        let rates = self.both().map(|(_, plan)| plan.tokens_per_second);
        let steps = self.both().map(|(_, plan)| format::time(plan.step));
        if rates[0] == rates[1] {
            return format!("both are as fast: a step takes {}", steps[0]);
        }
        let [fast, slow] = if rates[0] > rates[1] { [0, 1] } else { [1, 0] };
        let gain = format::percent(rates[fast] / rates[slow] - 1.0);
        let (name, step, other) = (NAMES[fast], &steps[fast], &steps[slow]);
        match self.tokens() {
            true => format!("the {name} is {gain} faster: a step takes {step}, not {other}"),
            false => format!(
                "the {name} trains {gain} more tokens a second: a step takes {step}, not {other}, of \
                 another number of tokens"
            ),
        }
    }

    /// Which holds more of its fullest device.
    fn more_headroom(&self) -> String {
        let held = self.both().map(|(_, plan)| plan.finalist.evaluation.fullest().1.sum());
        match held[0].cmp(&held[1]) {
            std::cmp::Ordering::Equal => {
                format!("both hold {} of their fullest device", format::size(held[0]))
            }
            order => {
                let more = usize::from(order.is_lt());
                format!(
                    "the {} holds {} more of its fullest device: {}, not {}",
                    NAMES[more],
                    format::size(Bytes(held[more].0 - held[1 - more].0)),
                    format::size(held[more]),
                    format::size(held[1 - more]),
                )
            }
        }
    }

    /// Which costs more.
    fn cheaper(&self) -> String {
        let dollars = self.both().map(|(_, plan)| plan.dollars);
        let less = usize::from(dollars[1] < dollars[0]);
        let saved = dollars[1 - less] - dollars[less];
        let [own, other] = [less, 1 - less].map(|side| quantities::amount(dollars[side]));
        match saved < 0.5 {
            true => format!("both cost {own} dollars for all tokens"),
            false => format!(
                "the {} costs {} dollars less for all tokens: {own}, not {other}",
                NAMES[less],
                quantities::amount(saved)
            ),
        }
    }

    /// The set-ups, in a few letters: a line each.
    #[must_use]
    pub fn names(&self) -> [String; 2] {
        let mut sides = NAMES.into_iter().zip(self.both()).map(|(name, (question, plan))| {
            let cluster = &question.clusters[plan.cluster];
            let own = &plan.finalist.costed().setup;
            format!(
                "{name}: {}, {} {}, {} {}",
                question.title,
                cluster.devices(),
                cluster.name(),
                own.schedule_name(),
                tables::asked(question, own)
            )
        });
        [sides.next().unwrap_or_default(), sides.next().unwrap_or_default()]
    }
}

/// The names of the two sides.
const NAMES: [&str; 2] = ["first", "second"];

/// The names of `first`, with those of `second` that are not among them, at their places.
fn merged(
    first: impl Iterator<Item = &'static str>,
    second: impl Iterator<Item = &'static str>,
) -> Vec<&'static str> {
    let mut all: Vec<&'static str> = first.collect();
    let mut before = 0;
    for name in second {
        match all.iter().position(|known| *known == name) {
            Some(at) => before = at + 1,
            None => {
                all.insert(before, name);
                before += 1;
            }
        }
    }
    all
}

/// `lines` as a table below `title`: both values, and by how much the second is more.
#[must_use]
pub fn table(title: &str, lines: &[Line]) -> Sheet {
    table!(
        (line, value) = lines.iter().map(|line| (line, line.written())),
        title = match line.unit {
            "" => line.name.to_owned(),
            unit => format!("{} ({unit})", line.name),
        },
        "first" = value(line.first),
        "second" = value(line.second),
        "difference" = {
            let sign = if line.difference() < 0.0 { "-" } else { "+" };
            format!("{sign}{}", value(line.difference().abs()))
        },
        "relative" = line.relative().map(format::signed_percent),
    )
}

impl Serialize for Against<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let with_difference = |line: Line| {
            let (difference, relative) = (line.difference(), line.relative());
            object!(flat(line) = line, difference = difference, relative = relative)
        };
        let [first, second] = self.both().map(|(question, plan)| SetupReport::of(question, plan));
        object!(
            first = first,
            second = second,
            answers = self.sides,
            [time] = self.time().into_iter().map(with_difference),
            [memory] = self.memory().into_iter().map(with_difference),
            [figures] = self.figures().into_iter().map(with_difference),
            verdict = self.verdict(),
        )
        .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_both_stand_in_the_order_of_both() {
        let merged = |first: &[&'static str], second: &[&'static str]| {
            super::merged(first.iter().copied(), second.iter().copied())
        };
        assert_eq!(merged(&["a", "b", "d"], &["a", "c", "d"]), ["a", "c", "b", "d"]);
        assert_eq!(merged(&[], &["x", "y"]), ["x", "y"]);
    }

    #[test]
    fn differences_are_of_the_second_over_the_first() {
        let line = Line { name: "all", unit: "s", first: 8.0, second: 6.0 };
        assert_eq!((line.difference(), line.relative()), (-2.0, Some(-0.25)));
        let row = ["all (s)", "8.0000", "6.0000", "-2.0000", "-25.00 %"].map(str::to_owned);
        let header = ["", "first", "second", "difference", "relative"];
        assert_eq!(table("", &[line]), Sheet::table(header, [row.to_vec()]));
        let none = Line { name: "x", unit: "", first: 0.0, second: 1.0 };
        assert_eq!(none.relative(), None);
    }
}
