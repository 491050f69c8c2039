//! The answer in words and numbers.

use measured::Contingency;
use pipeline::{Family, Limit, Nanos, Vocabulary};
use plan::{MemoryBudget, Recompute, Setup, Split, StageMemory};

use super::answer::PlanAnswer;
use super::choice::{
    NEEDS, cheapest, is_late, is_run, needs, resolvable_difference, winner_of_stock,
};
use super::levers::Lever;
use super::parts::Part;
use super::priced::{Plan, seconds};
use super::quantities::{amount, days, error, ranges};
use planning::{Framework, Question};
use question::Diagnostic;
use question::format;

/// A set-up in a few letters, which [`legend`] explains.
pub fn setup(setup: &Setup) -> String {
    let mut text = format!("d{} t{} p{}", setup.data, setup.tensor, setup.pipeline);
    // The tensor groups of experts are shown where they differ from those of the rest.
    let is_apart = setup.expert > 1 && setup.expert_tensor != setup.tensor;
    let expert_tensor = if is_apart { setup.expert_tensor } else { 1 };
    for (letter, size) in [
        ("c", setup.context),
        ("e", setup.expert),
        ("te", expert_tensor),
        ("g", setup.shard_groups),
        ("v", setup.chunks),
    ] {
        if size > 1 {
            text += &format!(" {letter}{size}");
        }
    }
    text += &format!(" b{} z{}", setup.microbatch, setup.zero.stage());
    if setup.recompute != Recompute::None {
        text += &format!(" {}", setup.recompute.name());
    }
    if setup.split == Split::Even && setup.pipeline > 1 {
        text += " even";
    }
    if setup.split == Split::Searched && setup.pipeline > 1 {
        text += " searched";
    }
    if shares_vocabulary(setup) {
        text += " vocabulary";
    }
    text
}

/// The set-up of `question` in a few letters, and whether its context groups follow documents.
#[must_use]
pub fn asked(question: &Question, own: &Setup) -> String {
    let dynamic = if question.dynamic_context { " dynamic-context" } else { "" };
    setup(own) + dynamic
}

/// Whether all stages share the vocabulary without the name of the schedule saying so.
fn shares_vocabulary(setup: &Setup) -> bool {
    setup.vocabulary_parallel && setup.family.vocabulary() == Vocabulary::Whole
}

