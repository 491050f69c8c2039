//! What changes of a step would save, each by itself.

use fsdp::rl::{Mean, Placement};
use pipeline::Nanos;
use planning::rl::Asked;
use serde::Serialize;

use question::rl::RlKeys;
use question::sheet::Sheet;
use question::values::packing::{CommunicationKey, MethodKey, OrderKey, PlacementKey, StrategyKey};
use question::{Diagnostic, format, table};

/// Parts of the devices that may generate where rollout and training are apart, in quarters.
const QUARTERS: [u64; 3] = [1, 2, 3];

/// A change that is tried.
pub(super) struct Lever {
    name: &'static str,
    change: String,
    pub(super) keys: RlKeys,
}

/// A change, and what it saves.
#[derive(Serialize, Clone, Debug)]
pub struct LeverRow {
    /// Its name.
    pub lever: &'static str,
    /// The keys that it changes, and their values.
    pub change: String,
    /// The mean step with it.
    pub step_ns: Option<u64>,
    /// The share of the time of a trained response that it saves; negative where it costs some.
    pub saved: Option<f64>,
    /// Why it cannot be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Whether the same samples train the policy in the same updates: a change of these changes what is learned.
    pub same_training: bool,
    /// The question with it.
    #[serde(skip)]
    pub keys: RlKeys,
}

impl LeverRow {
    /// What `ran` comes to, where a response takes `base` nanoseconds without the change.
    pub(super) fn new(lever: Lever, ran: Result<Mean, Diagnostic>, base: f64) -> Self {
        let Lever { name, change, keys } = lever;
        let same_training = !["longer minibatches", "partial rollouts", SEPARATE].contains(&name);
        let (step_ns, saved, refused) = (None, None, None);
        let row = Self { lever: name, change, step_ns, saved, refused, same_training, keys };
        match ran {
            Ok(of) => Self {
                step_ns: Some(super::mean(of.time, &of)),
                saved: of.per_response().map(|time| 1.0 - time / base),
                ..row
            },
            Err(error) => Self { refused: Some(error.message), ..row },
        }
    }
}

/// The changes that are none of `keys` already.
pub(super) fn of(keys: &RlKeys, asked: &Asked) -> Vec<Lever> {
    let on_demand = Lever {
        name: "on-demand communication",
        change: "method = lb-mini, communication = on-demand".to_owned(),
        keys: RlKeys {
            method: MethodKey::LbMini,
            communication: CommunicationKey::OnDemand,
            ..keys.clone()
        },
    };
    let mini = keys.mini_batch.unwrap_or(keys.prompts);
    let double = mini.saturating_mul(2);
    let longer = if keys.prompts.is_multiple_of(double.max(1)) { double } else { keys.prompts };
    let longer = Lever {
        name: "longer minibatches",
        change: format!("mini-batch = {longer}"),
        keys: RlKeys { mini_batch: Some(longer), ..keys.clone() },
    };
    let wider = keys.sequence_parallel.saturating_mul(2);
    let sequence = Lever {
        name: "sequence parallelism",
        change: format!("sequence-parallel = {wider}"),
        keys: RlKeys { sequence_parallel: wider, ..keys.clone() },
    };
    let budget = asked.steps.rollout.response_lengths.longest().div_ceil(2);
    let partial = Lever {
        name: "partial rollouts",
        change: format!("rollout-budget = {budget}"),
        keys: RlKeys { rollout_budget: Some(budget), ..keys.clone() },
    };
    let tensor = keys.tensor.saturating_mul(2);
    let engines = Lever {
        name: "tensor parallelism of engines",
        change: format!("tensor = {tensor}"),
        keys: RlKeys { tensor, ..keys.clone() },
    };
    let is_fsdp = keys.strategy == StrategyKey::Fsdp;
    let divides = |size: u64, of: u64| of.is_multiple_of(size.max(1));
    let heads = |size: u64| asked.heads.is_multiple_of(size.max(1));
    let [generating, training] = asked.devices;
    let tried = [
        (is_fsdp && keys.communication != CommunicationKey::OnDemand, on_demand),
        (mini < keys.prompts, longer),
        (is_fsdp && divides(wider, training) && heads(wider), sequence),
        (keys.rollout_budget.is_none(), partial),
        (divides(tensor, generating) && heads(tensor), engines),
    ];
    let mut levers: Vec<Lever> =
        tried.into_iter().filter(|(may, _)| *may).map(|(_, lever)| lever).collect();
    levers.extend(orders(keys, asked));
    levers.extend(placements(keys, asked));
    levers
}

