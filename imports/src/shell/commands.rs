//! Simple commands: assignments, commands of bash that change what it knows, and programs that are launched.

use std::rc::Rc;

use super::effects::{CHANGING, Effects, leaves};
use super::expand::{How, WORD, may_name_files};
use super::parse::Simple;
use super::run::{Ended, Reader};
use super::scan::{Parser, is_name, is_part};
use super::value::{Truth, Value};
use super::{COUNTED, END, MANY, UNKNOWN, is_in, is_quiet, many, mark, program_name};

pub(super) const DECLARING: [&str; 5] = ["export", "declare", "typeset", "local", "readonly"];
/// Programs that read a script from a here-document.
const SHELLS: [&str; 5] = ["bash", "sh", "ssh", "sbatch", "zsh"];

/// The name, the index in an array, whether it adds, and the value of `word`, if it is an assignment.
pub(super) fn parts(word: &str) -> Option<(&str, Option<&str>, bool, &str)> {
    let (name, mut rest) = word.split_at(word.find(|c| !is_part(c))?);
    let mut index = None;
    if let Some(inner) = rest.strip_prefix('[') {
        let (own, after) = inner.split_once(']')?;
        (index, rest) = (Some(own), after);
    }
    let adds = rest.starts_with("+=");
    let value = rest.strip_prefix("+=").or_else(|| rest.strip_prefix('='))?;
    is_name(name).then_some((name, index, adds, value))
}

pub(super) fn assigned_name(word: &str) -> &str {
    word.split(['=', '+', '[']).next().unwrap_or_default()
}

