use pipeline::{Bytes, Footprint};
use proptest::prelude::*;

use crate::{
    Element, Link, LinkKind, MAX_BYTES, MAX_NANOS, Machine, Message, Model, ModelShape, Optimizer,
    Part, Profile, Quantity,
};

fn quantity() -> impl Strategy<Value = Quantity> {
    prop::collection::vec(0..=MAX_NANOS, 1..20).prop_map(|samples| Quantity::of(samples).unwrap())
}

fn footprint() -> impl Strategy<Value = Footprint> {
    (0..=MAX_BYTES, 0..=MAX_BYTES).prop_map(|(until_backward, until_weight)| Footprint {
        until_backward: Bytes(until_backward),
        until_weight: Bytes(until_weight),
    })
}

fn part() -> impl Strategy<Value = Part> {
    (quantity(), quantity(), quantity(), footprint()).prop_map(
        |(forward, backward_input, backward_weight, footprint)| Part {
            forward,
            backward_input,
            backward_weight,
            footprint,
        },
    )
}

fn link() -> impl Strategy<Value = Link> {
    let kind = (0..LinkKind::ALL.len()).prop_map(|index| LinkKind::ALL[index]);
    let first = (0..=MAX_BYTES, Just(1), Just(false), quantity());
    let others = prop::collection::vec((0..=MAX_BYTES, 1..9u64, any::<bool>(), quantity()), 0..4);
    (kind, first, others).prop_map(|(kind, first, mut others)| {
        others.push(first);
        let message = |(bytes, pairs, both_ways, time)| Message { bytes, pairs, both_ways, time };
        Link { kind, messages: others.into_iter().map(message).collect() }
    })
}

fn machine() -> impl Strategy<Value = Machine> {
    let text = "[ -~äß\\n\"\\\\]{0,12}";
    (text, text, prop::option::of(text), 1..512u64, any::<bool>()).prop_map(
        |(cpu, os, driver, cores, pinned)| Machine {
            device: cpu.clone(),
            remark: driver.clone(),
            date: "2026-11-30".to_owned(),
            program: os.clone(),
            clocks: None,
            cpu,
            cores,
            os,
            driver,
            pinned,
            neighbours: cores - 1,
        },
    )
}

fn profile() -> impl Strategy<Value = Profile> {
    let model = (1..9usize, 1..9usize, 1..999usize, 1..9usize, prop::bool::ANY).prop_map(
        |(heads, width, sequence, size, small)| {
            let model = Model::new(heads * width, heads, 3, 512, sequence, size).unwrap();
            ModelShape::new(model, if small { Element::Bf16 } else { Element::F32 }).unwrap()
        },
    );
    let optimizer =
        (1..1u64 << 60, quantity()).prop_map(|(parameters, step)| Optimizer { parameters, step });
    let parts = (part(), part(), part(), quantity(), optimizer);
    let links = prop::collection::vec(link(), 0..3);
    (machine(), model, 0.001..1.0f64, parts, links).prop_map(
        |(machine, model, half_width, parts, links)| {
            let (layer, embedding, head, overhead, optimizer) = parts;
            Profile {
                machine,
                model,
                half_width,
                layer,
                embedding,
                head,
                overhead,
                optimizer,
                links,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_profile_written_is_read_back(profile in profile()) {
        let text = profile.to_toml();
        prop_assert_eq!(Profile::parse(&text), Ok(profile), "{}", text);
    }

    #[test]
    fn no_text_is_too_strange(text in "[ -~\\n]{0,200}") {
        prop_assert!(Profile::parse(&text).is_err());
    }
}

/// A small profile as text.
pub(crate) fn example() -> String {
    let quantity = |times: [u64; 7]| Quantity::of(times.to_vec()).unwrap();
    let part = |unit: u64| Part {
        forward: quantity([10, 11, 10, 9, 10, 12, 10].map(|time| time * unit)),
        backward_input: quantity([21, 20, 20, 19, 20, 20, 20].map(|time| time * unit)),
        backward_weight: quantity([8, 8, 8, 8, 8, 8, 8].map(|time| time * unit)),
        footprint: Footprint { until_backward: Bytes(340 * unit), until_weight: Bytes(320 * unit) },
    };
    let message =
        |(bytes, time)| Message { bytes, pairs: 1, both_ways: false, time: quantity([time; 7]) };
    let profile = Profile {
        machine: Machine { cpu: "Example".to_owned(), cores: 2, ..Machine::default() },
        model: ModelShape::new(Model::new(64, 4, 1, 1000, 32, 2).unwrap(), Element::F32).unwrap(),
        half_width: 0.02,
        embedding: part(100),
        head: part(500),
        layer: part(1_000),
        overhead: quantity([70; 7]),
        optimizer: Optimizer { parameters: 50_000, step: quantity([100_000; 7]) },
        links: vec![Link {
            kind: LinkKind::Queue,
            messages: [(8, 3_000), (16_384, 4_000), (1 << 20, 68_000)].map(message).to_vec(),
        }],
    };
    profile.to_toml()
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let good = example();
    assert!(Profile::parse(&good).is_ok(), "{good}");
    let cases = [
        ("version = 1", "version = 2", "version 2: this program reads 1"),
        ("half-width = 0.02", "half-width = nan", "half-width is NaN"),
        ("half-width = 0.02", "half-width = -0.1", "half-width is -0.1"),
        ("cores = 2", "cores = 2\nspeed = 3", "unknown field `speed`"),
        ("cores = 2", "cores = -2", "-2"),
        ("heads = 4", "heads = 5", "hidden 64 is not a multiple of 5 heads"),
        ("hidden = 64", "hidden = 99999999999", "at most"),
        ("hidden = 64", "hidden = 0", "hidden must be at least 1"),
        ("element = \"f32\"", "element = \"f64\"", "it must be f32 or bf16"),
        ("samples = [10000", "samples = [-5", "-5 is not a time"),
        ("samples = [10000", "samples = [nan", "NaN"),
        ("samples = [10000", "samples = [99000000000000000", "is not a time"),
        ("samples = [10000", "samples = [10000000", "high is 12000, but the samples"),
        ("count = 7", "count = 8", "count is 8, but the samples give 7"),
        ("verdict = \"tight\"", "verdict = \"fine\"", "verdict is fine"),
        ("until-backward = 340000", "until-backward = -1", "-1 is not a size"),
        ("parameters = 50000", "parameters = 0", "0 parameters"),
        ("kind = \"queue\"", "kind = \"pigeon\"", "there is no link `pigeon`"),
        ("pairs = 1", "pairs = 0", "0 pairs"),
        ("per-mib = ", "per-mib = 1", "per-mib is 1"),
        ("[overhead]", "[underhead]", "underhead"),
    ];
    for (from, to, message) in cases {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from}");
        let error = Profile::parse(&text).unwrap_err();
        assert!(error.message.contains(message), "{to}: {}", error.message);
        let place = error.place.unwrap_or_else(|| panic!("{to}: no place"));
        assert!(place.end <= text.len(), "{to}");
        assert!(!error.cure.is_empty());
    }
}

#[test]
fn what_stands_beside_the_samples_may_be_left_out() {
    let good = example();
    let beside = ["median", "low", "high", "count", "outliers", "verdict", "latency", "per-mib"];
    let samples_only: String = good
        .lines()
        .filter(|line| !beside.iter().any(|key| line.starts_with(&format!("{key} = "))))
        .fold(String::new(), |text, line| text + line + "\n");
    assert!(samples_only.len() < good.len());
    assert_eq!(Profile::parse(&samples_only), Profile::parse(&good));
}
