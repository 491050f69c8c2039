//! Why stages of a simulation wait: by cause, and gap by gap.

use pipeline::Nanos;

use super::{Simulation, SimulationError};
use crate::engine::Run;
use crate::explain::chain::{self, Step};
use crate::explain::{CAUSES, Causes, Gaps, Lengths, Times};
use crate::replay::Replay;
use crate::timed::{self, Nominal};

impl Simulation<'_> {
    /// The causes of the idle time in `run`: one of this simulation, [shown](Self::shown) in
    /// tables. `nominal` is the run without noise; if there is noise and it is not given, it is
    /// made once more.
    ///
    /// # Errors
    /// If the clock overflows, or a run without one of the causes gets stuck.
    pub fn causes(&self, run: &Run, nominal: Option<&Run>) -> Result<Causes, SimulationError> {
        let bare = self.costs.overlap().is_none() && self.costs.parameters().is_none();
        if self.hardware.is_some() || !bare {
            let runs = self.chain(run, nominal, |step| Times::from(step))?;
            return Ok(Causes::between(&runs, self.optimizer())?);
        }
        let mut replay = Replay::new();
        let mut times = |costs: &_| Ok(Times::from(&replay.metrics(self.schedule, costs)?));
        let actual = Times::from(&run.replayed_metrics());
        let nominal = if self.noise.is_some() { times(self.costs)? } else { actual.clone() };
        let runs = chain::of_replay(self.costs, [actual, nominal], times)?;
        Ok(Causes::between(&runs, Nanos(0))?)
    }

    /// The causes of each gap between two slots of `run`. `nominal` is as in [`Self::causes`].
    ///
    /// # Errors
    /// Those of [`Self::causes`].
    pub fn gaps(&self, run: &Run, nominal: Option<&Run>) -> Result<Gaps, SimulationError> {
        Ok(self.causes_and_gaps(run, nominal)?.1)
    }

    /// [`Self::causes`] and [`Self::gaps`], from the same counterfactual runs.
    ///
    /// # Errors
    /// Those of [`Self::causes`].
    pub fn causes_and_gaps(
        &self,
        run: &Run,
        nominal: Option<&Run>,
    ) -> Result<(Causes, Gaps), SimulationError> {
        let optimizer = self.optimizer();
        let both = |step: &Step<'_>| (Times::from(step), step.lengths(optimizer));
        let runs: [(Times, Lengths); CAUSES] = self.chain(run, nominal, both)?;
        let mut lengths = Vec::with_capacity(CAUSES);
        let times = runs.map(|(times, of_run)| {
            lengths.push(of_run);
            times
        });
        let causes = Causes::between(&times, optimizer)?;
        Ok((causes, Gaps::between(&times, &lengths, &self.last_step(run), optimizer)?))
    }

    /// The results of `take` for `run` and for the runs from which the causes of waiting are
    /// removed in turn.
    fn chain<T: Clone>(
        &self,
        run: &Run,
        nominal: Option<&Run>,
        take: impl Fn(&Step<'_>) -> T,
    ) -> Result<[T; CAUSES], SimulationError> {
        let again;
        let nominal = match (self.noise, nominal) {
            (None, _) => run,
            (Some(_), Some(nominal)) => nominal,
            (Some(_), None) => {
                again = self.walk(None, &mut Replay::new())?;
                &again
            }
        };
        if let Some(job) = self.job() {
            let (runs, count) = chain::of_engine(&job, [run, nominal], take)?;
            self.count_runs(count);
            return Ok(runs);
        }
        let mut replay = Replay::new();
        let known = [run, nominal]
            .map(|run| take(&Step::replayed(&run.timeline, &run.parameters, self.costs)));
        let runs = chain::of_replay(self.costs, known, |costs| {
            if self.schedule.parameter_ops().is_none() {
                let timeline = replay.timeline(self.schedule, costs)?;
                return Ok(take(&Step::replayed(&timeline, &[], costs)));
            }
            costs.check(self.schedule.shape())?;
            let (timeline, beside) = timed::record(self.schedule, &Nominal(costs), self.footprints);
            Ok(take(&Step::replayed(&timeline, &beside.parameters, costs)))
        });
        Ok(runs?)
    }

    fn last_step<'r>(&'r self, run: &'r Run) -> Step<'r> {
        match self.hardware {
            Some(_) => Step::last(run, self.costs),
            None => Step::replayed(&run.timeline, &run.parameters, self.costs),
        }
    }

    fn optimizer(&self) -> Nanos {
        self.hardware.map_or(Nanos(0), |hardware| hardware.optimizer())
    }
}
