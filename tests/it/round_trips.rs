//! Tests that every question survives a round trip through JSON and TOML.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::path::Path;
use std::str::FromStr;

use pipeline::{Bandwidth, Bytes, Limit, Nanos};
use planning::{Document, LengthsDocument, SetupDocument, SizesDocument};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use question::host::Context;
use question::keys::table::Set;
use question::keys::{Keys, Kind, Row};
use question::scenario::{Scenario, Setting};
use question::values::noise::{JitterOf, Slowdown, Stall};
use question::values::segments::SegmentKey;
use question::{encoder, failures, fsdp, replay, rl, search};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Keys with their values.
type Object = serde_json::Map<String, Value>;

/// Values of keys.
type Values = BoxedStrategy<Value>;

/// The values of the key of `row`.
fn of(row: &Row) -> Values {
    let word = |words: Vec<Value>| select(words).boxed();
    let one = match row.kind {
        Kind::Flag => any::<bool>().prop_map(Value::from).boxed(),
        Kind::Whole | Kind::Size => (0..=1u64 << 40).prop_map(Value::from).boxed(),
        Kind::Narrow => any::<u32>().prop_map(Value::from).boxed(),
        Kind::Number => (0.0..1e9f64).prop_map(Value::from).boxed(),
        Kind::Name | Kind::Path => word(["a.toml", "../b.csv", "1f1b"].map(Value::from).into()),
        Kind::Text(_) => word((row.examples)()),
        Kind::Word(_, words, _) => word(words.iter().copied().map(Value::from).collect()),
    };
    match row.is_list {
        true => {
            let many = prop::collection::vec(one.clone(), 1..4).prop_map(Value::from);
            prop_oneof![one, many].boxed()
        }
        false => one,
    }
}

/// Some of the keys of `T`, each with one of its values.
fn some<T: Set>() -> impl Strategy<Value = Object> {
    let one = |row: &'static Row| {
        let value = if row.required {
            of(row).prop_map(Some).boxed()
        } else {
            prop::option::of(of(row)).boxed()
        };
        value.prop_map(move |value| value.map(|value| (row.name.to_owned(), value)))
    };
    let keys: Vec<_> = T::rows().into_iter().map(one).collect();
    keys.prop_map(|keys| keys.into_iter().flatten().collect())
}

/// `written`, as `T` reads it.
fn read<T: DeserializeOwned>(written: &Value) -> Result<T, TestCaseError> {
    serde_json::from_value(written.clone())
        .map_err(|error| TestCaseError::fail(format!("{written}: {error}")))
}

/// Checks that `value` parses from its own text.
fn read_again<T>(value: &T) -> Result<(), TestCaseError>
where
    T: FromStr<Err: Debug> + Display + PartialEq + Debug,
{
    prop_assert_eq!(&value.to_string().parse::<T>().unwrap(), value);
    Ok(())
}