/// Letters and words of set-ups, and their meaning.
type Word = (fn(&Setup) -> bool, &'static str);

/// The meaning of the letters and words of [`setup`], as far as plans have them.
pub fn legend(answer: &PlanAnswer) -> String {
    let setups = || answer.plans.iter().map(|plan| &plan.finalist.costed().setup);
    let words: [Word; 17] = [
        (|_| true, "d data-parallel replicas"),
        (|_| true, "t tensor-parallel devices"),
        (|_| true, "p pipeline stages"),
        (|one| one.context > 1, "c context-parallel devices"),
        (|one| one.expert > 1, "e expert-parallel devices"),
        (
            |one| one.expert > 1 && one.expert_tensor > 1 && one.expert_tensor != one.tensor,
            "te devices that share each product of an expert",
        ),
        (|one| one.shard_groups > 1, "g groups of replicas that have all shards each"),
        (|one| one.chunks > 1, "v chunks per stage"),
        (|_| true, "b sequences per microbatch"),
        (|_| true, "z stage of ZeRO"),
        (|one| one.recompute == Recompute::Selective, "selective: attention is recomputed"),
        (|one| one.recompute == Recompute::Full, "full: all activations are recomputed"),
        (
            |one| matches!(one.recompute, Recompute::Modules(_)),
            "the modules named behind z are recomputed",
        ),
        (
            |one| matches!(one.recompute, Recompute::First(_)),
            "full-N: those of the first N layers of each chunk are",
        ),
        (|one| one.split == Split::Even && one.pipeline > 1, "even: equal layers per chunk"),
        (
            |one| one.split == Split::Searched && one.pipeline > 1,
            "searched: layers placed by the search",
        ),
        (shares_vocabulary, "vocabulary: embedding and head on all stages"),
    ];
    let any = |has: fn(&Setup) -> bool| setups().any(has);
    let own = words.into_iter().filter(|(has, _)| any(*has)).map(|(_, word)| word);
    format!("set-up: {}", own.collect::<Vec<_>>().join(", "))
}

/// A time, or that there is none.
fn time_or_none(time: Option<Nanos>) -> String {
    time.map_or_else(|| "-".to_owned(), format::time)
}

/// Parameters of the model, and the assumptions made where it was read, a line each.
pub fn model(question: &Question) -> Vec<String> {
    let billions = |count: u64| {
        let digits = if count < 1_000_000_000 { 6 } else { 3 };
        format!("{:.digits$} B", plan::number(count) / 1e9)
    };
    let model = &question.model;
    let [total, active] = [model.parameters(), model.active_parameters()].map(billions);
    let experts = match model.experts {
        Some(experts) => format!(" ({} of {} experts a layer)", experts.top_k, experts.count),
        None => String::new(),
    };
    let count = format!("parameters: {total} total, {active} active for a token{experts}");
    let layers = super::model::layers(model);
    let trained = super::model::trained(model);
    std::iter::once(count)
        .chain(layers)
        .chain(trained)
        .chain(question.model_assumed.iter().cloned())
        .collect()
}

/// The columns of the whole table of plans.
pub const HEADER: [&str; 17] = [
    "plan",
    "machines",
    "set-up",
    "schedule",
    "step",
    "error",
    "over replay",
    "P50",
    "P95",
    "tokens/s",
    "MFU",
    "HFU",
    "bubble",
    "days",
    "GPU-hours",
    "dollars",
    "$/M tokens",
];

/// A line of the whole table of plans.
pub fn line(question: &Question, number: usize, plan: &Plan) -> Vec<String> {
    let cluster = &question.clusters[plan.cluster];
    let costed = plan.finalist.costed();
    let front = if plan.on_front { " *" } else { "" };
    vec![
        format!("{number}{front}"),
        cluster.title(),
        setup(&costed.setup),
        schedule(question, plan),
        format::time(plan.step),
        error(plan),
        format::signed_percent(plan.finalist.over_replay()),
        time_or_none(plan.percentiles.map(|[median, _]| median)),
        time_or_none(plan.percentiles.map(|[_, p95]| p95)),
        format::grouped(plan.tokens_per_second),
        format::percent(plan.mfu),
        format::percent(plan.hfu),
        format::percent(plan.finalist.bubble_rate()),
        days(plan.days),
        amount(plan.gpu_hours),
        amount(plan.dollars),
        format!("{:.4}", plan.dollars / question.tokens * 1e6),
    ]
}

/// The schedule of `plan`, in brackets if no framework runs it.
pub fn schedule(question: &Question, plan: &Plan) -> String {
    let name = order_name(plan);
    if is_run(question, plan) { name } else { format!("[{name}]") }
}

/// The name of the schedule of `plan`; with the limit that it is made for where that is below 1p, the least that its
/// name promises.
#[must_use]
pub fn order_name(plan: &Plan) -> String {
    let costed = plan.finalist.costed();
    let name = costed.setup.schedule_name();
    match costed.limit {
        Some(limit @ Limit::TimesP { millionths }) if millionths < 1_000_000 => {
            format!("{name} at {limit}")
        }
        _ => name.to_owned(),
    }
}

/// Note that the order of `plan` is made for less memory than its name promises, and the alternatives
/// for so little memory.
#[must_use]
pub fn scarce(plan: &Plan) -> Option<String> {
    let costed = plan.finalist.costed();
    let limit = costed.limit.filter(|_| order_name(plan) != costed.setup.schedule_name())?;
    let other = match costed.setup.family {
        Family::VAdaptive => "",
        _ if costed.setup.searched => "",
        _ => "; v-adaptive is made for such limits",
    };
    Some(format!("its order is made for {limit}, since no more fits{other}"))
}

/// The columns of the table of memory.
pub const MEMORY: [&str; 8] =
    ["plan", "parameters", "gradients", "optimizer", "activations", "buffers", "peak", "may use"];

/// A line of the table of memory: the fullest device.
pub fn memory(number: usize, plan: &Plan) -> Vec<String> {
    let (_, held) = plan.finalist.evaluation.fullest();
    let StageMemory { parameters, gradients, optimizer, activations, buffers } = held;
    let [may, _] = plan.memory();
    let sizes = [parameters, gradients, optimizer, activations, buffers, held.sum(), may];
    std::iter::once(number.to_string()).chain(sizes.map(format::size)).collect()
}

/// The number, machines and set-up of the plan to take.
pub fn taken(question: &Question, answer: &PlanAnswer, winner: &Plan) -> String {
    let cluster = &question.clusters[winner.cluster];
    let number = answer.plans.iter().position(|plan| std::ptr::eq(plan, winner));
    format!(
        "plan {}, {} {}, {} {}",
        number.map_or(0, |number| number + 1),
        cluster.devices(),
        cluster.name(),
        order_name(winner),
        setup(&winner.finalist.costed().setup),
    )
}

/// Step, hours, memory and utilisation of the plan to take.
pub fn figures(question: &Question, winner: &Plan) -> String {
    format!(
        "a step of {}, {} GPU-hours; {} of {} on the fullest device; {}",
        format::time(winner.step),
        amount(winner.gpu_hours),
        format::size(winner.memory()[1]),
        format::size(winner.memory()[0]),
        utilisation(question, winner),
    )
}

/// The MFU of `plan`, in words, with the count of pairs of tokens: causal kernels compute half of them, which matters
/// in long sequences.
#[must_use]
pub fn utilisation(question: &Question, plan: &Plan) -> String {
    /// The share of model FLOPs below which the count of pairs is said.
    const ALIKE: f64 = 0.95;
    let all = question.model.model_flops();
    let causal = question.model.causal_flops() / all.max(1.0);
    let [mfu, of_causal] = [1.0, causal].map(|share| format!("{:.0} %", 100.0 * plan.mfu * share));
    let peak = format!("of the {} peak", question.recipe.precision.name());
    match causal < ALIKE {
        true => format!("MFU {of_causal} {peak} by the causal pairs of tokens, {mfu} by all pairs"),
        false => format!("MFU {mfu} {peak}"),
    }
}

/// From where to where `value`, which grows with a step of this relative `error`, reaches in 95 % of runs.
pub(super) fn between(error: Option<[f64; 2]>, value: f64, written: fn(f64) -> String) -> String {
    error.map_or_else(String::new, |[low, high]| {
        format!(" ({} to {})", written(value * (1.0 - low)), written(value * (1.0 + high)))
    })
}

/// Odds in whole percent, short of what nobody knows.
fn percent_of(odds: f64) -> String {
    match 100.0 * odds {
        ..1.0 => "less than 1 %".to_owned(),
        99.0.. => "more than 99 %".to_owned(),
        odds => format!("{odds:.0} %"),
    }
}

/// The odds of `plan` against the deadline and the budget of `question`, in words, if it has any.
fn odds(question: &Question, plan: &Plan) -> Option<String> {
    let limits = limits(question).into_iter().zip(plan.odds_of_limits(question));
    let each =
        limits.filter_map(|(limit, odds)| Some(format!("{} with {}", limit?, percent_of(odds?))));
    let each: Vec<String> = each.collect();
    (!each.is_empty()).then(|| format!("meets {}", each.join(" and ")))
}

/// The deadline and the budget of `question`, in words.
fn limits(question: &Question) -> [Option<String>; 2] {
    [
        question
            .deadline_days
            .map(|days| format!("{} days", format!("{days:?}").trim_end_matches(".0"))),
        question.budget.map(|dollars| format!("{} dollars", amount(dollars))),
    ]
}

/// The odds of `plan`, and by when trainings like it are done, in words.
#[must_use]
pub fn done_by(question: &Question, plan: &Plan) -> String {
    let meets = odds(question, plan).map_or_else(String::new, |odds| odds + "; ");
    let [half, most] = [0.5, 0.9].map(|odds| plan.overrun.factor(odds));
    format!(
        "{meets}half of such trainings would be done by {} days and {} dollars, nine in ten by {} days",
        days(plan.days * half),
        amount(plan.dollars * half),
        days(plan.days * most),
    )
}

/// [`done_by`], and what published trainings took.
#[must_use]
pub fn contingency(question: &Question, answer: &PlanAnswer, plan: &Plan) -> String {
    let Contingency { trainings, least, most, .. } = answer.contingency;
    let own = match question.contingency {
        Some(factor) => format!("{factor} times those of the steps"),
        None => "those of the steps".to_owned(),
    };
    format!(
        "{}: days, hours and dollars are {own}, and {trainings} published trainings took {least:.2} to {most:.2} times \
         their plans",
        done_by(question, plan)
    )
}

/// Days by tuned recipes and by the defaults of Megatron-LM, and whether the latter would take another plan: in
/// words, where the question does not say whose software runs.
#[must_use]
pub fn both_tunings(question: &Question, plans: &[Plan], winner: &Plan) -> Option<String> {
    const KEY: &str = "tuning = \"tuned\" or \"stock\" in [training] says which";
    let Some(times) = winner.stock else {
        let covers = winner.errors_of_tunings.is_some();
        return covers
            .then(|| format!("its error is that of tuned recipes and of default software: {KEY}"));
    };
    let of = |times: f64, error: Option<[f64; 2]>| {
        let own = winner.days * times;
        let range = between(error, own, days);
        format!("{} days{range} and {} dollars", days(own), amount(winner.dollars * times))
    };
    let [tuned, stock] = [0, 1].map(|at| winner.errors_of_tunings.map(|both| both[at]));
    let other = winner_of_stock(question, plans).filter(|one| !std::ptr::eq(*one, winner));
    let is_other = other.filter(|one| {
        let apart = seconds(winner.step) * times / (seconds(one.step) * one.stock.unwrap_or(1.0));
        one.cluster != winner.cluster || apart - 1.0 > resolvable_difference(one, winner)
    });
    let verdict = match is_other {
        None => "it is the plan to take of both".to_owned(),
        Some(one) => format!(
            "that would rather take {} {} on {}",
            order_name(one),
            setup(&one.finalist.costed().setup),
            question.clusters[one.cluster].title()
        ),
    };
    Some(format!(
        "by tuned recipes {}; as a first run of stock Megatron-LM {}: {verdict}; {KEY}",
        of(1.0, tuned),
        of(times, stock)
    ))
}

/// That no plan meets deadline and budget with the odds that are asked for, the best odds, and what would raise them.
#[must_use]
pub fn missed(question: &Question, plans: &[Plan]) -> Option<String> {
    if plans.is_empty() || plans.iter().any(|plan| !is_late(question, plan)) {
        return None;
    }
    let nearest = |of: fn(&Plan) -> f64| plans.iter().min_by(|a, b| of(a).total_cmp(&of(b)));
    let described = |plan: &Plan| {
        let cluster = &question.clusters[plan.cluster];
        let (days, dollars) = (days(plan.days), amount(plan.dollars));
        format!("{days} days and {dollars} dollars on {}", cluster.title())
    };
    let of_both = |plan: &&Plan| plan.odds(question).unwrap_or_default();
    let likeliest = plans.iter().max_by(|a, b| of_both(a).total_cmp(&of_both(b)))?;
    let confidence = question.confidence;
    let factor = likeliest.overrun.factor(confidence);
    let [late, dear] =
        likeliest.odds_of_limits(question).map(|odds| odds.is_some_and(|odds| odds < confidence));
    // Rounded up, so that they are met.
    let longer = late.then(|| format!("deadline-days = {}", rounded_up(likeliest.days * factor)));
    let dearer = dear.then(|| format!("budget = {}", rounded_up(likeliest.dollars * factor)));
    let lower = (100.0 * of_both(&likeliest)).floor() / 100.0;
    let lower = (lower >= 0.01).then(|| format!("confidence = {lower}"));
    let given: Vec<String> = longer.into_iter().chain(dearer).collect();
    let given = [given.join(" and ")].into_iter().chain(lower).collect::<Vec<_>>().join(", or ");
    let limits: Vec<String> = limits(question).into_iter().flatten().collect();
    Some(format!(
        "no plan keeps within {} with odds of {}: the likeliest, {}, has {}, and would need steps {:.2} times as fast; \
         the fastest takes {}, the cheapest {}; give other devices, {given}",
        limits.join(" and "),
        percent_of(confidence),
        described(likeliest),
        percent_of(of_both(&likeliest)),
        factor * overshoot(question, likeliest),
        nearest(|plan| plan.days).map(described)?,
        nearest(|plan| plan.dollars).map(described)?,
    ))
}

/// How many times the deadline or the budget `plan` takes, the larger.
fn overshoot(question: &Question, plan: &Plan) -> f64 {
    let times = |planned: f64, limit: Option<f64>| limit.map_or(0.0, |limit| planned / limit);
    times(plan.days, question.deadline_days).max(times(plan.dollars, question.budget))
}

/// `value` in few digits, and no less.
fn rounded_up(value: f64) -> String {
    let scale = if value < 10.0 { 1e4 } else { 1.0 };
    format!("{}", (value * scale).ceil() / scale)
}

/// The share of time that failures leave, in words.
#[must_use]
pub fn useful(plan: &Plan) -> String {
    let energy = plan.energy.map_or_else(String::new, |energy| {
        let (energy, unit) = if energy < 1e4 { (energy, "kWh") } else { (energy / 1e3, "MWh") };
        format!("; at most {} {unit}", amount(energy))
    });
    format!(
        "goodput {:.2} %, a checkpoint every {:.0} s{energy}",
        100.0 * plan.goodput,
        plan.checkpoint_interval
    )
}

/// That nothing is measured on `machine`.
pub(crate) fn unmeasured_step(machine: &str) -> String {
    format!(
        "nothing is measured on {machine} like this: its step is what data sheets promise, not what was seen"
    )
}

/// That nothing is measured on the devices of the plan to take, that no framework runs it, or that a cheaper one is
/// left for that: a sentence each.
#[must_use]
pub fn doubts(question: &Question, plans: &[Plan], winner: &Plan) -> Vec<String> {
    let name = |plan: &Plan| question.clusters[plan.cluster].name();
    let cheaper = |is: &dyn Fn(&Plan) -> bool| {
        let mut plans = plans.iter().filter(|plan| plan.shortage.is_none() && is(plan));
        plans.find(|plan| plan.dollars < winner.dollars)
    };
    let unmeasured = match winner.error {
        None => Some(unmeasured_step(&name(winner))),
        Some(_) => cheaper(&|plan| plan.error.is_none()).map(|plan| {
            format!(
                "{} would be cheaper by its data sheet, {} dollars, and nothing is measured on it",
                name(plan),
                amount(plan.dollars)
            )
        }),
    };
    let not_run = match is_run(question, winner) {
        false => Some("neither Megatron-LM nor torchtitan runs it".to_owned()),
        true => cheaper(&|plan| !is_run(question, plan) && plan.error.is_some()).map(|plan| {
            format!(
                "{} would be cheaper, {} dollars, and neither Megatron-LM nor torchtitan runs it",
                order_name(plan),
                amount(plan.dollars)
            )
        }),
    };
    let unsure = unsure(question, plans, winner);
    unsure.into_iter().chain(unmeasured).chain(not_run).collect()
}

/// That the plan to take may not fit, or that a faster or cheaper one may fit: by how much, and with which odds.
fn unsure(question: &Question, plans: &[Plan], winner: &Plan) -> Option<String> {
    if winner.shortage.is_some() {
        return Some(format!("nothing surely fits; this one {}", super::setup_report::fit(winner)));
    }
    let is_unsure = |plan: &&Plan| plan.shortage.is_some() && plan.dollars < winner.dollars;
    let plan = plans.iter().filter(is_unsure).min_by(|a, b| a.dollars.total_cmp(&b.dollars))?;
    let on = match plan.cluster == winner.cluster {
        true => String::new(),
        false => format!(" on {}", question.clusters[plan.cluster].title()),
    };
    Some(format!(
        "{} {}{on} would take {}, {} dollars less, and may fit, with odds of {}: worth a first try",
        order_name(plan),
        setup(&plan.finalist.costed().setup),
        format::time(plan.step),
        amount(winner.dollars - plan.dollars),
        super::setup_report::odds(plan),
    ))
}

/// Why the plan to take is not the cheapest, if it is not, and what that would gain.
#[must_use]
pub fn simpler(question: &Question, plans: &[Plan], winner: &Plan) -> Option<String> {
    let cheapest = cheapest(question, plans).filter(|plan| !std::ptr::eq(*plan, winner))?;
    let [own, other] = [winner, cheapest].map(|plan| needs(question, plan));
    let more = NEEDS.into_iter().zip(own.into_iter().zip(other));
    let more: Vec<&str> =
        more.filter(|(_, (own, other))| other > own).map(|(need, _)| need).collect();
    let why = match more.is_empty() {
        true => "as stock Megatron-LM it is slower".to_owned(),
        false => format!("it needs {}", more.join(", ")),
    };
    Some(format!(
        "{} {} would be {} faster and {} dollars cheaper, but {why}, and predictions do not tell steps less than {} apart",
        order_name(cheapest),
        setup(&cheapest.finalist.costed().setup),
        format::percent(1.0 - seconds(cheapest.step) / seconds(winner.step)),
        amount(winner.dollars - cheapest.dollars),
        format::percent(resolvable_difference(winner, cheapest)),
    ))
}

/// By how much measured iterations would make the steps of set-ups better, in words, where all machines are built in.
#[must_use]
pub fn calibration(question: &Question) -> Option<String> {
    let mut machines = question.clusters.iter().flat_map(|cluster| &cluster.parts);
    let are_built_in = machines.all(|(machine, _)| {
        scenarios::MACHINES.get(&machine.name).is_some() && machine.measured.is_none()
    });
    let words = || crate::advise::calibration_helps().ok();
    are_built_in.then(words).flatten()
}

/// The memory that may be used of a device, in words.
pub fn memory_budget(question: &Question) -> String {
    let MemoryBudget { error, cap, .. } = question.recipe.memory_budget;
    if let Some(cap) = cap {
        return format!(
            "may use: the memory-cap of {}, within the device's memory less its reserve, without a margin for the \
             error of predictions",
            format::size(cap)
        );
    }
    format!(
        "may use: what frameworks see of a device, less the reserve of its file, less {} by which \
         predicted memory is off at most on published peaks of {}",
        format::percent(error),
        match question.framework {
            Framework::Any | Framework::Megatron => Framework::Megatron.title(),
            Framework::Torchtitan => Framework::Torchtitan.title(),
        }
    )
}

/// Where the winner's time goes, largest first: name, seconds and share.
pub fn parts(plan: &Plan) -> Vec<Vec<String>> {
    let line = |part: Part| {
        let share = format::percent(part.share);
        vec![part.name.to_owned(), format!("{:.3} s", part.seconds()), share]
    };
    plan.longest_parts().into_iter().map(line).collect()
}

/// The columns of [`parts`].
pub const PARTS: [&str; 3] =
    ["time breakdown of the recommended plan, busiest stage", "a step", "share"];

/// The savings of each change for the winner: name, step and dollars.
pub fn worth(levers: &[Lever]) -> Vec<Vec<String>> {
    let line =
        |lever: &Lever| vec![lever.name.clone(), format::time(lever.step), amount(lever.saved)];
    levers.iter().map(line).collect()
}

/// The columns of [`worth`].
pub const WORTH: [&str; 3] = ["what each change would save", "step", "dollars saved"];

/// Why set-ups are not among the plans: a line for each reason of each cluster.
pub fn reasons(question: &Question, answer: &PlanAnswer) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (cluster, searched) in question.clusters.iter().zip(&answer.searched) {
        let name = cluster.title();
        let found = &searched.found;
        rows.push(vec![name.clone(), "set-ups".to_owned(), searched.setups.to_string()]);
        rows.push(vec![name.clone(), "simulated".to_owned(), found.simulated.to_string()]);
        for (reason, count) in &found.left_out {
            rows.push(vec![name.clone(), reason.clone(), count.to_string()]);
        }
    }
    rows
}

