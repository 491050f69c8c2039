//! Configurations that frameworks print in their logs: every key with the value that it has in the run.

mod keys;

use std::ops::Range;

use question::diagnostic::Diagnostic;
use serde_json::Value;

use super::arguments::Arguments;
use super::measured::line::without_colours;
use super::source::Source;
use super::{Given, Imported, Log, is_dump, measure, of_megatron, python, torchtitan};

/// The most configurations of a log that are compared.
const MOST: usize = 16;
/// The largest configuration.
const MOST_BYTES: usize = 8 << 20;
/// Heads of the lines of Megatron-LM's arguments.
pub(super) const ARGUMENTS: [&str; 2] = ["-- arguments --", "-- end of arguments --"];

/// Who has printed a configuration, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Megatron-LM, names and values with dots between.
    Arguments,
    /// The same without heads, perhaps in part.
    Part,
    /// torchtitan, a literal of Python or JSON.
    Job,
    /// Megatron-Bridge, YAML.
    Recipe,
    /// NeMo before version 2, YAML.
    Nemo,
    /// verl, a literal of Python or JSON.
    Step,
}

/// A configuration in a log.
pub(super) struct Printed {
    pub(super) kind: Kind,
    /// Its keys, those of Megatron-LM as they stand; or why they are not read.
    tree: Result<Value, String>,
    /// The line that it begins in.
    line: usize,
    /// The byte that it begins at.
    pub(super) begin: usize,
}

impl Printed {
    /// Its keys.
    pub(super) fn tree(&self, source: &Source<'_>) -> Result<&Value, Diagnostic> {
        self.tree.as_ref().map_err(|why| source.wrong(why).with_help(WHOLE))
    }
}

/// All configurations in `text`, those that several ranks print once.
pub(super) fn all(text: &str) -> Vec<Printed> {
    let mut all: Vec<Printed> = Vec::new();
    // The page reads the arguments of Megatron-LM alone.
    if !cfg!(feature = "recipes") {
        return all;
    }
    let mut lines = Lines { text, at: 0, number: 0 };
    loop {
        let begin = lines.at;
        let Some(line) = lines.next() else { break };
        let Some((kind, source, rest)) = begins(line) else { continue };
        let number = lines.number;
        let tree = lines
            .tree(kind, &source, rest)
            .map_err(|why| format!("the printed configuration of line {number} {why}"));
        if all.last().is_none_or(|last| last.kind != kind || last.tree != tree) {
            all.push(Printed { kind, tree, line: number, begin });
        }
    }
    if all.is_empty() && is_dump(text) {
        all.push(Printed { kind: Kind::Part, tree: Ok(text.into()), line: 1, begin: 0 });
    }
    all
}

/// The configuration that begins in `line`, the process that prints it, and the text behind.
fn begins(line: &str) -> Option<(Kind, String, String)> {
    let of = |kind: Kind| {
        let line = without_colours(line);
        let (source, rest) = process(&line);
        let from = match kind {
            Kind::Job => {
                let rest = rest.split_once("Running with ")?.1.split_once(": ")?.1;
                let is_table = rest == "{" || rest.starts_with("{'") || rest.starts_with("{\"");
                is_table.then_some(rest)?
            }
            Kind::Step => Some(rest).filter(|rest| rest.starts_with('{'))?,
            Kind::Recipe => Some(rest).filter(|rest| rest.starts_with("_target_: "))?,
            Kind::Nemo => Some(rest).filter(|rest| rest.trim_start().starts_with("****"))?,
            Kind::Arguments | Kind::Part => rest,
        };
        Some((kind, source, from.to_owned()))
    };
    let has = |words: &str| line.contains(words);
    match () {
        () if has(ARGUMENTS[0]) => of(Kind::Arguments),
        () if has("Running with args: {") || has("Running with configs: {") => of(Kind::Job),
        () if has("{'actor_rollout_ref': {") || has("{\"actor_rollout_ref\": {") => of(Kind::Step),
        () if has("_target_: megatron.bridge.") && has(".ConfigContainer") => of(Kind::Recipe),
        () if has("*** Experiment configuration ***") => of(Kind::Nemo),
        () => None,
    }
}

