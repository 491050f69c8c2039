//! The best order that is found for a question: by its nominal times, under its noise, or on its hardware.

use pipeline::{Nanos, Placement, Schedule};
use search::bounds::{Bound, Proof};
use search::{
    Effort, Figure, Found, FoundOnHardware, FoundUnderNoise, Instance, Objective, OnHardware,
    Progress, SearchError, Statistic, UnderNoise, search_on_hardware, search_under_noise,
    where_no_link_is_shared,
};

use super::aim::{self, Aim, REPLICAS, is_stuck, needs_hardware, nothing_noisy};
use super::{Case, ScheduleSource, case_of, headroom, seats};
use question::diagnostic::Diagnostic;
use question::host::Context;
use question::noise::Noise;
use question::resolve::{Resolved, explain as explain_fault, limit_key, shape};
use question::scenario::{Scenario, Setting};

/// How a question is searched.
pub struct Search<'a> {
    /// The placement of chunks, if it is given.
    pub placement: Option<Placement>,
    /// The objective to minimise.
    pub aim: Aim,
    /// For how long.
    pub effort: Effort,
    /// Known orders that are tried, too, if they fit: under noise, on hardware, and by branch and bound.
    pub known: &'a [&'a Schedule],
    /// A bound that was proved before, with its proof: of a search of [`Aim::Cost`].
    pub proved: Option<&'a (Bound, Proof)>,
    /// Whether the order is solved as a program, where a search of [`Aim::Cost`] leaves open whether there is a better
    /// one and the program is likely to be solved within the effort.
    pub solved: bool,
    /// Whether to stop before that.
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

/// A question and the best order that was found for it.
pub struct Searched {
    /// The order with the problem that it was made for.
    pub case: Case,
    /// The instance that was searched; on hardware, that where no link is shared.
    pub instance: Instance,
    /// The result of the search; under noise and on hardware, the answer with its nominal cost.
    pub found: Found,
    /// The result under noise, if that was asked for.
    pub under_noise: Option<FoundUnderNoise>,
    /// The result on hardware, if that was asked for.
    pub on_hardware: Option<FoundOnHardware>,
}

impl Searched {
    /// That of a search by the nominal times.
    #[must_use]
    pub const fn nominal(case: Case, instance: Instance, found: Found) -> Self {
        Self { case, instance, found, under_noise: None, on_hardware: None }
    }
}

/// A question that is searched.
struct Asked<'a> {
    context: &'a Context<'a>,
    scenario: &'a Scenario,
    setting: &'a Setting,
    rule: &'a ScheduleSource,
    resolved: &'a Resolved,
    search: &'a Search<'a>,
}

/// Searches the best order for `setting`. Keys [`beyond`](super::beyond) the search are left out.
pub fn search(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    search: &Search<'_>,
    progress: impl FnMut(Progress),
) -> Result<Searched, Diagnostic> {
    match search.aim {
        Aim::Cost(_) => {}
        Aim::Statistic(statistic) => aim::check_under_noise(scenario, setting, statistic)?,
        Aim::Figure(_) => aim::check_noise_free(scenario, setting)?,
    }
    let objective = aim::objective_under_noise(setting);
    let mut setting = setting.clone();
    if matches!(search.aim, Aim::Statistic(_)) {
        // Without a boundary, no link is shared.
        setting.keys.hardware.boundary = None;
    }
    let (setting, rule) = (&setting, &ScheduleSource::Searched(search.placement));
    let resolved = Resolved::of(context, scenario, setting, rule)?;
    let asked = Asked { context, scenario, setting, rule, resolved: &resolved, search };
    let (mut under_noise, mut on_hardware) = (None, None);
    let (instance, found) = match search.aim {
        Aim::Cost(objective) => asked.nominal(objective, progress)?,
        Aim::Statistic(statistic) => {
            let (instance, noisy) = asked.under_noise(objective, statistic, progress)?;
            let (schedule, cost) = (noisy.answer.schedule.clone(), noisy.answer.nominal);
            let found = of_answer(&noisy.nominal_search, schedule, cost, noisy.interrupted);
            under_noise = Some(noisy);
            (instance, found)
        }
        Aim::Figure(figure) => {
            let (instance, real) = asked.on_hardware(figure, progress)?;
            let (schedule, cost) = (real.schedule.clone(), real.answer.nominal);
            let found = of_answer(&real.nominal_search, schedule, cost, real.interrupted);
            on_hardware = Some(real);
            (instance, found)
        }
    };
    let case = case_of(context, scenario, setting, rule, resolved, found.schedule.clone())?;
    Ok(Searched { case, instance, found, under_noise, on_hardware })
}

/// The result of the search without noise or on links that are not shared, with the answer in the place of its order.
fn of_answer(nominal: &Found, schedule: Schedule, cost: Nanos, interrupted: bool) -> Found {
    Found { schedule, cost, interrupted, ..nominal.clone() }
}

