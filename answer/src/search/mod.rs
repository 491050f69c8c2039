//! The best order of passes that is found, and how far any order can be from it.

mod front;
mod improvements;
mod joint;
mod joint_choice;
mod program;
mod report;
mod simulated;

use pipeline::{Limit, Schedule};
use profile::{AnyProfile, TrainerProfile};
use question::case::{self, Aim, SEARCHED, ScheduleSource, SearchKind};
use question::host::{Work, announce_estimate};
use question::scenario::{Scenario, Setting};
use question::search::{SearchKeys, Varied};
use question::sheet::Sheet;
use question::values::segments::LoneBackward;
use question::{Context, Diagnostic, Warnings, format, hardware, noise};
use search::{Effort, Figure, Phase, Progress};
use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use self::improvements::Improvements;
pub use self::joint::scenario;
pub use self::joint_choice::{ChosenSettings, JointChoice, WithSettings};
pub use self::program::{Solved, program};
pub use self::report::SearchRow;
pub(crate) use self::report::certificate_of;
pub use self::simulated::{Simulated, SimulatedFigures};

/// The answer of a search: the results for all cases.
pub struct SearchAnswer {
    /// A row for each setting under each limit.
    pub rows: Vec<SearchRow>,
    /// Whether the search was stopped: then the best order by then, where a search had begun, else the
    /// best published one.
    pub interrupted: bool,
}

impl SearchAnswer {
    /// The rows for people.
    #[must_use]
    pub fn sheet(&self) -> Sheet {
        report::sheet(&self.rows)
    }

    /// The rows as CSV, with the keys of the JSON as columns.
    ///
    /// # Errors
    /// If memory runs out.
    pub fn csv(&self) -> Result<Vec<u8>, Diagnostic> {
        crate::csv(report::entry::table(&self.rows))
    }
}

impl Serialize for SearchAnswer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries: Vec<report::entry::Full> =
            self.rows.iter().map(report::entry::Full::from).collect();
        let mut object =
            serializer.serialize_struct("Answer", 1 + usize::from(self.interrupted))?;
        object.serialize_field("results", &entries)?;
        if self.interrupted {
            object.serialize_field("interrupted", &true)?;
        }
        object.end()
    }
}

/// The certificate of a row: a proof of order and bound for a third party.
///
/// # Errors
/// If the argument for the bound cannot be written down.
pub fn certificate(row: &SearchRow) -> Result<String, Diagnostic> {
    Ok(report::certificate(row)?.to_string())
}

/// The settings that `keys` ask for: each of `scenario` under every limit, the smaller ones first.
#[must_use]
pub fn settings(scenario: &Scenario, keys: &SearchKeys) -> Vec<Setting> {
    if keys.memory_limits.is_empty() {
        return scenario.settings.clone();
    }
    let under = |setting: &Setting| {
        let one = |limit| {
            let mut setting = setting.clone();
            let memory_limit = Some(vec![limit]);
            setting.overrule(question::keys::Keys { memory_limit, ..Default::default() });
            setting
        };
        let mut limits = keys.memory_limits.clone();
        if !keys.vary.is_empty() {
            // A choice under one limit is tried under the larger ones, which come later.
            limits.sort_by_key(|limit| match *limit {
                Limit::TimesP { millionths } => (0, millionths),
                Limit::Bytes(bytes) => (1, bytes.0),
            });
        }
        limits.into_iter().map(one).collect::<Vec<_>>()
    };
    scenario.settings.iter().flat_map(under).collect()
}

/// Checks that `keys` ask for no proof that the integer program cannot give.
///
/// # Errors
/// If they do.
pub fn check_program(keys: &SearchKeys) -> Result<(), Diagnostic> {
    check_nothing_varied(keys)?;
    if keys.ilp && keys.statistic().is_some() {
        let objective = keys.objective.name();
        let message =
            format!("--ilp proves times without noise, not the {objective} of a step under it");
        let cure = format!(
            "leave out --ilp: the search says what bound on the {objective} is proved, if any; or ask for \
             --objective span or makespan"
        );
        return Err(Diagnostic::new(message).with_help(cure));
    }
    Ok(())
}

