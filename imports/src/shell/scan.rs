//! Words of a script as they are written: where quotes, expansions, comments and redirections end.

/// The deepest nesting of what is read.
pub(super) const DEEPEST: u32 = 48;

const REDIRECTIONS: [&str; 12] =
    ["&>>", "&>", "<<<", "<<-", "<<", "<>", "<&", ">>", ">&", ">|", "<", ">"];

/// Whether names of variables may have `c`.
pub(super) const fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Whether `text` can name a variable.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_part) && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// A place in a text.
pub(super) struct Parser<'t> {
    text: &'t str,
    pub(super) at: usize,
    depth: u32,
    /// Where the here-documents behind this line end.
    after_line: Option<usize>,
    /// Whether a command is a launch by its name.
    pub(super) launches: bool,
}

impl<'t> Parser<'t> {
    pub(super) const fn new(text: &'t str) -> Self {
        Self { text, at: 0, depth: 0, after_line: None, launches: false }
    }

    pub(super) fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(super) fn take(&mut self, sign: &str) -> bool {
        let is_it = self.rest().starts_with(sign);
        self.at += if is_it { sign.len() } else { 0 };
        is_it
    }

    /// Whether `word` stands here, as a word of its own unless it is a sign.
    pub(super) fn is_at(&self, word: &str) -> bool {
        let is_sign = word.starts_with([')', ';']);
        self.rest().strip_prefix(word).is_some_and(|rest| {
            is_sign
                || rest.is_empty()
                || rest.starts_with([' ', '\t', '\n', ';', '&', '|', '(', ')', '<', '>'])
        })
    }

    pub(super) fn keyword(&mut self, word: &str) -> bool {
        self.is_at(word) && self.take(word)
    }

    pub(super) fn expect(&mut self, word: &str) -> Result<(), String> {
        if self.keyword(word) { Ok(()) } else { self.wrong() }
    }

    pub(super) fn wrong<T>(&self) -> Result<T, String> {
        let before = self.text.get(..self.at).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        Err(format!("line {line} is not read, as bash would refuse it or as its form is not known"))
    }

