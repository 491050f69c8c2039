//! What a part may change that is not followed, as only a run decides on whether it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::commands::{DECLARING, assigned_name};
use super::parse::{Node, Simple};
use super::run::Reader;
use super::scan::{is_name, is_part};
use super::value::{Truth, Value};
use super::{UNKNOWN, is_in, is_launch, is_program, is_quiet};

/// Commands that may change anything.
const OPEN: &str = " eval source . builtin command ";
/// Commands that set the variables which they name.
const READING: &str = " read mapfile readarray getopts printf let unset ";

#[derive(Default)]
struct Effects {
    /// Variables that may get a value, and whether it may have flags.
    names: BTreeMap<String, bool>,
    functions: BTreeSet<String>,
    /// Functions that are called.
    called: BTreeSet<String>,
    all: bool,
    arguments: bool,
    launches: bool,
    /// Whether it has variables of its own in a function, or may leave it.
    leaves: bool,
}

impl Effects {
    fn name(&mut self, name: &str, flags: bool) {
        *self.names.entry(name.to_owned()).or_default() |= flags;
    }

    /// All names in `text`.
    fn all_of(&mut self, text: &str) {
        self.all |= text.contains(['$', '`', UNKNOWN]);
        for name in text.split(|c| !is_part(c)).filter(|name| is_name(name)) {
            self.name(name, true);
        }
    }

    fn sum(&mut self, text: &str) {
        super::sum::assigned(text).into_iter().for_each(|name| self.name(name, false));
    }

    /// What the expansion of `word` may set.
    fn word(&mut self, word: &str) {
        for (at, open) in word.match_indices('$') {
            let rest = &word[at + open.len()..];
            if rest.starts_with("((") || rest.starts_with('[') {
                self.sum(rest);
            }
            let Some(rest) = rest.strip_prefix('{') else { continue };
            let (name, behind) = rest.split_at(rest.find(|c| !is_part(c)).unwrap_or(rest.len()));
            let behind = behind.split_once(']').map_or(behind, |(_, behind)| behind);
            if behind.trim_start_matches(':').starts_with('=') {
                self.name(name, true);
            }
        }
    }
}

