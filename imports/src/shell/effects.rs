//! What a part may change that is not followed, as only a run decides on whether it runs.

use std::collections::{BTreeMap, BTreeSet};

use super::commands::{DECLARING, assigned_name};
use super::parse::{Node, Simple};
use super::run::Reader;
use super::scan::{is_name, is_part};
use super::sum::assigned;
use super::value::{Truth, Value};
use super::{UNKNOWN, is_in, is_launch, is_program, is_quiet};

/// Commands of bash that may change what it knows.
pub(super) const CHANGING: &str = " . builtin cd command declare eval export getopts let local mapfile popd printf pushd \
    read readarray readonly return set shift shopt source trap typeset unset ";

#[derive(Default)]
pub(super) struct Effects {
    /// Variables that may get a value, and whether it may have flags.
    names: BTreeMap<String, bool>,
    functions: BTreeSet<String>,
    /// Functions that are called.
    called: BTreeSet<String>,
    all: bool,
    arguments: bool,
    /// Words with variables that choose commands.
    chosen: String,
    launches: bool,
    /// Whether it has the text of a launch, and whether it runs text.
    has_text: bool,
    runs_text: bool,
    /// Whether it leaves the folder.
    moves: bool,
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

    /// What the expansion of `word` may set.
    fn word(&mut self, word: &str) {
        for (at, open) in word.match_indices('$') {
            let rest = &word[at + open.len()..];
            if rest.starts_with("((") || rest.starts_with('[') {
                assigned(rest).into_iter().for_each(|name| self.name(name, false));
            }
            let Some(rest) = rest.strip_prefix('{') else { continue };
            let (name, behind) = rest.split_at(rest.find(|c| !is_part(c)).unwrap_or(rest.len()));
            let behind = behind.split_once(']').map_or(behind, |(_, behind)| behind);
            if behind.trim_start_matches(':').starts_with('=') {
                self.name(name, true);
            }
        }
    }

    /// What the command `name` of bash may change, with the words `rest` as they are written.
    pub(super) fn add_builtin(&mut self, name: &str, rest: &[String]) {
        let has = |all: &[&str]| rest.iter().any(|word| all.iter().any(|part| word.contains(part)));
        match name {
            _ if DECLARING.contains(&name) => {
                for word in rest.iter().filter(|word| !word.starts_with(['-', '+'])) {
                    match is_name(assigned_name(word)) {
                        true => self.name(assigned_name(word), word.contains("--")),
                        false => self.all = true,
                    }
                }
            }
            "printf" if !has(&["-v"]) => {}
            "read" | "mapfile" | "readarray" | "getopts" | "printf" | "let" | "unset" => {
                rest.iter().for_each(|word| self.all_of(word));
                let implied = ["REPLY", "MAPFILE", "OPTARG", "OPTIND"];
                implied.into_iter().for_each(|name| self.name(name, true));
                self.functions.extend(rest.iter().filter(|_| name == "unset").cloned());
            }
            "command" => self.all |= !has(&["-v", "-V"]),
            "source" | "." => self.all |= !has(&["bin/activate", "/conda.sh"]),
            "trap" => self.all |= has(&["DEBUG", "ERR", "RETURN"]),
            "shopt" => self.all |= has(&["expand_aliases", "lastpipe", "nullglob"]),
            "shift" => self.arguments = true,
            "set" => {
                let is_option = |word: &String| word.len() > 1 && word.starts_with(['-', '+']);
                self.arguments |=
                    has(&["--"]) || !rest.iter().all(|word| is_option(word) || word == "pipefail");
            }
            "cd" | "pushd" | "popd" => self.moves = true,
            "eval" | "builtin" => self.all = true,
            _ => {}
        }
    }
}

/// Whether `node` has variables of its own in a function, or may leave it early.
pub(super) fn leaves(node: &Node) -> bool {
    let words = ["declare", "local", "return", "typeset"];
    match node {
        Node::Simple(own) => own.words.first().is_some_and(|first| words.contains(&first.as_str())),
        node => node.parts().into_iter().any(leaves),
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
        // What they choose is a program, unless they are set here.
        own.all |= own.names.keys().any(|name| own.chosen.contains(name));
        if own.launches || own.has_text && own.runs_text {
            self.script.refused.get_or_insert(part.to_owned());
        }
        self.change(own);
        self.status = Truth::Unknown;
        Ok(())
    }

    /// Leaves unknown what is in `effects`.
    pub(super) fn change(&mut self, effects: Effects) {
        if effects.all {
            self.forget();
        }
        for (name, flags) in effects.names {
            let old = self.state.variables.get(&name).is_some_and(Value::has_flags);
            self.set(&name, Value::Unknown(flags || old));
        }
        self.state.functions.extend(effects.functions.into_iter().map(|name| (name, None)));
        self.state.has_moved |= effects.moves;
        if effects.arguments {
            self.state.arguments = Some(super::any_arguments());
        }
    }

    fn add_effects(&mut self, node: &Node, own: &mut Effects) -> Result<(), String> {
        self.work(64)?;
        self.deepen()?;
        node.words().into_iter().for_each(|word| own.word(word));
        match node {
            Node::Simple(simple) => self.add_simple(simple, own)?,
            Node::For(name, ..) => own.name(name, true),
            Node::Sum(text) => {
                assigned(text).into_iter().for_each(|name| own.name(name, false));
            }
            Node::Test(_) => own.name("BASH_REMATCH", true),
            Node::Function(name, body) => {
                own.functions.insert(name.clone());
                self.add_effects(body, own)?;
            }
            _ => {}
        }
        for part in node.parts() {
            self.add_effects(part, own)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn add_simple(&mut self, simple: &Simple, own: &mut Effects) -> Result<(), String> {
        let lasts = simple.words.first().is_none_or(|first| DECLARING.contains(&first.as_str()));
        for word in simple.assigned.iter().filter(|_| lasts) {
            own.name(assigned_name(word), word.contains("--"));
        }
        let parts = |word: &String| word.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        own.has_text |= simple.assigned.iter().any(|word| is_launch(&parts(word)));
        let Some((raw, rest)) = simple.words.split_first() else { return Ok(()) };
        let expanded = if lasts { Vec::new() } else { self.words(&simple.words)? };
        let text = simple.input.iter().map(|(text, _)| text);
        let texts = expanded.iter().chain(&simple.words).chain(text);
        let words: Vec<String> = texts.flat_map(parts).collect();
        own.runs_text |= words.iter().any(|word| word == "-c" || word == "eval");
        let mut first = raw.replace(['"', '\'', '\\'], "");
        own.launches |= !is_quiet(&first) && is_launch(&words);
        if first.contains(['$', '`']) {
            first = expanded.first().cloned().unwrap_or_default();
            own.chosen += raw.split(['(', '`']).next().unwrap_or_default();
        }
        match self.state.functions.get(&first).cloned() {
            Some(Some(body)) if own.called.insert(first.clone()) => self.add_effects(&body, own)?,
            Some(Some(_)) => {}
            Some(None) => own.all = true,
            None if is_in(CHANGING, &first) => own.add_builtin(&first, rest),
            None => own.all |= self.may_be_function(&first),
        }
        Ok(())
    }

    /// Whether `name` may be a function of text that is not read.
    pub(super) fn may_be_function(&self, name: &str) -> bool {
        let is_known = name.contains(['/', '.', UNKNOWN]) || is_quiet(name) || is_program(name);
        self.state.forgotten && !is_known
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
