//! The keys that a search of orders does not take into account by itself: orders are then found without them, and chosen
//! by simulations with them.

use question::hardware::COPYING;
use question::keys::Keys;
use question::resolve::sharding_asked;
use question::scenario::Setting;
use question::values::hardware::{BoundaryKey, FullKey};

/// A search of orders, by the times that it minimises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SearchKind {
    /// Of one step where no link is shared.
    Nominal,
    /// Of one step under noise where no link is shared.
    UnderNoise,
    /// By the event engine.
    OnHardware,
}

/// The keys of `setting` that change times or memory of orders, and that a search of `kind` does not take into
/// account.
#[must_use]
pub fn beyond(setting: &Setting, kind: SearchKind) -> Vec<&'static str> {
    let keys = &setting.keys;
    let sharded = sharding_asked(keys).is_some() && keys.given().any(|key| key == "sharding");
    let chained = kind != SearchKind::Nominal && keys.has_chain();
    let chain = if keys.chain.is_some() { "chain" } else { "chain-file" };
    let parts = [sharded.then_some("sharding"), chained.then_some(chain)];
    let unequal = keys.of_unequal_microbatches().filter(|_| kind != SearchKind::Nominal);
    parts.into_iter().flatten().chain(unequal).chain(of_hardware(keys, kind)).collect()
}

/// Those of the hardware.
fn of_hardware(keys: &Keys, kind: SearchKind) -> impl Iterator<Item = &'static str> {
    let of_shards = keys.vocab_tflops.is_some();
    let waits = keys.hardware.when_full == Some(FullKey::Wait);
    let validated = matches!(keys.hardware.boundary, Some(BoundaryKey::PostValidation(_)));
    keys.hardware.given().filter(move |key| match (kind, *key) {
        (_, "vocabulary") if of_shards => false,
        (_, key) if COPYING.contains(&key) => true,
        (SearchKind::OnHardware, "when-full") => waits,
        (SearchKind::OnHardware, _) => false,
        (SearchKind::UnderNoise, "boundary") => validated,
        (SearchKind::UnderNoise | SearchKind::Nominal, _) => true,
    })
}
