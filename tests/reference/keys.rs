//! The keys of each question, from its schema; in groups as the help has them.

use clap::CommandFactory;
use serde_json::{Map, Value};

use super::markdown::{anchor, code, prose, sentence, table};
use super::{forms, schemas};

/// The command whose help groups the keys of a question.
fn command_of(question: &str) -> &str {
    match question {
        "scenario" => "simulate",
        other => other,
    }
}

/// Questions whose keys have a page; those of all others are on the page of their command.
pub const WITH_PAGE: [&str; 2] = ["scenario", "plan"];

/// The keys of the command `name` that have no page of their own.
fn of_command(name: &str) -> Option<Value> {
    let has_page = WITH_PAGE.contains(&name) || name == "sweep";
    schemas::named(name).ok().filter(|_| !has_page)
}

/// The flag `spelling` of the command `name`, if it is a key of its question.
pub fn flag(name: &str, key: &str, spelling: &str) -> Option<String> {
    let schema = of_command(name)?;
    let property = schema["properties"].get(key)?;
    Some(from_commands(&Page { schema: &schema }.key(spelling, key, property, &schema)))
}

/// An example of a file for the command `name`, and the keys that only files have.
pub fn in_files(name: &str, flags: &[&str]) -> String {
    let Some(schema) = of_command(name) else { return String::new() };
    let page = Page { schema: &schema };
    let mut text = format!("## As a file\n\n{}", page.example());
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    for (key, property) in properties.iter().filter(|(key, _)| !flags.contains(&key.as_str())) {
        text += &page.key(key, key, property, &schema);
    }
    from_commands(&(text + &page.tables("", properties)))
}

/// `text` with its links, as the pages of commands write them.
fn from_commands(text: &str) -> String {
    text.replace("](forms.md", "](../forms.md")
}

/// Keys of the question `name`, group by group; those that no flag sets come last.
pub fn of(name: &str) -> Result<String, String> {
    let schema = schemas::named(name)?;
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    let cli = crate::Cli::command();
    let command = cli.find_subcommand(command_of(name)).ok_or("there is no such command")?;
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for argument in command.get_arguments() {
        let Some(key) = argument.get_long().filter(|key| properties.contains_key(*key)) else {
            continue;
        };
        let heading = argument.get_help_heading().unwrap_or("Keys");
        match groups.iter_mut().find(|(known, _)| known == heading) {
            Some((_, keys)) => keys.push(key),
            None => groups.push((heading.to_owned(), vec![key])),
        }
    }
    let flags: Vec<&str> = groups.iter().flat_map(|(_, keys)| keys.clone()).collect();
    let files: Vec<&str> =
        properties.keys().map(String::as_str).filter(|key| !flags.contains(key)).collect();
    let is_alone = groups.is_empty();
    if !files.is_empty() {
        let heading = if is_alone { "Keys" } else { "In files alone" };
        groups.push((heading.to_owned(), files));
    }
    let page = Page { schema: &schema };
    let mut text = page.example();
    for (heading, keys) in groups {
        text += &format!("## {heading}\n\n");
        for key in keys {
            text += &page.key(key, key, &properties[key], &schema);
        }
    }
    text += &page.tables("", properties);
    Ok(text)
}

/// A schema on a page.
struct Page<'a> {
    schema: &'a Value,
}

