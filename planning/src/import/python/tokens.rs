//! Words of Python.

/// A word.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token {
    Name(String),
    Number(String),
    /// The content of quotes.
    Text(String),
    /// The same with values in it, which only a run has.
    Formatted,
    Operator(&'static str),
    Newline,
    Indent,
    Dedent,
}

/// Operators, longer ones before their beginnings.
const OPERATORS: [&str; 46] = [
    "**=", "//=", "...", ">>=", "<<=", "**", "//", "->", ":=", "==", "!=", "<=", ">=", "+=", "-=",
    "*=", "/=", "%=", "&=", "|=", "^=", "@=", "<<", ">>", "+", "-", "*", "/", "%", "(", ")", "[",
    "]", "{", "}", ",", ":", ".", ";", "=", "<", ">", "@", "&", "|", "~",
];

/// The most words of a file.
const MOST_TOKENS: usize = 400_000;
/// The deepest indentation.
const MOST_INDENTS: usize = 64;

/// The words of `text`.
///
/// # Errors
/// If there are too many.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut reader = Reader { rest: text, out: Vec::new(), indents: vec![0], depth: 0 };
    while !reader.rest.is_empty() {
        if reader.out.len() > MOST_TOKENS {
            return Err("it has too many words".to_owned());
        }
        if reader.depth == 0 && reader.begins_line() {
            reader.indentation()?;
        }
        reader.word();
    }
    reader.out.push(Token::Newline);
    (1..reader.indents.len()).for_each(|_| reader.out.push(Token::Dedent));
    Ok(reader.out)
}

struct Reader<'a> {
    rest: &'a str,
    out: Vec<Token>,
    indents: Vec<usize>,
    /// Open brackets: lines go on in them.
    depth: usize,
}