/// The process whose rank or number stands in front of `line`, and what follows; times are left out.
pub(super) fn process(line: &str) -> (String, &str) {
    let (mut source, mut rest) = (String::new(), line);
    let is_number =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let is_rank = |text: &str| {
        text.contains(|c: char| c.is_ascii_digit())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || ",.-_".contains(c))
    };
    for _ in 0..4 {
        let of_ray = || rest.starts_with('(').then(|| rest.split_once(") "))?;
        let of_rank = || {
            let (rank, more) = rest.strip_prefix('[')?.split_once(']')?;
            let more =
                more.strip_prefix("<stdout>").or(more.strip_prefix("<stderr>")).unwrap_or(more);
            Some((rank, more.strip_prefix(':')?)).filter(|(rank, _)| is_rank(rank))
        };
        let of_label = || rest.trim_start().split_once(": ").filter(|(rank, _)| is_number(rank));
        let of_time = || {
            let is_time =
                |word: &&str| word.contains('T') && word.ends_with('Z') && word.len() > 18;
            rest.split_once(' ').filter(|(word, _)| is_time(word))
        };
        if let Some((name, more)) = of_ray().filter(|(name, _)| name.contains(" pid=")) {
            (source, rest) = (source + name, more);
        } else if let Some((rank, more)) = of_rank().or_else(of_label) {
            (source, rest) = (format!("{source}{rank}:"), more);
        } else if let Some((_, more)) = of_time() {
            rest = more;
        }
    }
    (source, rest)
}

/// The lines of a log.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    number: usize,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
        let length = rest.find('\n').map_or(rest.len(), |at| at + 1);
        self.at += length;
        self.number += 1;
        Some(rest[..length].trim_end_matches(['\n', '\r']))
    }

    /// The next line that the process `source` prints, without its name; none at the end or where it prints another
    /// configuration.
    fn next_of(&mut self, source: &str) -> Option<String> {
        loop {
            let before = (self.at, self.number);
            let line = self.next()?;
            if begins(line).is_some_and(|(_, own, _)| own == source) {
                (self.at, self.number) = before;
                return None;
            }
            let line = without_colours(line);
            let (own, rest) = process(&line);
            if own == source {
                return Some(rest.to_owned());
            }
        }
    }

    /// The keys of a configuration that `source` prints, of which the first line has `first`.
    fn tree(&mut self, kind: Kind, source: &str, first: String) -> Result<Value, String> {
        let number = self.number;
        let ends = |lines: &Self| format!("ends in line {}, and is not whole", lines.number);
        match kind {
            Kind::Job | Kind::Step => {
                let (mut text, mut depth) = (first, Depth::default());
                let mut line = text.clone();
                let length = loop {
                    match depth.end(&line) {
                        Some(end) => break text.len() - line.len() + end,
                        None => line = self.next_of(source).ok_or_else(|| ends(self))?,
                    }
                    text += &format!("\n{line}");
                    enough(&text)?;
                };
                python::literal(&text[..length]).map_err(|why| format!("cannot be read: {why}"))
            }
            Kind::Recipe | Kind::Nemo => {
                let margin = if kind == Kind::Nemo { "    " } else { "" };
                let mut text = if kind == Kind::Nemo { String::new() } else { first + "\n" };
                let is_rule = |line: &str| line.trim().is_empty() || line.starts_with("---");
                loop {
                    enough(&text)?;
                    let Some(line) = self.next_of(source) else {
                        // A file of its own has no more lines.
                        match number == 1 && kind == Kind::Recipe && self.at == self.text.len() {
                            true => break,
                            false => return Err(ends(self)),
                        }
                    };
                    match line.strip_prefix(margin).filter(|line| !is_rule(line)) {
                        Some(line) => text += &format!("{line}\n"),
                        None if text.is_empty() && self.number < number + 4 => {}
                        None => break,
                    }
                }
                super::yaml::parse(&text).map_err(|why| format!("cannot be read: {why}"))
            }
            Kind::Arguments | Kind::Part => {
                let mut text = String::new();
                loop {
                    let line = self.next_of(source).ok_or_else(|| ends(self))?;
                    if line.contains(ARGUMENTS[1]) {
                        return Ok(text.into());
                    }
                    text += &format!("{line}\n");
                    enough(&text)?;
                }
            }
        }
    }
}

/// Whether `text` is no larger than configurations are.
fn enough(text: &str) -> Result<(), String> {
    (text.len() <= MOST_BYTES).then_some(()).ok_or_else(|| "has no end".to_owned())
}

