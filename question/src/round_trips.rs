//! That every question that is written is read again as the same question, as JSON and as TOML.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

use pipeline::{Bandwidth, Bytes, Limit, Nanos};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::strategy::Union;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::hardware::keys::HardwareKeys;
use crate::host::Context;
use crate::key_set::Object;
use crate::keys::Keys;
use crate::scenario::{Scenario, Setting};
use crate::{fsdp, plan, replay, search};

/// Values of keys.
type Values = BoxedStrategy<Value>;

fn number(most: u64) -> Values {
    (0..=most).prop_map(Value::from).boxed()
}

fn time() -> Values {
    (0..=1_000_000_000_000_000u64).prop_map(|nanos| Nanos(nanos).to_string().into()).boxed()
}

fn size() -> Values {
    (0..=1u64 << 60).prop_map(|bytes| Bytes(bytes).to_string().into()).boxed()
}

fn rate() -> Values {
    let rate = |rate| Bandwidth::new(rate).unwrap().to_string().into();
    (1..=1_000_000_000_000_000u64).prop_map(rate).boxed()
}

fn limit() -> Values {
    let times_p =
        (0..=1u64 << 40).prop_map(|millionths| Limit::TimesP { millionths }.to_string().into());
    prop_oneof![times_p, size()].boxed()
}

/// A text that holds one number or more, each from 0 to 1.
fn text(write: fn(f64, u64) -> String) -> Values {
    (0.0..=1.0f64, 0..1_000u64).prop_map(move |(part, whole)| write(part, whole).into()).boxed()
}

fn word(words: &'static [&'static str]) -> Values {
    select(words).prop_map(Value::from).boxed()
}

fn list(of: Values) -> Values {
    let many = prop::collection::vec(of.clone(), 1..4).prop_map(Value::from);
    prop_oneof![of, many].boxed()
}

fn slowdown() -> Values {
    let forms: [fn(f64, u64) -> String; 3] = [
        |part, stage| format!("stage:{stage}={part}"),
        |part, device| format!("device:{device}={part}"),
        |part, link| format!("link:{link}-{}={part}", link + 1),
    ];
    Union::new(forms.map(text)).boxed()
}

fn jitter() -> Values {
    let forms: [fn(f64, u64) -> String; 4] = [
        |part, _| format!("pass=normal:{}", part * 0.3),
        |part, _| format!("hop=lognormal:{part}"),
        |part, _| format!(" pass = pareto: {}", part + 1.5),
        |_, file| format!("hop=samples:jitter-{file}.txt"),
    ];
    Union::new(forms.map(text)).boxed()
}

fn stall() -> Values {
    text(|part, length| format!("{part}:{}", Nanos(length)))
}