impl Page<'_> {
    fn example(&self) -> String {
        let examples = self.schema["examples"].as_array();
        let example = examples.and_then(|all| all.first());
        let text = example.map(|one| toml::to_string(one).unwrap_or_default());
        text.map_or(String::new(), |text| format!("```toml\n{text}```\n\n"))
    }

    fn definition(&self, schema: &Value) -> Option<(&str, &Value)> {
        let reference = schema["$ref"].as_str()?;
        let (name, _) =
            self.schema["definitions"].as_object()?.get_key_value(forms::name_of(reference))?;
        Some((name, &self.schema["definitions"][name.as_str()]))
    }

    /// The schema of a key itself, where it is defined elsewhere.
    fn resolved<'b>(&'b self, schema: &'b Value) -> &'b Value {
        match self.definition(schema) {
            Some((name, definition)) if name.starts_with("key.") => definition,
            _ => schema,
        }
    }

    /// The form of a key's values, in words.
    fn form(&self, schema: &Value) -> String {
        forms::of(schema, &self.schema["definitions"])
    }

    /// A row for each name that the values of a key can have, where names have meanings.
    fn names(&self, schema: &Value) -> String {
        let inner = schema["allOf"].as_array().and_then(|all| all.first());
        let inner = inner.or_else(|| schema["anyOf"].as_array().and_then(|all| all.first()));
        let inner = inner.or_else(|| schema.get("additionalProperties")).unwrap_or(schema);
        let names = self.definition(inner).and_then(|(_, one)| forms::names(one));
        let names =
            names.unwrap_or_default().into_iter().filter(|(_, meaning)| !meaning.is_empty());
        let rows: Vec<Vec<String>> = names.map(|(name, meaning)| vec![name, meaning]).collect();
        match rows.is_empty() {
            true => String::new(),
            false => table(&["value", "meaning"], rows) + "\n",
        }
    }

    /// The table that a key is, if it is one, and whether there may be several of it.
    fn table_of<'b>(&'b self, schema: &'b Value) -> Option<(&'b Value, bool)> {
        let is_list = schema["type"] == "array";
        let inner = schema["allOf"].as_array().and_then(|all| all.first());
        let inner = inner.or_else(|| schema.get("items")).unwrap_or(schema);
        let (name, definition) = self.definition(inner)?;
        if forms::is_form(name, definition) {
            return None;
        }
        let mut ways = definition["anyOf"].as_array().into_iter().flatten();
        let table = match definition["properties"].is_object() {
            true => definition,
            false => ways.find_map(|way| self.table_of(way))?.0,
        };
        Some((table, is_list))
    }

    /// How a key is written that is a table at `path`, or something else besides.
    fn form_of_table(&self, path: &str, schema: &Value, is_list: bool) -> String {
        let heading = heading(path, is_list);
        let link = format!("[{heading}](#{})", anchor(&heading));
        let inner = schema["allOf"].as_array().and_then(|all| all.first());
        let ways = inner.and_then(|inner| self.definition(inner)).map(|(_, one)| &one["anyOf"]);
        let others = ways.and_then(Value::as_array).into_iter().flatten();
        let others = others.filter(|way| self.table_of(way).is_none()).map(|way| {
            let meaning = way["description"].as_str().unwrap_or_default();
            let meaning = prose(meaning.trim_end_matches('.')).replacen("The ", "the ", 1);
            format!("{}, {meaning}, or ", self.form(way))
        });
        let others: String = others.collect();
        format!("{others}{link}")
    }

    /// A key at `path`: its meaning, form, default and example.
    fn key(&self, path: &str, key: &str, schema: &Value, owner: &Value) -> String {
        let schema = self.resolved(schema);
        let (meaning, default) = split_default(schema["description"].as_str().unwrap_or_default());
        let mut text = format!("### {}\n\n{}\n\n", code(path), sentence(&meaning));
        let form = match self.table_of(schema) {
            Some((_, is_list)) => self.form_of_table(path, schema, is_list),
            None if key == "sweep" => {
                "a table of keys, each with a list of its values or a range".to_owned()
            }
            None => self.form(schema),
        };
        let mut facts = vec![form];
        let default = default
            .or_else(|| schema.get("default").filter(|value| !value.is_object()).map(forms::json));
        if owner["required"].as_array().is_some_and(|all| all.iter().any(|one| one == key)) {
            facts.push("must be given".to_owned());
        }
        facts.extend(default.map(|default| format!("default: {default}")));
        facts.extend(self.examples(schema).map(|example| format!("example: {example}")));
        text += &format!("*Form:* {}.\n\n", facts.join("; "));
        text += &self.names(schema);
        match key {
            "sweep" => text += &self.range(),
            "setting" => text += &self.own_keys(schema),
            _ => {}
        }
        text
    }

    fn examples(&self, schema: &Value) -> Option<String> {
        let inner = schema["allOf"].as_array().and_then(|all| all.first());
        let inner = inner.or_else(|| schema["anyOf"].as_array().and_then(|all| all.first()));
        let (_, definition) = self.definition(inner.unwrap_or(schema))?;
        if forms::names(definition).is_some() {
            return None;
        }
        let all: Vec<String> = definition["examples"].as_array()?.iter().map(forms::json).collect();
        Some(all.join(", "))
    }

    /// The keys of the tables of a list which the question itself does not have.
    fn own_keys(&self, list: &Value) -> String {
        let keys = list["items"]["properties"].as_object().into_iter().flatten();
        let own = keys.filter(|(key, _)| self.schema["properties"][key.as_str()].is_null());
        let rows = own.map(|(key, schema)| {
            let meaning = self.resolved(schema)["description"].as_str().unwrap_or_default();
            vec![code(key), sentence(meaning)]
        });
        format!("Each may also have:\n\n{}\n", table(&["key", "meaning"], rows))
    }

    /// The range of an axis.
    fn range(&self) -> String {
        let range = &self.schema["definitions"]["range"];
        let example = range["examples"].as_array().and_then(|all| all.first());
        let example = example.and_then(Value::as_object).map(|one| {
            let pairs = ["from", "to", "step"].map(|key| format!("{key} = {}", one[key]));
            code(&format!("hop = {{ {} }}", pairs.join(", ")))
        });
        format!(
            "A range goes from `from` to `to`, both included, by a `step` that is added, or by a `factor`: \
             {}.\n\n",
            example.unwrap_or_default()
        )
    }

    /// The tables within `properties` of the table at `path`, each with its keys.
    fn tables(&self, path: &str, properties: &Map<String, Value>) -> String {
        let mut text = String::new();
        for (key, schema) in properties {
            let Some((table, is_list)) = self.table_of(schema) else { continue };
            let path = format!("{path}{key}");
            let meaning = table["description"].as_str().unwrap_or_default();
            let heading = heading(&path, is_list);
            text += &format!("## {heading}\n\n{}\n\n", sentence(meaning));
            let none = Map::new();
            let properties = table["properties"].as_object().unwrap_or(&none);
            let path = format!("{path}.");
            for (key, schema) in properties {
                text += &self.key(&format!("{path}{key}"), key, schema, table);
            }
            text += &self.tables(&path, properties);
        }
        text
    }
}

/// The heading of a table in TOML.
fn heading(path: &str, is_list: bool) -> String {
    if is_list { format!("Table `[[{path}]]`") } else { format!("Table `[{path}]`") }
}

/// The meaning of a key, and its default where its help ends with one, or a sentence of it does.
fn split_default(help: &str) -> (String, Option<String>) {
    const MARK: &str = "[default: ";
    let parts = help.split_once(MARK).and_then(|(before, after)| {
        let (default, behind) = after.split_once(']')?;
        let ends = behind.is_empty() || behind.starts_with(['.', ';']);
        ends.then(|| (format!("{}{behind}", before.trim_end()), prose(default)))
    });
    match parts {
        Some((meaning, default)) => (meaning, Some(default)),
        None => (help.to_owned(), None),
    }
}

#[test]
fn a_default_stands_apart() {
    let (meaning, default) = split_default("Time of a hop [default: 0ns]; likewise");
    assert_eq!((meaning.as_str(), default.as_deref()), ("Time of a hop; likewise", Some("0ns")));
    for whole in ["Stages", "Ask for a time [default: 30s], then stop"] {
        assert_eq!(split_default(whole), (whole.to_owned(), None));
    }
}