impl Reader<'_> {
    /// Leaves unknown what `nodes` may change, of which only a run knows whether they run; a launch in them is refused
    /// as one in `part`.
    pub(super) fn lose(&mut self, nodes: &[&Node], part: &str) -> Result<(), String> {
        let mut own = Effects::default();
        for node in nodes {
            self.add_effects(node, &mut own)?;
        }
        if own.launches {
            self.script.refused.get_or_insert(part.to_owned());
        }
        if own.all {
            self.forget();
        }
        for (name, flags) in own.names {
            let old = self.state.variables.get(&name).is_some_and(Value::has_flags);
            self.set(&name, Value::Unknown(flags || old));
        }
        self.state.functions.extend(own.functions.into_iter().map(|name| (name, None)));
        if own.arguments {
            self.state.arguments = Some(super::any_arguments());
        }
        self.status = Truth::Unknown;
        Ok(())
    }

    /// Whether a function of `body` has variables of its own, or may be left early.
    pub(super) fn leaves(&mut self, body: &Node) -> Result<bool, String> {
        let mut own = Effects::default();
        self.add_effects(body, &mut own)?;
        Ok(own.leaves)
    }

    fn add_effects(&mut self, node: &Node, own: &mut Effects) -> Result<(), String> {
        self.work(64)?;
        self.deepen()?;
        let words = node.words();
        words.iter().for_each(|word| own.word(word));
        match node {
            Node::Pipe(_) | Node::Apart(_) => {
                let mut inner = Effects { called: own.called.clone(), ..Effects::default() };
                for part in node.parts() {
                    self.add_effects(part, &mut inner)?;
                }
                own.launches |= inner.launches;
                self.depth -= 1;
                return Ok(());
            }
            Node::Simple(simple) => self.add_simple(simple, own)?,
            Node::For(name, ..) => own.name(name, true),
            Node::Loop(_, _, _, Some(text)) | Node::Sum(text) => own.sum(text),
            Node::Test(_) => own.name("BASH_REMATCH", true),
            Node::Function(name, body) => {
                own.functions.insert(name.clone());
                self.add_called(body, own)?;
            }
            _ => {}
        }
        for part in node.parts() {
            self.add_effects(part, own)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn add_called(&mut self, body: &Node, own: &mut Effects) -> Result<(), String> {
        let before = (own.leaves, own.arguments);
        self.add_effects(body, own)?;
        (own.leaves, own.arguments) = before;
        Ok(())
    }

    fn add_simple(&mut self, simple: &Simple, own: &mut Effects) -> Result<(), String> {
        let lasts = simple.words.first().is_none_or(|first| DECLARING.contains(&first.as_str()));
        for word in simple.assigned.iter().filter(|_| lasts) {
            own.name(assigned_name(word), word.contains("--"));
        }
        let Some((raw, rest)) = simple.words.split_first() else { return Ok(()) };
        let expanded = match DECLARING.contains(&raw.as_str()) {
            true => Vec::new(),
            false => self.words(&simple.words)?,
        };
        let mut first = raw.replace(['"', '\'', '\\'], "");
        if first.contains(['$', '`']) {
            // A program that only a run knows, as long as the part does not choose it.
            first = expanded.first().cloned().unwrap_or_default();
            own.all |= !first.contains(UNKNOWN) && own.names.keys().any(|name| raw.contains(name));
        }
        let text = simple.input.iter().map(|(text, _)| text);
        let texts = expanded.iter().chain(&simple.words).chain(text);
        let words: Vec<String> =
            texts.flat_map(|text| text.split_whitespace().map(str::to_owned)).collect();
        own.launches |= !is_quiet(&first) && is_launch(&words);
        let has =
            |names: &[&str]| rest.iter().any(|word| names.iter().any(|name| word.contains(name)));
        match (first.as_str(), self.state.functions.get(&first).cloned()) {
            (_, Some(None)) => own.all = true,
            (_, Some(Some(body))) => {
                if own.called.insert(first) {
                    let body = Rc::clone(&body);
                    self.add_called(&body, own)?;
                }
            }
            (kind, _) if DECLARING.contains(&kind) => {
                own.leaves |= !matches!(kind, "export" | "readonly");
                for word in rest.iter().filter(|word| !word.starts_with(['-', '+'])) {
                    match is_name(assigned_name(word)) {
                        true => own.name(assigned_name(word), word.contains("--")),
                        false => own.all = true,
                    }
                }
            }
            ("printf", _) if !has(&["-v"]) => {}
            (name, _) if is_in(READING, name) => {
                rest.iter().for_each(|word| own.all_of(word));
                ["REPLY", "MAPFILE", "OPTARG", "OPTIND"]
                    .iter()
                    .for_each(|name| own.name(name, true));
                own.functions.extend(rest.iter().filter(|_| name == "unset").cloned());
            }
            ("command", _) if rest.first().is_some_and(|word| word.starts_with('-')) => {}
            ("source" | ".", _) if has(&["bin/activate", "/conda.sh"]) => {}
            (name, _) if is_in(OPEN, name) => own.all = true,
            ("trap", _) => own.all |= has(&["DEBUG", "ERR", "RETURN"]),
            ("shopt", _) => own.all |= has(&["expand_aliases", "lastpipe", "nullglob"]),
            ("shift", _) => own.arguments = true,
            ("set", _) => {
                own.arguments |= !rest
                    .iter()
                    .all(|word| word.len() > 1 && word != "--" && word.starts_with(['-', '+']));
            }
            ("cd" | "pushd" | "popd", _) => self.state.has_moved = true,
            ("return", _) => own.leaves = true,
            (first, _) => {
                let is_known =
                    first.contains(['/', '.', UNKNOWN]) || is_quiet(first) || is_program(first);
                own.all |= self.state.forgotten && !is_known;
            }
        }
        Ok(())
    }

    /// Leaves all unknown that was set so far.
    pub(super) fn forget(&mut self) {
        for (name, value) in &mut self.state.variables {
            if !self.given.contains_key(name) {
                *value = Value::Unknown(value.has_flags());
            }
        }
        self.state.forgotten = true;
        self.state.has_moved = true;
    }
}