/// The values of the key `name` of a scenario; nothing for a key that is unknown here.
#[allow(clippy::too_many_lines)] // One line for each key.
fn of_key(name: &str) -> Option<Values> {
    Some(match name {
        "schedule" => list(word(&["1f1b", "zb-h1", "all", "mine.txt"])),
        "profile" | "slowdown-profile" | "chain-file" | "cluster" => {
            word(&["a.toml", "../b.csv", "dgx-a100"])
        }
        "forward"
        | "backward"
        | "backward-input"
        | "backward-weight"
        | "recompute-time"
        | "recompute-again"
        | "offload-time"
        | "vocab-s"
        | "vocab-t"
        | "vocab-input-forward"
        | "vocab-input-backward"
        | "gather"
        | "reduce"
        | "hop" => list(time()),
        "overhead" | "vocab-broadcast" | "exchange" | "optimizer" | "rollback" => time(),
        "memory-limit" => list(limit()),
        "activation"
        | "activation-until-weight"
        | "activation-kept"
        | "vocab-activation"
        | "communication-buffers"
        | "parameter-bytes"
        | "resident"
        | "device-memory" => list(size()),
        "message" => size(),
        "recompute" => list(
            prop_oneof![word(&["none", "full", " selective "]), text(|_, count| count.to_string())]
                .boxed(),
        ),
        "offload-ratio" => prop_oneof![
            (0..=1000u64).prop_map(Value::from),
            text(|part, whole| format!("{}", part * whole as f64)),
        ]
        .boxed(),
        "host-bandwidth" => rate(),
        "vocab-tflops" => (0.0..1e9f64).prop_map(Value::from).boxed(),
        "vocab-barrier" => {
            prop_oneof![time(), text(|_, nanos| format!("{},{}", Nanos(nanos), Nanos(nanos + 7)))]
                .boxed()
        }
        "layout" => word(&["Et*4|(t*4|)*14tmL", "E||t,t|*3L", "E(t,tt|)*2L"]),
        "chain" | "chain-dense" | "chain-head" | "chain-tail" | "chain-mtp" => list(segment()),
        "interleaving" => {
            word(&["none", "published", "best", "cB aF eB dF eW dB eF cF aB aW", "aF  aB"])
        }
        "weight-gradient" => word(&["delayed", "with-backward"]),
        "lone-backward" => word(&["overlapped", "in-one-piece"]),
        "contention" | "sharding-contention" => {
            word(&["megatron-hopper", "0.35,1.31", "0, 1", "0.125,2"])
        }
        "chain-measured" => word(&["alone", "beside"]),
        "sharding" => word(&["none", "optimizer", "gradients", " fsdp"]),
        "reshard" => word(&["never", "after-use"]),
        "slowdown" => list(slowdown()),
        "jitter" => list(jitter()),
        "stall" => stall(),
        _ => return of_hardware(name).or_else(|| count(name)),
    })
}

/// Segments of a layer.
fn segment() -> Values {
    let written = (0..5usize, 0..=1u64 << 40, 0..=1u64 << 40).prop_map(|(form, one, other)| {
        let ([f, b], [sent, back]) = ([Nanos(one), Nanos(other)], [Bytes(one), Bytes(other)]);
        Value::from(match form {
            0 => format!("attention={f}/{b}/{f}"),
            1 => format!("dispatch={f}/{b}"),
            2 => format!("combine={sent}/{back}"),
            3 => format!("gather@communication={f}/{b}"),
            _ => format!("dispatch@compute={f}/{b}/{b}"),
        })
    });
    written.boxed()
}

/// The values of the key `name` of the hardware; nothing for a key that is unknown here.
fn of_hardware(name: &str) -> Option<Values> {
    Some(match name {
        "seating" => prop_oneof![
            word(&["contiguous", "across-nodes"]),
            text(|_, device| format!("0,{device}, 2"))
        ]
        .boxed(),
        "sharing" => word(&["fair", "queue"]),
        "protocol" => {
            prop_oneof![word(&["eager"]), text(|_, ahead| format!("rendezvous:{ahead}"))].boxed()
        }
        "communication" => word(&["overlapped", "blocking"]),
        "boundary" => prop_oneof![
            word(&["barrier", "asynchronous", "post-validation"]),
            text(|part, _| format!("post-validation:{part}"))
        ]
        .boxed(),
        "gradient-reduction" => prop_oneof![
            time(),
            text(|_, nanos| format!("{}:overlapped", Nanos(nanos))),
            text(|_, nanos| format!("{}:exposed", Nanos(nanos)))
        ]
        .boxed(),
        "offload" => text(|part, _| part.to_string()),
        "when-full" => word(&["report", "wait"]),
        _ => return None,
    })
}

/// The values of the key `name` that is a whole number; nothing for a key that is unknown here.
fn count(name: &str) -> Option<Values> {
    Some(match name {
        "stages"
        | "microbatches"
        | "chunks"
        | "group"
        | "segments"
        | "layers"
        | "hidden"
        | "heads"
        | "seq"
        | "layers-per-stage"
        | "microbatch-size"
        | "devices-per-host-link"
        | "offload-chunks"
        | "dense-layers"
        | "expert-parallel"
        | "prefetch"
        | "seed"
        | "replicas"
        | "vocabulary"
        | "bytes-per-parameter" => number(1 << 40),
        "steps" | "reload-ahead" => number(u64::from(u32::MAX)),
        _ => return None,
    })
}

