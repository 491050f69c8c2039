//! The rates of a machine that runs of collectives give.

use std::collections::BTreeMap;

use plan::{Efficiency, Machine, Otherwise, RATES, Rate};

use super::Run;
use super::collective::Collective::{
    self, AllGather, AllReduce, AllToAll, ReduceScatter, SendRecv,
};
use super::fitted::{Fitted, Kept, Network, Reason};
use super::line::{self, Line, Sample};

/// Whether a run is within a domain of fast links or over several.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Within,
    Over,
}

/// How a rate is measured: the collectives, the first that its range allows before others, and which of several numbers
/// of nodes counts.
struct Rule {
    key: &'static str,
    place: Place,
    collectives: &'static [&'static [Collective]],
    fewest: bool,
}

const fn rule(
    key: &'static str,
    place: Place,
    collectives: &'static [&'static [Collective]],
) -> Rule {
    Rule { key, place, collectives, fewest: false }
}

/// In this order: all-to-alls over nodes take the links within them as they were measured.
const RULES: [Rule; 7] = [
    rule("link", Place::Within, &[&[AllReduce], &[AllGather, ReduceScatter]]),
    rule("expert-link", Place::Within, &[&[AllToAll]]),
    rule("ring", Place::Over, &[&[AllReduce], &[AllGather, ReduceScatter]]),
    rule("sharded-ring", Place::Over, &[&[AllGather, ReduceScatter]]),
    Rule { fewest: true, ..rule("tensor-network", Place::Over, &[&[AllReduce]]) },
    rule("hop", Place::Over, &[&[SendRecv]]),
    rule("expert-network", Place::Over, &[&[AllToAll]]),
];

/// Latencies, with the collectives and places of their small sizes, the first that was measured before others.
const LATENCIES: [(&str, Collective, &[Place]); 2] = [
    ("collective-latency", AllReduce, &[Place::Within]),
    ("hop-latency", SendRecv, &[Place::Over, Place::Within]),
];

/// Rates of networks that no benchmark of one collective at a time gives.
const OTHERS: [&str; 2] = ["shared-ring", "expert-ring"];

/// `machine` with the rates that `runs` of `file` give; why there is none.
pub(super) fn replaced(
    file: &str,
    runs: &[Run],
    machine: &Machine,
) -> Result<(Machine, Network), String> {
    let (usable, left_out) = usable(runs, machine);
    let mut fit =
        Fit { runs: usable, machine: machine.clone(), rates: Vec::new(), kept: Vec::new() };
    for rule in &RULES {
        fit.apply(rule);
    }
    let latencies = fit.latencies();
    if fit.rates.is_empty() && latencies.is_empty() {
        let impossible = fit.kept.iter().find(|kept| kept.impossible_bytes_per_second.is_some());
        let kept = impossible.or(fit.kept.first()).map(|kept| kept.reason.clone());
        let why = left_out.into_iter().next().or(kept);
        return Err(format!(
            "it measures no rate of {}: {}",
            machine.name,
            why.unwrap_or_default()
        ));
    }
    fit.follow(&machine.efficiency);
    let mut devices: Vec<String> = runs.iter().filter_map(|run| run.device.clone()).collect();
    devices.retain(|name| !name.is_empty());
    devices.sort();
    devices.dedup();
    let network = Network {
        file: file.to_owned(),
        devices: devices.iter().map(|name| question::quote::clip(name)).take(4).collect(),
        rates: fit.rates,
        latencies,
        kept: fit.kept,
        left_out,
        built_in: machine.efficiency,
    };
    Ok((fit.machine, network))
}

/// The runs with as many devices of a node as `machine` has, and why others are left out.
fn usable<'a>(runs: &'a [Run], machine: &Machine) -> (Vec<&'a Run>, Vec<String>) {
    let (mut usable, mut left_out) = (Vec::new(), Vec::new());
    for run in runs {
        let of_node = run.ranks / run.nodes;
        let name = run.collective.name();
        let is_pair = run.collective == SendRecv && run.nodes > 1 && of_node == 1;
        if run.collective == Collective::Other {
            left_out.push(format!("line {}: no rate of a machine is of this collective", run.line));
        } else if of_node != machine.node && !is_pair {
            left_out.push(format!(
                "line {}: {name} ran on {of_node} devices a node, and {} has {}",
                run.line, machine.name, machine.node
            ));
        } else {
            usable.push(run);
        }
    }
    (usable, left_out)
}

