//! Each key of each kind of question, by file and by flag.

use std::collections::BTreeSet;
use std::fmt::Debug;

use clap::{Args, Command, FromArgMatches};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Flags;
use crate::encoder::EncoderKeys;
use crate::failures::FailureKeys;
use crate::fsdp::FsdpKeys;
use crate::keys::table::{Row, Set};
use crate::keys::{Keys, Kind};
use crate::rl::RlKeys;
use crate::scenario::Scenario;

/// A set of keys that files have.
trait Asked: Set + Serialize + DeserializeOwned + Clone + PartialEq + Debug {}
impl<T: Set + Serialize + DeserializeOwned + Clone + PartialEq + Debug> Asked for T {}

/// A value of a key, which is not its default.
fn sample(row: &Row) -> Value {
    match row.kind {
        Kind::Flag => json!(true),
        Kind::Whole | Kind::Narrow | Kind::Size => {
            let (least, most) = row.range.unwrap_or((0, u64::MAX));
            json!(7.clamp(least, most))
        }
        Kind::Number => json!(0.25),
        Kind::Name | Kind::Path => json!("x"),
        Kind::Text(_) => (row.examples)().pop().unwrap(),
        Kind::Word(_, names, _) => json!(names.last()),
    }
}

fn flag(row: &Row, value: &Value) -> String {
    match value {
        Value::Bool(_) => format!("--{}", row.name),
        Value::String(text) => format!("--{}={text}", row.name),
        other => format!("--{}={other}", row.name),
    }
}

fn parsed<F: Args + FromArgMatches>(flags: &[String]) -> F {
    let command = F::augment_args(Command::new("test").no_binary_name(true));
    F::from_arg_matches(&command.try_get_matches_from(flags).unwrap()).unwrap()
}

fn check<T: Asked>(over: fn(&[String], T) -> T) {
    for row in T::rows() {
        let value = sample(row);
        let mut required: serde_json::Map<_, _> = T::rows()
            .into_iter()
            .filter(|row| row.required)
            .map(|row| (row.name.to_owned(), sample(row)))
            .collect();
        required.insert(row.name.to_owned(), value.clone());
        let file: T = toml::from_str(&toml::to_string(&required).unwrap()).unwrap();
        let at = T::rows().iter().position(|one| one.name == row.name).unwrap();
        assert!(file.fields()[at].is_given(), "{}", row.name);
        assert!(serde_json::to_value(&file).unwrap().get(row.name).is_some(), "{}", row.name);
        assert_eq!(over(&[], file.clone()), file, "{} without flags", row.name);
        let flags = [flag(row, &value)];
        assert_eq!(over(&flags, T::default()), file, "{flags:?}");
        assert_eq!(over(&flags, file.clone()), file, "{flags:?} over itself");
    }
}

#[test]
fn a_key_is_the_same_by_file_and_by_flag_and_no_absent_flag_drops_it() {
    fn over<T: Set>(flags: &[String], file: T) -> T {
        parsed::<Flags<T>>(flags).over(file).unwrap()
    }
    check::<EncoderKeys>(over);
    check::<FailureKeys>(over);
    check::<FsdpKeys>(over);
    check::<RlKeys>(over);
    check::<Keys>(|flags, file| {
        let mut scenario = Scenario::from(file);
        scenario.settings[0].overrule(parsed(flags));
        scenario.settings.remove(0).keys
    });
}

#[test]
fn examples_keep_all_their_keys() {
    fn keys<T: Asked>(text: &str) -> BTreeSet<String> {
        let keys: T = toml::from_str(text).unwrap();
        names(&serde_json::to_value(parsed::<Flags<T>>(&[]).over(keys).unwrap()).unwrap())
    }
    fn names(table: &Value) -> BTreeSet<String> {
        table.as_object().unwrap().keys().cloned().collect()
    }
    fn scenario(text: &str) -> BTreeSet<String> {
        let scenario: Scenario = toml::from_str(text).unwrap();
        names(&serde_json::to_value(&scenario).unwrap())
    }
    type Read = fn(&str) -> BTreeSet<String>;
    let read: [(_, Read); 5] = [
        (scenarios::ENCODERS, keys::<EncoderKeys>),
        (scenarios::FAILURES, keys::<FailureKeys>),
        (scenarios::FSDP, keys::<FsdpKeys>),
        (scenarios::RL, keys::<RlKeys>),
        (scenarios::EXAMPLES, scenario),
    ];
    for (folder, read) in read {
        for (name, text) in folder.files() {
            let written: Value = toml::from_str(text).unwrap();
            let lost: Vec<_> = names(&written).difference(&read(text)).cloned().collect();
            // Where figures come from is for readers of the file.
            assert!(lost.iter().all(|key| key == "source"), "{name}: {lost:?}");
        }
    }
}
