//! Simple commands: assignments, commands of bash that change what it knows, and programs that are launched.

use std::rc::Rc;

use super::expand::{How, WORD, may_name_files, raw_words};
use super::parse::Simple;
use super::run::{Flow, Followed, Reader};
use super::scan::{Parser, is_name, is_part};
use super::value::{Truth, Value};
use super::{COUNTED, END, MANY, UNKNOWN, is_launch, is_quiet, many, mark, program_name};

pub(super) const DECLARING: [&str; 5] = ["export", "declare", "typeset", "local", "readonly"];
/// Programs that read a script from a here-document.
const SHELLS: [&str; 5] = ["bash", "sh", "ssh", "sbatch", "zsh"];

/// An assignment: the name, the index in an array, whether it adds, and the value.
pub(super) struct Parts<'t> {
    name: &'t str,
    index: Option<&'t str>,
    adds: bool,
    value: &'t str,
}

/// The parts of `word`, if it is an assignment.
pub(super) fn parts(word: &str) -> Option<Parts<'_>> {
    let (name, mut rest) = word.split_at(word.find(|c| !is_part(c))?);
    let mut index = None;
    if let Some(inner) = rest.strip_prefix('[') {
        let (own, after) = inner.split_once(']')?;
        (index, rest) = (Some(own), after);
    }
    let adds = rest.starts_with("+=");
    let value = rest.strip_prefix("+=").or_else(|| rest.strip_prefix('='))?;
    is_name(name).then_some(Parts { name, index, adds, value })
}

pub(super) fn assigned_name(word: &str) -> &str {
    word.split(['=', '+', '[']).next().unwrap_or_default()
}

/// Whether `words` take the output of a command.
fn takes_output(words: &[String]) -> bool {
    words.iter().any(|word| word.contains("$(") || word.contains('`'))
}