/// Why a rate is not measured, or its line with the runs that gave it.
type Found<'a> = Result<(Line, &'a Run, Vec<Collective>), Reason>;

struct Fit<'a> {
    runs: Vec<&'a Run>,
    machine: Machine,
    rates: Vec<Fitted>,
    kept: Vec<Kept>,
}

impl<'a> Fit<'a> {
    /// Whether the nodes of `run` are within a domain.
    fn place(&self, run: &Run) -> Place {
        let spanned = run.nodes.saturating_mul(self.machine.node);
        if spanned <= self.machine.domain { Place::Within } else { Place::Over }
    }

    /// Replaces the rate of `rule` if its runs give one.
    fn apply(&mut self, rule: &Rule) {
        let Some(rate) = Rate::named(rule.key) else { return };
        let mut reasons = Vec::new();
        for collectives in rule.collectives {
            match self.found(rule, rate, collectives) {
                Ok((line, run, collectives)) => {
                    return self.set(rule, rate, (line, run, collectives));
                }
                Err(reason) => reasons.push(reason),
            }
        }
        let value = *(rate.field)(&mut self.machine.efficiency);
        // The reason of the collective that was measured says more than that others were not.
        let reason = reasons.iter().find(|reason| reason.impossible.is_some()).or(reasons.first());
        self.kept.push(Kept::new(rate, value, reason.cloned().unwrap_or_default()));
    }

