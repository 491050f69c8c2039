//! Expansion of quotes, parameters, commands and sums in words.

use super::run::Reader;
use super::scan::{Parser, is_name, is_part};
use super::value::{Held, Truth, Value};
use super::{END, MANY, UNKNOWN, counted, many, mark, unknowns};

/// How a text is expanded.
#[derive(Clone, Copy)]
pub(super) struct How {
    /// Whether values are cut into words at blanks.
    pub(super) splits: bool,
    /// Whether it stands in double quotes.
    pub(super) quoted: bool,
}

pub(super) const WORD: How = How { splits: false, quoted: false };

/// Words that are being made.
#[derive(Default)]
pub(super) struct Words {
    all: Vec<String>,
    now: String,
    /// Whether a word is begun, be it empty.
    begun: bool,
    bytes: usize,
    /// Whether an array without words stands in the quotes.
    is_gone: bool,
}

impl Words {
    fn push(&mut self, c: char) {
        self.now.push(c);
        self.begun = true;
        self.bytes += 1;
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.begun) {
            self.all.push(std::mem::take(&mut self.now));
        }
    }

    /// Adds a value.
    fn value(&mut self, text: &str, how: How) {
        let splits = how.splits && !how.quoted;
        let mut inside = false;
        for c in text.chars() {
            match c {
                ' ' | '\t' | '\n' if splits && !inside => self.end(),
                MANY if splits => {}
                c => self.push(c),
            }
            if splits && c == UNKNOWN {
                self.push(MANY);
            }
            inside = c == UNKNOWN || inside && c != END;
        }
        self.begun |= how.quoted;
    }

    /// Adds the words of an array.
    fn values(&mut self, words: &[String], how: How, is_list: bool) {
        self.is_gone |= words.is_empty() && is_list;
        for (at, word) in words.iter().enumerate() {
            match at {
                0 => {}
                _ if how.splits && (is_list || !how.quoted) => self.end(),
                _ => self.push(' '),
            }
            self.value(word, how);
        }
    }
}

/// Whether names of files may come in place of the word `raw`.
pub(super) fn may_name_files(raw: &str) -> bool {
    let is_quoted = raw.contains(['\'', '"', '\\', '$']);
    let is_pattern = raw.contains(|c: char| c.is_ascii_alphabetic() || c == '/') || raw.len() < 3;
    !is_quoted && is_pattern && raw.contains(['*', '?'])
}

/// Whether several words come in place of `raw`, by braces.
fn has_braces(raw: &str) -> bool {
    let mut parser = Parser::new(raw);
    let mut plain = String::new();
    while !parser.rest().is_empty() {
        let from = parser.at;
        if parser.piece(false).is_err() {
            return false;
        }
        let piece = &raw[from..parser.at];
        plain += if piece.len() == 1 { piece } else { "x" };
    }
    let mut inner = plain.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
    inner.any(|inner| inner.contains(',') || inner.contains(".."))
}

/// Whether `command`, in `$( )`, is the folder of the script.
fn is_folder(command: &str) -> bool {
    let known = ["cd", "dirname", "BASH_SOURCE", "0", "pwd", "readlink", "realpath", "f", "P"];
    let mut words = command.split(|c: char| !is_part(c)).filter(|word| !word.is_empty());
    let is_known =
        |word: &str| known.contains(&word) || ["e", "s", "dev", "null", "1"].contains(&word);
    words.clone().all(is_known)
        && words.clone().filter(|word| *word == "dirname").count() == 1
        && words.any(|word| word == "BASH_SOURCE" || word == "0")
        && !command.contains("..")
}

/// Whether a word of `all` may be several.
fn has_many(all: &[String]) -> bool {
    all.iter().any(|word| many(word).is_some())
}

/// The name, the index and the operator of the parameter `text`, and whether it is a length.
fn parts(text: &str) -> (&str, &str, &str, bool) {
    let bare = text.trim_start_matches('#');
    let counts = text.starts_with('#') && bare.starts_with(is_part);
    let text = if counts { bare } else { text };
    let sign = text.chars().next().filter(|c| !is_part(*c)).map(char::len_utf8);
    let end = sign.or_else(|| text.find(|c| !is_part(c))).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((index, rest)) => (name, index, rest, counts),
        None if matches!(name, "@" | "*") => (name, name, rest, counts),
        None => (name, "0", rest, counts),
    }
}

