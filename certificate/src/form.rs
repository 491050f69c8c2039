//! The file form of a certificate: TOML with whole numbers.

use std::fmt;

use pipeline::{
    Bytes, Costs, Footprint, Footprints, Limits, Nanos, Pass, PassTimes, Placement, Schedule, Shape,
};
use serde::Deserialize;

use crate::by_link::ByLink;
use crate::{Backwards, BoundArgument, Certificate, MAX_BYTES, Objective, Proof, Refusal, VERSION};

/// The keys of the file.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Form {
    version: u32,
    placement: String,
    objective: Objective,
    hop_ns: ByLink,
    forward_ns: Vec<u64>,
    backward_input_ns: Vec<u64>,
    backward_weight_ns: Vec<u64>,
    /// Times of BW, by chunk, from version 2 on.
    backward_ns: Option<Vec<u64>>,
    until_backward_bytes: Vec<u64>,
    until_weight_bytes: Vec<u64>,
    /// Times of R and what F keeps, by chunk, where the schedule recomputes; of chunks that it does not
    /// recompute they say nothing.
    #[serde(default)]
    recompute_ns: Vec<u64>,
    #[serde(default)]
    kept_bytes: Vec<u64>,
    memory_limit_bytes: Option<Vec<u64>>,
    cost_ns: u64,
    bound_ns: u64,
    gap_ns: u64,
    argument: String,
    stages: Vec<usize>,
    schedule: String,
    proof: Option<String>,
}

impl Certificate {
    /// Reads the form; nothing that it claims is checked but that the schedule is one.
    pub fn read(text: &str) -> Result<Self, Refusal> {
        if text.len() > MAX_BYTES {
            return Err(Refusal::TooLarge { bytes: text.len() });
        }
        let form: Form = toml::from_str(text).map_err(|error| unreadable(text, &error))?;
        let backwards = match form.version {
            1 if form.backward_ns.is_none() => Backwards::Split,
            1 => return Err(Refusal::Form("`backward-ns` needs version 2".to_owned())),
            VERSION => Backwards::SplitOrWhole,
            given => return Err(Refusal::Version { given }),
        };
        if form.cost_ns.checked_sub(form.bound_ns) != Some(form.gap_ns) {
            let Form { cost_ns, bound_ns, gap_ns, .. } = form;
            let [cost, bound, gap] = [cost_ns, bound_ns, gap_ns].map(Nanos);
            return Err(Refusal::Gap { cost, bound, gap });
        }
        let schedule = form.schedule()?;
        let shape = schedule.shape();
        let (costs, footprints) = (form.costs(&schedule)?, form.footprints(&schedule)?);
        let limits = form.limits(shape)?;
        let argument = BoundArgument::new(&form.argument, &form.stages, shape.stages())?;
        let proof = Proof::read(argument, form.proof.as_deref())?;
        Ok(Self {
            schedule,
            costs,
            footprints,
            limits,
            objective: form.objective,
            cost: Nanos(form.cost_ns),
            bound: Nanos(form.bound_ns),
            argument,
            proof,
            backwards,
        })
    }
}

impl Form {
    fn schedule(&self) -> Result<Schedule, Refusal> {
        let placement = match self.placement.as_str() {
            "looped" => Placement::Looped,
            "vee" => Placement::Vee,
            other => return Err(Refusal::Placement { given: other.chars().take(40).collect() }),
        };
        let read: Schedule = self.schedule.parse()?;
        if read.copies().is_some() || read.shape().has_shards() {
            return Err(Refusal::Beyond);
        }
        if read.placement() == placement {
            return Ok(read);
        }
        // The text does not say the placement; what fits another may fit this one too.
        Ok(Schedule::new(read.shape(), placement, read.orders().to_vec())?)
    }

    /// Numbers by chunk, of those that `schedule` recomputes.
    fn of_recomputed<T>(
        schedule: &Schedule,
        key: &'static str,
        list: &[u64],
        unit: fn(u64) -> T,
    ) -> Result<Vec<Option<T>>, Refusal> {
        let chunks = schedule.shape().chunks();
        let needed = if schedule.has_recompute() { usize::from(chunks) } else { 0 };
        check_count(key, list.len(), needed)?;
        let of = |(chunk, &number)| schedule.recomputes(chunk).then(|| unit(number));
        Ok((0u16..).zip(list).map(of).collect())
    }

    fn costs(&self, schedule: &Schedule) -> Result<Costs, Refusal> {
        let shape = schedule.shape();
        let Self { forward_ns, backward_input_ns, backward_weight_ns, hop_ns, .. } = self;
        let chunks = usize::from(shape.chunks());
        for (key, list) in [
            ("forward-ns", forward_ns),
            ("backward-input-ns", backward_input_ns),
            ("backward-weight-ns", backward_weight_ns),
        ] {
            check_count(key, list.len(), chunks)?;
        }
        if let Some(list) = &self.backward_ns {
            check_count("backward-ns", list.len(), chunks)?;
        }
        let times = |chunk: usize| PassTimes {
            forward: Nanos(forward_ns[chunk]),
            backward_input: Nanos(backward_input_ns[chunk]),
            backward_weight: Nanos(backward_weight_ns[chunk]),
            backward: self.backward_ns.as_ref().map(|list| Nanos(list[chunk])),
        };
        let recompute = Self::of_recomputed(schedule, "recompute-ns", &self.recompute_ns, Nanos)?;
        let hops = hop_ns.hops(schedule)?;
        let costs = Costs::new((0..chunks).map(times).collect(), Nanos(0)).with_hops(hops);
        let costs = costs.with_recompute(recompute);
        costs.check(shape)?;
        Ok(costs)
    }

