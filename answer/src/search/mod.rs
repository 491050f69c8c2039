//! The best order of passes that is found, and how far any order can be from it.

mod asked;
mod elsewhere;
mod front;
mod headline;
mod improvements;
mod joint;
mod joint_choice;
mod program;
mod report;
mod simulated;
mod solution;
mod warm_start;

use cases::{Aim, SEARCHED, ScheduleSource, SearchKind};
use pipeline::Limit;
use profile::AnyProfile;
use question::host::announce_estimate;
use question::scenario::{Scenario, Setting};
use question::search::{PlacementArg, SearchKeys, Varied};
use question::sheet::Sheet;
use question::values::segments::LoneBackward;
use question::{Context, Diagnostic, Warnings, hardware, noise, object};
use serde::{Serialize, Serializer};

use self::asked::{Asked, aim, figure, row};
pub use self::elsewhere::{Elsewhere, SearchedElsewhere};
use self::improvements::Improvements;
pub use self::joint::scenario;
pub use self::joint_choice::{ChosenSettings, JointChoice, WithSettings};
pub use self::program::{Solved, program};
pub use self::report::SearchRow;
pub(crate) use self::report::certificate_of;
pub use self::simulated::{Simulated, SimulatedFigures};
pub(crate) use self::warm_start::{WarmStart, differences};

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
        report::sheet(&self.rows).headed(&self.headline())
    }

    /// How much shorter than the best published schedule each order is, and than any order can be: a line for each
    /// row; of many rows, in how many.
    #[must_use]
    pub fn headline(&self) -> String {
        headline::headline(&self.rows)
    }

    /// The rows as CSV, with the keys of the JSON as columns.
    pub fn csv(&self) -> Result<Vec<u8>, Diagnostic> {
        crate::csv(report::entry::table(&self.rows))
    }
}

impl Serialize for SearchAnswer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        object!(
            headline = self.headline(),
            [results] = self.rows.iter().map(report::entry::full),
            some(interrupted) = self.interrupted.then_some(true),
        )
        .serialize(serializer)
    }
}

/// The certificate of a row: a proof of order and bound for a third party.
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

/// The flags of `keys` that are about proofs of one order, which has times without noise.
fn proof_flags(keys: &SearchKeys) -> impl Iterator<Item = &'static str> + use<> {
    let flags = [("--ilp", keys.ilp), ("--warm-start", keys.warm_start.is_some())];
    flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag)
}

/// Checks that `keys` ask for no proof of other times or of many choices.
pub fn check_program(keys: &SearchKeys) -> Result<(), Diagnostic> {
    let Some(flag) = proof_flags(keys).next() else { return Ok(()) };
    if !keys.vary.is_empty() {
        let message = format!("{flag} is about the order of one choice, and --vary tries many");
        let cure =
            "search the choice first, write it with --export-scenario best.toml, and search that";
        return Err(Diagnostic::new(message).with_help(cure));
    }
    if keys.statistic().is_some() {
        let objective = keys.objective.name();
        let message =
            format!("{flag} knows times without noise, not the {objective} of a step under it");
        let cure = format!(
            "leave out {flag}: the search says what bound on the {objective} is proved, if any; or ask for \
             --objective span or makespan"
        );
        return Err(Diagnostic::new(message).with_help(cure));
    }
    Ok(())
}

/// Checks that `keys` and `scenario` ask for nothing that a search does not know.
pub fn check(scenario: &Scenario, keys: &SearchKeys) -> Result<(), Diagnostic> {
    check_program(keys)?;
    for flag in proof_flags(keys) {
        check_provable(scenario, keys, flag)?;
        check_no_hardware(scenario, flag)?;
    }
    if keys.warm_start.is_some() {
        check_equal_microbatches(scenario)?;
    }
    scenario.settings.iter().try_for_each(|setting| {
        match keys.statistic() {
            Some(statistic) => cases::check_under_noise(scenario, setting, statistic)?,
            None => {
                cases::check_noise_free(scenario, setting)?;
                cases::check_figure(setting, keys.figure())?;
            }
        }
        cases::check_joint(scenario, setting, keys)
    })
}

