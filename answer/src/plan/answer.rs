//! The answer of the planner: set-ups searched, and priced with their time, money and error bars.

use pipeline::Nanos;
use plan::{
    Cluster, Failures, Finalist, Found, Inputs, Kind, Machine, Options, OrderSearch, Orders,
    SearchCounts, Setup, SetupRun, Watch, number, percentiles_with,
};

use measured::{Change, Contingency, ErrorBar, Overrun, Step, StepAsked};
use planning::{Framework, Paid, Question};
use question::host::announce_estimate;
use question::{Context, Diagnostic};

use super::choice::mark_front;
use super::documents::PackedSteps;
use super::experts;
use super::ground::ground;
use super::priced::{Plan, seconds};
use super::software;

/// Seconds of a day.
const DAY: f64 = 86_400.0;
/// The least share of time that failures must leave: below, days and dollars say nothing.
const LEAST_GOODPUT: f64 = 1e-6;
/// Reason of a set-up below [`LEAST_GOODPUT`].
const ALWAYS_FAILING: &str = "fails before a checkpoint is written: see [failures] of its machines";

/// Set-ups of a cluster whose orders are searched beside published ones: each takes half a second of a
/// core. The number does not depend on the clusters, so that another cluster makes no plan worse.
const SEARCHES: usize = 1;
/// Reason of a set-up whose order is not searched.
const NOT_SEARCHED: &str = "no order to search: more memory than a device has, or too many passes";

/// The result for one cluster.
pub struct Searched {
    /// How many set-ups there were.
    pub setups: usize,
    /// The result of the search.
    pub found: Found,
}

impl Searched {
    /// Leaves out, for `reason`, a set-up that was simulated.
    fn leave_out(&mut self, reason: &str) {
        self.add(reason, 1);
        self.found.simulated -= 1;
    }

    /// Counts the set-ups whose orders might have been searched.
    fn count(&mut self, searches: SearchCounts) {
        let SearchCounts { searched, pruned, impossible } = searches;
        self.setups += usize::try_from(searched + pruned + impossible).unwrap_or(0);
        self.found.simulated += searched;
        self.add(plan::PRUNED, pruned);
        self.add(NOT_SEARCHED, impossible);
    }

    fn add(&mut self, reason: &str, count: u64) {
        if count > 0 {
            *self.found.left_out.entry(reason.to_owned()).or_default() += count;
        }
    }
}

/// The answer to a question.
pub struct PlanAnswer {
    /// By cluster.
    pub searched: Vec<Searched>,
    /// All plans: by cluster, the fastest first, and those that may fit last.
    pub plans: Vec<Plan>,
    /// How far steps of each kind among the plans may be off.
    pub bars: Vec<ErrorBar>,
    /// Factor of published trainings over their plans.
    pub contingency: Contingency,
}

/// A question that is being answered.
pub(crate) struct Planner<'a> {
    pub(crate) context: &'a Context<'a>,
    pub(crate) question: &'a Question,
}