/// Checks that a joint search is not asked for proofs of orders.
fn check_nothing_varied(keys: &SearchKeys) -> Result<(), Diagnostic> {
    if keys.vary.is_empty() || !keys.ilp {
        return Ok(());
    }
    let message = "--ilp is about the order of one choice, and --vary tries many";
    let cure =
        "search the choice first, write it with --export-scenario best.toml, and search that";
    Err(Diagnostic::new(message).with_help(cure))
}

/// Checks that `keys` and `scenario` ask for nothing that a search does not know.
///
/// # Errors
/// At the first key that does.
pub fn check(scenario: &Scenario, keys: &SearchKeys) -> Result<(), Diagnostic> {
    check_program(keys)?;
    if keys.ilp {
        check_provable(scenario, keys, "--ilp")?;
        check_no_hardware(scenario)?;
    }
    scenario.settings.iter().try_for_each(|setting| {
        match keys.statistic() {
            Some(statistic) => case::check_under_noise(scenario, setting, statistic)?,
            None => {
                case::check_noise_free(scenario, setting)?;
                case::check_figure(setting, keys.figure())?;
            }
        }
        case::check_joint(scenario, setting, keys)
    })
}

/// Objective to minimise in a run on the hardware of `setting`, if it has hardware.
fn figure(keys: &SearchKeys, setting: &Setting) -> Option<Figure> {
    keys.figure().filter(|_| keys.vary.is_empty() && case::is_on_hardware(setting))
}

/// Checks that the integer program is asked about one step where no link is shared.
fn check_no_hardware(scenario: &Scenario) -> Result<(), Diagnostic> {
    let beyond = |setting: &Setting| case::beyond(setting, SearchKind::Nominal).first().copied();
    let mut settings = scenario.settings.iter();
    let found = settings.find_map(|setting| Some((setting, beyond(setting)?)));
    let Some((setting, key)) = found else { return Ok(()) };
    let key = Some(key);
    let message =
        "--ilp proves times of one step where no link is shared and nothing runs beside passes"
            .to_owned();
    let cure = "leave out --ilp: the search says what bound is proved; or leave out the key";
    Err(scenario.error(setting, key, message).with_help(cure))
}

/// Checks that `flag`, which asks for a program or a proof, is asked for passes on one stream, of which nothing goes to
/// the host.
///
/// # Errors
/// If a setting gives passes as chains of segments, or copies may be chosen.
pub fn check_provable(
    scenario: &Scenario,
    keys: &SearchKeys,
    flag: &str,
) -> Result<(), Diagnostic> {
    let copied = scenario.settings.iter().any(|setting| case::may_copy(setting, keys));
    if copied {
        let message =
            format!("{flag} knows orders that copy nothing to the host, which --vary may choose");
        let cure = "name in --vary what else is to be chosen, without offload";
        return Err(Diagnostic::new(message).with_help(cure));
    }
    let chained = scenario.settings.iter().find(|setting| setting.keys.has_chain());
    let Some(setting) = chained else { return Ok(()) };
    let key = if setting.keys.chain.is_some() { "chain" } else { "chain-file" };
    let message = format!("{flag} knows passes on one stream, not pairs that overlap on two");
    let cure = "leave it out: the bound of the search holds for two streams, and its argument says why; \
                or give the times of whole passes";
    Err(scenario.error(setting, Some(key), message).with_help(cure))
}