impl Reader<'_> {
    /// Gives variable `name` a value, unless the caller gives it another.
    pub(super) fn set(&mut self, name: &str, value: Value) {
        let is_odd = self.state.odd.contains(name);
        let value = if is_odd { Value::Unknown(value.has_flags()) } else { value };
        if !self.given.contains_key(name) {
            self.state.variables.insert(name.to_owned(), value);
        }
    }

    /// Does the assignment `word`.
    fn assign(&mut self, word: &str) -> Result<(), String> {
        let Some((name, index, adds, value)) = parts(word) else { return Ok(()) };
        let list = value.strip_prefix('(').and_then(|list| list.strip_suffix(')'));
        let raw = list.map_or(Ok(Vec::new()), |list| Parser::new(list).words(true))?;
        let words = match list {
            Some(_) => self.words(&raw)?,
            None => vec![self.word(value)?.replace(MANY, "")],
        };
        let mut words: Vec<String> = words.iter().map(|word| Self::named(word, name)).collect();
        self.spend(&words)?;
        let flags = words.iter().any(|word| word.contains("--"));
        let has_key = |word: &String| word.starts_with('[') && word.contains("]=");
        let is_open = raw.iter().any(|word| has_key(word) || may_name_files(word));
        let value = match self.state.variables.get(name) {
            old if is_open || index.is_some() => {
                Value::Unknown(flags || old.is_some_and(Value::has_flags))
            }
            Some(Value::Unknown(old)) if adds => Value::Unknown(*old || flags),
            Some(Value::Words(old)) if adds || list.is_none() => {
                let mut all = old.to_vec();
                self.work(all.iter().map(|word| word.len() + 32).sum())?;
                let is_open =
                    list.is_none() && all.first().is_some_and(|word| many(word).is_some());
                match (list, all.first_mut()) {
                    (None, Some(old)) if adds => *old += &words.concat(),
                    (None, Some(old)) => *old = words.concat(),
                    _ => all.append(&mut words),
                }
                if is_open { Value::Unknown(true) } else { Value::Words(Rc::new(all)) }
            }
            _ => Value::Words(Rc::new(words)),
        };
        // A value that the caller gives only grows.
        let grows = self.given.get(name).is_some_and(|given| match &value {
            Value::Words(all) if list.is_none() => {
                let rest = all.first().and_then(|text| text.strip_prefix(given.as_str()));
                rest.is_some_and(|rest| rest.starts_with(' '))
            }
            _ => adds,
        });
        match grows {
            true => drop(self.state.variables.insert(name.to_owned(), value)),
            false => self.set(name, value),
        }
        Ok(())
    }

    /// `text`, where parts of no name, such as the output of a command, are called `name`.
    fn named(text: &str, name: &str) -> String {
        let mut out = String::new();
        for (at, part) in text.split(UNKNOWN).enumerate() {
            let own = part.trim_start_matches(MANY);
            let several = &part[..part.len() - own.len()];
            match own.split_once(END).filter(|_| at > 0) {
                Some((old, rest)) => {
                    let is_known = is_name(old.trim_start_matches(COUNTED)) || old == "%folder";
                    let own = if is_known { old } else { name };
                    out += &format!("{UNKNOWN}{several}{own}{END}{rest}");
                }
                None => out += part,
            }
        }
        out
    }

    /// `export`, `declare` and the like, with their words as they are written.
    fn declare(&mut self, kind: &str, words: &[String]) -> Result<(), String> {
        let (options, words): (Vec<&String>, Vec<&String>) =
            words.iter().partition(|word| word.starts_with(['-', '+']));
        let has = |letters: &[char]| options.iter().any(|word| word.contains(letters));
        if has(&['f', 'F', 'p']) {
            return Ok(());
        }
        if has(&['n']) && kind != "export" {
            return Err("a name for another, of `declare -n`, is not followed".to_owned());
        }
        let is_odd = has(&['A', 'u', 'l', 'c', 'i']);
        for word in words {
            let name = assigned_name(word);
            match parts(word) {
                // Outside of functions, it is an error.
                _ if kind == "local" && is_name(name) => self.set(name, Value::Unknown(true)),
                Some(_) if is_odd => self.set(name, Value::Unknown(true)),
                Some(_) => self.assign(word)?,
                None if is_name(name) => {}
                None => self.forget(),
            }
            if is_odd || kind == "readonly" || has(&['r']) {
                self.state.odd.insert(name.to_owned());
            }
        }
        Ok(())
    }

    pub(super) fn simple(&mut self, own: &Simple) -> Ended {
        let takes_output = |words: &[String]| words.iter().any(|word| word.contains(['(', '`']));
        if let Some(kind) = own.words.first().filter(|first| DECLARING.contains(&first.as_str())) {
            for word in &own.assigned {
                // It lasts if it is declared.
                self.set(assigned_name(word), Value::Unknown(true));
            }
            self.declare(kind, &own.words[1..])?;
            self.status = if takes_output(&own.words) { Truth::Unknown } else { Truth::Yes };
            return Ok(false);
        }
        let words = self.words(&own.words)?;
        let old = |name: String| (name.clone(), self.state.variables.get(&name).cloned());
        let before: Vec<_> =
            own.assigned.iter().map(|word| old(assigned_name(word).to_owned())).collect();
        for word in &own.assigned {
            self.assign(word)?;
        }
        if words.is_empty() {
            self.status = if takes_output(&own.assigned) { Truth::Unknown } else { Truth::Yes };
            return Ok(false);
        }
        let ended = self.command(&words, own)?;
        // What is assigned before a command is of it alone.
        for (name, old) in before.into_iter().rev() {
            match old {
                Some(old) => drop(self.state.variables.insert(name, old)),
                None => drop(self.state.variables.remove(&name)),
            }
        }
        Ok(ended)
    }

    fn command(&mut self, words: &[String], own: &Simple) -> Ended {
        let Some((name, rest)) = words.split_first() else { return Ok(false) };
        let function = self.state.functions.get(name).cloned();
        if let Some(Some(body)) = &function {
            return self.call(body, rest.to_vec());
        }
        self.status = match name.as_str() {
            _ if function.is_some() => {
                self.forget();
                Truth::Unknown
            }
            "exit" | "exec" if name == "exit" || !rest.is_empty() => {
                if name == "exec" {
                    self.program(rest, own)?;
                }
                self.status = Truth::Unknown;
                return Ok(true);
            }
            "command" | "builtin" if rest.first().is_some_and(|word| !word.starts_with('-')) => {
                return self.command(rest, own);
            }
            "eval" => return self.run(&rest.join(" "), true),
            "source" | "." => return self.source(rest),
            ":" | "true" | "echo" => Truth::Yes,
            "false" => Truth::No,
            "test" => self.brackets(rest)?,
            "[" => self.brackets(rest.strip_suffix(&["]".to_owned()]).unwrap_or(rest))?,
            "let" if rest.len() == 1 => self.holds(&rest[0])?,
            "shift" if self.state.arguments.is_none() => Truth::Unknown,
            "unset" if rest.iter().all(|word| is_name(word)) => {
                for name in rest {
                    match self.state.functions.get_mut(name) {
                        Some(body) => *body = None,
                        None => self.set(name, Value::Words(Rc::default())),
                    }
                }
                Truth::Yes
            }
            "cd" if rest.concat().replace(MANY, "") == mark("%folder") => Truth::Unknown,
            name if is_in(CHANGING, name) => {
                let mut effects = Effects::default();
                effects.add_builtin(name, rest);
                self.change(effects);
                Truth::Unknown
            }
            "exec" | "break" | "continue" => Truth::Unknown,
            _ => {
                self.program(words, own)?;
                Truth::Unknown
            }
        };
        Ok(false)
    }

    /// Follows a file that lies beside the script; any other may set all but the environments of Python, which set
    /// nothing else than paths.
    fn source(&mut self, words: &[String]) -> Ended {
        let path = words.first().map_or(String::new(), |path| path.replace(MANY, ""));
        if path.ends_with("bin/activate") || path.ends_with("/conda.sh") {
            return Ok(false);
        }
        let folder = mark("%folder") + "/";
        let name = path.strip_prefix(&folder).or((!self.state.has_moved).then_some(&path));
        let name = name.filter(|name| words.len() == 1 && !name.contains(UNKNOWN));
        let Some((name, text)) = name.and_then(|name| Some((name, (self.beside)(name)?))) else {
            self.forget();
            return Ok(false);
        };
        self.work(text.len() * 4)?;
        let text = super::plain(&text);
        let in_file = |why: String| format!("{}, {why}", question::quote::clip(name));
        let tree = Parser::new(&text).list(&[]).map_err(in_file)?;
        self.script.sourced.push((name.to_owned(), text.clone()));
        if leaves(&tree) {
            self.lose(&[&tree], "a file with `return` or `declare`")?;
            return Ok(false);
        }
        let outside = std::mem::replace(&mut self.in_file, true);
        let ended = self.follow(&tree)?;
        self.in_file = outside;
        Ok(ended)
    }

    /// Follows the commands in `text`; in this shell, or in one of its own.
    fn run(&mut self, text: &str, here: bool) -> Ended {
        self.work(text.len() * 4)?;
        let node = Parser::new(text).list(&[]).ok();
        let Some(node) = node.filter(|_| !text.trim_start().starts_with(UNKNOWN)) else {
            if here {
                self.forget();
            }
            let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            self.record(&words)?;
            return Ok(false);
        };
        match here {
            true if leaves(&node) => {
                self.lose(&[&node], "`eval` of `return` or `declare`").map(|()| false)
            }
            true => self.follow(&node),
            false => self.apart(&node).map(|()| false),
        }
    }

    fn program(&mut self, words: &[String], own: &Simple) -> Result<(), String> {
        let has_shell = words.iter().position(|word| SHELLS.contains(&program_name(word)));
        if let Some((text, expands)) = &own.input {
            let how = How { quoted: true, ..WORD };
            let text =
                if *expands { self.one(&text.replace('"', "\\\""), how)? } else { text.clone() };
            if has_shell.is_some() {
                self.run(&text, false)?;
            } else if text.contains("--num-layers") || text.contains("torchrun ") {
                self.script.refused.get_or_insert("a here-document".to_owned());
            }
        }
        let inner = has_shell.map_or(&[][..], |at| &words[at..]);
        let is_text =
            |word: &String| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
        let text = inner.iter().position(is_text).and_then(|at| inner.get(at + 1));
        if let Some(text) = text {
            self.run(text, false)?;
            // Its launcher may say how many devices there are.
            let outside = words[..words.len() - inner.len()].iter();
            if let Some(command) = self.script.commands.last_mut() {
                command.splice(0..0, outside.filter(|word| many(word).is_none()).cloned());
            }
        } else {
            if words.first().is_some_and(|first| self.may_be_function(first)) {
                self.forget();
            }
            self.record(words)?;
        }
        Ok(())
    }

    /// Keeps a command that may be a launch.
    fn record(&mut self, words: &[String]) -> Result<(), String> {
        let first = words.first().map_or("", String::as_str);
        if !is_quiet(first) && !first.starts_with('-') {
            self.spend(words)?;
            self.script.commands.push(words.to_vec());
        }
        Ok(())
    }
}
