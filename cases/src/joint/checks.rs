//! Which keys a joint search needs, and which exclude each other.

use pipeline::LayerLayout;

use question::diagnostic::Diagnostic;
use question::hardware::COPYING;
use question::keys::Keys;
use question::resolve::{are_timed, has_footprints};
use question::scenario::{Scenario, Setting};
use question::search::{SearchKeys, Varied};

/// The most chunks per stage that may be asked for.
const MOST_CHUNKS: u64 = 64;

/// Checks that the keys of a joint search go together, with each other and with those of `setting`.
pub fn check(scenario: &Scenario, setting: &Setting, asked: &SearchKeys) -> Result<(), Diagnostic> {
    if asked.vary.is_empty() {
        let Some(key) = asked.of_joint().next() else { return Ok(()) };
        let message = format!("{key} says something of what --vary chooses, which is not given");
        return Err(Diagnostic::new(message).with_help("give --vary all, or leave it out"));
    }
    let keys = &setting.keys;
    let wrong = |key, message: String, cure: &str| {
        Err(scenario.error(setting, Some(key), message).with_help(cure))
    };
    for (key, given) in
        [("profile", keys.profile.is_some()), ("chain-file", keys.chain_file.is_some())]
    {
        if given {
            let message = format!("{key} has times of its own, which --vary cannot deal to chunks");
            return wrong(
                key,
                message,
                "give the times of a layer by --chain, or of a stage by --forward and its like",
            );
        }
    }
    if asked.varies(Varied::Recompute) && keys.recompute.is_some() {
        let message = "recompute is chosen by --vary, so it cannot be given".to_owned();
        return wrong(
            "recompute",
            message,
            "leave it out, or name in --vary what else is to be chosen",
        );
    }
    check_copies(scenario, setting, asked)?;
    if asked.varies(Varied::Placement) && asked.placement.is_some() {
        let message = "placement is chosen by --vary, so it cannot be given";
        let cure = "leave it out, or name in --vary what else is to be chosen";
        return Err(Diagnostic::new(message).with_help(cure));
    }
    if keys.memory.is_some() {
        let message =
            "memory is what a trainer's profile leaves to its own chunks, which --vary cuts";
        return wrong("memory", message.to_owned(), "give memory-limit and resident-layer");
    }
    if keys.memory_limit.is_some() && !has_footprints(keys) {
        let message =
            "a joint search measures memory in bytes, and no sizes of activations are given";
        let cure = "give --activation, or --hidden, --heads and --seq with --layers-per-stage and \
                    --microbatch-size";
        return wrong("memory-limit", message.to_owned(), cure);
    }
    if asked.max_chunks.is_some_and(|most| !(1..=MOST_CHUNKS).contains(&most)) {
        let message = format!("max-chunks is from 1 to {MOST_CHUNKS}");
        return Err(Diagnostic::new(message).with_help("most models gain nothing beyond 4"));
    }
    check_ends(scenario, setting, asked)?;
    check_dealt(scenario, setting, asked)
}

/// Whether what `asked` searches of `setting` may copy activations to the host.
#[must_use]
pub fn may_copy(setting: &Setting, asked: &SearchKeys) -> bool {
    asked.varies(Varied::Offload) && are_timed(&setting.keys)
}

/// Checks that the keys say how long copies to the host take, if those are to be chosen, and nothing of which.
fn check_copies(
    scenario: &Scenario,
    setting: &Setting,
    asked: &SearchKeys,
) -> Result<(), Diagnostic> {
    let keys = &setting.keys;
    if asked.names(Varied::Offload) && !may_copy(setting, asked) {
        let message = "offload is to be chosen, and nothing says how long a copy to the host takes";
        let cure = "give --host-bandwidth with the bytes of activations, --offload-time or --offload-ratio, or \
                    leave offload out of --vary";
        return Err(Diagnostic::new(message).with_help(cure));
    }
    if !may_copy(setting, asked) {
        return Ok(());
    }
    if keys.offload_chunks.is_some() {
        let message = "offload-chunks are chosen by --vary, so they cannot be given".to_owned();
        let cure = "leave them out, or name in --vary what else is to be chosen";
        return Err(scenario.error(setting, Some("offload-chunks"), message).with_help(cure));
    }
    let copied = keys.hardware.given().find(|key| COPYING.contains(key));
    if let Some(key) = copied {
        let message =
            format!("{key} says what is copied to the host, or when, which is what --vary chooses");
        let cure = "leave it out, or name in --vary what else is to be chosen";
        return Err(scenario.error(setting, Some(key), message).with_help(cure));
    }
    if keys.recompute.is_some() {
        let message = "recompute and offload both say what becomes of activations between F and B";
        let cure = "leave recompute out, and name it in --vary with offload";
        return Err(scenario.error(setting, Some("recompute"), message.to_owned()).with_help(cure));
    }
    Ok(())
}