/// Checks that `question` deserializes from its own output.
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
    fn keys_return(written in some::<Keys>()) {
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
    fn scenarios_return(shared in some::<Keys>(), settings in prop::collection::vec(some::<Keys>(), 0..3), at: Index) {
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
        // The file that it would be is read as the same scenario, with its spans.
        let host = BTreeMap::new();
        let file = Scenario::parse(&Context::new(&host), Path::new(""), text).unwrap();
        prop_assert_eq!(json!(file), json!(scenario));
    }

    #[test]
    fn studies_of_packing_return(written in some::<fsdp::FsdpKeys>()) {
        returns(&read::<fsdp::FsdpKeys>(&written.into())?)?;
    }

    #[test]
    fn steps_of_reinforcement_learning_return(written in some::<rl::RlKeys>()) {
        returns(&read::<rl::RlKeys>(&written.into())?)?;
    }

    #[test]
    fn dead_workers_return(written in some::<failures::FailureKeys>()) {
        returns(&read::<failures::FailureKeys>(&written.into())?)?;
    }

    #[test]
    fn questions_of_encoders_return(written in some::<encoder::EncoderKeys>()) {
        returns(&read::<encoder::EncoderKeys>(&written.into())?)?;
    }

    #[test]
    fn searches_return(written in some::<search::SearchKeys>()) {
        returns(&read::<search::SearchKeys>(&written.into())?)?;
    }

    #[test]
    fn questions_of_traces_return(written in some::<replay::ReplayKeys>()) {
        returns(&read::<replay::ReplayKeys>(&written.into())?)?;
    }

    #[test]
    fn set_ups_return(written in some::<SetupDocument>()) {
        returns(&read::<SetupDocument>(&written.into())?)?;
    }

    #[test]
    fn sizes_of_models_return(written in some::<SizesDocument>()) {
        returns(&read::<SizesDocument>(&written.into())?)?;
    }

    #[test]
    fn lengths_of_documents_return(written in some::<LengthsDocument>()) {
        returns(&read::<LengthsDocument>(&written.into())?)?;
    }

    #[test]
    fn tables_of_searches_return(written in some::<planning::SearchDocument>()) {
        returns(&read::<planning::SearchDocument>(&written.into())?)?;
    }

    #[test]
    fn recipes_of_training_return(written in some::<planning::TrainingDocument>()) {
        returns(&read::<planning::TrainingDocument>(&written.into())?)?;
    }

    #[test]
    fn noise_of_plans_return(written in some::<planning::NoiseDocument>()) {
        returns(&read::<planning::NoiseDocument>(&written.into())?)?;
    }

    #[test]
    fn texts_return(one in 0..=1_000_000_000_000_000u64, other in 1..=1u64 << 40, part in 0.0..=1.0f64) {
        let (time, stage) = (Nanos(one), other % 1000);
        read_again(&time)?;
        read_again(&Bytes(one))?;
        read_again(&Bandwidth::new(other).unwrap())?;
        read_again(&Limit::TimesP { millionths: other })?;
        let [f, b] = [Nanos(one), Nanos(other)];
        for text in [format!("a={f}/{b}/{f}"), format!("gather@communication={f}/{b}")] {
            read_again(&text.parse::<SegmentKey>().unwrap())?;
        }
        read_again(&format!("{part}:{time}").parse::<Stall>().unwrap())?;
        for what in [format!("stage:{stage}"), format!("link:{stage}-{}", stage + 1)] {
            read_again(&format!("{what}={}", 1.0 + part).parse::<Slowdown>().unwrap())?;
        }
        for law in [format!("pass=normal:{}", part * 0.3), format!("hop=pareto:{}", part + 1.5)] {
            read_again(&law.parse::<JitterOf>().unwrap())?;
        }
    }

    #[test]
    fn questions_of_plans_return(
        tokens in 1.0..1e13f64,
        model in prop_oneof![some::<SizesDocument>().prop_map(Value::from), Just(json!("config.json"))],
        tables in (some::<planning::SearchDocument>(), some::<planning::TrainingDocument>(), some::<planning::NoiseDocument>()),
        devices in 1..4096u64,
    ) {
        let part = json!({ "machine": "h100", "devices": 8 });
        let (search, training, noise) = tables;
        let written = json!({
            "title": "Plans", "model": model, "sequence": 4096, "tokens": tokens, "batch": 7,
            "cluster": [{ "machine": "h100", "devices": devices }, { "parts": [part, part] }],
            "search": search, "training": training, "noise": noise,
        });
        returns(&read::<Document>(&written)?)?;
    }
}

#[test]
fn unset_keys_take_their_defaults() {
    assert_eq!(read::<Keys>(&json!({})).unwrap(), Keys::default());
    assert_eq!(json!(Keys::default()), json!({}));
    assert_eq!(read::<fsdp::FsdpKeys>(&json!({})).unwrap(), fsdp::FsdpKeys::default());
    assert_eq!(read::<rl::RlKeys>(&json!({})).unwrap(), rl::RlKeys::default());
    assert_eq!(read::<encoder::EncoderKeys>(&json!({})).unwrap(), encoder::EncoderKeys::default());
    assert_eq!(read::<search::SearchKeys>(&json!({})).unwrap(), search::SearchKeys::default());
    let failures = read::<failures::FailureKeys>(&json!({})).unwrap();
    assert_eq!(failures, failures::FailureKeys::default());
    assert_eq!(read::<replay::ReplayKeys>(&json!({})).unwrap(), replay::ReplayKeys::default());
}