impl Asked<'_> {
    fn instance(&self, objective: Objective) -> Result<Instance, Diagnostic> {
        instance(self.scenario, self.setting, self.rule, self.resolved, objective)
    }

    fn explain(&self, error: &SearchError) -> Diagnostic {
        explain(self.scenario, self.setting, error)
    }

    fn nominal(
        &self,
        objective: Objective,
        progress: impl FnMut(Progress),
    ) -> Result<(Instance, Found), Diagnostic> {
        headroom::check(self.context.host(), self.rule, self.resolved)?;
        let instance = self.instance(objective)?;
        let found = best(&instance, self.search, progress);
        let found = found.map_err(|error| self.explain(&error))?;
        Ok((instance, found))
    }

    fn under_noise(
        &self,
        objective: Objective,
        statistic: Statistic,
        progress: impl FnMut(Progress),
    ) -> Result<(Instance, FoundUnderNoise), Diagnostic> {
        let Self { context, scenario, setting, .. } = *self;
        headroom::check(context.host(), self.rule, self.resolved)?;
        let instance = self.instance(objective)?;
        let devices = seats(None, instance.shape);
        let noise = Noise::of(context, scenario, setting, instance.shape, devices)?;
        let noise = noise.ok_or_else(|| nothing_noisy(scenario, setting, statistic))?;
        let Search { known, effort, stop, .. } = *self.search;
        let replicas = noise.replicas.unwrap_or(REPLICAS);
        let under = UnderNoise { noise: noise.stragglers(), statistic, replicas, known };
        let found = search_under_noise(&instance, &under, effort, progress, stop);
        let found = found.map_err(|error| self.explain(&error))?;
        Ok((instance, found))
    }

    fn on_hardware(
        &self,
        figure: Figure,
        progress: impl FnMut(Progress),
    ) -> Result<(Instance, FoundOnHardware), Diagnostic> {
        let Some(hardware) = &self.resolved.hardware else { return Err(needs_hardware()) };
        headroom::check_on_hardware(self.context.host(), self.rule, self.resolved, hardware.steps)?;
        let as_asked = self.instance(figure.objective(hardware))?;
        let instance = where_no_link_is_shared(&as_asked, hardware, figure);
        let Search { known, effort, stop, .. } = *self.search;
        let on = OnHardware { hardware, figure, asked: &self.resolved.problem, known };
        let found = search_on_hardware(&instance, &on, effort, progress, stop);
        let found = found.map_err(|error| match self.explain(&error) {
            wrong if is_stuck(&error) => {
                wrong.with_help("write --protocol eager, or let receivers ask sooner: rendezvous:2")
            }
            wrong => wrong,
        })?;
        Ok((instance, found))
    }
}

/// The order that a search of default effort finds where a schedule is named.
pub(super) fn schedule(
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
    resolved: &Resolved,
) -> Result<Schedule, Diagnostic> {
    let instance = instance(scenario, setting, rule, resolved, Objective::Span)?;
    let effort = Effort { seed: setting.keys.seed.unwrap_or(0), ..Effort::default() };
    let (aim, known) = (Aim::Cost(Objective::Span), &[][..]);
    let (placement, proved, stop) = (None, None, &|| false);
    let search = Search { placement, aim, effort, known, proved, solved: true, stop };
    let found = best(&instance, &search, |_| {});
    Ok(found.map_err(|error| explain(scenario, setting, &error))?.schedule)
}

/// Searches the best order, improves it in its neighbourhoods, and where that leaves open whether there is a better one,
/// goes on with branch and bound if it is to be solved and that is likely to end within the effort; from the cheapest
/// of the order found and those known, and from the higher bound. Without a limit of the effort it goes on until it is
/// stopped.
fn best(
    instance: &Instance,
    &Search { effort, known, proved, solved, stop, .. }: &Search<'_>,
    mut progress: impl FnMut(Progress),
) -> Result<Found, SearchError> {
    // A search alone would never end where only the clock ends it.
    let first = Effort { times: effort.times.or(Some(1)), ..effort };
    let times = |steps: u64| effort.times.map_or(u64::MAX, |times| times.saturating_mul(steps));
    let mut last = None;
    let mut tell = |now: Progress| {
        last = Some(now);
        progress(now);
    };
    let mut found = search::search(instance, first, &mut tell, stop)?;
    ilp::start_from(instance, &mut found, known);
    let raise = |found: &mut Found| {
        if let Some((bound, proof)) = proved.filter(|(bound, _)| bound.cost > found.bound.cost) {
            (found.bound, found.proof) = (*bound, proof.clone());
        }
    };
    raise(&mut found);
    let mut tell = |best, bound| {
        if let Some(last) = last {
            progress(Progress { best: Some(best), bound: Some(bound), ..last });
        }
    };
    if found.is_optimal() || found.interrupted {
        return Ok(found);
    }
    let brief = first.times.map_or(0, |times| times.saturating_mul(ilp::BRIEF_STEPS));
    let can_solve = solved && ilp::check(instance).is_ok();
    let solve = |found: &mut Found, tell: &mut dyn FnMut(Nanos, Nanos)| {
        let steps = times(ilp::BRIEF_STEPS);
        let tell = |best, bound, _| tell(best, bound);
        let solved = ilp::warm_start(instance, found, steps, tell, &|| stop());
        found.interrupted = solved.is_ok_and(|(_, end)| end == ilp::End::Stopped);
    };
    // A small pipeline is mostly solved from any order.
    let is_small = can_solve && ilp::is_small(instance, brief);
    if is_small {
        solve(&mut found, &mut tell);
        if found.is_optimal() || found.interrupted {
            return Ok(found);
        }
    }
    // Orders of another kind stay as they are.
    let (steps, bound) = (times(ilp::NEIGHBOURHOOD_STEPS), found.bound.cost);
    let _ = ilp::improve(instance, &mut found, steps, |best| tell(best, bound), &|| stop());
    found.interrupted = stop();
    if found.is_optimal() || found.interrupted || is_small {
        return Ok(found);
    }
    if can_solve && ilp::is_solved_briefly(instance, [found.cost, bound], brief) {
        solve(&mut found, &mut tell);
    } else if effort.times.is_none() {
        let short = found.schedule;
        found = search::search(instance, effort, progress, stop)?;
        ilp::start_from(instance, &mut found, &[&short]);
        raise(&mut found);
    }
    Ok(found)
}

