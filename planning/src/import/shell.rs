//! Words of the commands of a shell script, without running it: variables, arrays, arithmetic and branches on known
//! values are followed; loops, functions and the output of commands are not.

mod condition;
mod expand;

use std::collections::BTreeMap;

use self::condition::Truth;
use self::expand::Expander;

/// Stands in a word for a part that only a run of the script knows; its name follows, and [`END`].
pub(super) const UNKNOWN: char = '\u{1}';
/// Ends the name of an unknown part.
pub(super) const END: char = '\u{2}';

/// The most bytes of all words and values together: values that name values may grow without end.
const MOST_BYTES: usize = 4 << 20;

/// A script that is read.
pub(super) struct Script {
    /// The words of each command, in order.
    pub(super) commands: Vec<Vec<String>>,
    /// Variables that are set, an array as its words.
    pub(super) variables: BTreeMap<String, Vec<String>>,
}

/// Reads `text`, where `given` has values of variables that win over the script's own.
///
/// # Errors
/// If its values grow beyond all bounds.
pub(super) fn read(text: &str, given: &BTreeMap<String, String>) -> Result<Script, String> {
    let variables = given.iter().map(|(name, value)| (name.clone(), vec![value.clone()])).collect();
    let mut reader = Reader {
        script: Script { commands: Vec::new(), variables },
        given,
        branches: Vec::new(),
        skipped: 0,
        bytes: 0,
    };
    for statement in statements(text) {
        reader.statement(&statement)?;
    }
    Ok(reader.script)
}

/// The state of an `if` or a `case` that is open.
struct Branch {
    /// The word that a `case` compares.
    case: Option<String>,
    /// Whether one of its parts was followed.
    taken: bool,
    /// Whether the part that is read is followed.
    follows: bool,
}

struct Reader<'a> {
    script: Script,
    given: &'a BTreeMap<String, String>,
    branches: Vec<Branch>,
    /// Loops and functions that are open.
    skipped: usize,
    bytes: usize,
}

impl Reader<'_> {
    fn statement(&mut self, statement: &str) -> Result<(), String> {
        let (first, rest) = split_first(statement);
        match first {
            "while" | "for" | "until" | "select" => self.skipped += 1,
            "done" => self.skipped = self.skipped.saturating_sub(1),
            "if" => self.open(rest)?,
            "elif" => self.next(rest)?,
            "else" => {
                if let Some(branch) = self.branches.last_mut() {
                    branch.follows = !branch.taken;
                }
                return self.rest(rest);
            }
            "fi" | "esac" => drop(self.branches.pop()),
            "}" => self.skipped = self.skipped.saturating_sub(1),
            "then" | "do" => return self.rest(rest),
            "case" => {
                let word = rest.trim_end().strip_suffix("in").unwrap_or(rest).trim();
                let word = self.expander().word(word)?;
                self.branches.push(Branch { case: Some(word), taken: false, follows: false });
            }
            _ if self.is_pattern(statement) => return self.pattern(statement),
            _ if self.follows() => self.simple(statement)?,
            _ => {}
        }
        Ok(())
    }

    fn rest(&mut self, rest: &str) -> Result<(), String> {
        if rest.is_empty() { Ok(()) } else { self.statement(rest) }
    }

    fn follows(&self) -> bool {
        self.skipped == 0 && self.branches.iter().all(|branch| branch.follows)
    }

    fn expander(&self) -> Expander<'_> {
        Expander { variables: &self.script.variables, room: MOST_BYTES.saturating_sub(self.bytes) }
    }

    /// Opens an `if`, followed if `condition` is known to hold.
    fn open(&mut self, condition: &str) -> Result<(), String> {
        let holds = self.holds(condition)?;
        // A branch on what only a run knows is followed nowhere, neither here nor in its `else`.
        let (taken, follows) = match holds {
            Truth::Yes => (true, true),
            Truth::No => (false, false),
            Truth::Unknown => (true, false),
        };
        self.branches.push(Branch { case: None, taken, follows });
        Ok(())
    }

    fn next(&mut self, condition: &str) -> Result<(), String> {
        let holds = self.holds(condition)?;
        if let Some(branch) = self.branches.last_mut() {
            branch.follows = !branch.taken && holds == Truth::Yes;
            branch.taken |= holds != Truth::No;
        }
        Ok(())
    }

    fn holds(&self, condition: &str) -> Result<Truth, String> {
        let condition = condition.trim_end();
        let condition =
            condition.strip_suffix("then").unwrap_or(condition).trim().trim_end_matches(';');
        match self.skipped {
            0 => condition::holds(condition, &self.expander()),
            _ => Ok(Truth::Unknown),
        }
    }

    /// Whether `statement` begins a part of the `case` that is open.
    fn is_pattern(&self, statement: &str) -> bool {
        let in_case = self.branches.last().is_some_and(|branch| branch.case.is_some());
        in_case
            && statement.find(')').is_some_and(|at| {
                !statement[..at].contains(['(', '=', ' ']) || statement.starts_with('"')
            })
    }

    fn pattern(&mut self, statement: &str) -> Result<(), String> {
        let (patterns, rest) = statement.split_once(')').unwrap_or((statement, ""));
        let bare = |pattern: &str| pattern.trim().trim_matches(['"', '\'']).to_owned();
        if let Some(branch) = self.branches.last_mut() {
            let word = branch.case.clone().unwrap_or_default();
            let known = !word.contains(UNKNOWN);
            let is = |pattern: &str| pattern == "*" || bare(pattern) == word;
            branch.follows =
                known && !branch.taken && patterns.trim_start_matches('(').split('|').any(is);
            branch.taken |= branch.follows;
        }
        self.rest(rest.trim())
    }

    /// An assignment, or a command with its words.
    fn simple(&mut self, statement: &str) -> Result<(), String> {
        if let Some((test, rest)) =
            statement.split_once("&&").filter(|_| statement.starts_with('['))
        {
            let holds = self.holds(test)?;
            return if holds == Truth::Yes { self.statement(rest.trim()) } else { Ok(()) };
        }
        let mut rest = statement.trim();
        for keyword in ["export ", "local ", "readonly ", "declare -a ", "declare "] {
            rest = rest.strip_prefix(keyword).unwrap_or(rest).trim_start();
        }
        // Assignments before a command are of it alone, but their values are the same.
        while let Some((name, adds, value, after)) = assignment(rest) {
            self.assign(name, adds, value)?;
            rest = after.trim_start();
        }
        if rest.is_empty() || rest.ends_with("() {") || rest == "{" || rest == "}" {
            if rest.ends_with("() {") {
                self.skipped += 1;
            }
            return Ok(());
        }
        let words = self.expander().words(rest)?;
        self.spend(&words)?;
        self.script.commands.push(words);
        Ok(())
    }

    fn assign(&mut self, name: &str, adds: bool, value: &str) -> Result<(), String> {
        let words = match value.strip_prefix('(') {
            Some(list) => self.expander().words(list.strip_suffix(')').unwrap_or(list))?,
            None => vec![self.expander().word(value)?],
        };
        self.spend(&words)?;
        if self.given.contains_key(name) {
            return Ok(());
        }
        let is_list = value.starts_with('(');
        let own = self.script.variables.entry(name.to_owned()).or_default();
        match (adds, is_list, own.last_mut()) {
            (true, true, _) => own.extend(words),
            (true, false, Some(last)) => last.push_str(&words.concat()),
            _ => *own = words,
        }
        Ok(())
    }

    fn spend(&mut self, words: &[String]) -> Result<(), String> {
        self.bytes += words.iter().map(|word| word.len() + 1).sum::<usize>();
        match self.bytes > MOST_BYTES {
            true => Err(format!("its values grow beyond {} MiB", MOST_BYTES >> 20)),
            false => Ok(()),
        }
    }
}