impl Reader<'_> {
    /// The words that come of `raw` ones.
    pub(super) fn words(&mut self, raw: &[String]) -> Result<Vec<String>, String> {
        let mut words = Words::default();
        let how = How { splits: true, ..WORD };
        // Values are cut at other signs than blanks.
        let cuts = match self.state.variables.get("IFS") {
            Some(Value::Words(all)) => !all.is_empty(),
            own => own.is_some(),
        };
        for one in raw {
            if has_braces(one) {
                words.value(&mark("{..}"), how);
            } else if cuts && one.contains('$') && !one.starts_with('"') {
                words.value(&mark("IFS"), how);
            } else {
                self.expand(one, &mut words, how)?;
            }
            words.end();
        }
        Ok(words.all)
    }

    pub(super) fn word(&mut self, text: &str) -> Result<String, String> {
        self.one(text, WORD)
    }

    /// `text` as one word, expanded in the way `how`.
    pub(super) fn one(&mut self, text: &str, how: How) -> Result<String, String> {
        let mut words = Words::default();
        self.expand(text, &mut words, how)?;
        words.all.push(words.now);
        Ok(words.all.join(" "))
    }

    fn expand(&mut self, text: &str, words: &mut Words, mut how: How) -> Result<(), String> {
        self.deepen()?;
        let mut parser = Parser::new(text);
        while let Some(c) = parser.rest().chars().next() {
            let from = parser.at;
            match c {
                '$' if !how.quoted && parser.rest().starts_with("$\"") => parser.at += 1,
                '"' => {
                    parser.at += 1;
                    how.quoted = !how.quoted;
                    // Such with an array without words alone are not a word.
                    let is_gone = std::mem::take(&mut words.is_gone);
                    words.begun |= !how.quoted && !is_gone;
                }
                UNKNOWN => {
                    let rest = parser.rest();
                    let length = rest.find(END).map_or(rest.len(), |end| end + END.len_utf8());
                    words.value(&rest[..length], how);
                    parser.at += length;
                }
                '<' | '>' if !how.quoted && parser.rest()[1..].starts_with('(') => {
                    parser.word()?;
                    words.value(&mark("%output"), How { quoted: true, ..how });
                }
                _ => {
                    parser.piece(how.quoted)?;
                    self.piece(&text[from..parser.at], words, how)?;
                }
            }
            self.work(1 + std::mem::take(&mut words.bytes))?;
        }
        self.depth -= 1;
        Ok(())
    }

    /// Adds a character, or what is quoted or expanded as one.
    fn piece(&mut self, piece: &str, words: &mut Words, how: How) -> Result<(), String> {
        let inner = |open: usize, close: usize| {
            piece.get(open..piece.len().saturating_sub(close)).unwrap_or_default()
        };
        let quoted = How { quoted: true, ..how };
        let sum = piece.strip_prefix("$((").and_then(|sum| sum.strip_suffix("))"));
        if let Some(sum) = sum.or_else(|| piece.strip_prefix("$[")?.strip_suffix(']')) {
            let sum = self.sum(sum)?;
            if sum.as_ref().is_err_and(|name| name == "%sum") {
                return Err("one of its sums is not read, or bash would refuse it".to_owned());
            }
            words.value(&sum.map_or_else(|name| counted(&name), |sum| sum.to_string()), how);
            return Ok(());
        }
        let mut chars = piece.chars();
        match (chars.next(), chars.next()) {
            (Some('\''), Some(_)) => words.value(inner(1, 1), quoted),
            (Some('\\'), None | Some('\n')) => {}
            (Some('\\'), Some(c)) if how.quoted && !"$`\"\\".contains(c) => words.value(piece, how),
            (Some('\\'), Some(_)) => words.value(&piece[1..], quoted),
            (Some('$'), Some('(')) if !self.in_file && is_folder(inner(2, 1)) => {
                words.value(&mark("%folder"), how);
            }
            (Some('`'), _) | (Some('$'), Some('(')) => words.value(&mark("%output"), how),
            (Some('$'), Some('{')) => self.parameter(inner(2, 1), words, how)?,
            (Some('$'), Some('\'')) => {
                let escape = piece.contains('\\').then(|| mark("%escape"));
                words.value(escape.as_deref().unwrap_or(inner(2, 1)), quoted);
            }
            (Some('$'), Some(_)) => self.parameter(&piece[1..], words, how)?,
            (Some(' ' | '\t' | '\n'), _) if how.splits && !how.quoted => words.end(),
            (Some(c), _) => words.push(c),
            (None, _) => {}
        }
        Ok(())
    }

    /// What variable or parameter `name` holds.
    pub(super) fn held(&mut self, name: &str) -> Held {
        if let Some(value) = self.state.variables.get(name) {
            return match value {
                Value::Words(all) => {
                    self.used += all.iter().map(|word| word.len() + 32).sum::<usize>();
                    Held::Set(all.to_vec())
                }
                Value::Unknown(_) => Held::Unknown(mark(name), false),
            };
        }
        let of_script = self.state.arguments.is_none();
        let all = self.state.arguments.as_deref().unwrap_or_default();
        self.script.alone |= of_script && matches!(name, "@" | "*" | "#");
        let some_are_unknown = |most: usize| all.iter().take(most).any(|one| many(one).is_some());
        let unknown = |name: &str| Held::Unknown(mark(name), false);
        match (name, name.parse::<usize>()) {
            ("@" | "*" | "#", _) if some_are_unknown(usize::MAX) => unknown("%arguments"),
            ("#", _) => Held::Set(vec![all.len().to_string()]),
            ("@" | "*", _) => Held::Set(all.to_vec()),
            ("?", _) if self.status == Truth::Yes => Held::Set(vec!["0".to_owned()]),
            (_, Ok(at)) if at > 0 && of_script => Held::Unknown(mark(&format!("%{name}")), true),
            (_, Ok(at)) if at > 0 && some_are_unknown(at) => unknown("%arguments"),
            (_, Ok(at)) if at > 0 => Held::Set(all.get(at - 1).cloned().into_iter().collect()),
            _ if !is_name(name) => unknown(&format!("%{name}")),
            _ => Held::Unknown(mark(name), !self.state.forgotten && !super::is_of_bash(name)),
        }
    }

    /// Adds the value of the parameter `text`, such as `NAME`, `NAME[@]` or `NAME:-default`.
    fn parameter(&mut self, text: &str, words: &mut Words, how: How) -> Result<(), String> {
        if text.starts_with('!') && text.len() > 1 {
            words.value(&mark("%indirect"), how);
            return Ok(());
        }
        let (name, index, rest, counts) = parts(text);
        let is_list = index == "@";
        let is_all = is_list || index == "*";
        let mut held = self.held(name);
        if !is_all {
            held = held.at(self.sum(index)?.ok());
        }
        if counts && rest.is_empty() {
            let count = match held {
                Held::Set(all) if is_all && !has_many(&all) => all.len().to_string(),
                _ => counted(name),
            };
            words.value(&count, how);
            return Ok(());
        }
        let colon = rest.starts_with(':');
        let default = &rest[usize::from(colon)..];
        let sign = default.chars().next().filter(|sign| "-=+?".contains(*sign));
        let default = default.get(1..).unwrap_or_default();
        // An array that is not known may have any number of words.
        let loose = How { quoted: how.quoted && !is_list, ..how };
        let is_joined = !how.splits || !is_list && how.quoted;
        let empty = self.is_empty(&held, colon);
        match (sign, empty, held) {
            (Some('+'), Truth::Yes, _) => {}
            (Some('+'), Truth::No, _) | (Some('-'), Truth::Yes, _) => {
                self.expand(default, words, how)?;
            }
            (Some('='), Truth::Yes, _) => {
                let text = self.one(default, How { splits: false, ..how })?;
                words.value(&text, how);
                self.spend(std::slice::from_ref(&text))?;
                self.set(name, Value::of(text));
            }
            (None, _, Held::Unknown(mark, _)) => words.value(&mark, loose),
            (Some(_), Truth::Yes | Truth::Unknown, _) | (_, _, Held::Unknown(..)) => {
                words.value(&mark(name), loose);
            }
            (None, _, Held::Set(all)) if !rest.is_empty() => {
                let mut out = Vec::new();
                for word in &all {
                    out.extend(self.cut(word, rest)?);
                }
                match out.len() < all.len() {
                    true => words.value(&mark(name), loose),
                    false => words.values(&out, how, is_list),
                }
            }
            (_, _, Held::Set(all)) => match is_joined && all.len() > 1 && has_many(&all) {
                true => words.value(&mark(name), how),
                false => words.values(&all, how, is_list),
            },
        }
        Ok(())
    }

    /// Whether the value is empty or, without `colon`, not set.
    fn is_empty(&self, held: &Held, colon: bool) -> Truth {
        match held {
            Held::Set(all) if all.is_empty() => Truth::Yes,
            Held::Set(all) if !colon || all.iter().any(|word| !unknowns(word).1.is_empty()) => {
                Truth::No
            }
            Held::Set(all) if all.iter().all(|word| self.is_absent(word)) => Truth::Yes,
            Held::Unknown(_, true) => Truth::Yes,
            _ => Truth::Unknown,
        }
    }

    /// Whether `word` is empty, or has nothing but variables that only the environment sets: those are taken as not set.
    pub(super) fn is_absent(&self, word: &str) -> bool {
        let (names, rest) = unknowns(word);
        let is_unset = |name: &&str| match name.strip_prefix('%') {
            Some(at) => at.parse::<usize>().is_ok() && self.state.arguments.is_none(),
            None => {
                !self.state.variables.contains_key(*name)
                    && !self.state.forgotten
                    && !super::is_of_bash(name)
                    && is_name(name)
            }
        };
        rest.is_empty() && names.iter().all(is_unset)
    }
}