/// Searches the best order for every setting of `scenario` under every limit of `keys`.
///
/// # Errors
/// If a question is wrong, has no order under its limit, or is one that the integer program does not model.
pub fn search(
    context: &Context<'_>,
    scenario: &Scenario,
    keys: &SearchKeys,
) -> Result<SearchAnswer, Diagnostic> {
    check(scenario, keys)?;
    warn(context, scenario, keys);
    let settings = settings(scenario, keys);
    announce(context, keys, &settings);
    let mut rows: Vec<SearchRow> = Vec::new();
    let mut improvements = Vec::new();
    for (number, setting) in settings.iter().enumerate() {
        let seen = Improvements::of(context.host(), number);
        let asked = Asked { context, scenario, setting, keys, earlier: &rows, seen: &seen };
        let simulated = simulated::keys(setting, keys);
        let row = match asked.aim() {
            _ if !simulated.is_empty() => simulated::row(&asked, simulated)?,
            Aim::Cost(_) if !keys.vary.is_empty() => joint::row(&asked)?,
            aim => row(&asked, aim)?,
        };
        let profile = question::profiles::of(context, &setting.keys)?;
        let uncertainty =
            profile.as_deref().and_then(AnyProfile::trainer).map(TrainerProfile::uncertainty);
        row.tell_cost(&seen);
        rows.push(row.with_uncertainty(uncertainty));
        improvements.push(seen);
    }
    report::keep_smaller(&mut rows);
    for (row, seen) in rows.iter_mut().zip(improvements) {
        row.tell_cost(&seen);
        row.history = seen.history();
    }
    let mut rows = rows.into_iter().map(SearchRow::with_running).collect::<Result<Vec<_>, _>>()?;
    front::mark(&mut rows);
    Ok(SearchAnswer { rows, interrupted: context.cut_short() })
}

fn warn(context: &Context<'_>, scenario: &Scenario, keys: &SearchKeys) {
    let mut warnings = Warnings::default();
    for setting in &scenario.settings {
        let mut setting = setting.clone();
        if !keys.vary.is_empty() {
            // The treatment of backwards without a partner is written with the choice.
            let given = setting.keys.lone_backward;
            setting.keys.lone_backward = given.or(Some(LoneBackward::Overlapped));
            if !case::communicates(&setting.keys) {
                setting.keys.chain = None;
            }
        }
        if keys.varies(Varied::Offload) {
            case::forget_copies(&mut setting.keys);
        }
        if keys.varies(Varied::Recompute) {
            // These keys belong to the choice.
            setting.keys.recompute_time = None;
            setting.keys.recompute_again = None;
            setting.keys.activation_kept = None;
        }
        case::assumed(context, &setting).into_iter().for_each(|text| warnings.add_of_setting(text));
        for text in case::ignored_by_search(&setting, keys.placement()) {
            warnings.add(&text, SEARCHED);
        }
        if figure(keys, &setting).is_some() {
            hardware::ignored(&setting).into_iter().for_each(|text| warnings.add_of_setting(text));
        }
        if keys.statistic().is_some() {
            noise::ignored(&setting).into_iter().for_each(|text| warnings.add_of_setting(text));
        }
    }
    warnings.lines().into_iter().for_each(|line| context.warn(line));
}

/// Says before the search if it takes minutes.
fn announce(context: &Context<'_>, keys: &SearchKeys, settings: &[Setting]) {
    // As measured on one core; where the passes are many, more.
    const PASSES_PER_SECOND: u64 = 30_000;
    let (effort, searched) = (keys.effort.unwrap_or(1), settings.len());
    match keys.time_limit {
        Some(limit) => {
            let all = u128::from(limit.0) * searched as u128;
            announce_estimate(
                context.host(),
                all,
                1_000_000_000,
                &format!("{searched} searches of {limit}"),
            );
        }
        None => {
            let rule = ScheduleSource::Searched(keys.placement());
            let passes = |setting: &Setting| 3 * u128::from(case::forwards(setting, &rule));
            let all: u128 = settings.iter().map(passes).sum();
            let each = settings.iter().map(|setting| searches(aim(keys, setting)));
            let all = all * each.max().unwrap_or(1);
            let simulated = settings.iter().any(|one| !simulated::keys(one, keys).is_empty());
            let all = if simulated { all * simulated::SEARCHES } else { all };
            let all = if keys.vary.is_empty() { all } else { all * joint::SEARCHES };
            let what = format!("{searched} searches of {effort} times the default effort");
            announce_estimate(context.host(), all * u128::from(effort), PASSES_PER_SECOND, &what);
        }
    }
}