    /// Reads by `read`, one level deeper.
    pub(super) fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        if self.depth >= DEEPEST {
            return Err("it is nested too deeply".to_owned());
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Skips blanks, joined lines and a comment.
    pub(super) fn blanks(&mut self) {
        while self.take(" ") || self.take("\t") || self.take("\\\n") {}
        if self.rest().starts_with('#') {
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    /// Skips blanks, comments, ends of lines and the here-documents behind them.
    pub(super) fn lines(&mut self) {
        loop {
            self.blanks();
            if !self.take("\n") {
                return;
            }
            self.at = self.after_line.take().unwrap_or(self.at);
        }
    }

    /// Words as they are written, up to the end of the line or, over `lines`, to the next sign.
    pub(super) fn words(&mut self, lines: bool) -> Result<Vec<String>, String> {
        let skip = if lines { Self::lines } else { Self::blanks };
        let mut all = Vec::new();
        loop {
            skip(self);
            match self.word()? {
                Some(word) => all.push(word),
                None => return Ok(all),
            }
        }
    }

    /// A word, as it is written.
    pub(super) fn word(&mut self) -> Result<Option<String>, String> {
        let start = self.at;
        while let Some(c) = self.rest().chars().next() {
            match c {
                '<' | '>' if self.at == start && self.rest()[1..].starts_with('(') => {
                    self.at += 1;
                    self.command_in_brackets()?;
                }
                '(' if self.text[start..self.at].ends_with('=') => {
                    return self.array(start).map(Some);
                }
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
                _ => self.piece(false)?,
            }
        }
        Ok((self.at > start).then(|| self.text[start..self.at].to_owned()))
    }

    /// The array behind the name at `start`, with a blank between its words.
    fn array(&mut self, start: usize) -> Result<String, String> {
        let name = &self.text[start..self.at];
        self.take("(");
        let words = self.deeper(|own| own.words(true))?;
        self.expect(")")?;
        Ok(format!("{name}({})", words.join(" ")))
    }

    /// Skips a character, or what is quoted or expanded here.
    pub(super) fn piece(&mut self, in_quotes: bool) -> Result<(), String> {
        let Some(c) = self.rest().chars().next() else { return self.wrong() };
        match c {
            '\'' if !in_quotes => match self.rest()[1..].find('\'') {
                Some(length) => {
                    self.at += length + 2;
                    Ok(())
                }
                None => self.wrong(),
            },
            '"' => self.deeper(|own| {
                own.take("\"");
                while !own.take("\"") {
                    own.piece(true)?;
                }
                Ok(())
            }),
            '`' => self.until('`'),
            '$' => self.dollar(in_quotes),
            '\\' => {
                self.at += 1;
                self.at += self.rest().chars().next().map_or(0, char::len_utf8);
                Ok(())
            }
            c => {
                self.at += c.len_utf8();
                Ok(())
            }
        }
    }

    /// Skips up to `end`, which begins and ends a text with escapes.
    fn until(&mut self, end: char) -> Result<(), String> {
        let mut is_escaped = false;
        for (at, c) in self.rest().char_indices().skip(1) {
            if c == end && !is_escaped {
                self.at += at + 1;
                return Ok(());
            }
            is_escaped = c == '\\' && !is_escaped;
        }
        self.wrong()
    }

    fn dollar(&mut self, in_quotes: bool) -> Result<(), String> {
        if self.sum("$((").is_some() {
            return Ok(());
        }
        self.take("$");
        match self.rest().chars().next() {
            Some('(') => self.command_in_brackets(),
            Some('\'') if !in_quotes => self.until('\''),
            Some('[') => {
                self.at += self.rest().find(']').map_or(0, |end| end + 1);
                Ok(())
            }
            Some('{') => self.deeper(|own| {
                own.take("{");
                while !own.take("}") {
                    own.piece(in_quotes)?;
                }
                Ok(())
            }),
            Some(c) if c.is_ascii_digit() || "@*#?$!-".contains(c) => {
                self.at += 1;
                Ok(())
            }
            _ => {
                self.at += self.rest().find(|c| !is_part(c)).unwrap_or(self.rest().len());
                Ok(())
            }
        }
    }

    fn command_in_brackets(&mut self) -> Result<(), String> {
        self.take("(");
        self.list(&[")"])?;
        self.expect(")")
    }

    /// The sum behind the sign `open`, with its brackets.
    pub(super) fn sum(&mut self, open: &str) -> Option<String> {
        let text = self.rest().strip_prefix(open)?;
        let mut depth = 0;
        for (at, c) in text.char_indices() {
            match c {
                '(' => depth += 1,
                ')' if depth > 0 => depth -= 1,
                ')' => {
                    text[at..].strip_prefix("))")?;
                    self.at += open.len() + at + 2;
                    return Some(text[..at].to_owned());
                }
                _ => {}
            }
        }
        None
    }

    /// A redirection: the text of a here-document, and whether values are expanded in it.
    pub(super) fn redirect(&mut self) -> Result<Option<Option<(String, bool)>>, String> {
        self.blanks();
        let is_command = self.rest().starts_with("<(") || self.rest().starts_with(">(");
        let sign = REDIRECTIONS.into_iter().find(|sign| !is_command && self.take(sign));
        let Some(sign) = sign else { return Ok(None) };
        self.blanks();
        let word = self.word()?.unwrap_or_default();
        if sign != "<<" && sign != "<<-" {
            return Ok(Some(None));
        }
        let end: String = word.chars().filter(|c| !"'\"\\".contains(*c)).collect();
        let line = || self.rest().find('\n').map_or(self.text.len(), |line| self.at + line + 1);
        let mut at = self.after_line.unwrap_or_else(line);
        let mut body = String::new();
        for line in self.text.get(at..).unwrap_or_default().split_inclusive('\n') {
            at += line.len();
            let text = if sign == "<<-" { line.trim_start_matches('\t') } else { line };
            if text.trim_end_matches('\n') == end {
                break;
            }
            body += text;
        }
        self.after_line = Some(at);
        Ok(Some(Some((body, end == word))))
    }
}
