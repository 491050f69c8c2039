//! Arguments of Megatron-LM changed in the text of the user's own script, and nothing else of it.

use std::collections::BTreeMap;
use std::ops::Range;

/// Arguments that say one thing in several ways: where one changes, those of the script that it replaces go.
const TOGETHER: [&[&str]; 6] = [
    &[
        "num-layers-per-virtual-pipeline-stage",
        "num-virtual-stages-per-pipeline-rank",
        "pipeline-model-parallel-layout",
        "microbatch-group-size-per-virtual-pipeline-stage",
        "decoder-first-pipeline-num-layers",
        "decoder-last-pipeline-num-layers",
        "account-for-embedding-in-pipeline-split",
        "account-for-loss-in-pipeline-split",
    ],
    &[
        "recompute-granularity",
        "recompute-method",
        "recompute-num-layers",
        "recompute-modules",
        "recompute-activations",
    ],
    &[
        "cuda-graph-impl",
        "cuda-graph-modules",
        "cuda-graph-scope",
        "enable-cuda-graph",
        "external-cuda-graph",
    ],
    &["moe-token-dispatcher-type", "moe-flex-dispatcher-backend", "moe-enable-deepep"],
    &[
        "use-distributed-optimizer",
        "use-megatron-fsdp",
        "data-parallel-sharding-strategy",
        "ckpt-format",
    ],
    &["cross-entropy-loss-fusion", "cross-entropy-fusion-impl"],
];

/// Arguments behind which new ones are put, the first that the script has.
const ANCHORS: [&str; 5] = [
    "pipeline-model-parallel-size",
    "tensor-model-parallel-size",
    "micro-batch-size",
    "global-batch-size",
    "num-layers",
];

/// Changed arguments of a script.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Edits {
    /// Arguments that have these values now, none for a switch.
    set: BTreeMap<String, Option<String>>,
    /// Arguments that go.
    removed: Vec<String>,
    /// Those of them that the changed run had.
    had: Vec<String>,
}

impl Edits {
    /// The changes from the arguments `old` to `new`, each a line such as `--micro-batch-size 2`. Comments do not
    /// count.
    #[must_use]
    pub fn between(old: &[String], new: &[String]) -> Self {
        let (old, new) = (parsed(old), parsed(new));
        let is_changed = |name: &&str| old.get(*name) != new.get(*name);
        let mut changed: Vec<&str> =
            old.keys().chain(new.keys()).map(String::as_str).filter(is_changed).collect();
        for group in TOGETHER {
            if changed.iter().any(|name| group.contains(name)) {
                changed.extend(group);
            }
        }
        changed.sort_unstable();
        changed.dedup();
        let mut edits = Self::default();
        for name in changed {
            match new.get(name) {
                Some(value) => drop(edits.set.insert(name.to_owned(), value.clone())),
                None => edits.removed.push(name.to_owned()),
            }
        }
        edits.had = edits.removed.iter().filter(|name| old.contains_key(*name)).cloned().collect();
        edits
    }

    /// The arguments to set, and those to remove, in words.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let set =
            self.set.iter().map(|(name, value)| format!("+ {}", argument(name, value.as_deref())));
        set.chain(self.had.iter().map(|name| format!("- --{name}"))).collect()
    }

    /// The script `text` with these changes; `None` where an argument is there twice, or none is known behind which
    /// a new one can stand.
    #[must_use]
    pub fn apply(&self, text: &str) -> Option<String> {
        let mut text = text.to_owned();
        for name in &self.removed {
            if let Some(place) = place(&text, name)? {
                text.replace_range(without_its_line(&text, place.whole()), "");
            }
        }
        let mut missing = Vec::new();
        for (name, value) in &self.set {
            match place(&text, name)? {
                Some(place) => change(&mut text, &place, value.as_deref()),
                None => missing.push(argument(name, value.as_deref())),
            }
        }
        match missing.is_empty() {
            true => Some(text),
            false => added(text, &missing),
        }
    }
}

/// The arguments in `lines`, by name.
fn parsed(lines: &[String]) -> BTreeMap<String, Option<String>> {
    let one = |line: &String| {
        let rest = line.strip_prefix("--")?;
        Some(match rest.split_once(' ') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (rest.to_owned(), None),
        })
    };
    lines.iter().filter_map(one).collect()
}

fn argument(name: &str, value: Option<&str>) -> String {
    value.map_or_else(|| format!("--{name}"), |value| format!("--{name} {value}"))
}

/// An argument in a script.
struct Place {
    /// The argument without its value.
    name: Range<usize>,
    /// Its values, empty for a switch.
    value: Range<usize>,
}

impl Place {
    fn whole(&self) -> Range<usize> {
        self.name.start..self.value.end.max(self.name.end)
    }
}