impl Planner<'_> {
    /// Dollars per hour of a device of `machine`, and its preemptions per hour.
    fn price(&self, machine: &Machine) -> (f64, f64) {
        let price = &machine.price;
        match self.question.paid {
            Paid::OnDemand => (price.on_demand, 0.0),
            Paid::Reserved => (price.reserved.unwrap_or(price.on_demand), 0.0),
            Paid::Spot => price.spot.unwrap_or((price.on_demand, 0.0)),
        }
    }

    /// SearchCounts every cluster and makes plans of the best; after a Ctrl-C of those found so far.
    pub(crate) fn answer(&self, orders: &Orders<'_>) -> Result<PlanAnswer, Diagnostic> {
        if self.question.is_of_one() {
            return self.run_single(orders);
        }
        let setups = self.question.clusters.iter().map(|cluster| {
            self.question.setups(cluster).ok_or_else(|| {
                let message = format!("more than {} set-ups of one cluster", plan::MAX_SETUPS);
                Diagnostic::new(message).with_help("name fewer values in [search]")
            })
        });
        let setups: Vec<Vec<Setup>> = setups.collect::<Result<_, _>>()?;
        let all: usize = setups.iter().map(Vec::len).sum();
        announce_estimate(self.context.host(), all as u128, 5_000, &format!("{all} set-ups"));
        let bar = self.context.host().begin(all as u64, "set-ups");
        let (mut searched, mut finalists) = (Vec::new(), Vec::new());
        for (at, (cluster, setups)) in self.question.clusters.iter().zip(&setups).enumerate() {
            let ground = ground(self.question, cluster);
            let done = |count| bar.inc(count);
            let stop = || self.context.stopped();
            let watch = Watch { done: &done, stop: &stop, orders };
            let (of_cluster, best) = search(self.question, &ground, setups, watch);
            searched.push(of_cluster);
            let best = self.with_one_that_runs(&ground, best, setups, watch);
            let unsure = self.unsure(&ground, (&searched[at].found, &best), watch);
            let mut best: Vec<Finalist> =
                best.into_iter().map(|one| self.finished(&ground, one, orders)).collect();
            best.sort_by_key(|one| one.step);
            let sure = best.into_iter().map(|finalist| SetupRun { finalist, shortage: None });
            finalists.push(sure.chain(unsure).collect());
        }
        drop(bar);
        if finalists.iter().all(Vec::is_empty) {
            return Err(self.no_plan(&searched));
        }
        let bars = self.bars(&finalists)?;
        let contingency = Contingency::published()?;
        let mut plans = self.plans(finalists, &mut searched, (&bars, contingency.overrun))?;
        if plans.is_empty() {
            return Err(self.no_plan(&searched));
        }
        mark_front(&mut plans);
        Ok(PlanAnswer { searched, plans, bars, contingency })
    }

    /// `best`, in which the fastest of `setups` that some framework runs takes the last place if none of it is run;
    /// as it is where orders are to be searched alone.
    fn with_one_that_runs(
        &self,
        ground: &Inputs<'_>,
        mut best: Vec<Finalist>,
        setups: &[Setup],
        watch: Watch<'_>,
    ) -> Vec<Finalist> {
        let is_run = |setup: &Setup| Framework::that_runs(setup, &self.question.recipe).is_some();
        let is_there = best.iter().any(|one| is_run(&one.costed().setup));
        if is_there || !self.question.has_published() {
            return best;
        }
        let own: Vec<Setup> = setups.iter().copied().filter(is_run).collect();
        let silent = Watch { done: &|_| {}, ..watch };
        let (_, found) = plan::run_with(ground, &own, 1, silent);
        best.truncate(self.question.plans.saturating_sub(found.len()));
        best.extend(found);
        best
    }

    /// `finalist` with heavy chunks where they save most, and without software that saves nothing.
    fn finished(&self, ground: &Inputs<'_>, finalist: Finalist, orders: &Orders<'_>) -> Finalist {
        let placed = match self.question.deals_layers() {
            true => ground.with_heavy_chunk_placed(finalist, orders),
            false => finalist,
        };
        software::trimmed(ground, placed)
    }

    /// The fastest set-up that is as likely to fit as not, if it is faster than `best`, which surely fits; where
    /// nothing does, as many as plans are wanted.
    fn unsure(
        &self,
        ground: &Inputs<'_>,
        (found, best): (&Found, &[Finalist]),
        watch: Watch<'_>,
    ) -> Vec<SetupRun> {
        let known = best.iter().map(|one| one.step).min();
        let count = if known.is_some() { 1 } else { self.question.plans };
        let runs = plan::run_unsure(ground, (found, known), count, watch);
        let recipe = ground.recipe.as_likely_as_not();
        let even = Inputs { recipe: &recipe, ..*ground };
        let trimmed =
            |run: SetupRun| ground.with_shortage(self.finished(&even, run.finalist, watch.orders));
        runs.into_iter().map(trimmed).collect()
    }

    /// Runs the given set-up on every cluster, whether it fits or not.
    fn run_single(&self, orders: &Orders<'_>) -> Result<PlanAnswer, Diagnostic> {
        let clusters = &self.question.clusters;
        let bar = self.context.host().begin(clusters.len() as u64, "set-ups");
        let (mut searched, mut finalists) = (Vec::new(), Vec::new());
        for cluster in clusters {
            if self.context.cut_short() {
                break;
            }
            let setups = self.question.setups(cluster).unwrap_or_default();
            let ground = ground(self.question, cluster);
            let runs = setups.iter().map(|setup| ground.run_single(setup, orders));
            let runs: Result<Vec<SetupRun>, _> = runs.collect();
            let runs = runs.map_err(|error| self.question.not_run(&error.to_string()))?;
            let found = Found { simulated: runs.len() as u64, ..Found::default() };
            searched.push(Searched { setups: runs.len(), found });
            finalists.push(runs);
            bar.inc(1);
        }
        drop(bar);
        let bars = self.bars(&finalists)?;
        let contingency = Contingency::published()?;
        let count: usize = finalists.iter().map(Vec::len).sum();
        let mut plans = self.plans(finalists, &mut searched, (&bars, contingency.overrun))?;
        if plans.len() < count || plans.is_empty() {
            return Err(self.no_plan(&searched));
        }
        mark_front(&mut plans);
        Ok(PlanAnswer { searched, plans, bars, contingency })
    }

    /// The plans of the finalists of each cluster.
    fn plans(
        &self,
        finalists: Vec<Vec<SetupRun>>,
        searched: &mut [Searched],
        (error_bars, overrun): (&[ErrorBar], Overrun),
    ) -> Result<Vec<Plan>, Diagnostic> {
        let steps: u64 = finalists
            .iter()
            .flatten()
            .map(|one| plan::drawn(&one.finalist, &self.question.noise))
            .sum();
        let bar = self.context.host().begin(steps, "steps under noise");
        let mut plans = Vec::new();
        for (at, finalists) in finalists.into_iter().enumerate() {
            for SetupRun { finalist, shortage } in finalists {
                let percentiles = percentiles_with(
                    &finalist,
                    &self.question.noise,
                    &|more| bar.inc(more),
                    &|| self.context.stopped(),
                );
                let percentiles =
                    percentiles.map_err(|error| Diagnostic::new(error.to_string()))?;
                let documents = self.documents(at, &finalist)?;
                let plan = self.plan(at, finalist, documents, percentiles, (error_bars, overrun));
                // Of memory that holds no order, no bound says anything.
                let least_step = plan.least_step.filter(|_| shortage.is_none());
                let plan = Plan { shortage, least_step, ..plan };
                if plan.goodput < LEAST_GOODPUT {
                    searched[at].leave_out(ALWAYS_FAILING);
                } else {
                    plans.push(plan);
                }
            }
        }
        // The lengths of documents may have changed which plan is faster.
        if self.question.packed.is_some() {
            plans.sort_by_key(|plan| (plan.cluster, plan.step));
        }
        Ok(plans)
    }

    /// Steps of `finalist`, of cluster `at`, with documents packed into sequences.
    fn documents(&self, at: usize, finalist: &Finalist) -> Result<Option<PackedSteps>, Diagnostic> {
        let inputs = ground(self.question, &self.question.clusters[at]);
        let stop = || self.context.stopped();
        let found = PackedSteps::of(self.question, &inputs, finalist, &stop);
        found.map_err(|error| self.question.not_run(&error.to_string()))
    }

    /// The error bar of each kind among `finalists`, which stand by cluster; none of sparse attention, of which
    /// nothing was measured.
    fn bars(&self, finalists: &[Vec<SetupRun>]) -> Result<Vec<ErrorBar>, Diagnostic> {
        if self.question.model.indexer.is_some() {
            return Ok(Vec::new());
        }
        let clusters = self.question.clusters.iter().zip(finalists);
        let steps = clusters.flat_map(|(cluster, found)| {
            found.iter().map(move |finalist| StepAsked {
                cluster,
                kind: self.kind(cluster, &finalist.finalist),
                step: self.step(cluster),
                calibrated: self.calibrated(cluster, &finalist.finalist),
            })
        });
        ErrorBar::of_all(&steps.collect::<Vec<_>>())
    }

    /// The kind of the step of `finalist` on `cluster`.
    fn kind(&self, cluster: &Cluster, finalist: &Finalist) -> Kind {
        Kind::of(&ground(self.question, cluster), &finalist.costed().setup)
    }

    /// The change from the set-up by which the machines of `cluster` are calibrated, if they are.
    fn calibrated(&self, cluster: &Cluster, finalist: &Finalist) -> Option<Change> {
        Change::calibrated(&ground(self.question, cluster), &finalist.costed().setup)
    }

    /// Properties of all steps on `cluster` that its kind does not have.
    fn step(&self, cluster: &Cluster) -> Step {
        let Question { model, recipe, .. } = self.question;
        Step::of(model, cluster.devices(), recipe.precision)
    }

    /// The plan of one set-up.
    fn plan(
        &self,
        at: usize,
        finalist: Finalist,
        documents: Option<PackedSteps>,
        percentiles: Option<[Nanos; 2]>,
        (bars, overrun): (&[ErrorBar], Overrun),
    ) -> Plan {
        let cluster = &self.question.clusters[at];
        let reported = documents.as_ref().map_or(finalist.step, PackedSteps::step);
        let step = seconds(reported);
        // Noise is drawn for even microbatches, and is added to the effect of documents.
        let shifted = |time: Nanos| Nanos((time + reported).0.saturating_sub(finalist.step.0));
        // An uneven load of experts holds in every microbatch of a step.
        let beyond = experts::beyond_mean(&finalist);
        let percentiles = percentiles.map(|both| both.map(shifted));
        let percentiles = percentiles.map(|[median, p95]| [median, p95 + beyond]);
        let tokens = number(self.question.recipe.batch) * number(self.question.model.sequence);
        let peak = self.peak(cluster);
        let used = |flops: f64| flops * tokens / (step * peak);
        let failures = self.failures(cluster);
        // The budget counts the median step, over the time that failures leave.
        let goodput = failures.goodput();
        let steps = (self.question.tokens / tokens).ceil();
        let median = percentiles.map_or(reported, |[median, _]| median);
        let wall = steps * seconds(median) / goodput * self.question.contingency.unwrap_or(1.0);
        let hourly = cluster.hourly(|machine| self.price(machine).0);
        let kind = self.kind(cluster, &finalist);
        let calibrated = self.calibrated(cluster, &finalist);
        let bar = self.bar(cluster, &kind, calibrated, bars);
        let stock = calibrated.is_none().then(|| self.stock(cluster, &finalist)).flatten();
        let overrun = self.overrun(overrun, calibrated.is_some());
        Plan {
            cluster: at,
            step: reported,
            least_step: if documents.is_none() { finalist.least_step() } else { None },
            documents,
            percentiles,
            tokens_per_second: tokens / step,
            mfu: used(self.question.model.model_flops()),
            hfu: used(finalist.costed().hardware_flops(&self.question.model)),
            goodput,
            checkpoint_interval: failures.interval(),
            days: wall / DAY,
            gpu_hours: wall / 3600.0 * number(cluster.devices()),
            dollars: wall / 3600.0 * hourly,
            energy: watts(cluster).map(|watts| watts * wall / 3.6e6),
            error: bar.and_then(|bar| Some([bar.low?, bar.high?])),
            errors_of_tunings: bar.and_then(|bar| bar.of_tunings),
            overrun,
            stock,
            kind,
            on_front: false,
            boundary: self.question.recipe.boundary,
            shortage: None,
            fit_odds: ground(self.question, cluster).odds(&finalist),
            finalist,
        }
    }

    /// How much longer than planned a run takes, of which days and dollars have a contingency that is given in them.
    fn overrun(&self, published: Overrun, is_calibrated: bool) -> Overrun {
        let rest = match self.question.contingency {
            Some(_) => published.around(1.0),
            None => published,
        };
        if is_calibrated { rest.of_measured_steps() } else { rest }
    }

    /// How many times as long the step of `finalist` is with the defaults of Megatron-LM, which turn nothing on, on machines
    /// of which it is known that these are slower.
    fn stock(&self, cluster: &Cluster, finalist: &Finalist) -> Option<f64> {
        let recipe = self.question.stock.as_ref()?;
        let mut machines = cluster.parts.iter().map(|(machine, _)| machine);
        if machines.all(|machine| machine.efficiency.stock <= 1.0) {
            return None;
        }
        let setup = &finalist.costed().setup;
        let is_run = Framework::Megatron.runs(setup, recipe);
        let stock = Inputs { recipe, ..ground(self.question, cluster) };
        let run = stock.again_with(finalist, Options::NONE).ok().filter(|_| is_run)?;
        Some(seconds(run.step) / seconds(finalist.step))
    }

    /// Peak FLOP/s of all devices of `cluster`, in the precision of the recipe.
    fn peak(&self, cluster: &Cluster) -> f64 {
        let precision = self.question.recipe.precision;
        let rate = |kind: &Machine| kind.peak_of(precision).unwrap_or(kind.peak);
        cluster.parts.iter().map(|(kind, devices)| rate(kind) * number(*devices)).sum()
    }

    /// The error bar in `bars` of steps of `kind` on `cluster`. None with streams: the hidden share of
    /// all-to-alls was fitted to measured steps, overlap on two streams was not.
    fn bar<'b>(
        &self,
        cluster: &Cluster,
        kind: &Kind,
        calibrated: Option<Change>,
        bars: &'b [ErrorBar],
    ) -> Option<&'b ErrorBar> {
        let (machine, words) = (cluster.name(), kind.to_string());
        let own = |bar: &&ErrorBar| bar.is_of(&machine, &words, cluster.devices(), calibrated);
        let is_fitted = self.question.recipe.software.streams.is_none();
        bars.iter().find(own).filter(|_| is_fitted)
    }

    /// How a job on `cluster` fails: its devices by their own rates, each writing its share of
    /// weights and optimizer, as fast as storage takes all of them.
    fn failures(&self, cluster: &Cluster) -> Failures {
        let state = number(self.question.model.parameters())
            * (2.0 + number(self.question.recipe.optimizer.bytes[0]));
        let share = state / number(cluster.devices());
        let slowest = |of: fn(&Machine) -> f64| {
            cluster.parts.iter().map(|(kind, _)| of(kind)).fold(f64::MAX, f64::min)
        };
        let rate: f64 = cluster
            .parts
            .iter()
            .map(|(kind, devices)| {
                let own = 1.0 / kind.reliability.hours_between_failures;
                number(*devices) * (own + self.price(kind).1)
            })
            .sum();
        let written = share / slowest(|kind| kind.reliability.checkpoint);
        let stored =
            self.question.storage.map_or(0.0, |rate| state / number(rate.bytes_per_second()));
        let restarts = cluster.parts.iter().map(|(kind, _)| kind.reliability.restart);
        Failures {
            between: 3600.0 / rate,
            checkpoint: written.max(stored),
            restart: restarts.fold(0.0, f64::max),
        }
    }
}