#[test]
fn wrong_keys_are_named() {
    let wrong = |written: Value| read::<Scenario>(&written).unwrap_err().to_string();
    assert!(wrong(json!({ "stage": 4 })).contains("unknown field `stage`"));
    assert!(wrong(json!({ "forward": "12" })).contains("no unit"));
    assert!(wrong(json!({ "setting": [{ "hop": "1 parsec" }] })).contains("unknown unit `parsec`"));
    assert!(wrong(json!({ "setting": [] })).contains("at least one"));
    assert!(wrong(json!({ "jitter": "pass=cauchy:1" })).contains("is not a jitter"));
}

mod flags {
    use clap::Args;
    use question::keys::flags::Flags;
    use question::keys::table::Set;

    use super::*;

    #[test]
    fn a_study_without_flags_is_the_default() {
        assert_eq!(over(&Object::new(), fsdp::FsdpKeys::default()), fsdp::FsdpKeys::default());
        assert_eq!(over(&Object::new(), rl::RlKeys::default()), rl::RlKeys::default());
        assert_eq!(
            over(&Object::new(), encoder::EncoderKeys::default()),
            encoder::EncoderKeys::default()
        );
    }

    /// `keys` with those of `written` over them, given as flags.
    fn over<T: Set>(written: &Object, keys: T) -> T {
        parsed::<Flags<T>>(written).over(keys).unwrap()
    }

    /// The keys of `written`, given as flags.
    fn parsed<T: Args>(written: &Object) -> T {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let flags = written.iter().filter_map(|(name, value)| match value {
            Value::Bool(given) => given.then(|| format!("--{name}")),
            Value::Array(all) => {
                let all: Vec<String> = all.iter().map(text).collect();
                Some(format!("--{name}={}", all.join(",")))
            }
            one => Some(format!("--{name}={}", text(one))),
        });
        let command = T::augment_args(clap::Command::new("keys"));
        let flags = std::iter::once("keys".to_owned()).chain(flags);
        T::from_arg_matches(&command.try_get_matches_from(flags).unwrap()).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn flags_say_what_files_say(
            keys in some::<Keys>(),
            [study, other_study] in [some::<fsdp::FsdpKeys>(), some::<fsdp::FsdpKeys>()],
            [step, other_step] in [some::<rl::RlKeys>(), some::<rl::RlKeys>()],
            [front, other_front] in [some::<encoder::EncoderKeys>(), some::<encoder::EncoderKeys>()],
            changes in some::<replay::ReplayKeys>(),
        ) {
            prop_assert_eq!(parsed::<Keys>(&keys), read::<Keys>(&keys.into())?);
            // Over a file they say what a file says that has both; but what it switches on they cannot switch off.
            let both = |own: &Object, other: &Object| {
                let own = own.clone().into_iter().filter(|(_, value)| *value != Value::Bool(false));
                other.clone().into_iter().chain(own).collect::<Object>()
            };
            let file = read::<fsdp::FsdpKeys>(&other_study.clone().into())?;
            prop_assert_eq!(over(&study, file), read::<fsdp::FsdpKeys>(&both(&study, &other_study).into())?);
            prop_assert_eq!(over(&study, fsdp::FsdpKeys::default()), read::<fsdp::FsdpKeys>(&study.into())?);
            let file = read::<rl::RlKeys>(&other_step.clone().into())?;
            prop_assert_eq!(over(&step, file), read::<rl::RlKeys>(&both(&step, &other_step).into())?);
            prop_assert_eq!(over(&step, rl::RlKeys::default()), read::<rl::RlKeys>(&step.into())?);
            let file = read::<encoder::EncoderKeys>(&other_front.clone().into())?;
            prop_assert_eq!(over(&front, file), read::<encoder::EncoderKeys>(&both(&front, &other_front).into())?);
            prop_assert_eq!(over(&front, encoder::EncoderKeys::default()), read::<encoder::EncoderKeys>(&front.into())?);
            prop_assert_eq!(parsed::<replay::ReplayKeys>(&changes), read::<replay::ReplayKeys>(&changes.into())?);
        }
    }
}
