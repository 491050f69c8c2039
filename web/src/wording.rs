//! The texts of the library as the page says them: it has fields and buttons, no flags.

use question::{Diagnostic, spelling};
use serde_json::Value;

/// Steps of the command line, as texts name them, and their counterparts on the page.
const OWN: [(&str, &str); 9] = [
    (
        "--export best.txt, then `debubble simulate --schedule best.txt`",
        "press “Compare in Play” under the order",
    ),
    ("write it with --export-scenario best.toml", "write its choice into the question"),
    (
        "every flag of `--help-all` is a key here, without its dashes",
        "every field of this page has the name of its key in small print",
    ),
    ("--details: ", "“Everything about each plan” says: "),
    (" more: see --json", " more"),
    ("--pareto: ", "the picture: "),
    ("`debubble fsdp --lengths`", "“Lengths of samples” of the tab “Packing”"),
    ("`debubble fsdp --cost`", "“Cost of a sample” of the tab “Packing”"),
    (", or write the program out with --write-lp for another solver", ""),
];

/// `text` as the page says it.
pub(crate) fn said(text: &str) -> String {
    // Most texts name none.
    if !text.contains("--") {
        return text.to_owned();
    }
    // A longer text may begin with a shorter one.
    let own =
        OWN.iter().rev().fold(text.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours));
    spelling::without_flags(&own)
}

/// `diagnostic` as the page says it.
pub(crate) fn fault(diagnostic: Diagnostic) -> Diagnostic {
    let (message, help) = (said(&diagnostic.message), diagnostic.help.as_deref().map(said));
    Diagnostic { message, help, ..diagnostic }
}

/// The descriptions in `schema` as the page says them.
pub(crate) fn describe(schema: &mut Value) {
    match schema {
        Value::Array(all) => all.iter_mut().for_each(describe),
        Value::Object(all) => {
            if let Some(Value::String(text)) = all.get_mut("description") {
                *text = said(text);
            }
            all.values_mut().for_each(describe);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