impl Reader<'_> {
    fn begins_line(&self) -> bool {
        matches!(self.out.last(), None | Some(Token::Newline | Token::Dedent | Token::Indent))
    }

    /// Takes the spaces in front of a line, and lines without words.
    fn indentation(&mut self) -> Result<(), String> {
        loop {
            let words = self.rest.trim_start_matches([' ', '\t', '\u{c}']);
            let width = self.rest.len() - words.len();
            let line = words.split('\n').next().unwrap_or_default();
            let is_blank = line.trim().is_empty() || line.starts_with('#');
            if is_blank && line.len() < words.len() {
                self.rest = &words[line.len() + 1..];
                continue;
            }
            self.rest = if is_blank { "" } else { words };
            if is_blank {
                return Ok(());
            }
            return self.indent(width);
        }
    }

    fn indent(&mut self, width: usize) -> Result<(), String> {
        let own = self.indents.last().copied().unwrap_or(0);
        if width > own {
            if self.indents.len() > MOST_INDENTS {
                return Err("its blocks nest too deeply".to_owned());
            }
            self.indents.push(width);
            self.out.push(Token::Indent);
        }
        while self.indents.len() > 1 && self.indents.last().is_some_and(|own| *own > width) {
            self.indents.pop();
            self.out.push(Token::Dedent);
        }
        Ok(())
    }

    /// Takes one word, or what stands between words.
    fn word(&mut self) {
        let Some(first) = self.rest.chars().next() else { return };
        if first == '\n' {
            self.rest = &self.rest[1..];
            if self.depth == 0 && !self.begins_line() {
                self.out.push(Token::Newline);
            }
        } else if first == '#' {
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.rest = &self.rest[end..];
        } else if let Some(rest) = self.rest.strip_prefix("\\\n") {
            self.rest = rest;
        } else if first.is_alphabetic() || first == '_' {
            self.name();
        } else if first.is_ascii_digit() || self.begins_fraction() {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
            let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
            let end = self.exponent(end);
            self.out.push(Token::Number(self.rest[..end].to_owned()));
            self.rest = &self.rest[end..];
        } else if first == '"' || first == '\'' {
            let text = self.quoted(true);
            self.out.push(Token::Text(text));
        } else if let Some(operator) = OPERATORS.iter().find(|own| self.rest.starts_with(**own)) {
            match *operator {
                "(" | "[" | "{" => self.depth += 1,
                ")" | "]" | "}" => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            self.out.push(Token::Operator(operator));
            self.rest = &self.rest[operator.len()..];
        } else {
            self.rest = &self.rest[first.len_utf8()..];
        }
    }

    fn begins_fraction(&self) -> bool {
        self.rest.starts_with('.') && self.rest[1..].starts_with(|c: char| c.is_ascii_digit())
    }

    /// The end of a number whose exponent has a sign, as in `1e-5`.
    fn exponent(&self, end: usize) -> usize {
        let is_hexadecimal = self.rest.starts_with("0x");
        let signed = self.rest[..end].ends_with(['e', 'E']) && !is_hexadecimal;
        let Some(rest) = self.rest[end..].strip_prefix(['-', '+']).filter(|_| signed) else {
            return end;
        };
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        end + 1 + digits
    }

    /// A name, or quotes with letters in front.
    fn name(&mut self) {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        let prefix = name.to_ascii_lowercase();
        let is_prefix =
            matches!(prefix.as_str(), "r" | "b" | "u" | "f" | "br" | "rb" | "fr" | "rf");
        if is_prefix && rest.starts_with(['"', '\'']) {
            self.rest = rest;
            let text = self.quoted(!prefix.contains('r'));
            let is_formatted = prefix.contains('f') && text.contains('{');
            self.out.push(if is_formatted { Token::Formatted } else { Token::Text(text) });
            return;
        }
        self.out.push(Token::Name(name.to_owned()));
        self.rest = rest;
    }

    /// The content of quotes, at whose first one the rest begins; `escapes` have a backslash.
    fn quoted(&mut self, escapes: bool) -> String {
        let long = ["\"\"\"", "'''"].into_iter().find(|quote| self.rest.starts_with(quote));
        let quote = long.unwrap_or(&self.rest[..1]).to_owned();
        let body = &self.rest[quote.len()..];
        let mut text = String::new();
        let mut characters = body.char_indices();
        while let Some((at, character)) = characters.next() {
            if body[at..].starts_with(&quote) {
                self.rest = &body[at + quote.len()..];
                return text;
            }
            match character {
                '\\' => match characters.next().map(|(_, next)| next) {
                    Some('n') if escapes => text.push('\n'),
                    Some('\n') if escapes => {}
                    Some(next) => text.push(next),
                    None => {}
                },
                // Quotes that do not end on their line.
                '\n' if long.is_none() => {
                    self.rest = &body[at..];
                    return text;
                }
                other => text.push(other),
            }
        }
        self.rest = "";
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_blocks_are_told_apart() {
        let name = |text: &str| Token::Name(text.to_owned());
        let text = "a = 1e-5 # one\n\nif b:\n    c(\n  'x\\'y', r'\\d')\n\n  # two\nd";
        let expected = [
            name("a"),
            Token::Operator("="),
            Token::Number("1e-5".to_owned()),
            Token::Newline,
            name("if"),
            name("b"),
            Token::Operator(":"),
            Token::Newline,
            Token::Indent,
            name("c"),
            Token::Operator("("),
            Token::Text("x'y".to_owned()),
            Token::Operator(","),
            Token::Text("d".to_owned()),
            Token::Operator(")"),
            Token::Newline,
            Token::Dedent,
            name("d"),
            Token::Newline,
        ];
        assert_eq!(tokens(text).unwrap(), expected);
    }

    #[test]
    fn anything_has_an_end() {
        for text in
            ["", "\u{0}", "'", "\"\"\"a", "f'{", "\\", "$?!", "é = 1", "(\n(\n", "0x", "1.e"]
        {
            assert!(tokens(text).is_ok(), "{text}");
        }
        let deep: String = (0..100).map(|at| " ".repeat(at) + "if a:\n").collect();
        assert!(tokens(&deep).is_err());
    }
}