/// Whether `source` has one that asks of the planner.
pub(super) fn is_log(source: &Source<'_>) -> bool {
    source.printed().last().is_some_and(|last| last.kind != Kind::Step)
}

/// Whether `source` has only lines without heads, which may be a part.
pub(super) fn is_part(source: &Source<'_>) -> bool {
    source.printed().iter().all(|one| one.kind == Kind::Part)
}

/// The question of the configuration in a log: the last with iterations behind it.
pub(super) fn of_log(source: &Source<'_>, given: &Given) -> Result<Imported, Diagnostic> {
    let all = source.printed();
    let end = |at: usize| all.get(at + 1).map_or(source.text.len(), |next| next.begin);
    let has_iterations =
        |at: &usize| Log::of(&source.text[all[*at].begin..end(*at)], 1.0).has_iterations();
    let at = (0..all.len()).rev().find(has_iterations).unwrap_or(all.len() - 1);
    let mut imported = question(source, &all[at], given)?;
    let is_same = |one: &Printed| {
        question(source, one, given).is_ok_and(|own| own.document == imported.document)
    };
    // The same run, started again.
    let same = all[..at].iter().rev().take(MOST).take_while(|one| is_same(one)).count();
    let own =
        at - same..at + 1 + all[at + 1..].iter().take(MOST).take_while(|one| is_same(one)).count();
    imported.notes.extend(others(source, own.clone()));
    measure(&mut imported, &source.text[all[own.start].begin..end(own.end - 1)]);
    Ok(imported)
}

/// A note on the configurations of a log but for its `own`.
pub(super) fn others(source: &Source<'_>, own: Range<usize>) -> Option<String> {
    let all = source.printed();
    let lines = all.iter().enumerate().filter(|(at, _)| !own.contains(at));
    let lines: Vec<String> = lines.map(|(_, one)| one.line.to_string()).collect();
    let taken = all.get(own.end - 1).filter(|_| !lines.is_empty())?.line;
    let lines = lines.join(", ");
    Some(format!(
        "the log has other configurations in lines {lines}: that of line {taken} is taken"
    ))
}

/// The question that one configuration asks.
fn question(source: &Source<'_>, one: &Printed, given: &Given) -> Result<Imported, Diagnostic> {
    let wrong = |why: String| source.wrong(&why).with_help(WHOLE);
    let tree = one.tree(source)?;
    match one.kind {
        Kind::Arguments | Kind::Part => {
            let arguments = Arguments::of_dump(tree.as_str().unwrap_or_default());
            of_megatron(source, &arguments, given, None)
        }
        Kind::Job => {
            let (before, behind) = source.text.split_at(one.begin);
            let devices = given.devices.or_else(|| keys::mesh(behind));
            let given = Given { devices, ..given.clone() };
            match tree.get("model_spec") {
                None => torchtitan::of_arguments(source, &python::arguments(tree), &given, None),
                Some(_) => python::of_keys(
                    source,
                    ("", keys::of_main(tree, before).map_err(wrong)?),
                    &given,
                ),
            }
        }
        Kind::Nemo => python::of_keys(source, ("", keys::of_nemo(tree).map_err(wrong)?), given),
        Kind::Recipe => python::of_keys(source, ("", keys::of_bridge(tree)), given),
        Kind::Step => Err(source.wrong("it is a step of reinforcement learning")),
    }
}

/// What helps against a configuration of which a part is missing.
const WHOLE: &str = "give the whole log, or the script of the run";

/// How deep the brackets are that a literal has open.
#[derive(Default)]
struct Depth(usize);

impl Depth {
    /// Whether the literal ends in `line`, the next of its lines: how many bytes of it are of the literal.
    fn end(&mut self, line: &str) -> Option<usize> {
        let (mut quote, mut is_escaped) = (None, false);
        for (at, one) in line.char_indices() {
            match (quote, one) {
                _ if is_escaped => is_escaped = false,
                (Some(_), '\\') => is_escaped = true,
                (Some(own), _) if own == one => quote = None,
                (Some(_), _) => {}
                (None, '\'' | '"') => quote = Some(one),
                (None, '{' | '[' | '(') => self.0 += 1,
                (None, '}' | ']' | ')') => self.0 = self.0.saturating_sub(1),
                _ => {}
            }
            if self.0 == 0 && quote.is_none() {
                return Some(at + one.len_utf8());
            }
        }
        None
    }
}
