//! A pipeline whose backwards are all split, and which no order of split or whole backwards undercuts.
//!
//! *Proof.* Take any order. Let b be the lesser of the times of B and BW, and w what is left of BW then, at most W.
//! Replace each BW by a B of b and, at once, a W of w: both fit into the time of BW, and the gradient is made no later.
//! A B that was there takes b or more, a W w or more. Let all keep their order: by induction along it no pass of the
//! new order ends later than it did, so it costs no more. Between its B and its W a backward may hold M_W, at most M_B
//! is counted: a BW held M_B until its end, and one that was split no less than that. So the new order fits where the
//! old one did.

use pipeline::{Costs, Footprint, Footprints, PassTimes};

use crate::Certificate;

/// The pipeline of `certificate` with all backwards split, as above; its schedule stays as it is and is unused.
pub(crate) fn relaxed(certificate: &Certificate) -> Certificate {
    let Certificate { schedule, costs, footprints, .. } = certificate;
    let chunks = 0..schedule.shape().chunks();
    let held = chunks.map(|chunk| {
        let Footprint { until_backward, until_weight } = footprints.of(chunk);
        Footprint { until_backward, until_weight: until_weight.min(until_backward) }
    });
    let footprints: Footprints = footprints.clone().with_chunks(held.collect());
    let times = costs.chunks().iter().map(|times| {
        let whole = times.backward.unwrap_or(times.backward_input + times.backward_weight);
        let input = times.backward_input.min(whole);
        let weight = times.backward_weight.min(whole - input);
        PassTimes::new(times.forward, input, weight)
    });
    let costs: Costs = costs.clone().with_chunks(times.collect());
    Certificate { costs, footprints, ..certificate.clone() }
}