/// Checks the keys of the ends of the model and of layers of multi-token prediction.
fn check_ends(
    scenario: &Scenario,
    setting: &Setting,
    asked: &SearchKeys,
) -> Result<(), Diagnostic> {
    let keys = &setting.keys;
    if !asked.vary.is_empty() && keys.layout.as_ref().is_some_and(LayerLayout::spreads_mtp) {
        let message = "the layout has layers of multi-token prediction (m) in several chunks, which --vary does not move";
        let cure = "put all m into one chunk, or leave --vary out";
        return Err(scenario.error(setting, Some("layout"), message.to_owned()).with_help(cure));
    }
    let has_mtp = keys.layout.as_ref().is_some_and(|layout| layout.mtp() > 0);
    if asked.mtp_layers.is_some() && (has_mtp || !keys.has_chain()) {
        let message = match has_mtp {
            true => "mtp-layers and the m of the layout say the same",
            false => "mtp-layers do more than others, and nothing says what a layer does",
        };
        let cure = "give mtp-layers with --layers, --chain and --chain-mtp";
        return Err(Diagnostic::new(message).with_help(cure));
    }
    let has_mtp = has_mtp || asked.mtp_layers.is_some();
    if has_mtp && keys.memory_limit.is_some() && keys.activation.is_none() {
        let message = "hidden, heads and seq do not say what layers of multi-token prediction hold";
        let cure = "give --activation, that of the mean stage";
        return Err(scenario.error(setting, Some("hidden"), message.to_owned()).with_help(cure));
    }
    let extra = asked.activation_head.or(asked.activation_tail);
    let is_one = keys.activation.as_ref().is_some_and(|given| given.len() == 1);
    if extra.is_some() && !is_one {
        let message = "activation-head and activation-tail come on top of one --activation for all stages, \
                       which is not given";
        return Err(Diagnostic::new(message).with_help("give --activation, that of the mean stage"));
    }
    Ok(())
}

/// Checks that amounts that follow the layers of chunks are given once for all stages.
fn check_dealt(
    scenario: &Scenario,
    setting: &Setting,
    asked: &SearchKeys,
) -> Result<(), Diagnostic> {
    fn count<T>(list: &Option<Vec<T>>) -> usize {
        list.as_ref().map_or(0, Vec::len)
    }
    let keys = &setting.keys;
    let moves = asked.varies(Varied::Layers) || asked.varies(Varied::Chunks);
    let all = [
        ("forward", count(&keys.forward)),
        ("backward", count(&keys.backward)),
        ("backward-input", count(&keys.backward_input)),
        ("backward-weight", count(&keys.backward_weight)),
        ("activation", count(&keys.activation)),
        ("activation-until-weight", count(&keys.activation_until_weight)),
        ("recompute", count(&keys.recompute)),
        ("recompute-time", count(&keys.recompute_time)),
        ("recompute-again", count(&keys.recompute_again)),
        ("activation-kept", count(&keys.activation_kept)),
        ("offload-time", count(&keys.offload_time)),
    ];
    let several = all.into_iter().find(|(_, count)| *count > 1).filter(|_| moves);
    if let Some((key, _)) = several {
        let message =
            format!("{key} has a value for each stage or chunk, but layers move between them");
        let cure = "give one value, that of the mean stage, which is divided by layers; the work of the ends of the model is given by --chain, --chain-head and --chain-tail, or leave layers and chunks \
                    out of --vary";
        return Err(scenario.error(setting, Some(key), message).with_help(cure));
    }
    if total(keys).is_none() && asked.names(Varied::Layers) {
        let message = "layers are to be searched, and nothing says how many there are";
        let cure = "give --layers, those of the whole model, or --layers-per-stage or --layout";
        return Err(scenario.error(setting, Some("layers"), message.to_owned()).with_help(cure));
    }
    let of_layers = [
        ("resident-layer", asked.resident_layer),
        ("activation-head", asked.activation_head),
        ("activation-tail", asked.activation_tail),
    ];
    let given = of_layers.into_iter().find(|(_, bytes)| bytes.is_some());
    if let (Some((key, _)), None) = (given, total(keys)) {
        let message =
            format!("{key} needs the layers of each chunk, and nothing says how many there are");
        let cure = "give --layers, --layers-per-stage or --layout";
        return Err(Diagnostic::new(message).with_help(cure));
    }
    Ok(())
}

/// The transformer layers of the whole model, if the question says.
pub(super) fn total(keys: &Keys) -> Option<u64> {
    let of_stages = || keys.layers_per_stage?.checked_mul(keys.stages?);
    let of_layout = keys.layout.as_ref().map(LayerLayout::total);
    of_layout.or(keys.layers).or_else(of_stages)
}