/// Checks that `flag` is asked about one step where no link is shared.
fn check_no_hardware(scenario: &Scenario, flag: &str) -> Result<(), Diagnostic> {
    let beyond = |setting: &Setting| cases::beyond(setting, SearchKind::Nominal).first().copied();
    let mut settings = scenario.settings.iter();
    let found = settings.find_map(|setting| Some((setting, beyond(setting)?)));
    let Some((setting, key)) = found else { return Ok(()) };
    let key = Some(key);
    let message = format!(
        "{flag} knows times of one step where no link is shared and nothing overlaps passes"
    );
    let cure =
        format!("leave out {flag}: the search says what bound is proved; or leave out the key");
    Err(scenario.error(setting, key, message).with_help(cure))
}

/// Checks that all microbatches take as long: those of a certificate do.
fn check_equal_microbatches(scenario: &Scenario) -> Result<(), Diagnostic> {
    let unequal = |setting: &Setting| setting.keys.of_unequal_microbatches().next();
    let mut settings = scenario.settings.iter();
    let found = settings.find_map(|setting| Some((setting, unequal(setting)?)));
    let Some((setting, key)) = found else { return Ok(()) };
    let message = "--warm-start takes certificates, of microbatches that all take as long";
    let error = scenario.error(setting, Some(key), message.to_owned());
    Err(error.with_help("leave it out: the search says what bound is proved"))
}

/// Checks that `flag`, which asks for a program or a proof, is asked for passes on one stream, of which nothing goes
/// to the host.
pub fn check_provable(
    scenario: &Scenario,
    keys: &SearchKeys,
    flag: &str,
) -> Result<(), Diagnostic> {
    let copied = scenario.settings.iter().any(|setting| cases::may_copy(setting, keys));
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

/// `keys` with the placement of the trainer's profile that `scenario` names, where its chunks are asked for and
/// nothing says where they lie.
fn as_recorded(
    context: &Context<'_>,
    scenario: &Scenario,
    keys: &SearchKeys,
) -> Result<SearchKeys, Diagnostic> {
    let mut keys = keys.clone();
    if keys.placement.is_some() || !keys.vary.is_empty() {
        return Ok(keys);
    }
    for setting in &scenario.settings {
        let profile = question::profiles::of(context, &setting.keys)?;
        let Some(profile) = profile.as_deref().and_then(AnyProfile::trainer) else {
            return Ok(keys);
        };
        let chunks = (profile.chunks.len() / profile.stages) as u64;
        if chunks < 2 || setting.keys.chunks != Some(chunks) {
            return Ok(keys);
        }
        keys.placement = PlacementArg::of(profile.placement);
    }
    Ok(keys)
}

/// Searches the best order for every setting of `scenario` under every limit of `keys`.
pub fn search(
    context: &Context<'_>,
    scenario: &Scenario,
    keys: &SearchKeys,
) -> Result<SearchAnswer, Diagnostic> {
    check(scenario, keys)?;
    let keys = &as_recorded(context, scenario, keys)?;
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
        row.tell_cost(&seen);
        rows.push(row.with_recorded(profile.as_deref().and_then(AnyProfile::trainer)));
        improvements.push(seen);
    }
    report::keep_smaller(&mut rows);
    for (row, (seen, setting)) in rows.iter_mut().zip(improvements.into_iter().zip(&settings)) {
        let asked = Asked { context, scenario, setting, keys, earlier: &[], seen: &seen };
        let elsewhere = Elsewhere::of(context, scenario, setting, row);
        row.elsewhere = elsewhere.map(|one| one.searched(&asked));
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
            if !cases::communicates(&setting.keys) {
                setting.keys.chain = None;
            }
        }
        if keys.varies(Varied::Offload) {
            cases::forget_copies(&mut setting.keys);
        }
        if keys.varies(Varied::Recompute) {
            // These keys belong to the choice.
            setting.keys.recompute_time = None;
            setting.keys.recompute_again = None;
            setting.keys.activation_kept = None;
        }
        cases::assumed(context, &setting)
            .into_iter()
            .for_each(|text| warnings.add_of_setting(text));
        for text in cases::ignored_by_search(&setting, keys.placement()) {
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
            let passes = |setting: &Setting| 3 * u128::from(cases::forwards(setting, &rule));
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