/// Some of `all` keys, each with one of its values.
fn some(all: Vec<(&'static str, Values)>) -> impl Strategy<Value = Object> {
    let one = |(name, values): (&'static str, Values)| {
        prop::option::of(values).prop_map(move |value| value.map(|value| (name.to_owned(), value)))
    };
    let keys: Vec<_> = all.into_iter().map(one).collect();
    keys.prop_map(|keys| keys.into_iter().flatten().collect())
}

fn keys() -> impl Strategy<Value = Object> {
    let names = Keys::NAMES.iter().chain(HardwareKeys::NAMES);
    some(names.map(|name| (*name, of_key(name).unwrap_or_else(|| panic!("{name}")))).collect())
}

fn fsdp_keys() -> impl Strategy<Value = Object> {
    let lengths = word(&["uniform:10-20", "lognormal:100:0.5:900", " longtail:8-64:1", "file:a"]);
    some(vec![
        ("devices", list(number(1000))),
        ("minibatch-size", list(number(1000))),
        ("packing-ratio", list(text(|part, whole| format!("{}", 1.0 + part * whole as f64)))),
        ("max-tokens", list(number(1 << 40))),
        ("lengths", lengths),
        ("cost", word(&["7b", "1.5B", "linear:20us", "quadratic:1.98,2.61"])),
        ("method", list(word(&["local-sort", "lb-micro", "lb-mini"]))),
        ("communication", list(word(&["collectives", "on-demand"]))),
        ("minibatches", number(1000)),
        ("seed", number(1 << 60)),
        ("layers", number(1000)),
        ("parameters", size()),
        ("bandwidth", rate()),
        ("latency", time()),
        ("owners", number(1000)),
        ("no-overlap", any::<bool>().prop_map(Value::from).boxed()),
        ("slowdown", list(slowdown())),
        ("jitter", jitter()),
        ("stall", stall()),
    ])
}

/// `written`, as `T` reads it.
fn read<T: DeserializeOwned>(written: &Value) -> Result<T, TestCaseError> {
    serde_json::from_value(written.clone())
        .map_err(|error| TestCaseError::fail(format!("{written}: {error}")))
}

/// Checks that `question` is read again from what it writes.
fn returns<T>(question: &T) -> Result<(), TestCaseError>
where
    T: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let text = serde_json::to_string(question).unwrap();
    prop_assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), question, "{}", text);
    let text = toml::to_string(question).unwrap();
    let again = toml::from_str::<T>(&text);
    prop_assert_eq!(again.as_ref(), Ok(question), "{}", text);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn keys_return(written in keys()) {
        let keys: Keys = read(&written.clone().into())?;
        let given: Vec<&str> = keys.given().chain(keys.hardware.given()).collect();
        prop_assert_eq!(given.len(), written.len());
        returns(&keys)?;
        returns(&keys.hardware)?;
        // Exactly the keys that are given are written.
        let again: Object = serde_json::from_value(json!(keys)).unwrap();
        prop_assert!(again.keys().eq(written.keys()));
    }

    #[test]
    fn scenarios_return(shared in keys(), settings in prop::collection::vec(keys(), 0..3), at: Index) {
        let mut written = shared;
        written.insert("title".to_owned(), "A title".into());
        if !settings.is_empty() {
            let names = ["near", "far"];
            let mut settings: Vec<Object> = settings;
            let named = at.index(settings.len());
            settings[named].insert("name".to_owned(), names[at.index(2)].into());
            settings[named].insert("published".to_owned(), json!({ "1f1b": "0.2585" }));
            written.insert("setting".to_owned(), settings.into());
        }
        let scenario: Scenario = read(&written.into())?;
        let text = toml::to_string(&scenario).unwrap();
        let again: Scenario = toml::from_str(&text).unwrap();
        let parts = |scenario: &Scenario| {
            let parts = |setting: &Setting| {
                (setting.name.clone(), setting.keys.clone(), setting.published.clone())
            };
            scenario.settings.iter().map(parts).collect::<Vec<_>>()
        };
        prop_assert_eq!(parts(&again), parts(&scenario), "{}", text);
        prop_assert_eq!(&again.title, &scenario.title);
        prop_assert_eq!(json!(again), json!(scenario));
        // The file that it would be is read as the same scenario, with its places.
        let host = BTreeMap::new();
        let file = Scenario::parse(&Context::new(&host), Path::new(""), text).unwrap();
        prop_assert_eq!(json!(file), json!(scenario));
    }

    #[test]
    fn studies_of_packing_return(written in fsdp_keys()) {
        let keys: fsdp::Keys = read(&written.into())?;
        returns(&keys)?;
    }

    #[test]
    fn searches_return(
        limits in list(limit()),
        time in time(),
        held in size(),
        effort: u64,
        ilp: bool,
    ) {
        let written = json!({
            "memory-limits": limits, "time-limit": time, "effort": effort, "ilp": ilp,
            "placement": "v", "objective": "makespan", "vary": ["layers", "recompute", "offload", "pairs"], "max-chunks": 4, "mtp-layers": 1,
            "resident-layer": held, "resident-head": held, "activation-tail": held,
        });
        returns(&read::<search::Keys>(&written)?)?;
    }

    #[test]
    fn questions_of_traces_return(limits in list(limit()), split in 0.0..1.0f64) {
        let written = json!({
            "what-if": ["free-links", "balanced"], "schedule": "zb-h1", "memory-limit": limits,
            "backward-split": split, "chunks": 2,
        });
        returns(&read::<replay::Keys>(&written)?)?;
    }

    #[test]
    fn questions_of_plans_return(
        tokens in 1.0..1e13f64,
        batch in 1..10_000u64,
        memory in size(),
        (stall, slowdown) in (stall(), list(slowdown())),
        devices in list(number(4096)),
    ) {
        let sizes = json!({ "layers": 32, "hidden": 4096, "heads": 32, "vocabulary": 32_000 });
        for model in [json!("config.json"), sizes] {
            let part = json!({ "machine": "h100", "devices": 8 });
            let written = json!({
                "title": "Plans", "model": model, "sequence": 4096, "tokens": tokens, "batch": batch,
                "cluster": [{ "machine": "h100", "devices": devices }, { "parts": [part, part] }],
                "search": { "tensor": 8, "memory-cap": memory, "schedule": ["1f1b", "zb-v"] },
                "training": { "reserved": memory, "sequence-parallel": false },
                "noise": { "stall": stall, "slowdown": slowdown, "straggler": "0.001:1.5" },
            });
            returns(&read::<plan::Document>(&written)?)?;
        }
    }
}