/// The place of argument `name` in `text`; the outer `None` where it is there twice.
#[allow(clippy::option_option)] // Twice, never, once.
fn place(text: &str, name: &str) -> Option<Option<Place>> {
    let spellings = [format!("--{name}"), format!("--{}", name.replace('-', "_"))];
    let mut found = None;
    for spelling in spellings {
        for (at, _) in text.match_indices(&spelling) {
            let end = at + spelling.len();
            let is_begin = text[..at].chars().next_back().is_none_or(|c| !is_word(c));
            let is_end = text[end..].chars().next().is_none_or(|c| !is_word(c));
            if !is_begin || !is_end || is_comment(text, at) {
                continue;
            }
            if found.is_some() {
                return None;
            }
            found = Some(Place { name: at..end, value: value_behind(text, end) });
        }
        if name.contains('_') || !name.contains('-') {
            break;
        }
    }
    Some(found)
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// Whether the place `at` lies in a comment of its own line.
fn is_comment(text: &str, at: usize) -> bool {
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    text[start..at].trim_start().starts_with('#')
}

/// The values behind an argument that ends at `end`: words up to the next argument or the end of the line.
fn value_behind(text: &str, end: usize) -> Range<usize> {
    if text[end..].starts_with('=') {
        let length = word(&text[end + 1..]);
        return end + 1..end + 1 + length;
    }
    let (mut first, mut last) = (end, end);
    loop {
        let blank = text[last..].len() - text[last..].trim_start_matches([' ', '\t']).len();
        let rest = &text[last + blank..];
        let ends = ["-", "\\", ")", "\n", "\r", "#", ";", "|", "&"];
        let closes = rest.starts_with('"') && text[..last].matches('"').count() % 2 == 1;
        if blank == 0 || rest.is_empty() || closes || ends.iter().any(|one| rest.starts_with(one)) {
            return first..last;
        }
        if first == end {
            first = last + blank;
        }
        last = last + blank + word(rest);
    }
}

/// The length of the word at the start of `text`, with what stands in quotes and braces.
fn word(text: &str) -> usize {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') if at == 0 || text[..at].ends_with('=') => quote = Some(c),
            (None, c) if c.is_whitespace() || ")\"'\\;".contains(c) => return at,
            _ => {}
        }
    }
    text.len()
}

/// Gives the argument at `place` the value `value`: in the assignment of its variable, if it is one that the script
/// sets once, else where it stands.
fn change(text: &mut String, place: &Place, value: Option<&str>) {
    let Some(value) = value else {
        // A switch has no value to change.
        return;
    };
    let old = text[place.value.clone()].to_owned();
    if let Some(literal) = variable(&old).and_then(|name| assigned(text, name)) {
        text.replace_range(literal, value);
        return;
    }
    match old.is_empty() {
        true => text.insert_str(place.name.end, &format!(" {value}")),
        false => text.replace_range(place.value.clone(), value),
    }
}

/// The name of the variable that `word` is, if it is one alone.
fn variable(word: &str) -> Option<&str> {
    let inner = word.trim_matches('"').strip_prefix('$')?;
    let inner = inner.strip_prefix('{').map_or(Some(inner), |rest| rest.strip_suffix('}'))?;
    let is_name = !inner.is_empty() && inner.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some(inner)
}

/// The literal that the only assignment of variable `name` gives it.
fn assigned(text: &str, name: &str) -> Option<Range<usize>> {
    let mut found = None;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        let exported = trimmed.strip_prefix("export ").unwrap_or(trimmed);
        let before = indent + trimmed.len() - exported.len();
        if let Some(rest) = exported.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')) {
            if found.is_some() {
                return None;
            }
            let at = start + before + name.len() + 1;
            found = Some(literal(rest, at)?);
        }
        start += line.len();
    }
    found
}

/// The literal at the start of `rest`, which begins at `at`: a word, or the default in `${NAME:-word}`.
fn literal(rest: &str, at: usize) -> Option<Range<usize>> {
    let is_plain = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "._,-".contains(c))
    };
    if rest.starts_with("${") {
        let end = rest.find('}')?;
        let from = rest[..end].find(":-")? + 2;
        return is_plain(&rest[from..end]).then_some(at + from..at + end);
    }
    let bare = rest.trim_start_matches('"');
    let from = rest.len() - bare.len();
    let length = bare.find(|c: char| c.is_whitespace() || "\";#".contains(c)).unwrap_or(bare.len());
    is_plain(&bare[..length]).then_some(at + from..at + from + length)
}

/// `range` with the blanks before it, or with its whole line where nothing else stands there.
fn without_its_line(text: &str, range: Range<usize>) -> Range<usize> {
    let start = text[..range.start].rfind('\n').map_or(0, |end| end + 1);
    let end = text[range.end..].find('\n').map_or(text.len(), |at| range.end + at + 1);
    let before = text[start..range.start].trim();
    let behind = text[range.end..end].trim();
    if before.is_empty() && (behind.is_empty() || behind == "\\") {
        return start..end;
    }
    let blanks = text[..range.start].trim_end_matches([' ', '\t']).len();
    blanks..range.end
}

