//! Kinds of steps.

use super::{gpt, machine, model, recipe, setup};
use crate::{Cluster, Inputs, Kind, Machine, Measured, Setup, Times, Zero};

fn known() -> Machine {
    Machine { device: Some("A100 80GB".to_owned()), ..machine() }
}

/// The names of the kinds of a question with 16 devices of eight to a node, and of changes of it.
#[test]
fn what_differs_in_kind_has_another_name() {
    let name = |change: fn(&mut Cluster, &mut Setup)| {
        let model = model(gpt(24, 2048, 16));
        let mut cluster = Cluster { parts: vec![(known(), 16)] };
        let mut setup = setup([4, 1, 4]);
        change(&mut cluster, &mut setup);
        let recipe = recipe(64);
        let inputs = Inputs::new(&model, &recipe, &cluster);
        Kind::of(&inputs, &setup).to_string()
    };
    let plain = name(|_, _| {});
    assert_eq!(plain, "A100 80GB, core attention, ZeRO 0-1, dense, many nodes");
    assert_eq!(name(|_, setup| setup.zero = Zero::Optimizer), plain);
    let sharded = |_: &mut Cluster, setup: &mut Setup| setup.zero = Zero::Parameters;
    assert_eq!(name(sharded), plain.replace("ZeRO 0-1", "ZeRO 3"));
    // One replica shards nothing.
    let alone = |_: &mut Cluster, setup: &mut Setup| {
        (setup.zero, setup.data, setup.tensor) = (Zero::Parameters, 1, 4);
    };
    assert_eq!(name(alone), plain);
    assert_eq!(name(|cluster, _| cluster.parts[0].1 = 8), plain.replace("many nodes", "one node"));
    // A rack on one fabric is one node to the links.
    assert_eq!(
        name(|cluster, _| cluster.parts[0].0.domain = 16),
        plain.replace("many nodes", "one node")
    );
    let unnamed = name(|cluster, _| cluster.parts[0].0.device = None);
    assert!(unnamed.starts_with("no device of a published type, "), "{unnamed}");
    let mixed = |cluster: &mut Cluster, _: &mut Setup| {
        let mut other = known();
        other.device = Some("H100 80GB".to_owned());
        cluster.parts.push((other, 16));
    };
    assert_eq!(name(mixed), unnamed);
    let profiled = |cluster: &mut Cluster, setup: &mut Setup| {
        let (layer, ends) = (Times::default(), Times::default());
        let measured = Measured { microbatch: setup.microbatch, layer, ends };
        cluster.parts[0].0.measured = Some(measured);
    };
    assert_eq!(name(profiled), format!("{plain}, layers of a profile"));
}