#[test]
fn unset_keys_take_their_defaults() {
    assert_eq!(read::<Keys>(&json!({})).unwrap(), Keys::default());
    assert_eq!(json!(Keys::default()), json!({}));
    assert_eq!(read::<fsdp::Keys>(&json!({})).unwrap(), fsdp::Keys::default());
    assert_eq!(read::<search::Keys>(&json!({})).unwrap(), search::Keys::default());
    assert_eq!(read::<replay::Keys>(&json!({})).unwrap(), replay::Keys::default());
}

#[test]
fn wrong_keys_are_named() {
    let wrong = |written: Value| read::<Scenario>(&written).unwrap_err().to_string();
    assert!(wrong(json!({ "stage": 4 })).contains("unknown field `stage`"));
    assert!(wrong(json!({ "forward": "12" })).contains("no unit"));
    assert!(wrong(json!({ "setting": [{ "hop": "1 parsec" }] })).contains("unknown unit `parsec`"));
    assert!(wrong(json!({ "setting": [] })).contains("at least one"));
    assert!(wrong(json!({ "jitter": "pass=cauchy:1" })).contains("is no jitter"));
}

#[cfg(feature = "clap")]
mod flags {
    use clap::{Args, FromArgMatches};

    use super::*;

    #[test]
    fn a_study_without_flags_is_the_default() {
        let command = fsdp::Keys::augment_args(clap::Command::new("fsdp"));
        let flags = command.try_get_matches_from(["fsdp"]).unwrap();
        assert_eq!(fsdp::Keys::from_arg_matches(&flags).unwrap(), fsdp::Keys::default());
    }
}