/// `text` with `arguments` before the first of [`ANCHORS`] that it has.
fn added(mut text: String, arguments: &[String]) -> Option<String> {
    let found = ANCHORS.iter().find_map(|name| place(&text, name).flatten());
    let anchor = found?.name.start;
    let start = text[..anchor].rfind('\n').map_or(0, |end| end + 1);
    let indent = text[start..anchor].to_owned();
    if !indent.trim().is_empty() {
        // Other arguments stand before it in its line.
        text.insert_str(anchor, &format!("{} ", arguments.join(" ")));
        return Some(text);
    }
    let line_end = text[anchor..].find('\n').map_or(text.len(), |at| anchor + at);
    let goes_on = text[anchor..line_end].trim_end().ends_with('\\')
        || text[..start].trim_end_matches('\n').trim_end().ends_with('\\');
    let end = if goes_on { " \\" } else { "" };
    // Line ends are those of the script.
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let lines: String =
        arguments.iter().map(|one| format!("{indent}{one}{end}{newline}")).collect();
    text.insert_str(start, &lines);
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.split(" --").filter(|one| !one.is_empty()).map(|one| format!("--{one}")).collect()
    }

    fn edited(script: &str, old: &str, new: &str) -> Option<String> {
        Edits::between(&lines(&format!(" {old}")), &lines(&format!(" {new}"))).apply(script)
    }

    const SCRIPT: &str = "#!/bin/bash\n# --micro-batch-size is small\nTP=4\nexport PP=${PP:-2}\nARGS=(\n  \
        --tensor-model-parallel-size $TP\n  --pipeline-model-parallel-size ${PP}\n  --micro-batch-size 1\n  \
        --num-virtual-stages-per-pipeline-rank 2\n  --recompute-activations\n)\ntorchrun pretrain_gpt.py ${ARGS[@]} \\\n  \
        --global-batch-size 64 --bf16\n";

    #[test]
    fn values_change_where_they_are_set_and_nothing_else_does() {
        let old =
            "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 --micro-batch-size 1";
        let new =
            "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --micro-batch-size 2";
        let expected = SCRIPT
            .replace("TP=4", "TP=2")
            .replace("${PP:-2}", "${PP:-4}")
            .replace("--micro-batch-size 1", "--micro-batch-size 2");
        assert_eq!(edited(SCRIPT, old, new).unwrap(), expected);
        assert_eq!(edited(SCRIPT, old, old).unwrap(), SCRIPT);
    }

    #[test]
    fn arguments_that_mean_the_same_go_and_new_ones_come() {
        let old = "--num-layers-per-virtual-pipeline-stage 8 --recompute-granularity selective";
        let new = "--num-layers-per-virtual-pipeline-stage 4 --overlap-grad-reduce";
        let text = edited(SCRIPT, old, new).unwrap();
        assert!(!text.contains("num-virtual-stages") && !text.contains("recompute"), "{text}");
        let added = "\n  --num-layers-per-virtual-pipeline-stage 4\n  --overlap-grad-reduce\n  --pipeline-model";
        assert!(text.contains(added), "{text}");
    }

    #[test]
    fn lines_that_go_on_still_do() {
        let script = "torchrun pretrain_gpt.py \\\n    --pipeline-model-parallel-size 4 \\\n    --recompute-activations \\\n    \
            --recompute-modules a b \\\n    --bf16\n";
        let text =
            edited(script, "--recompute-granularity selective", "--tp-comm-overlap").unwrap();
        let expected = "torchrun pretrain_gpt.py \\\n    --tp-comm-overlap \\\n    --pipeline-model-parallel-size 4 \\\n    \
            --bf16\n";
        assert_eq!(text, expected);
        let one = "run --pipeline-model-parallel-size=4 --recompute-modules a b --bf16";
        let text = edited(one, "--recompute-modules a", "--pipeline-model-parallel-size 8");
        assert_eq!(text.unwrap(), "run --pipeline-model-parallel-size=8 --bf16");
    }

    #[test]
    fn line_ends_stay_as_they_are() {
        let crlf = |text: &str| text.replace('\n', "\r\n");
        let old = "--num-layers-per-virtual-pipeline-stage 8 --recompute-granularity selective";
        for new in ["--overlap-grad-reduce", "--micro-batch-size 2", "--global-batch-size 32"] {
            let text = edited(SCRIPT, old, new).unwrap();
            assert_eq!(edited(&crlf(SCRIPT), old, new).unwrap(), crlf(&text), "{new}");
        }
    }

    #[test]
    fn scripts_that_are_not_understood_are_left_alone() {
        let twice = "--micro-batch-size 1\n--micro-batch-size 2\n";
        assert_eq!(edited(twice, "--micro-batch-size 1", "--micro-batch-size 4"), None);
        assert_eq!(edited("nothing", "--bf16", "--bf16 --tp-comm-overlap"), None);
        for script in [
            "--num-layers",
            "--num-layers \"",
            "--num-layers=",
            "--num-layers ${",
            "\"--num-layers 'é",
        ] {
            let _ = edited(script, "--num-layers 2", "--num-layers 4 --tp-comm-overlap");
        }
    }
}