/// The first word of `text`, and the rest.
fn split_first(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| c.is_whitespace() || c == ';').unwrap_or(text.len());
    (&text[..end], text[end..].trim_start_matches(';').trim())
}

/// The name, whether it adds, the value, and what follows an assignment that `text` begins with.
fn assignment(text: &str) -> Option<(&str, bool, &str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    if end == 0 || text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (name, after) = text.split_at(end);
    let (adds, after) = match after.strip_prefix("+=") {
        Some(after) => (true, after),
        None => (false, after.strip_prefix('=')?),
    };
    let length = value_length(after);
    Some((name, adds, &after[..length], &after[length..]))
}

/// Where the value that `text` begins with ends: behind a list, or at the first blank outside quotes.
fn value_length(text: &str) -> usize {
    let mut nesting = Nesting::default();
    for (at, c) in text.char_indices() {
        if c.is_whitespace() && nesting.is_flat() {
            return at;
        }
        nesting.step(c);
    }
    text.len()
}

/// Quotes and brackets that are open.
#[derive(Default)]
struct Nesting {
    quote: Option<char>,
    escaped: bool,
    depth: u32,
}

impl Nesting {
    const fn is_flat(&self) -> bool {
        self.quote.is_none() && !self.escaped && self.depth == 0
    }

    fn step(&mut self, c: char) {
        if std::mem::take(&mut self.escaped) {
            return;
        }
        match (self.quote, c) {
            (Some('\''), '\'') => self.quote = None,
            (Some('\''), _) => {}
            (_, '\\') => self.escaped = true,
            (Some(quote), c) if c == quote => self.quote = None,
            (None, '\'' | '"' | '`') => self.quote = Some(c),
            (None, '(' | '{') => self.depth += 1,
            (None, ')' | '}') => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
}

/// The statements of a script, each in one line without comments: lines that go on are joined, and those with several
/// statements cut.
fn statements(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut now = String::new();
    let mut nesting = Nesting::default();
    let joined = text.replace("\\\r\n", " ").replace("\\\n", " ");
    let mut chars = joined.chars().peekable();
    while let Some(c) = chars.next() {
        let begins_word =
            now.is_empty() || now.ends_with(char::is_whitespace) || now.ends_with('(');
        if c == '#' && nesting.quote.is_none() && !nesting.escaped && begins_word {
            while chars.next_if(|c| *c != '\n').is_some() {}
            continue;
        }
        // Closing a case pattern is no bracket that was opened.
        let in_list = nesting.depth > 0 && now.contains('(');
        match c {
            '\n' | ';' if nesting.is_flat() => {
                push(&mut all, &mut now);
            }
            '&' if nesting.is_flat()
                && chars.peek() != Some(&'&')
                && !now.ends_with(['&', '>']) =>
            {
                push(&mut all, &mut now);
            }
            '\n' if nesting.quote.is_none() && in_list => now.push(' '),
            _ => {
                nesting.step(c);
                now.push(c);
            }
        }
    }
    push(&mut all, &mut now);
    all
}

fn push(all: &mut Vec<String>, now: &mut String) {
    let one = std::mem::take(now);
    if !one.trim().is_empty() {
        all.push(one.trim().to_owned());
    }
}
