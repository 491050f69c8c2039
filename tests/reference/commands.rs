//! Commands and flags, from the command line itself.

use clap::{Arg, ArgAction, Command, CommandFactory};
use serde_json::Value;

use super::markdown::{anchor, code, prose, sentence, table};
use super::{keys, schemas};
use crate::help;

/// Flags that are keys of a scenario are told once, on the page of keys.
const KEYS: &str = "../scenario.md";

/// Commands with few flags, which share the page of all commands.
const SHORT: [&str; 8] =
    ["compare", "completions", "man", "profile", "records", "schedules", "schema", "verify"];

/// All commands, each with its first sentence.
pub fn all() -> String {
    let cli = crate::Cli::command();
    let rows = cli.get_subcommands().map(|command| {
        let name = command.get_name();
        let title = code(&format!("debubble {name}"));
        let page = match SHORT.contains(&name) {
            true => format!("#{}", anchor(&title)),
            false => format!("commands/{name}.md"),
        };
        vec![format!("[{title}]({page})"), about(command)]
    });
    table(&["command", "answer"], rows)
}

fn about(command: &Command) -> String {
    sentence(&command.get_about().map(ToString::to_string).unwrap_or_default())
}

/// The command `name`: what it is, how it is called, its flags in groups, examples and remarks.
pub fn of(name: &str) -> Result<String, String> {
    let mut cli = crate::Cli::command();
    cli.build();
    let command = cli.find_subcommand(name).ok_or_else(|| format!("there is no `{name}`"))?;
    let mut command = command.clone();
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim();
    let mut text = format!("{}\n\n```text\n{usage}\n```\n\n", about(&command));
    let scenario = schemas::named("scenario")?;
    for (heading, arguments) in groups(&command) {
        text += &format!("## {heading}\n\n");
        let (keys, own): (Vec<&Arg>, Vec<&Arg>) =
            arguments.into_iter().partition(|argument| is_key(argument, &scenario));
        if !keys.is_empty() {
            let keys: Vec<String> = keys.iter().map(|key| link(key)).collect();
            text += &format!("Keys of a scenario as flags: {}.\n\n", keys.join(", "));
        }
        for argument in own {
            let key = argument.get_long().unwrap_or_default();
            let of_question = keys::flag(name, key, &spelling(argument));
            text += &of_question.unwrap_or_else(|| flag(argument));
        }
    }
    let flags: Vec<&str> = command.get_arguments().filter_map(Arg::get_long).collect();
    text += &keys::in_files(name, &flags);
    let after = command.get_after_long_help().or_else(|| command.get_after_help());
    text += &after.map(|after| remarks(&after.to_string())).unwrap_or_default();
    Ok(if SHORT.contains(&name) { text.replace("\n##", "\n###") } else { text })
}

/// The arguments of a command by their headings, in the order in which headings come up.
fn groups(command: &Command) -> Vec<(&str, Vec<&Arg>)> {
    let mut groups: Vec<(&str, Vec<&Arg>)> = Vec::new();
    for argument in command.get_arguments().filter(|one| !one.is_hide_set()) {
        if argument.get_id() == "help" {
            continue;
        }
        let heading = match argument.get_help_heading() {
            Some(heading) => heading,
            None if argument.is_positional() => "Arguments",
            None => "Options",
        };
        match groups.iter_mut().find(|(known, _)| *known == heading) {
            Some((_, arguments)) => arguments.push(argument),
            None => groups.push((heading, vec![argument])),
        }
    }
    groups
}

/// Whether a flag is a key of a scenario: by its name and its help.
fn is_key(argument: &Arg, scenario: &Value) -> bool {
    let Some(key) = argument.get_long() else { return false };
    let definition = &scenario["definitions"][format!("key.{key}")]["description"];
    definition.as_str().is_some_and(|help| help == help_of(argument))
}

/// The help of a flag in one line.
fn help_of(argument: &Arg) -> String {
    let help = argument.get_long_help().or_else(|| argument.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    help.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn link(argument: &Arg) -> String {
    let key = argument.get_long().unwrap_or_default();
    format!("[{}]({KEYS}#{key})", code(&format!("--{key}")))
}

/// How a flag is written, with its values.
fn spelling(argument: &Arg) -> String {
    let names: Vec<&str> = argument
        .get_value_names()
        .unwrap_or_default()
        .iter()
        .map(clap::builder::Str::as_str)
        .collect();
    let takes = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    let values = if takes { names.join("> <") } else { String::new() };
    match argument.get_long() {
        Some(long) if values.is_empty() => format!("--{long}"),
        Some(long) => format!("--{long} <{values}>"),
        None => values,
    }
}

fn flag(argument: &Arg) -> String {
    let mut text =
        format!("### {}\n\n{}\n\n", code(&spelling(argument)), sentence(&help_of(argument)));
    let takes = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    let values = argument.get_possible_values();
    if takes && !values.is_empty() {
        let rows = values.iter().filter(|one| !one.is_hide_set()).map(|value| {
            let help = value.get_help().map(ToString::to_string).unwrap_or_default();
            vec![code(value.get_name()), sentence(&help)]
        });
        text += &format!("{}\n", table(&["value", "meaning"], rows));
    }
    let defaults: Vec<String> =
        argument.get_default_values().iter().map(|one| code(&one.to_string_lossy())).collect();
    if takes && !defaults.is_empty() {
        text += &format!("*Default:* {}.\n\n", defaults.join(", "));
    }
    text
}

/// The remarks behind the flags: what is typed stays as it is, and a title with words behind it is an
/// entry of a list.
fn remarks(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| *line != "Examples:").collect();
    let is_typed = |at: usize| {
        let line: &str = lines[at];
        let before = at.checked_sub(1).map(|at| lines[at]);
        line.starts_with("    ") && (help::is_literal(line, before) || line.trim().starts_with('#'))
    };
    let is_entry = |at: usize| {
        let line: &str = lines[at];
        let is_title = line.starts_with("  ") && !line.starts_with("   ") && line.ends_with(':');
        is_title && at + 1 < lines.len() && !is_typed(at + 1)
    };
    let mut remarks = "## Examples and remarks\n".to_owned();
    for (at, line) in lines.iter().enumerate() {
        let behind_typed = at > 0 && is_typed(at - 1);
        let behind_entry = at > 0 && is_entry(at - 1);
        if is_typed(at) && !behind_typed {
            remarks += "\n```text\n";
        } else if behind_typed && !is_typed(at) {
            remarks += "```\n";
        }
        let words = line.trim();
        remarks += &match is_typed(at) {
            true => format!("{}\n", line.strip_prefix("    ").unwrap_or(words)),
            false if words.is_empty() => String::new(),
            false if is_entry(at) => format!("\n- **{}**\n", prose(words)),
            false if behind_entry => format!("  {}\n", prose(words)),
            false => format!("\n{}\n", prose(words)),
        };
    }
    if lines.len().checked_sub(1).is_some_and(is_typed) { remarks + "```\n" } else { remarks }
}