/// In which frameworks the plans run: a line for each answer that some have, with their numbers.
pub fn frameworks(question: &Question, answer: &PlanAnswer) -> Vec<String> {
    let runs = |plan: &Plan| Framework::REAL.map(|framework| plan.runs_in(framework, question));
    let said = [
        ([true, true], "run in Megatron-LM and in torchtitan"),
        ([true, false], "run in Megatron-LM, not in torchtitan"),
        ([false, true], "run in torchtitan, not in Megatron-LM"),
        ([false, false], "run in neither Megatron-LM nor torchtitan: in brackets"),
    ];
    let line = |(which, words): ([bool; 2], &str)| {
        let own = (1..).zip(&answer.plans).filter(|(_, plan)| runs(plan) == which);
        let numbers: Vec<usize> = own.map(|(number, _)| number).collect();
        match numbers.len() {
            0 => None,
            all if all == answer.plans.len() => Some(format!("all plans {words}")),
            1 => Some(format!("plan {} {}", numbers[0], words.replacen("run", "runs", 1))),
            _ => Some(format!("plans {} {words}", ranges(&numbers))),
        }
    };
    said.into_iter().filter_map(line).collect()
}

/// The mark before the number of `plan`: that it is the one to take, that its odds of deadline and budget are too
/// low, or that it may not fit.
#[must_use]
pub fn mark(question: &Question, plan: &Plan, taken: bool) -> Option<char> {
    match (taken, is_late(question, plan)) {
        (true, _) => Some('>'),
        (false, true) => Some('!'),
        (false, false) => plan.shortage.map(|_| '?'),
    }
}

