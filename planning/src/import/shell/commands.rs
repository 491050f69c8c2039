//! Simple commands: those of bash that change what it knows, and programs that are launched.

use super::parse::Simple;
use super::run::{Flow, Reader};
use super::scan::{Parser, is_name};
use super::state::{Truth, Value};
use super::{UNKNOWN, is_launch, is_quiet, many, program_name};

const DECLARING: [&str; 5] = ["export", "declare", "typeset", "local", "readonly"];
/// Programs that read a script from a here-document.
const SHELLS: [&str; 5] = ["bash", "sh", "ssh", "sbatch", "zsh"];

fn assigned_name(word: &str) -> &str {
    word.split(['=', '+', '[']).next().unwrap_or_default()
}

impl Reader<'_> {
    pub(super) fn simple(&mut self, own: &Simple) -> Result<Flow, String> {
        if let Some(kind) = own.words.first().filter(|first| DECLARING.contains(&first.as_str())) {
            if kind == "local" && self.state.locals.is_empty() {
                self.status = Truth::No;
                return Ok(Flow::Next);
            }
            for word in &own.assigned {
                self.assign(word)?;
                // It lasts if it is declared.
                self.set(assigned_name(word), Value::Unknown(true));
            }
            self.declare(kind, &own.words[1..])?;
            let takes_output = own.words.iter().any(|word| word.contains(['(', '`']));
            self.status = if takes_output { Truth::Unknown } else { Truth::Yes };
            return Ok(Flow::Next);
        }
        let words = self.words(&own.words)?;
        let before: Vec<_> = match words.is_empty() {
            true => Vec::new(),
            false => {
                let names = own.assigned.iter().map(|word| assigned_name(word).to_owned());
                names.map(|name| (name.clone(), self.state.variables.get(&name).cloned())).collect()
            }
        };
        for word in &own.assigned {
            self.assign(word)?;
        }
        if words.is_empty() {
            let takes_output =
                own.assigned.iter().any(|word| word.contains("$(") || word.contains('`'));
            self.status = if takes_output { Truth::Unknown } else { Truth::Yes };
            return Ok(Flow::Next);
        }
        let flow = self.command(&words, own)?;
        // What is assigned before a command is of it alone.
        self.state.restore(before.into_iter().rev());
        Ok(flow)
    }

    fn command(&mut self, words: &[String], own: &Simple) -> Result<Flow, String> {
        let Some((name, rest)) = words.split_first() else { return Ok(Flow::Next) };
        let status = std::mem::replace(&mut self.status, Truth::Unknown);
        match self.state.functions.get(name).cloned() {
            Some(Some(body)) => {
                self.status = status;
                return self.call(&body, rest.to_vec());
            }
            Some(None) => self.forget(),
            None => match self.jump(name, rest, status) {
                Some(flow) => return Ok(flow),
                None => return self.builtin(words, own),
            },
        }
        Ok(Flow::Next)
    }

    /// How a command goes on that leaves a loop, a function or the script.
    fn jump(&mut self, name: &str, rest: &[String], status: Truth) -> Option<Flow> {
        let number = rest.first().map(|number| number.parse::<usize>());
        let levels = || number.clone().unwrap_or(Ok(1)).unwrap_or(1).clamp(1, self.loops.max(1));
        let flow = match name {
            "exit" => Flow::Exit,
            "return" if !self.state.locals.is_empty() => Flow::Return,
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

    fn builtin(&mut self, words: &[String], own: &Simple) -> Result<Flow, String> {
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
            "source" | "." => self.source(rest),
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
                let all = self.state.arguments.as_mut().filter(|all| all.len() >= count);
                all.into_iter().for_each(|all| drop(all.drain(..count)));
            }
            "trap" if has(&["DEBUG", "ERR", "RETURN"]) => self.forget(),
            "shopt" if has(&["expand_aliases", "lastpipe", "nullglob"]) => {
                return Err("`shopt` changes how it is read".to_owned());
            }
            _ => self.program(words, own)?,
        }
        Ok(Flow::Next)
    }

    /// Forgets what a script that is not read may set; the environments of Python set nothing else than paths.
    fn source(&mut self, words: &[String]) {
        let path = words.first().map_or("", String::as_str);
        if !path.ends_with("bin/activate") && !path.ends_with("/conda.sh") {
            self.forget();
        }
    }

    fn read_into(&mut self, words: &[String]) {
        if words.iter().any(|word| word.contains(UNKNOWN)) {
            return self.forget();
        }
        let implied = ["REPLY", "MAPFILE", "OPTARG", "OPTIND"].map(str::to_owned);
        for name in words.iter().chain(&implied) {
            let name = name.split('[').next().unwrap_or_default();
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
                    self.set(word, Value::Unset);
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
    fn run(&mut self, text: &str, here: bool) -> Result<Flow, String> {
        self.work(text.len() * 4)?;
        let node = Parser::new(text, 0).list(&[]).ok();
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
            let how = super::expand::How { splits: false, quoted: true, pattern: false };
            let text =
                if *expands { self.one(&text.replace('"', "\\\""), how)? } else { text.clone() };
            match has_shell {
                Some(_) => drop(self.run(&text, false)?),
                None if text.contains("--num-layers") || text.contains("torchrun ") => {
                    self.refuse("a here-document".to_owned());
                }
                None => {}
            }
        }
        let inner = has_shell.map_or(&[][..], |at| &words[at..]);
        let is_text =
            |word: &String| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
        if let Some(at) = inner.iter().position(is_text)
            && let Some(text) = inner.get(at + 1)
        {
            self.run(text, false)?;
            // Its launcher may say how many devices there are.
            let outside = words.len() - inner.len();
            self.record_inside(&words[..outside]);
            self.status = Truth::Unknown;
            return Ok(());
        }
        // A function of text that is not read may be called so.
        let first = words.first().map_or("", String::as_str);
        let is_program =
            first.contains(['/', '.', UNKNOWN]) || is_quiet(first) || super::is_program(first);
        if self.state.forgotten && !is_program {
            self.forget();
        }
        self.record(words)?;
        self.status = Truth::Unknown;
        Ok(())
    }

    fn refuse(&mut self, part: String) {
        self.script.refused.get_or_insert(part);
    }

    /// Keeps a command that may be a launch.
    fn record(&mut self, words: &[String]) -> Result<(), String> {
        let first = words.first().map_or("", String::as_str);
        if is_quiet(first) || first.starts_with('-') {
            return Ok(());
        }
        match self.parts.last() {
            None => {
                self.spend(words)?;
                self.script.commands.push(words.to_vec());
            }
            Some(part) if is_launch(words) => self.refuse(part.clone()),
            Some(_) => {}
        }
        Ok(())
    }

    /// Puts the words of a launcher in front of the command that it starts.
    fn record_inside(&mut self, launcher: &[String]) {
        if let Some(command) = self.script.commands.last_mut().filter(|_| self.parts.is_empty()) {
            command.splice(0..0, launcher.iter().filter(|word| many(word).is_none()).cloned());
        }
    }
}
