//! One search: a setting under one limit, what it makes small, and what is told of it meanwhile.

use cases::Aim;
use pipeline::Schedule;
use question::host::Work;
use question::scenario::{Scenario, Setting};
use question::search::SearchKeys;
use question::{Context, Diagnostic, format};
use search::{Effort, Figure, Phase, Progress};

use super::warm_start::WarmStart;
use super::{Improvements, SearchRow, program};

/// A setting that is searched under one limit.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) scenario: &'a Scenario,
    pub(super) setting: &'a Setting,
    pub(super) keys: &'a SearchKeys,
    /// The rows of other limits: searches start from their orders, too.
    pub(super) earlier: &'a [SearchRow],
    /// Hears of what the search has by then.
    pub(super) seen: &'a Improvements<'a>,
}

impl Asked<'_> {
    pub(super) fn aim(&self) -> Aim {
        aim(self.keys, self.setting)
    }

    /// For how long, with so many times the default effort.
    pub(super) fn effort(&self, times: Option<u64>) -> Effort {
        Effort { times, seed: self.setting.keys.seed.unwrap_or(0) }
    }

    /// The earlier rows of the setting.
    pub(super) fn same(&self) -> impl Iterator<Item = &SearchRow> {
        let name = self.setting.name.as_deref();
        self.earlier.iter().filter(move |row| row.setting() == name)
    }

    /// Whether the search, which begins now, is to end: its time is over, or the user has stopped it.
    pub(super) fn stop(&self) -> impl Fn() -> bool + Sync {
        let (context, keys) = (self.context, self.keys);
        let begin = context.host().clock();
        move || {
            let elapsed = context.host().clock().zip(begin).map(|(now, begin)| now - begin);
            context.stopped()
                || keys.time_limit().zip(elapsed).is_some_and(|(limit, elapsed)| elapsed >= limit)
        }
    }

    /// Shows `work` how far the search has come.
    pub(super) fn tell(&self, work: &dyn Work, now: Progress) {
        let Progress { phase, best, bound, steps, of } = now;
        if let Some(all) = of {
            work.set_length(all);
        }
        work.set_position(steps);
        let aim = self.aim();
        let is_aim = phase != Phase::Nominal || matches!(aim, Aim::Cost(_));
        if let Some(best) = best.filter(|_| is_aim) {
            self.seen.see(best, bound, steps);
        }
        let name = self.keys.objective.name();
        let best = best.map_or_else(|| "none fits yet".to_owned(), format::time);
        work.set_message(match (phase, aim) {
            (Phase::Nominal, Aim::Statistic(_)) => format!("passes, without noise, best {best}"),
            (Phase::Nominal, Aim::Figure(_)) => format!("passes, no link shared, best {best}"),
            (Phase::Nominal, Aim::Cost(_)) => {
                let bound = format::time(bound.unwrap_or_default());
                format!("passes, best {best}, bound {bound}")
            }
            (Phase::UnderNoise, _) => format!("passes, under noise, best {name} {best}"),
            (Phase::OnHardware, _) => format!("passes, best {name} {best} by the engine"),
            (Phase::Jointly, _) => format!("choices, best {best}"),
        });
    }

    /// Warns where the clock has `interrupted` a search of a limited effort of so many `times`.
    pub(super) fn warn_of_clock(&self, times: Option<u64>, interrupted: bool) {
        if interrupted && times.is_some() && !self.context.cut_short() {
            let text = "the clock cut the search short: another run may find another schedule";
            self.context.warn(text.to_owned());
        }
    }
}

/// The objective of the search of `setting`.
pub(super) fn aim(keys: &SearchKeys, setting: &Setting) -> Aim {
    match (keys.statistic(), figure(keys, setting)) {
        (Some(statistic), _) => Aim::Statistic(statistic),
        (None, Some(figure)) => Aim::Figure(figure),
        (None, None) => Aim::Cost(keys.objective().unwrap_or_default()),
    }
}

/// Searches the best order of a question.
pub(super) fn row(asked: &Asked<'_>, aim: Aim) -> Result<SearchRow, Diagnostic> {
    let Asked { context, scenario, setting, keys, seen, .. } = *asked;
    let stop = asked.stop();
    let start = keys.warm_start.as_deref().map(|file| WarmStart::read(asked, file)).transpose()?;
    let earlier = asked.same().map(|row| &row.searched.found.schedule);
    let known: Vec<&Schedule> = earlier.chain(start.iter().map(|one| &one.schedule)).collect();
    let search = cases::Search {
        placement: keys.placement(),
        aim,
        effort: asked.effort(keys.times()),
        known: &known,
        proved: start.as_ref().map(|one| &one.proved),
        // The whole program is solved instead.
        solved: !keys.ilp,
        stop: &stop,
    };
    let work = context.host().begin(1, "");
    let tell = |now| asked.tell(&*work, now);
    let mut searched = cases::search(context, scenario, setting, &search, tell)?;
    asked.warn_of_clock(keys.times(), searched.found.interrupted);
    let solved = keys.ilp.then(|| program::solve(context, keys, &mut searched, seen));
    SearchRow::of(searched, solved.transpose()?, keys.objective, setting)
}

/// Objective to minimise in a run on the hardware of `setting`, if it has hardware.
pub(super) fn figure(keys: &SearchKeys, setting: &Setting) -> Option<Figure> {
    keys.figure().filter(|_| keys.vary.is_empty() && cases::is_on_hardware(setting))
}
