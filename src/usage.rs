//! Refusals of flags that make no sense, before anything is asked.

use std::env;
use std::io::{IsTerminal, stderr};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Error};

use crate::messages;
use question::diagnostic::Fault;
use question::{Diagnostic, gone, quote};

/// The longest word of the command line that is said back as it is.
const LONGEST: usize = 120;

/// The words of readers of numbers, and those for a person.
const WORDS: [(&str, &str); 4] = [
    ("invalid digit found in string", "it must be a whole number, such as 8"),
    ("invalid float literal", "it must be a number, such as 0.5"),
    ("number too large to fit in target type", "it is too large"),
    ("cannot parse integer from empty string", "it is empty: write a whole number, such as 8"),
];

/// Prints `error`, or the help that was asked for, and ends.
pub fn end(error: Error) -> ExitCode {
    let is_help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if is_help {
        // A reader that has gone needs no help.
        let _ = error.print();
        return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
    }
    let error = with_cure(error);
    let plain = in_words(&error.render().to_string());
    if messages::are_json() {
        messages::say_json(&json(&error, &plain));
    } else if stderr().is_terminal() {
        messages::print(&in_words(&error.render().ansi().to_string()));
    } else {
        messages::print(&plain);
    }
    ExitCode::from(2)
}

/// `error` with the flag that does the work, in place of flags with similar names, where that is known.
fn with_cure(mut error: Error) -> Error {
    if let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(name))) =
        (error.kind(), error.get(ContextKind::InvalidSubcommand))
    {
        let known = crate::Cli::command();
        let near =
            question::nearest::names(name, known.get_subcommands().map(clap::Command::get_name));
        if let [nearest, ..] = near[..] {
            let near = ContextValue::Strings(vec![nearest.to_owned()]);
            error.insert(ContextKind::SuggestedSubcommand, near);
        }
    }
    if let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg)
        && error.kind() == ErrorKind::UnknownArgument
        && !flag.starts_with("--")
    {
        let hint = "flags are whole words, such as --stages 8".to_owned();
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
        return error;
    }
    let value = match (error.kind(), error.get(ContextKind::InvalidValue)) {
        (ErrorKind::ValueValidation, Some(ContextValue::String(value))) => value.clone(),
        _ => String::new(),
    };
    if value.contains(',') && value.split(',').all(|one| one.trim().parse::<u64>().is_ok()) {
        let hint = "several values belong in a table [sweep] of a scenario, such as stages = [4, 8], for `debubble sweep`";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
        return error;
    }
    let flag = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(flag))) => flag.strip_prefix("--"),
        _ => None,
    };
    if let Some(cure) = flag.and_then(gone::cure) {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![cure.into()]));
    }
    error
}

/// `text` in plain words, with the long ones of the command line clipped.
fn in_words(text: &str) -> String {
    let words = env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let text = WORDS.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    clipped(text, words)
}

/// `text` with `words` of the command line, and parts of them, clipped where they are long.
fn clipped(mut text: String, words: impl Iterator<Item = String>) -> String {
    for word in words.filter(|word| word.len() > LONGEST) {
        let value = word.split_once('=').map(|(_, value)| value.to_owned());
        let parts: Vec<String> = word.split(',').map(str::to_owned).collect();
        for part in [word].into_iter().chain(value).chain(parts) {
            if part.len() > LONGEST && text.contains(&part) {
                text = text.replace(&part, &quote::clip(&part));
            }
        }
    }
    // Lines that are still long are parts that were cut otherwise.
    let lines = text.lines().map(|line| match line.len() > 4 * LONGEST {
        true => quote::brief(line),
        false => line.to_owned(),
    });
    lines.fold(String::new(), |all, line| all + &line + "\n")
}

/// The error for programs: its first paragraph, and tips as the cure.
fn json(error: &Error, text: &str) -> Diagnostic {
    let mut paragraphs = text.trim().split("\n\n");
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let first = flat(paragraphs.next().unwrap_or_default());
    let message = first.strip_prefix("error: ").unwrap_or(&first).to_owned();
    let rest = paragraphs.map(flat).filter(|one| !one.starts_with("For more information"));
    let help: Vec<String> = rest.collect();
    let key = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(arg)) => arg.strip_prefix("--"),
        Some(ContextValue::Strings(args)) => args.first().and_then(|arg| arg.strip_prefix("--")),
        _ => None,
    };
    let key = key.map(|key| quote::clip(key.split(' ').next().unwrap_or(key)));
    let help = (!help.is_empty()).then(|| help.join(" "));
    Diagnostic { message, help, key, place: None, fault: Fault::Question }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_of_the_command_line_are_clipped() {
        let long = "x y".repeat(40_000);
        for word in [long.clone(), format!("--stages={long}"), format!("1f1b,{long}")] {
            let text = format!("error: invalid value '{long}' for '--stages <P>'\n\nUsage: d\n");
            let text = clipped(text, std::iter::once(word));
            assert!(text.len() < 250 && text.contains("for '--stages <P>'"), "{text}");
        }
    }
}
