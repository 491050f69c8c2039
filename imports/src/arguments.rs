//! Arguments by name: of the commands of a script, of the dump at the start of a log, or of a tree of keys.

mod script;

use planning::models;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use question::quote;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::RUN;
use super::shell::{self, Batch, UNKNOWN};
use super::table::{Row, Table};

/// How a file writes names.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Style {
    /// `--num-layers`.
    #[default]
    Flags,
    /// `num_layers`, and dots between tables.
    Keys,
}

/// Arguments by name without dashes in front, each with its values; one that is only there has none. Names have
/// dashes within, however the file writes them.
#[derive(Default)]
pub(super) struct Arguments {
    values: BTreeMap<String, Vec<String>>,
    /// Names that are written as false or empty.
    off: BTreeSet<String>,
    /// Names that were asked for.
    read: RefCell<BTreeSet<String>>,
    /// What is known of them.
    table: Cell<Option<&'static Table>>,
    /// Names that a base of the file has set, which are not a choice of its author.
    inherited: BTreeSet<String>,
    /// Names whose values are not read, each with the line that sets it, and whether it may be a plain value.
    unknown: BTreeMap<String, (u64, bool)>,
    style: Style,
    /// Names of variables of a script that may have further arguments.
    open: Vec<String>,
    /// What the script asks of a scheduler.
    pub(super) batch: Batch,
    /// Training runs that the script launches with different arguments; the last is read.
    pub(super) launches: usize,
    /// Whether every argument that holds is among them, defaults too, as in a dump.
    pub(super) is_dump: bool,
}

/// An argument whose value cannot be used.
pub(super) struct Wrong {
    pub(super) name: String,
    pub(super) message: String,
    pub(super) cure: Option<String>,
}

impl Wrong {
    /// That argument `name` has the fault `message`.
    pub(super) fn new(name: &str, message: impl Into<String>) -> Self {
        Self { name: name.to_owned(), message: message.into(), cure: None }
    }

    /// The same with a hint.
    pub(super) fn hint(self, cure: impl Into<String>) -> Self {
        Self { cure: Some(cure.into()), ..self }
    }

    /// That argument `name` is needed.
    pub(super) fn missing(name: &str, cure: impl Into<String>) -> Self {
        Self::new(name, "it is missing").hint(cure)
    }
}

impl Arguments {
    /// Takes names as those of `table`, older ones too.
    pub(super) fn are_of(&self, table: &'static Table) {
        self.table.set(Some(table));
    }