/// The power that all devices of `cluster` may draw, in watts, where it is known of each.
fn watts(cluster: &Cluster) -> Option<f64> {
    cluster.parts.iter().map(|(kind, devices)| Some(kind.watts? * number(*devices))).sum()
}

/// The best of `setups` by the engine, and of set-ups whose orders are searched, as many as `question` wants plans.
pub(super) fn search(
    question: &Question,
    ground: &Inputs<'_>,
    setups: &[Setup],
    watch: Watch<'_>,
) -> (Searched, Vec<Finalist>) {
    let (found, best) = plan::run_with(ground, setups, question.plans, watch);
    let (best, searches) = search_orders(question, ground, best, watch);
    let mut searched = Searched { setups: setups.len(), found };
    searched.count(searches);
    (searched, best)
}

/// The best of `best`, and of set-ups whose orders are searched where `question` may have them.
fn search_orders(
    question: &Question,
    ground: &Inputs<'_>,
    best: Vec<Finalist>,
    watch: Watch<'_>,
) -> (Vec<Finalist>, SearchCounts) {
    let count = question.plans;
    let may = |setup: Setup| question.with_order_searched(setup, ground.cluster);
    let search = OrderSearch {
        may: &may,
        published: question.has_published(),
        count,
        // With searched orders alone, as many as plans are wanted.
        searches: if question.has_published() { SEARCHES.min(count) } else { count },
        assigns_layers: question.deals_layers(),
    };
    plan::search_orders(ground, best, search, watch)
}
