//! The answer in words and numbers.

use measured::Contingency;
use pipeline::{Family, Limit, Vocabulary};
use plan::{MemoryBudget, Recompute, Setup, Split};

use super::answer::{PlanAnswer, Searched};
use super::choice::{is_late, is_run};
use super::levers::Lever;
use super::priced::Plan;
use super::quantities::{amount, days, error, ranges};
use super::setup_report::has_graphs;
use planning::{Framework, Question};
use question::sheet::Sheet;
use question::{Diagnostic, format, table};

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

/// The whole table of plans.
#[must_use]
pub fn plans(question: &Question, plans: &[Plan]) -> Sheet {
    table!(
        (number, plan) = (1..).zip(plans),
        "plan" = format!("{number}{}", if plan.on_front { " *" } else { "" }),
        "machines" = question.clusters[plan.cluster].title(),
        "set-up" = setup(&plan.finalist.costed().setup),
        "schedule" = schedule(question, plan),
        "step" = plan.step,
        "error" = error(plan),
        "over replay" = format::signed_percent(plan.finalist.over_replay()),
        "P50" = plan.percentiles.map(|[median, _]| median),
        "P95" = plan.percentiles.map(|[_, p95]| p95),
        "tokens/s" = format::grouped(plan.tokens_per_second),
        "MFU" = format::percent(plan.mfu),
        "HFU" = format::percent(plan.hfu),
        "bubble" = format::percent(plan.finalist.bubble_rate()),
        "days" = days(plan.days),
        "GPU-hours" = amount(plan.gpu_hours),
        "dollars" = amount(plan.dollars),
        "$/M tokens" = format!("{:.4}", plan.dollars / question.tokens * 1e6),
    )
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

/// The table of memory: the fullest device of each plan.
#[must_use]
pub fn memory(plans: &[Plan]) -> Sheet {
    let fullest = |plan: &Plan| plan.finalist.evaluation.fullest().1;
    let graphs = plans.iter().any(has_graphs);
    table!(
        (number, plan, held) = (1u64..).zip(plans).map(|(at, plan)| (at, plan, fullest(plan))),
        "plan" = number,
        "parameters" = held.parameters,
        "gradients" = held.gradients,
        "optimizer" = held.optimizer,
        "activations" = held.activations,
        "graphs"[graphs] = held.graphs,
        "buffers" = held.buffers,
        "peak" = held.sum(),
        "may use" = plan.memory()[0],
    )
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
pub(super) fn percent_of(odds: f64) -> String {
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
pub(super) fn limits(question: &Question) -> [Option<String>; 2] {
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

/// Where the winner's time goes, largest first.
pub fn parts(plan: &Plan) -> Sheet {
    table!(
        part = plan.longest_parts(),
        "time breakdown of the recommended plan, busiest stage" = part.name,
        "a step" = format!("{:.3} s", part.seconds()),
        "share" = format::percent(part.share),
    )
}

/// The savings of each change for the winner.
pub fn worth(levers: &[Lever]) -> Sheet {
    table!(
        lever = levers,
        "what each change would save" = lever.name,
        "step" = lever.step,
        "dollars saved" = amount(lever.saved),
    )
}

/// Why set-ups are not among the plans: a line for each reason of each cluster.
pub fn reasons(question: &Question, answer: &PlanAnswer) -> Sheet {
    let clusters = question.clusters.iter().zip(&answer.searched);
    let rows = clusters.flat_map(|(cluster, Searched { setups, found })| {
        let own = [("set-ups", *setups as u64), ("simulated", found.simulated)];
        let left_out = found.left_out.iter().map(|(reason, count)| (reason.as_str(), *count));
        own.into_iter().chain(left_out).map(|(reason, count)| (cluster.title(), reason, count))
    });
    table!((name, reason, count) = rows, "machines" = name, "fate" = reason, "set-ups" = count)
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
    let graphs = answer.plans.iter().any(has_graphs);
    crate::csv(answer.plans.iter().map(|plan| super::row::row(question, plan, graphs)))
}