/// Keys of copies to the host, which change nothing where nothing is copied.
const COPYING: [&str; 5] =
    ["offload-time", "offload-ratio", "host-bandwidth", "devices-per-host-link", "offload-chunks"];

/// The keys of `setting` that have no influence on a search that is asked for by itself, in words.
pub fn ignored(setting: &Setting, placement: Option<Placement>) -> Vec<String> {
    let keys = &setting.keys;
    let mut notes = super::ignored(setting, &ScheduleSource::Searched(placement));
    let copying: Vec<&str> = keys.given().filter(|key| COPYING.contains(key)).collect();
    if !copying.is_empty() && keys.hardware.offload.is_none() {
        notes.push(format!("copies nothing to the host, {} is ignored", copying.join(", ")));
    }
    if keys.has_chain() && keys.lone_backward.is_none() {
        notes.push(
            "backwards outside pairs overlap communication with their own W: simulate an exported \
             order with --lone-backward overlapped"
                .to_owned(),
        );
    }
    if placement == Some(Placement::Vee) && keys.chunks.is_none() {
        notes.push("2 chunks per stage, since chunks are not given".to_owned());
    }
    // A scenario file may name schedules for other commands.
    if keys.schedule.is_some() && !setting.says("schedule") {
        notes.push("makes an order of its own, schedule is ignored".to_owned());
    }
    notes
}

/// The instance whose orders are searched for `setting`, by its times where no link is shared, nothing runs beside
/// passes, and all microbatches have the mean work.
pub fn searchable(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    placement: Option<Placement>,
    objective: Objective,
) -> Result<Instance, Diagnostic> {
    let rule = ScheduleSource::Searched(placement);
    let resolved = Resolved::of(context, scenario, setting, &rule)?;
    let steps = resolved.hardware.as_ref().map_or(1, |hardware| hardware.steps);
    headroom::check(context.host(), &rule, &resolved)?;
    headroom::check_on_hardware(context.host(), &rule, &resolved, steps)?;
    let asked = instance(scenario, setting, &rule, &resolved, objective)?;
    Ok(Instance { costs: asked.costs.of_mean_microbatch(), ..asked })
}

pub(super) fn instance(
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
    resolved: &Resolved,
    objective: Objective,
) -> Result<Instance, Diagnostic> {
    let (shape, placement) = shape(scenario, setting, rule)?;
    let costs = resolved.problem.costs().clone();
    let (footprints, limits) = (resolved.problem.footprints().clone(), resolved.limits.clone());
    let instance = Instance::new(shape, placement, costs, footprints, limits, objective);
    instance.map_err(|fault| explain_fault(scenario, setting, rule, &fault))
}

/// `error` of a search of `setting`, at the key that it is about.
#[must_use]
pub fn explain(scenario: &Scenario, setting: &Setting, error: &SearchError) -> Diagnostic {
    let key = match error {
        SearchError::Infeasible(_) => Some(limit_key(&setting.keys)),
        SearchError::TooLarge(_) | SearchError::TooLargeUnderNoise(_) => Some("microbatches"),
        SearchError::TooManyChunks(_) | SearchError::TooManyPairs(_) => Some("chunks"),
        SearchError::Recomputed => Some("recompute"),
        SearchError::TooLong(_) => Some("microbatches"),
        SearchError::OverlappedUnderNoise
        | SearchError::OverlappedOnHardware
        | SearchError::OnHardware(_)
        | SearchError::Mirrored
        | SearchError::Fault(_) => None,
    };
    scenario.error(setting, key, format!("{}: {error}", super::SEARCHED))
}
