//! The ZeRO stage of a configuration of DeepSpeed: JSON beside the script, or which the script writes.

use std::path::Path;

use serde_json::Value;

use super::super::arguments::Arguments;
use super::super::shell::Script;
use super::super::source::Source;

/// Sets the ZeRO stage of `arguments` of a `script`, where it is read; it wins over `--zero-stage`.
pub(in super::super) fn stage(source: &Source<'_>, script: &Script, arguments: &mut Arguments) {
    let Ok(Some(file)) = arguments.text("deepspeed-config") else { return };
    let folder = source.path.parent().unwrap_or(Path::new(""));
    let written = of_here_document(source.text, script);
    let beside = || of_json(&source.text_of(&folder.join(file))?);
    if let Some(stage) = written.or_else(beside) {
        arguments.set("zero-stage", Some(vec![stage]));
    }
}

fn of_json(text: &str) -> Option<String> {
    let tree: Value = serde_json::from_str(text).ok()?;
    tree.pointer("/zero_optimization/stage")?.as_u64().map(|stage| stage.to_string())
}

/// The stage in the text of the script itself, the same wherever it writes one.
fn of_here_document(text: &str, script: &Script) -> Option<String> {
    let parts = text.split("\"zero_optimization\"").skip(1);
    let stage = |part: &str| {
        let value = part.split_once("\"stage\"")?.1.trim_start().strip_prefix(':')?;
        let value = value.split([',', '}', '\n']).next()?.trim();
        let name = value.trim_start_matches("${").trim_start_matches('$').trim_end_matches('}');
        // A variable that is set twice may have had another value where the text is written.
        let is_set_once = text.matches(&format!("{name}=")).count() < 2;
        let held = script.variables.get(name).filter(|_| is_set_once);
        let held = held.and_then(|words| words.first());
        held.map_or(value, String::as_str).parse::<u64>().ok()
    };
    let mut stages = parts.map(stage);
    let first = stages.next()??;
    stages.all(|own| own == Some(first)).then(|| first.to_string())
}