/// How many searches by nominal times one with this aim takes about as long as.
const fn searches(aim: Aim) -> u128 {
    match aim {
        Aim::Cost(_) => 1,
        Aim::Statistic(_) => 10,
        Aim::Figure(_) => 4,
    }
}

/// A setting that is searched under one limit.
#[derive(Clone, Copy)]
struct Asked<'a> {
    context: &'a Context<'a>,
    scenario: &'a Scenario,
    setting: &'a Setting,
    keys: &'a SearchKeys,
    /// The rows of other limits: searches start from their orders, too.
    earlier: &'a [SearchRow],
    /// Hears of what the search has by then.
    seen: &'a Improvements<'a>,
}

impl Asked<'_> {
    fn aim(&self) -> Aim {
        aim(self.keys, self.setting)
    }

    /// For how long, with so many times the default effort.
    fn effort(&self, times: Option<u64>) -> Effort {
        Effort { times, seed: self.setting.keys.seed.unwrap_or(0) }
    }

    /// The earlier rows of the setting.
    fn same(&self) -> impl Iterator<Item = &SearchRow> {
        let name = self.setting.name.as_deref();
        self.earlier.iter().filter(move |row| row.setting() == name)
    }

    /// Whether the search, which begins now, is to end: its time is over, or the user has stopped it.
    fn stop(&self) -> impl Fn() -> bool + Sync {
        let (context, keys) = (self.context, self.keys);
        let begin = context.host().clock();
        move || {
            let elapsed = context.host().clock().zip(begin).map(|(now, begin)| now - begin);
            context.stopped()
                || keys.time_limit().zip(elapsed).is_some_and(|(limit, elapsed)| elapsed >= limit)
        }
    }

    /// Shows `work` how far the search has come.
    fn tell(&self, work: &dyn Work, now: Progress) {
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
    fn warn_of_clock(&self, times: Option<u64>, interrupted: bool) {
        if interrupted && times.is_some() && !self.context.cut_short() {
            let text = "the clock cut the search short: another run may find another schedule";
            self.context.warn(text.to_owned());
        }
    }
}

/// What the search of `setting` makes small.
fn aim(keys: &SearchKeys, setting: &Setting) -> Aim {
    match (keys.statistic(), figure(keys, setting)) {
        (Some(statistic), _) => Aim::Statistic(statistic),
        (None, Some(figure)) => Aim::Figure(figure),
        (None, None) => Aim::Cost(keys.objective().unwrap_or_default()),
    }
}

/// Searches the best order of a question.
///
/// # Errors
/// The errors of [`case::search`], and of the integer program.
fn row(asked: &Asked<'_>, aim: Aim) -> Result<SearchRow, Diagnostic> {
    let Asked { context, scenario, setting, keys, seen, .. } = *asked;
    let stop = asked.stop();
    let known: Vec<&Schedule> = asked.same().map(|row| &row.searched.found.schedule).collect();
    let search = case::Search {
        placement: keys.placement(),
        aim,
        effort: asked.effort(keys.times()),
        known: &known,
        // The whole program is solved instead.
        solved: !keys.ilp,
        stop: &stop,
    };
    let work = context.host().begin(1, "");
    let tell = |now| asked.tell(&*work, now);
    let mut searched = case::search(context, scenario, setting, &search, tell)?;
    asked.warn_of_clock(keys.times(), searched.found.interrupted);
    let solved = keys.ilp.then(|| program::solve(context, keys, &mut searched, seen));
    SearchRow::of(searched, solved.transpose()?, keys.objective, setting)
}