    fn found(&self, rule: &Rule, rate: &Rate, collectives: &[Collective]) -> Found<'a> {
        let names: Vec<&str> = collectives.iter().map(|one| one.name()).collect();
        let names = names.join(" and ");
        let place = match rule.place {
            Place::Within => "within a node",
            Place::Over => "over nodes",
        };
        let own =
            |run: &&&Run| collectives.contains(&run.collective) && self.place(run) == rule.place;
        let own: Vec<&'a Run> = self.runs.iter().filter(own).copied().collect();
        let ranks = own.iter().map(|run| run.ranks);
        let chosen = if rule.fewest { ranks.min() } else { ranks.max() };
        let own: Vec<&'a Run> = own.into_iter().filter(|run| Some(run.ranks) == chosen).collect();
        let Some(first) = own.first() else {
            return Err(format!("{names} {place} was not measured").into());
        };
        let samples: Vec<Sample> = own.iter().flat_map(|run| self.samples(rule, run)).collect();
        let Some(line) = line::line(&samples) else {
            return Err(format!("{names} {place} has no size of 1 MiB or more").into());
        };
        let [least, most] = rate.form.range();
        if !(least..=most).contains(&line.share) {
            let gigabytes =
                |share: f64| question::format::three_digits(share * self.whole(rule.place) / 1e9);
            let key = match rule.place {
                Place::Within => "link",
                Place::Over => "network",
            };
            let cure = match line.share > most {
                true => "measure with NCCL_ALGO=Ring if switches reduce",
                false => "look at the units of its columns",
            };
            let words = format!(
                "{names} {place} reached {} GB/s a device, which no share of the {} GB/s of {} allows: {cure}, or correct \
                 {key} in a machine file",
                gigabytes(line.share),
                gigabytes(1.0),
                self.machine.name,
            );
            return Err(Reason { words, impossible: Some(line.share * self.whole(rule.place)) });
        }
        let mut found: Vec<Collective> = own.iter().map(|run| run.collective).collect();
        found.sort();
        found.dedup();
        Ok((line, first, found))
    }

    /// Bytes per second of a device that a share is of.
    fn whole(&self, place: Place) -> f64 {
        match place {
            Place::Within => self.machine.link,
            Place::Over => self.machine.network,
        }
    }

    /// The times of `run` as the machine counts the bytes of `rule`.
    fn samples(&self, rule: &Rule, run: &Run) -> Vec<Sample> {
        let Machine { link, network, efficiency, .. } = &self.machine;
        let inner = plan::number(self.machine.members_in_node(run.ranks, 1));
        let ranks = plan::number(run.ranks);
        let factor = run.collective.factor(run.ranks);
        // Rings cross with the NICs of all their members of a node; all-to-alls go over links and network one after the
        // other.
        let of = |bytes: f64| match (rule.place, run.collective) {
            (Place::Within, _) => (factor * bytes / link, 0.0),
            (Place::Over, SendRecv) => (factor * bytes / network, 0.0),
            (Place::Over, AllToAll) => {
                let near = bytes * (inner - 1.0) / ranks / (link * efficiency.expert_link);
                (bytes * (1.0 - inner / ranks) / network, near)
            }
            (Place::Over, _) => (factor * bytes / (network * inner), 0.0),
        };
        let sample = |point: &super::Point| {
            let (whole, besides) = of(plan::number(point.bytes));
            Sample { bytes: point.bytes, whole, besides, seconds: point.seconds }
        };
        run.points.iter().map(sample).collect()
    }

    fn set(
        &mut self,
        rule: &Rule,
        rate: &'static Rate,
        (line, run, collectives): (Line, &Run, Vec<Collective>),
    ) {
        let whole = self.whole(rule.place);
        let value = (rate.field)(&mut self.machine.efficiency);
        let built_in = std::mem::replace(value, line.share);
        self.rates.push(Fitted {
            rate: rate.key,
            collectives,
            nodes: run.nodes,
            ranks: run.ranks,
            value: line.share,
            built_in,
            bytes_per_second: line.share * whole,
            built_in_bytes_per_second: built_in * whole,
            latency: line.latency,
            median_residual: line.residuals[0],
            largest_residual: line.residuals[1],
            sizes: line.sizes,
            least_bytes: line.range[0],
            most_bytes: line.range[1],
        });
    }

    /// Sets the latencies that small sizes give.
    fn latencies(&mut self) -> BTreeMap<&'static str, f64> {
        let mut all = BTreeMap::new();
        for (key, collective, places) in LATENCIES {
            let Some(rate) = Rate::named(key) else { continue };
            let found = places.iter().find_map(|place| {
                let own = self
                    .runs
                    .iter()
                    .filter(|run| run.collective == collective && self.place(run) == *place);
                line::latency(
                    own.flat_map(|run| &run.points).map(|point| (point.bytes, point.seconds)),
                )
            });
            let value = (rate.field)(&mut self.machine.efficiency);
            match found {
                Some(seconds) => {
                    *value = seconds;
                    all.insert(rate.key, seconds);
                }
                None => {
                    let reason = format!(
                        "no size of {} up to 32 KiB was measured for it",
                        collective.name()
                    );
                    self.kept.push(Kept::new(rate, *value, reason.into()));
                }
            }
        }
        all
    }

    /// Lets rates that were not measured follow those that machine files take for them, in the proportion of the file:
    /// `before` is what that has.
    fn follow(&mut self, before: &Efficiency) {
        let mut before = *before;
        let is_measured = |rates: &[Fitted], key: &str| rates.iter().any(|one| one.rate == key);
        for rate in RATES {
            let own = RULES.iter().any(|rule| rule.key == rate.key) || OTHERS.contains(&rate.key);
            if !own || is_measured(&self.rates, rate.key) {
                continue;
            }
            let mut value = *(rate.field)(&mut self.machine.efficiency);
            let mut follows = None;
            if let Otherwise::As(other) = rate.otherwise
                && is_measured(&self.rates, other)
                && let Some(leader) = Rate::named(other)
            {
                let [new, old] =
                    [&mut self.machine.efficiency, &mut before].map(|all| *(leader.field)(all));
                let moved = value * new / old;
                let [least, most] = rate.form.range();
                if (least..=most).contains(&moved) {
                    value = moved;
                    follows = Some(other);
                }
            }
            *(rate.field)(&mut self.machine.efficiency) = value;
            match self.kept.iter_mut().find(|kept| kept.rate == rate.key) {
                Some(kept) => (kept.value, kept.follows) = (value, follows),
                None => {
                    let reason = "no benchmark of one collective at a time gives it".to_owned();
                    self.kept.push(Kept { follows, ..Kept::new(rate, value, reason.into()) });
                }
            }
        }
    }
}