/// The marks of the table of plans, in short.
pub const MARKS: &str = "error: 95 % of measured runs are in this range around the prediction. >: the plan to take. *: no \
     other plan is both faster and cheaper. !: its odds of deadline and budget are below the confidence. ?: it may fit, more \
     likely than not. [..]: no framework runs it";

/// The definitions of the words in the tables.
pub const DEFINITIONS: [&str; 6] = [
    "*: on the Pareto front of days and dollars. >: the plan to take, the cheapest that meets deadline and budget with the required odds, on devices with measurements; among plans within the error, the one that needs least. Prices are assumptions of the machines' files",
    "step: by the event engine, in which transfers share wires; error: 95 % of measured runs \
     are in this range around the prediction, unknown where nothing is measured on devices of this generation",
    "days, GPU-hours, dollars: the P50 step under the question's noise for all tokens, with checkpoints \
     at the best interval and failures",
    "GiB: held by the fullest device. MFU: model FLOPs, 3 forwards with all pairs of tokens, over the peak \
     of the precision of products; \
     HFU: with what is recomputed. bubble: idle share of the mean stage; the time breakdown is of the busiest stage",
    "over replay: how much longer the step is than by replay, which searched the set-ups and counts \
     transfers with the passes",
    "P50, P95: of the step under the question's noise, of the slowest data-parallel replica; where experts \
     are not chosen alike P95 has the fullest device as full as 95 % of microbatches have it at most",
];

pub fn csv(question: &Question, answer: &PlanAnswer) -> Result<Vec<u8>, Diagnostic> {
    crate::csv(answer.plans.iter().map(|plan| super::PlanRow::of(question, plan)))
}