    fn footprints(&self, schedule: &Schedule) -> Result<Footprints, Refusal> {
        let shape = schedule.shape();
        let Self { until_backward_bytes, until_weight_bytes, .. } = self;
        let chunks = usize::from(shape.chunks());
        check_count("until-backward-bytes", until_backward_bytes.len(), chunks)?;
        check_count("until-weight-bytes", until_weight_bytes.len(), chunks)?;
        let held = |chunk: usize| Footprint {
            until_backward: Bytes(until_backward_bytes[chunk]),
            until_weight: Bytes(until_weight_bytes[chunk]),
        };
        let kept = Self::of_recomputed(schedule, "kept-bytes", &self.kept_bytes, Bytes)?;
        let footprints = Footprints::new((0..chunks).map(held).collect()).with_kept(kept);
        footprints.check(shape)?;
        Ok(footprints)
    }

    fn limits(&self, shape: Shape) -> Result<Option<Limits>, Refusal> {
        let Some(limits) = &self.memory_limit_bytes else { return Ok(None) };
        check_count("memory-limit-bytes", limits.len(), shape.stages())?;
        let limits: Vec<Bytes> = limits.iter().copied().map(Bytes).collect();
        Ok(Some(Limits::new(shape, &limits)?))
    }
}

/// The fault and its place, in few words: the line itself may be as long as the whole text.
fn unreadable(text: &str, error: &toml::de::Error) -> Refusal {
    let message: String = error.message().chars().take(200).collect();
    let before = error.span().and_then(|span| text.as_bytes().get(..span.start));
    let line = before.map_or(1, |before| before.iter().filter(|&&byte| byte == b'\n').count() + 1);
    Refusal::Form(format!("line {line}: {message}"))
}

fn check_count(key: &'static str, given: usize, needed: usize) -> Result<(), Refusal> {
    if given == needed { Ok(()) } else { Err(Refusal::Count { key, given, needed }) }
}

impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { schedule, costs, footprints, limits, objective, cost, bound, .. } = self;
        let Self { argument, proof, backwards, .. } = self;
        let placement = match schedule.placement() {
            Placement::Looped => "looped",
            Placement::Vee => "vee",
            Placement::Mirrored => "mirrored",
        };
        let chunks = costs.chunks();
        let held = |pick: fn(Footprint) -> Bytes| {
            (0..schedule.shape().chunks()).map(move |chunk| pick(footprints.of(chunk)).0)
        };
        writeln!(
            f,
            "# How far this order of passes can be from the best. `debubble verify` checks it."
        )?;
        let version = if *backwards == Backwards::Split { 1 } else { VERSION };
        writeln!(f, "version = {version}")?;
        writeln!(f, "placement = \"{placement}\"")?;
        writeln!(f, "objective = \"{}\"", objective.name())?;
        match costs.hops().by_link() {
            [all] => writeln!(f, "hop-ns = {}", all.0)?,
            each => list(f, "hop-ns", each.iter().map(|one| one.0))?,
        }
        list(f, "forward-ns", chunks.iter().map(|one| one.forward.0))?;
        list(f, "backward-input-ns", chunks.iter().map(|one| one.backward_input.0))?;
        list(f, "backward-weight-ns", chunks.iter().map(|one| one.backward_weight.0))?;
        if costs.has_whole() {
            list(f, "backward-ns", chunks.iter().map(|one| one.whole_backward().0))?;
        }
        list(f, "until-backward-bytes", held(|one| one.until_backward))?;
        list(f, "until-weight-bytes", held(|one| one.until_weight))?;
        if schedule.has_recompute() {
            let all = || 0..schedule.shape().chunks();
            let times = all().map(|chunk| match schedule.recomputes(chunk) {
                true => costs.of(Pass::r(chunk, 0)).0,
                false => 0,
            });
            list(f, "recompute-ns", times)?;
            let kept =
                |chunk| footprints.kept(chunk).unwrap_or(footprints.of(chunk).until_backward);
            list(f, "kept-bytes", all().map(|chunk| kept(chunk).0))?;
        }
        if let Some(limits) = limits {
            list(f, "memory-limit-bytes", limits.by_stage().iter().map(|one| one.0))?;
        }
        writeln!(f, "cost-ns = {}", cost.0)?;
        writeln!(f, "bound-ns = {}", bound.0)?;
        writeln!(f, "gap-ns = {}", cost.0.saturating_sub(bound.0))?;
        writeln!(f, "argument = \"{}\"", argument.name())?;
        list(f, "stages", argument.stages().into_iter().map(|stage| stage as u64))?;
        write!(f, "schedule = \"\"\"\n{schedule}\"\"\"\n")?;
        match proof.is_empty() {
            true => Ok(()),
            false => write!(f, "proof = \"\"\"\n{proof}\"\"\"\n"),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, key: &str, numbers: impl Iterator<Item = u64>) -> fmt::Result {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    writeln!(f, "{key} = [{}]", numbers.join(", "))
}