impl Reader<'_> {
    /// Gives variable `name` a value, unless the caller gives it another.
    pub(super) fn set(&mut self, name: &str, value: Value) {
        // Values of these have forms that are not followed.
        let is_odd = self.state.odd.contains_key(name);
        let value = if is_odd { Value::Unknown(value.has_flags()) } else { value };
        if !self.given.contains_key(name) {
            self.state.variables.insert(name.to_owned(), value);
        }
    }

    pub(super) fn set_text(&mut self, name: &str, text: String) -> Result<(), String> {
        self.spend(std::slice::from_ref(&text))?;
        self.set(name, Value::of(text));
        Ok(())
    }

    /// Does the assignment `word`.
    fn assign(&mut self, word: &str) -> Result<(), String> {
        let Some(Parts { name, index, adds, value }) = parts(word) else { return Ok(()) };
        if self.state.odd.get(name) == Some(&true) {
            return Err(format!("{name} is fixed, and assigned again"));
        }
        let list = value.strip_prefix('(').and_then(|list| list.strip_suffix(')'));
        let list = list.filter(|_| index.is_none());
        let raw = list.map_or(Ok(Vec::new()), raw_words)?;
        let words = match list {
            Some(_) => self.words(&raw)?,
            None => vec![self.word(value)?.replace(MANY, "")],
        };
        let words: Vec<String> = words.iter().map(|word| Self::named(word, name)).collect();
        self.spend(&words)?;
        let flags = words.iter().any(|word| word.contains("--"));
        let has_keys = raw.iter().any(|word| word.starts_with('[') && word.contains("]="));
        let is_open = has_keys || raw.iter().any(|word| may_name_files(word));
        // A value that the caller gives only grows.
        let given = self.given.get(name);
        let index = if list.is_none() { Some(self.sum(index.unwrap_or("0"))?.ok()) } else { None };
        let keeps = adds || index.is_some();
        let old = match self.state.variables.get(name) {
            Some(Value::Unknown(old)) if adds || parts(word).is_some_and(|own| own.index.is_some()) => {
                self.set(name, Value::Unknown(*old || flags));
                return Ok(());
            }
            Some(Value::Words(all)) if keeps => Rc::clone(all),
            _ => Rc::default(),
        };
        self.work(old.len() * 32 + old.iter().map(String::len).sum::<usize>())?;
        let is_counted = !old.iter().any(|word| many(word).is_some());
        let mut all = Rc::unwrap_or_clone(old);
        let index = index.map(|index| index.and_then(|index| usize::try_from(index).ok()));
        let is_known = match index {
            None => {
                all.extend(words);
                !is_open
            }
            Some(Some(index)) if index <= all.len() && is_counted => {
                let text = words.concat();
                match all.get_mut(index) {
                    Some(old) if adds => old.push_str(&text),
                    Some(old) => *old = text,
                    None => all.push(text),
                }
                true
            }
            Some(_) => false,
        };
        let grows = match given {
            Some(_) if list.is_some() => adds,
            Some(given) => {
                let rest = all.first().and_then(|text| text.strip_prefix(given.as_str()));
                rest.is_some_and(|rest| rest.starts_with(' '))
            }
            None => false,
        };
        let value = if is_known { Value::Words(Rc::new(all)) } else { Value::Unknown(true) };
        if grows && is_known {
            self.state.variables.insert(name.to_owned(), value);
        } else {
            self.set(name, value);
        }
        Ok(())
    }

    /// `text`, where parts of no name, such as the output of a command, are called `name`.
    pub(super) fn named(text: &str, name: &str) -> String {
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
        let is_local = !self.state.locals.is_empty()
            && matches!(kind, "local" | "declare" | "typeset")
            && !has(&['g']);
        for raw in words {
            let is_assigned = parts(raw).is_some();
            let all = match is_assigned {
                true => vec![raw.clone()],
                false => self.words(std::slice::from_ref(raw))?,
            };
            for word in all {
                let name = assigned_name(&word);
                if !is_name(name) {
                    self.forget();
                    continue;
                }
                if is_local {
                    let gets_value = parts(&word).is_some_and(|own| !own.adds);
                    self.localize(name, gets_value);
                }
                if has(&['A', 'u', 'l', 'c', 'i']) {
                    self.state.odd.insert(name.to_owned(), false);
                }
                match parts(&word) {
                    _ if is_assigned => self.assign(&word)?,
                    Some(Parts { index: None, adds: false, value, .. }) => {
                        self.set_text(name, Self::named(value, name))?;
                    }
                    Some(_) => self.set(name, Value::Unknown(true)),
                    None => {}
                }
                if kind == "readonly" || has(&['r']) {
                    self.state.odd.insert(name.to_owned(), true);
                }
            }
        }
        Ok(())
    }

    /// Makes `name` a variable of the function that runs; it keeps its value if it gets one at once.
    fn localize(&mut self, name: &str, gets_value: bool) {
        let old = self.state.variables.get(name).cloned();
        if let Some(locals) = self.state.locals.last_mut()
            && !locals.iter().any(|(own, _)| own == name)
        {
            locals.push((name.to_owned(), old));
        }
        if !gets_value {
            self.set(name, Value::unset());
        }
    }

    pub(super) fn simple(&mut self, own: &Simple) -> Followed {
        if let Some(kind) = own.words.first().filter(|first| DECLARING.contains(&first.as_str())) {
            if kind == "local" && self.state.locals.is_empty() {
                self.status = Truth::No;
                return Ok(Flow::Next);
            }
            for word in &own.assigned {
                // It lasts if it is declared.
                self.assign(word)?;
                self.set(assigned_name(word), Value::Unknown(true));
            }
            self.declare(kind, &own.words[1..])?;
            let is_open = own.words.iter().any(|word| word.contains(['(', '`']));
            self.status = if is_open { Truth::Unknown } else { Truth::Yes };
            return Ok(Flow::Next);
        }
        let words = self.words(&own.words)?;
        let names = own.assigned.iter().map(|word| assigned_name(word).to_owned());
        let before: Vec<_> =
            names.map(|name| (name.clone(), self.state.variables.get(&name).cloned())).collect();
        for word in &own.assigned {
            self.assign(word)?;
        }
        if words.is_empty() {
            let is_open = takes_output(&own.assigned);
            self.status = if is_open { Truth::Unknown } else { Truth::Yes };
            return Ok(Flow::Next);
        }
        let flow = self.command(&words, own)?;
        // What is assigned before a command is of it alone.
        self.state.restore(before.into_iter().rev());
        Ok(flow)
    }

    fn command(&mut self, words: &[String], own: &Simple) -> Followed {
        let Some((name, rest)) = words.split_first() else { return Ok(Flow::Next) };
        match self.state.functions.get(name).cloned() {
            Some(Some(body)) => return self.call(&body, rest.to_vec()),
            Some(None) => self.forget(),
            None => {
                let status = std::mem::replace(&mut self.status, Truth::Unknown);
                match self.jump(name, rest, status) {
                    Some(flow) => return Ok(flow),
                    None => return self.builtin(words, own),
                }
            }
        }
        self.status = Truth::Unknown;
        Ok(Flow::Next)
    }

    /// How a command goes on that leaves a loop, a function or the script.
    fn jump(&mut self, name: &str, rest: &[String], status: Truth) -> Option<Flow> {
        let number = rest.first().map(|number| number.parse::<usize>());
        let levels = || number.clone().unwrap_or(Ok(1)).unwrap_or(1).clamp(1, self.loops.max(1));
        let flow = match name {
            "exit" => Flow::Exit,
            "return" if !self.state.locals.is_empty() || self.in_file > 0 => Flow::Return,
            "break" if self.loops > 0 => Flow::Break(levels()),
            "continue" if self.loops > 0 => Flow::Continue(levels()),
            "break" | "continue" => Flow::Next,
            _ => return None,
        };
        self.status = match (name, number) {
            ("break" | "continue", _) => Truth::Yes,
            (_, None) => status,
            (_, Some(code)) => code.map_or(Truth::Unknown, |code| Truth::of(code == 0)),
        };
        Some(flow)
    }

    fn builtin(&mut self, words: &[String], own: &Simple) -> Followed {
        let rest = &words[1..];
        let has = |names: &[&str]| rest.iter().any(|word| names.contains(&word.as_str()));
        match words[0].as_str() {
            ":" | "true" | "echo" => self.status = Truth::Yes,
            "false" => self.status = Truth::No,
            "test" => self.status = self.brackets(rest)?,
            "[" => {
                let inner = rest.strip_suffix(&["]".to_owned()]).unwrap_or(rest);
                self.status = self.brackets(inner)?;
            }
            "exec" if rest.is_empty() => {}
            "exec" => {
                self.program(rest, own)?;
                return Ok(Flow::Exit);
            }
            "command" | "builtin" if rest.first().is_some_and(|word| !word.starts_with('-')) => {
                return self.command(rest, own);
            }
            name if DECLARING.contains(&name) => self.forget(),
            "eval" => return self.run(&rest.join(" "), true),
            "source" | "." => return self.source(rest),
            "printf" if !has(&["-v"]) => self.status = Truth::Yes,
            "getopts" if self.state.arguments.is_none() => {
                self.alone = true;
                self.status = Truth::No;
            }
            "read" | "mapfile" | "readarray" | "getopts" | "printf" => self.read_into(rest),
            "let" => {
                for text in rest {
                    self.status = self.holds(text)?;
                }
            }
            "unset" => self.unset(rest),
            "set" => self.options(rest),
            "shift" => {
                let count = rest.first().and_then(|count| count.parse().ok()).unwrap_or(1);
                match self.state.arguments.as_mut() {
                    Some(all) if all.iter().any(|word| many(word).is_some()) => {}
                    Some(all) if all.len() >= count => drop(all.drain(..count)),
                    _ => {}
                }
            }
            "trap" if has(&["DEBUG", "ERR", "RETURN"]) => self.forget(),
            "shopt" if has(&["expand_aliases", "lastpipe", "nullglob"]) => {
                return Err("`shopt` changes how it is read".to_owned());
            }
            "cd" | "pushd" | "popd" => self.state.has_moved |= rest != [mark("%folder")],
            _ => self.program(words, own)?,
        }
        Ok(Flow::Next)
    }

    /// Follows a file that lies beside the script; any other may set all but the environments of Python, which set
    /// nothing else than paths.
    fn source(&mut self, words: &[String]) -> Followed {
        let path = words.first().map_or("", String::as_str);
        if path.ends_with("bin/activate") || path.ends_with("/conda.sh") {
            return Ok(Flow::Next);
        }
        let folder = mark("%folder") + "/";
        let name = path.strip_prefix(&folder).or((!self.state.has_moved).then_some(path));
        let name = name.filter(|name| words.len() == 1 && !name.contains(UNKNOWN));
        let Some((name, text)) = name.and_then(|name| Some((name, (self.beside)(name)?))) else {
            self.forget();
            return Ok(Flow::Next);
        };
        self.work(text.len() * 4)?;
        let text = super::plain(&text);
        let in_file = |why: String| format!("{}, {why}", question::quote::clip(name));
        let mut parser = Parser::new(&text);
        let tree = parser.list(&[]).map_err(in_file)?;
        self.script.sourced.push((name.to_owned(), text.clone()));
        self.in_file += 1;
        let flow = self.follow(&tree)?;
        self.in_file -= 1;
        match flow {
            Flow::Lost => self.lose(&[&tree], "a file that a run may leave before"),
            Flow::Return => Ok(Flow::Next),
            flow => Ok(flow),
        }
    }

    fn read_into(&mut self, words: &[String]) {
        if words.iter().any(|word| word.contains(UNKNOWN)) {
            return self.forget();
        }
        let implied = ["REPLY", "MAPFILE", "OPTARG", "OPTIND"].map(str::to_owned);
        for name in words.iter().chain(&implied).map(|name| assigned_name(name)) {
            if is_name(name) {
                self.set(name, Value::Unknown(true));
            }
        }
    }

    fn unset(&mut self, words: &[String]) {
        let of_functions = words.first().is_some_and(|word| word == "-f");
        for word in words.iter().filter(|word| !word.starts_with('-')) {
            match word.split_once('[') {
                _ if word.contains(UNKNOWN) => self.forget(),
                Some((name, _)) => self.set(name, Value::Unknown(true)),
                None if of_functions => drop(self.state.functions.remove(word)),
                None => {
                    if !self.state.variables.contains_key(word) {
                        self.state.functions.remove(word);
                    }
                    self.state.odd.remove(word);
                    self.set(word, Value::unset());
                }
            }
        }
    }

    fn options(&mut self, words: &[String]) {
        self.status = Truth::Yes;
        let mut words = words;
        while let Some((first, rest)) =
            words.split_first().filter(|(first, _)| first.starts_with(['-', '+']))
        {
            if first == "--" || first == "-" {
                self.state.arguments = Some(rest.to_vec());
                return;
            }
            let named = first.ends_with('o').then(|| rest.first()).flatten();
            if first[1..].contains('e') || named.is_some_and(|name| name == "errexit") {
                self.state.ends_on_failure = first.starts_with('-');
            }
            words = if named.is_some() { &rest[1..] } else { rest };
        }
        if !words.is_empty() {
            self.state.arguments = Some(words.to_vec());
        }
    }

    /// Follows the commands in `text`; in this shell, or in one of its own.
    fn run(&mut self, text: &str, here: bool) -> Followed {
        self.work(text.len() * 4)?;
        let node = Parser::new(text).list(&[]).ok();
        let Some(node) = node.filter(|_| !text.trim_start().starts_with(UNKNOWN)) else {
            if here {
                self.forget();
            }
            let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            self.record(&words)?;
            return Ok(Flow::Next);
        };
        match here {
            true => self.follow(&node),
            false => self.apart(&node),
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
            if let Some(command) = self.script.commands.last_mut().filter(|_| self.parts.is_empty())
            {
                command.splice(0..0, outside.filter(|word| many(word).is_none()).cloned());
            }
        } else {
            // A function of text that is not read may be called so.
            let first = words.first().map_or("", String::as_str);
            let is_program =
                first.contains(['/', '.', UNKNOWN]) || is_quiet(first) || super::is_program(first);
            if self.state.forgotten && !is_program {
                self.forget();
            }
            self.record(words)?;
        }
        self.status = Truth::Unknown;
        Ok(())
    }

    /// Keeps a command that may be a launch.
    fn record(&mut self, words: &[String]) -> Result<(), String> {
        let first = words.first().map_or("", String::as_str);
        match self.parts.last() {
            _ if is_quiet(first) || first.starts_with('-') => {}
            None => {
                self.spend(words)?;
                self.script.commands.push(words.to_vec());
            }
            Some(part) if is_launch(words) => {
                self.script.refused.get_or_insert((*part).to_owned());
            }
            Some(_) => {}
        }
        Ok(())
    }
}