    fn row(&self, name: &str) -> Option<&'static Row> {
        self.table.get()?.row(name)
    }

    /// The name under which the file has argument `name`.
    fn key<'n>(&self, name: &'n str) -> &'n str {
        let row = if self.is_there(name) { None } else { self.row(name) };
        let names = row.into_iter().flat_map(Row::names);
        let is_off = |name: &&str| self.off.contains(*name);
        let found = names.clone().find(|name| self.is_there(name));
        found.or_else(|| names.clone().find(is_off)).unwrap_or(name)
    }

    /// Whether the file has a value of an argument that it calls `name`.
    pub(super) fn is_there(&self, name: &str) -> bool {
        self.values.contains_key(name) || self.unknown.contains_key(name)
    }

    /// `base` with the keys of a `section` of the table that the file sets.
    pub(super) fn fill<T: Serialize + DeserializeOwned>(
        &self,
        section: &str,
        base: &T,
    ) -> Result<T, Wrong> {
        let wrong = |error: serde_json::Error| Wrong::new(section, error.to_string());
        let mut tree = serde_json::to_value(base).map_err(wrong)?;
        for (row, key) in self.table.get().into_iter().flat_map(|table| table.section(section)) {
            if let Some(value) = self.value_of(row)? {
                tree[key] = value;
            }
        }
        serde_json::from_value(tree).map_err(wrong)
    }

    /// What the key of `row` is set to.
    fn value_of(&self, row: &Row) -> Result<Option<Value>, Wrong> {
        let name = row.name();
        let word = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
        Ok(match row.value.as_str() {
            "has" => Some(self.has(name).into()),
            "either" => self.flag(name).map(Value::from),
            "number" => self.number(name)?.map(Value::from),
            "whole" => self.whole(name)?.map(Value::from),
            "positive" => self.positive(name)?.map(Value::from),
            "degree" => self.degree(name)?.map(Value::from),
            kind => match kind.strip_prefix('=') {
                Some(constant) => self.has(name).then(|| word(constant)),
                None => {
                    let text = self.text(name)?;
                    let own = text.as_ref().and_then(|text| row.choice(text));
                    own.filter(|own| !own.is_empty()).map(word)
                }
            },
        })
    }

    /// Takes all arguments about sizes of a model as read.
    pub(super) fn pass_model(&self) {
        let rows = self.table.get().into_iter().flat_map(|table| &table.rows);
        rows.filter(|row| row.is_of_model()).for_each(|row| self.note(row.name()));
    }

    /// A note on arguments that a plan does not model, and the names of those that nobody has asked for.
    pub(super) fn left_out(&self) -> (Option<String>, Vec<String>) {
        let of = |(name, value): (&String, String)| {
            let row = self.row(name).filter(|row| !row.cost.is_empty())?;
            let value = value.trim_matches(['\'', '"']);
            let written = match row.is_switch() || row.value == "value" {
                // Whether a base has it by default is not known.
                true if self.inherited.contains(name) => return None,
                true => self.written(name),
                false if row.is_harmless(value) => return None,
                false => format!("{} {}", self.written(name), quote::clip(value)),
            };
            Some(format!("{written} ({})", row.cost))
        };
        let on = self.values.iter().map(|(name, values)| (name, values.join(" ")));
        let is_on = |name: &&String| self.row(name).is_some_and(|row| row.value == "but true");
        let off = self.off.iter().filter(is_on).map(|name| (name, "false".to_owned()));
        let costs: Vec<String> = on.chain(off).filter_map(of).collect();
        let is_known = |name: &str| {
            let value = self.values.get(name).and_then(|values| values.first());
            let value = value.map_or("", String::as_str);
            self.row(name).is_some_and(|row| row.usage == "not modelled" || row.is_harmless(value))
        };
        // A dump has every argument there is, most of them by default.
        let unread = self.unread().into_iter().filter(|name| !self.is_dump && !is_known(name));
        let names = unread.map(|name| self.written(name)).collect();
        ((!costs.is_empty()).then(|| format!("not modelled: {}", costs.join(", "))), names)
    }

    /// Those of a dump: lines of a name, dots and a value.
    pub(super) fn of_dump(text: &str) -> Self {
        let line = |line: &str| {
            let (name, value) = dumped(line)?;
            match value {
                "None" | "False" | "" => None,
                "True" => Some((name.replace('_', "-"), Vec::new())),
                value => {
                    let list = value.strip_prefix('[').and_then(|list| list.strip_suffix(']'));
                    let words = |list: &str| {
                        let all = list.split(',').map(|word| word.trim().trim_matches(['\'', '"']));
                        all.map(str::to_owned).collect()
                    };
                    let is_words = list.is_some_and(|list| !list.contains('['));
                    let values = match list.filter(|_| is_words) {
                        Some(list) => words(list),
                        None => vec![value.to_owned()],
                    };
                    Some((name.replace('_', "-"), values))
                }
            }
        };
        let values = text.lines().filter_map(line).collect();
        Self { values, is_dump: true, ..Self::default() }
    }

    /// Whether the name of any argument begins with `prefix`.
    pub(super) fn has_prefix(&self, prefix: &str) -> bool {
        self.values.keys().any(|name| name.starts_with(prefix))
    }

    /// Whether argument `name` is written as one that is off, in the words of Python.
    pub(super) fn is_none(&self, name: &str) -> bool {
        let value = self.values.get(name).and_then(|values| values.first());
        value.is_some_and(|value| {
            matches!(value.as_str(), "False" | "false" | "None" | "null" | "[]")
        })
    }

    /// The value of argument `name` as it is written, with marks of parts that only a run knows.
    pub(super) fn raw(&self, name: &str) -> Option<&str> {
        self.note(name);
        self.values.get(self.key(name))?.first().map(String::as_str)
    }

    /// Those of a tree of keys: names of tables and keys, with dots between. A list has its parts as values.
    pub(super) fn of_tree(tree: &Value) -> Self {
        let mut own = Self { style: Style::Keys, ..Self::default() };
        own.add_tree("", tree);
        own
    }

    /// Adds the keys of `tree` under `prefix`, over those that are there.
    pub(super) fn add_tree(&mut self, prefix: &str, tree: &Value) {
        if let Value::Object(table) = tree {
            for (key, value) in table {
                let key = key.replace('_', "-");
                let name = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
                self.add_tree(&name, value);
            }
            return;
        }
        let values = match tree {
            Value::Null | Value::Bool(false) => None,
            Value::Bool(true) => Some(Vec::new()),
            Value::Array(parts) => Some(parts.iter().map(scalar).collect()),
            other => Some(vec![scalar(other)]),
        };
        self.set(prefix, values);
    }

    /// Sets argument `name`; without values it is off.
    pub(super) fn set(&mut self, name: &str, values: Option<Vec<String>>) {
        self.inherited.remove(name);
        self.unknown.remove(name);
        match values {
            Some(values) => {
                self.off.remove(name);
                self.values.insert(name.to_owned(), values);
            }
            None => {
                self.values.remove(name);
                self.off.insert(name.to_owned());
            }
        }
    }

    /// Takes the value of argument `name` as not known, for `line` sets it.
    pub(super) fn set_unknown(&mut self, name: &str, line: u64, is_plain: bool) {
        self.set(name, None);
        self.off.remove(name);
        self.unknown.insert(name.to_owned(), (line, is_plain));
    }

    /// Whether the file sets argument `name`, if not to a value that is read.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.values.contains_key(name) || self.off.contains(name) || self.unknown.contains_key(name)
    }

    /// The first argument that was asked for and whose value is not read.
    pub(super) fn unknown(&self) -> Option<(&str, u64)> {
        let read = self.read.borrow();
        let asked = self.unknown.iter().filter(|(name, _)| read.contains(*name));
        asked.min_by_key(|(_, (line, _))| *line).map(|(name, (line, _))| (name.as_str(), *line))
    }

    /// A note on the others, which nobody asked for.
    pub(super) fn unread_values(&self) -> Option<String> {
        let plain = self.unknown.iter().filter(|(_, (_, is_plain))| *is_plain);
        let is_harmless = |name: &str| self.row(name).is_some_and(|row| row.is_harmless(""));
        let all = plain.filter(|(name, _)| !is_harmless(name));
        let named = |(name, of): (&String, &(u64, bool))| {
            format!("{} in line {}", self.written(name), of.0)
        };
        let names: Vec<String> = all.map(named).collect();
        (!names.is_empty()).then(|| format!("values that are not read: {}", names.join(", ")))
    }

    /// Turns argument `name` on where the file says neither that it is on nor off.
    pub(super) fn default_on(&mut self, name: &str) {
        if !self.is_set(name) {
            self.set(name, Some(Vec::new()));
            self.inherited.insert(name.to_owned());
        }
    }

    /// Takes all that is there so far as set by a base of the file.
    pub(super) fn inherit(&mut self) {
        self.inherited = self.values.keys().cloned().collect();
    }

    /// Argument `name` as the file writes it.
    pub(super) fn written(&self, name: &str) -> String {
        let name = self.key(name);
        match self.style {
            Style::Flags => format!("--{name}"),
            Style::Keys => name.replace('-', "_"),
        }
    }

    /// Whether the file is a table of keys, not a command.
    pub(super) fn is_keys(&self) -> bool {
        self.style == Style::Keys
    }

    /// Whether argument `name` is written as false or empty.
    pub(super) fn is_off(&self, name: &str) -> bool {
        self.note(name);
        self.off.contains(self.key(name))
    }

    /// Whether argument `name` is true, if the file says so either way.
    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        match (self.has(name), self.is_off(name)) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        }
    }

    /// Whether argument `name` is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.note(name);
        self.values.contains_key(self.key(name))
    }

    fn note(&self, name: &str) {
        #[cfg(test)]
        assert!(self.table.get().is_none() || self.row(name).is_some(), "{name} is in no row");
        self.read.borrow_mut().insert(self.key(name).to_owned());
    }

    /// All values of argument `name`.
    pub(super) fn all(&self, name: &str) -> Result<Vec<String>, Wrong> {
        self.first(name, usize::MAX)
    }

    /// The first values of argument `name`, at most so many as `most`.
    fn first(&self, name: &str, most: usize) -> Result<Vec<String>, Wrong> {
        self.note(name);
        let values = self.values.get(self.key(name)).into_iter().flatten().take(most);
        let values: Vec<String> = values.cloned().collect();
        let Some(value) = values.iter().find(|value| value.contains(UNKNOWN)) else {
            return Ok(values);
        };
        let variable = shell::unknowns(value).0.first().copied().unwrap_or_default().to_owned();
        let (message, cure) = self.unknown_in_words(&variable);
        Err(Wrong::new(name, message).hint(cure))
    }

    /// That only a run knows `variable`, and what helps.
    pub(super) fn unknown_in_words(&self, variable: &str) -> (String, String) {
        let (words, is_name) = shell::in_words(variable);
        let message = format!("only a run of the {} knows {}", self.kind(), quote::clip(&words));
        let cure = match is_name {
            true => format!("give it: --set {}=VALUE, or {RUN}", quote::clip(&words)),
            false => format!("write its value in the {}, or {RUN}", self.kind()),
        };
        (message, cure)
    }

    /// A word for the file.
    pub(super) fn kind(&self) -> &'static str {
        match self.style {
            Style::Flags => "script",
            Style::Keys => "file",
        }
    }

    /// The one value of argument `name`.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, Wrong> {
        Ok(self
            .first(name, 1)?
            .into_iter()
            .next()
            .map(|value| value.trim_matches(['\'', '"']).to_owned()))
    }

    /// The same as a whole number.
    pub(super) fn whole(&self, name: &str) -> Result<Option<u64>, Wrong> {
        let parsed = |value: String| {
            let clean = value.replace('_', "");
            // Tables may write whole numbers as 1.0.
            let clean = clean.strip_suffix(".0").unwrap_or(&clean);
            let wrong =
                || Wrong::new(name, format!("{} is not a whole number", quote::clip(&value)));
            clean.parse::<u64>().map_err(|_| wrong())
        };
        self.text(name)?.map(parsed).transpose()
    }

    /// The same where it is more than one.
    pub(super) fn degree(&self, name: &str) -> Result<Option<u64>, Wrong> {
        Ok(self.whole(name)?.filter(|degree| *degree > 1))
    }

    /// The same where it is more than none; a negative number is none.
    pub(super) fn positive(&self, name: &str) -> Result<Option<u64>, Wrong> {
        match self.text(name)?.is_some_and(|text| text.starts_with('-')) {
            true => Ok(None),
            false => Ok(self.whole(name)?.filter(|count| *count > 0)),
        }
    }

    /// The same as a number.
    pub(super) fn number(&self, name: &str) -> Result<Option<f64>, Wrong> {
        let parsed = |value: String| {
            let number = value.parse::<f64>().ok().filter(|number| number.is_finite());
            let wrong = || Wrong::new(name, format!("{} is not a number", quote::clip(&value)));
            number.ok_or_else(wrong)
        };
        self.text(name)?.map(parsed).transpose()
    }

    /// Arguments of the file itself that nobody has asked for.
    pub(super) fn unread(&self) -> Vec<&str> {
        let read = self.read.borrow();
        let is_left = |name: &&String| !read.contains(*name) && !self.inherited.contains(*name);
        self.values.keys().filter(is_left).map(String::as_str).collect()
    }
}

/// A value that is not a table, as text.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The name and the value of a line of a dump, such as `  num_layers ....... 96`, also behind a rank in brackets.
pub(super) fn dumped(line: &str) -> Option<(&str, &str)> {
    let (left, value) =
        line.split_once(" ..").map(|(left, rest)| (left, rest.trim_start_matches('.').trim()))?;
    let name = left.rsplit([' ', ':']).next()?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some((name, value))
}

/// That nobody knows the model `named` by the argument `name`.
pub(crate) fn unknown_model(name: &str, named: &str) -> Wrong {
    Wrong::new(name, format!("the sizes of {} are not known", quote::clip(named)))
        .hint(format!("name a model of its sizes with --model, {}", models::NAMES))
}
