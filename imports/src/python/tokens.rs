//! Words of Python, in statements with the blocks below them.

/// A word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Token {
    Name(String),
    Number(String),
    Text(String),
    /// Bytes, or text with values or escapes in it.
    Formatted,
    Mark(&'static str),
}

impl Token {
    /// Whether it is the mark or the name `word`.
    pub(super) fn is(&self, word: &str) -> bool {
        matches!(self, Self::Mark(own) if *own == word) || self.name() == Some(word)
    }

    /// The mark or the name.
    pub(super) fn word(&self) -> &str {
        if let Self::Mark(mark) = self { mark } else { self.name().unwrap_or_default() }
    }

    pub(super) fn name(&self) -> Option<&str> {
        if let Self::Name(name) = self { Some(name) } else { None }
    }

    /// How much deeper what follows lies in brackets.
    pub(super) fn step(&self) -> isize {
        match self {
            Self::Mark("(" | "[" | "{") => 1,
            Self::Mark(")" | "]" | "}") => -1,
            _ => 0,
        }
    }
}

/// A statement with those in its block.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Line {
    pub(super) number: usize,
    indent: usize,
    pub(super) tokens: Vec<Token>,
    pub(super) block: Vec<Line>,
}

/// Operators and brackets, long ones first.
const MARKS: &str = "**= //= >>= <<= ... -> := == != <= >= += -= *= /= %= @= &= |= ^= ** // << >> \
                     + - * / % @ & | ^ ~ < > = ( ) [ ] { } , : . ;";
const MOST_TOKENS: usize = 200_000;
/// The deepest nesting of brackets and of blocks.
const MOST_DEEP: usize = 48;

/// The statements of `text`.
pub(super) fn lines(text: &str) -> Result<Vec<Line>, String> {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n").replace('\r', "\n");
    let mut reader = Reader { rest: &text, number: 1 };
    let mut stack = vec![Line { number: 0, indent: 0, tokens: Vec::new(), block: Vec::new() }];
    let mut words = 0;
    while !reader.rest.is_empty() {
        let line = reader.line().map_err(|why| format!("line {}: {why}", reader.number))?;
        words += line.tokens.len();
        if words > MOST_TOKENS || stack.len() > MOST_DEEP {
            return Err("it is too long to be read".to_owned());
        }
        if !line.tokens.is_empty() {
            close(&mut stack, line.indent);
            stack.push(line);
        }
    }
    close(&mut stack, 0);
    Ok(stack.pop().map(|all| all.block).unwrap_or_default())
}

/// Puts the last lines in the blocks of those above, as far as they are not above a line of this indent.
fn close(stack: &mut Vec<Line>, indent: usize) {
    while stack.len() > 1 && stack.last().is_some_and(|above| above.indent >= indent) {
        if let Some((line, above)) = stack.pop().zip(stack.last_mut()) {
            above.block.push(line);
        }
    }
}

struct Reader<'a> {
    rest: &'a str,
    number: usize,
}

impl<'a> Reader<'a> {
    /// Takes a line with the spaces in front of it, up to one that is in no brackets.
    fn line(&mut self) -> Result<Line, String> {
        let spaces = self.take(|c| matches!(c, ' ' | '\t' | '\u{c}')).chars();
        // Those of no depth are below the file itself.
        let indent = spaces.fold(1, |at, c| if c == '\t' { at / 8 * 8 + 9 } else { at + 1 });
        let (number, mut tokens, mut depth) = (self.number, Vec::new(), 0_isize);
        while let Some(first) = self.rest.chars().next() {
            if first == '\n' && depth == 0 {
                self.skip(1);
                break;
            }
            let token = self.word(first)?;
            depth += token.as_ref().map_or(0, Token::step);
            if !usize::try_from(depth).is_ok_and(|depth| depth <= MOST_DEEP) {
                return Err("its brackets nest too deeply, or are not open".to_owned());
            }
            tokens.extend(token);
        }
        match depth {
            0 => Ok(Line { number, indent, tokens, block: Vec::new() }),
            _ => Err("its brackets have no end".to_owned()),
        }
    }

    fn skip(&mut self, length: usize) -> &'a str {
        let (text, rest) = self.rest.split_at(length);
        self.number += text.matches('\n').count();
        self.rest = rest;
        text
    }

    fn take(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        self.skip(self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len()))
    }

    /// Takes one word, or what stands between words.
    fn word(&mut self, first: char) -> Result<Option<Token>, String> {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        Ok(Some(match first {
            '#' => return Ok(Some(self.take(|c| c != '\n')).and(None)),
            ' ' | '\t' | '\u{c}' | '\n' => return Ok(Some(self.skip(1)).and(None)),
            '\\' if self.rest.starts_with("\\\n") => return Ok(Some(self.skip(2)).and(None)),
            '"' | '\'' => self.quoted("")?,
            '0'..='9' => {
                let mut text = self.take(|c| is_word(c) || c == '.').to_owned();
                if text.ends_with(['e', 'E']) && self.rest.starts_with(['-', '+']) {
                    text += self.skip(1);
                    text += self.take(is_word);
                }
                Token::Number(text)
            }
            'a'..='z' | 'A'..='Z' | '_' => {
                let name = self.take(is_word);
                let prefix = name.to_ascii_lowercase();
                let is_prefix = prefix.len() < 3 && prefix.chars().all(|c| "rbuf".contains(c));
                match is_prefix && self.rest.starts_with(['"', '\'']) {
                    true => self.quoted(&prefix)?,
                    false if name.is_ascii() => Token::Name(name.to_owned()),
                    false => return Err("a name has letters beyond ASCII".to_owned()),
                }
            }
            _ => {
                let mark = MARKS.split(' ').find(|own| self.rest.starts_with(own));
                let mark = mark.ok_or("it is not Python")?;
                self.skip(mark.len());
                Token::Mark(mark)
            }
        }))
    }

    /// The content of quotes, at whose first one the rest begins, behind the letters `prefix`.
    fn quoted(&mut self, prefix: &str) -> Result<Token, String> {
        let long = ["\"\"\"", "'''"].into_iter().find(|quote| self.rest.starts_with(quote));
        let quote = self.skip(long.map_or(1, str::len));
        let mut end = 0;
        while !self.rest[end..].starts_with(quote) {
            let mut rest = self.rest[end..].chars();
            let one = rest.next().filter(|one| long.is_some() || *one != '\n');
            let one = one.ok_or("its quotes have no end")?;
            end += one.len_utf8();
            if one == '\\' {
                end += rest.next().map_or(0, char::len_utf8);
            }
        }
        let text = self.skip(end);
        self.skip(quote.len());
        let is_filled = prefix.contains('f') && text.contains(['{', '}']);
        if is_filled && text.matches('{').count() != text.matches('}').count() {
            return Err("a text has quotes in a value".to_owned());
        }
        let is_plain = !(is_filled || prefix.contains('b') || text.contains('\\'));
        Ok(if is_plain { Token::Text(text.to_owned()) } else { Token::Formatted })
    }
}