/// Other orders of passes in a pipeline.
fn orders(keys: &RlKeys, asked: &Asked) -> Vec<Lever> {
    let lever = |name, change: &str, schedule, chunks| Lever {
        name,
        change: change.to_owned(),
        keys: RlKeys { schedule, chunks, ..keys.clone() },
    };
    let zero_bubble = lever("zero bubble", "schedule = zb-h1", OrderKey::ZbH1, None);
    let interleaved = lever("interleaved chunks", "schedule = 1f1b-i", OrderKey::Interleaved, None);
    let is_plain = keys.pipeline > 1 && keys.schedule == OrderKey::OneFOneB;
    let tried = [
        (is_plain, zero_bubble),
        (is_plain && asked.layers >= keys.pipeline.saturating_mul(2), interleaved),
    ];
    tried.into_iter().filter(|(may, _)| *may).map(|(_, lever)| lever).collect()
}

/// The other placement; of devices of their own, in several parts.
fn placements(keys: &RlKeys, asked: &Asked) -> Vec<Lever> {
    if asked.steps.placement == Placement::Separate {
        let together =
            RlKeys { placement: PlacementKey::Colocated, rollout_devices: None, ..keys.clone() };
        let change = "placement = colocated".to_owned();
        return vec![Lever { name: "shared devices", change, keys: together }];
    }
    let mut parts: Vec<u64> = QUARTERS.iter().map(|part| keys.devices * part / 4).collect();
    let fits = |own: &u64| {
        let rest = keys.devices - own;
        *own > 0 && own.is_multiple_of(keys.tensor) && rest > 0 && rest.is_multiple_of(asked.group)
    };
    parts.retain(fits);
    parts.dedup();
    let lever = |own: u64| Lever {
        name: SEPARATE,
        change: format!("placement = separate, rollout-devices = {own}"),
        keys: RlKeys {
            placement: PlacementKey::Separate,
            rollout_devices: Some(own),
            ..keys.clone()
        },
    };
    parts.into_iter().map(lever).collect()
}

const SEPARATE: &str = "separate devices";

/// `rows` with the best of the parts of devices alone, by the time that they save.
pub(super) fn ranked(rows: Vec<LeverRow>) -> Vec<LeverRow> {
    let (separate, mut rest): (Vec<LeverRow>, Vec<LeverRow>) =
        rows.into_iter().partition(|row| row.lever == SEPARATE);
    let saved = |row: &LeverRow| row.saved.unwrap_or(f64::NEG_INFINITY);
    rest.extend(separate.into_iter().max_by(|a, b| saved(a).total_cmp(&saved(b))));
    rest.sort_by(|a, b| saved(b).total_cmp(&saved(a)));
    rest
}

/// The table of levers.
pub(super) fn sheet(rows: &[LeverRow]) -> Sheet {
    let table = table!(
        row = rows,
        "lever" = row.lever,
        "change" = row.change,
        "step" = row.step_ns.map(|step| format::rounded_time(Nanos(step))),
        "saved of a response" =
            row.saved.filter(|_| row.refused.is_none()).map(format::signed_percent),
        "training" = if row.same_training { "the same" } else { "changes" },
    );
    let refused = rows
        .iter()
        .filter_map(|row| row.refused.as_ref().map(|why| format!("{}: {why}\n", row.lever)));
    table.and_text(refused.collect::<String>())
}
