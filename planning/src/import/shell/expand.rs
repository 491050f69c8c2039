//! Expansion of quotes, variables, commands and sums in words.

use super::run::Reader;
use super::scan::{DEEPEST, Parser, is_name};
use super::state::{Held, Value};
use super::{END, MANY, UNKNOWN, counted, many, mark};

/// How a text is expanded.
#[derive(Clone, Copy)]
pub(super) struct How {
    /// Whether values are cut into words at blanks.
    pub(super) splits: bool,
    /// Whether it stands in double quotes.
    pub(super) quoted: bool,
    /// Whether it is a pattern, in which quoted signs get a backslash.
    pub(super) pattern: bool,
}

const WORD: How = How { splits: false, quoted: false, pattern: false };

/// Words that are being made.
#[derive(Default)]
pub(super) struct Words {
    all: Vec<String>,
    now: String,
    /// Whether a word is begun, be it empty.
    begun: bool,
    bytes: usize,
    /// The length of the word where the quotes open, and whether it was begun.
    opened: (usize, bool),
    /// Whether an array without words stands in the quotes.
    is_gone: bool,
}

impl Words {
    fn push(&mut self, c: char) {
        self.now.push(c);
        self.begun = true;
        self.bytes += 1;
    }

    /// Opens or closes double quotes; such with an array without words alone are no word.
    fn quote(&mut self, opens: bool) {
        if opens {
            (self.opened, self.is_gone) = ((self.now.len(), self.begun), false);
            return;
        }
        let (length, begun) = self.opened;
        self.begun |= !(self.is_gone && self.now.len() == length) || begun;
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.begun) {
            self.all.push(std::mem::take(&mut self.now));
        }
    }

    /// Adds a value.
    pub(super) fn value(&mut self, text: &str, how: How) {
        if !how.splits || how.quoted {
            for c in text.chars() {
                if how.pattern && how.quoted {
                    self.quoted(c);
                } else {
                    self.push(c);
                }
            }
            self.begun |= how.quoted;
            return;
        }
        let mut inside = false;
        for c in text.chars() {
            match c {
                ' ' | '\t' | '\n' if !inside => self.end(),
                UNKNOWN => self.push(c),
                MANY => {}
                c => self.push(c),
            }
            if c == UNKNOWN {
                self.push(MANY);
            }
            inside = c == UNKNOWN || inside && c != END;
        }
    }

    /// Adds a sign of a pattern that stands for itself.
    fn quoted(&mut self, c: char) {
        if "*?[]\\()|+@!-^".contains(c) {
            self.push('\\');
        }
        self.push(c);
    }

    /// Adds the words of an array.
    pub(super) fn values(&mut self, words: &[String], how: How, is_list: bool) {
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

/// The words of `text` as they are written.
pub(super) fn raw_words(text: &str) -> Result<Vec<String>, String> {
    let mut parser = Parser::new(text, 0);
    let mut all = Vec::new();
    loop {
        parser.lines();
        match parser.word()? {
            Some(word) => all.push(word),
            None => return Ok(all),
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
    let mut parser = Parser::new(raw, 0);
    let mut opened = None;
    while let Some(c) = parser.rest().chars().next() {
        match c {
            '{' => opened = Some(parser.at),
            '}' => {
                let inner = opened.take().map_or("", |from| &raw[from..parser.at]);
                if inner.contains(',') || inner.contains("..") {
                    return true;
                }
            }
            _ => {}
        }
        if parser.piece(false).is_err() {
            return false;
        }
    }
    false
}

impl Reader<'_> {
    /// The words that come of `raw` ones.
    pub(super) fn words(&mut self, raw: &[String]) -> Result<Vec<String>, String> {
        let mut words = Words::default();
        let how = How { splits: true, ..WORD };
        // Values are cut at other signs than blanks.
        let cuts = self.state.variables.get("IFS").is_some_and(|own| *own != Value::Unset);
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

    /// `text` as one word.
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

    pub(super) fn expand(&mut self, text: &str, words: &mut Words, how: How) -> Result<(), String> {
        if self.depth > DEEPEST {
            return Err("its values name each other too deeply".to_owned());
        }
        self.depth += 1;
        let mut how = how;
        let mut parser = Parser::new(text, 0);
        while let Some(c) = parser.rest().chars().next() {
            self.work(1)?;
            let from = parser.at;
            match c {
                '$' if !how.quoted && parser.take("$\"") => {
                    parser.at -= 1;
                    continue;
                }
                '"' => {
                    parser.at += 1;
                    how.quoted = !how.quoted;
                    words.quote(how.quoted);
                    continue;
                }
                UNKNOWN => {
                    let rest = parser.rest();
                    let length = rest.find(END).map_or(rest.len(), |end| end + END.len_utf8());
                    words.value(&rest[..length], how);
                    parser.at += length;
                    continue;
                }
                '<' | '>' if !how.quoted && parser.rest()[1..].starts_with('(') => {
                    parser.word()?;
                    words.value(&mark("%output"), How { quoted: true, ..how });
                    continue;
                }
                _ => parser.piece(how.quoted)?,
            }
            let piece = &text[from..parser.at];
            self.piece(piece, words, how)?;
            self.work(std::mem::take(&mut words.bytes))?;
        }
        self.depth -= 1;
        Ok(())
    }

    /// Adds a character, or what is quoted or expanded as one.
    fn piece(&mut self, piece: &str, words: &mut Words, how: How) -> Result<(), String> {
        let inner = |open: usize| piece.get(open..piece.len() - 1).unwrap_or_default();
        let mut chars = piece.chars();
        match (chars.next(), chars.next()) {
            (Some('\''), Some(_)) => words.value(inner(1), How { quoted: true, ..how }),
            (Some('\\'), None | Some('\n')) => {}
            (Some('\\'), Some(c)) if how.quoted && !"$`\"\\".contains(c) => words.value(piece, how),
            (Some('\\'), Some(_)) => words.value(&piece[1..], How { quoted: true, ..how }),
            (Some('`'), _) => words.value(&mark("%output"), how),
            (Some('$'), Some('(')) if piece.ends_with("))") && piece.starts_with("$((") => {
                let sum = self.sum(piece.get(3..piece.len() - 2).unwrap_or_default())?;
                if sum.as_ref().is_err_and(|name| name == "%sum") {
                    return Err("bash would refuse one of its sums".to_owned());
                }
                words.value(&sum.map_or_else(|name| counted(&name), |sum| sum.to_string()), how);
            }
            (Some('$'), Some('(')) => words.value(&mark("%output"), how),
            (Some('$'), Some('[')) => words.value(&mark("%sum"), how),
            (Some('$'), Some('{')) => self.parameter(inner(2), words, how)?,
            (Some('$'), Some('\'')) => words.value(&escapes(inner(2)), How { quoted: true, ..how }),
            (Some('$'), None) => words.push('$'),
            (Some('$'), Some(_)) => self.parameter(&piece[1..], words, how)?,
            (Some(' ' | '\t' | '\n'), _) if how.splits && !how.quoted => words.end(),
            (Some(c), _) if how.pattern && how.quoted => words.quoted(c),
            (Some(c), _) => words.push(c),
            (None, _) => {}
        }
        Ok(())
    }

    /// What variable or parameter `name` holds.
    pub(super) fn held(&mut self, name: &str) -> Held {
        if let Some(value) = self.state.variables.get(name) {
            return match value {
                Value::Text(text) => {
                    self.used += text.len();
                    Held::Set(vec![text.to_string()])
                }
                Value::List(all) => {
                    self.used += all.iter().map(|word| word.len() + 32).sum::<usize>();
                    Held::Set(all.to_vec())
                }
                Value::Unset => Held::Unset,
                Value::Unknown(_) => Held::Unknown(mark(name)),
            };
        }
        let of_script = self.state.arguments.is_none();
        let all = self.state.arguments.as_deref().unwrap_or_default();
        self.alone |= of_script && matches!(name, "@" | "*" | "#");
        match (name, name.parse::<usize>()) {
            ("@" | "*" | "#", _) if all.iter().any(|one| many(one).is_some()) => {
                Held::Unknown(mark("%arguments"))
            }
            ("#", _) => Held::Set(vec![all.len().to_string()]),
            ("@" | "*", _) => Held::Set(all.to_vec()),
            ("?", _) if self.status == super::state::Truth::Yes => Held::Set(vec!["0".to_owned()]),
            (_, Ok(at)) if at > 0 && of_script => Held::Absent(mark(&format!("%{name}"))),
            (_, Ok(at)) if at > 0 => match all.get(at - 1) {
                _ if all[..at.min(all.len())].iter().any(|one| many(one).is_some()) => {
                    Held::Unknown(mark("%arguments"))
                }
                Some(word) => Held::Set(vec![word.clone()]),
                None => Held::Unset,
            },
            _ if !is_name(name) => Held::Unknown(mark(&format!("%{name}"))),
            _ if self.state.forgotten || super::is_of_bash(name) => Held::Unknown(mark(name)),
            _ => Held::Absent(mark(name)),
        }
    }
}

/// `text` with the escapes of `$'..'`.
fn escapes(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match if c == '\\' { chars.next() } else { None } {
            None => out.push(c),
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some(c @ ('\\' | '\'' | '"' | '?')) => out.push(c),
            Some(_) => return mark("%escape"),
        }
    }
    out
}
