//! Literals of Python and JSON, as frameworks print tables of keys.

use serde_json::{Map, Value};

/// The deepest nesting of tables and lists.
const MOST_DEEP: usize = 64;

/// How deep the brackets are that a literal has open.
#[derive(Default)]
pub(super) struct Depth(usize);

impl Depth {
    /// Whether the literal ends in `line`, the next of its lines: how many bytes of it are of the literal.
    pub(super) fn end(&mut self, line: &str) -> Option<usize> {
        let (mut quote, mut is_escaped) = (None, false);
        for (at, one) in line.char_indices() {
            match (quote, one) {
                _ if is_escaped => is_escaped = false,
                (Some(_), '\\') => is_escaped = true,
                (Some(own), _) if own == one => quote = None,
                (Some(_), _) => {}
                (None, '\'' | '"') => quote = Some(one),
                (None, '{' | '[' | '(') => self.0 += 1,
                (None, '}' | ']' | ')') => self.0 = self.0.saturating_sub(1),
                _ => {}
            }
            if self.0 == 0 && quote.is_none() {
                return Some(at + one.len_utf8());
            }
        }
        None
    }
}

/// The value of `text`, a table, or the place of what is not read.
pub(super) fn parse(text: &str) -> Result<Value, usize> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0);
    reader.space();
    value.filter(|_| reader.at == text.len()).ok_or(reader.at)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let one = self.peek()?;
        self.at += one.len_utf8();
        Some(one)
    }

    fn space(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.next();
        }
    }

    fn take(&mut self, mark: char) -> bool {
        self.space();
        let is_it = self.peek() == Some(mark);
        self.at += if is_it { mark.len_utf8() } else { 0 };
        is_it
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        self.space();
        match self.peek().filter(|_| depth < MOST_DEEP)? {
            '{' => self.table(depth),
            '[' => self.list(']', depth).map(|(parts, _)| Value::Array(parts)),
            '(' => {
                let (mut parts, is_list) = self.list(')', depth)?;
                if is_list { Some(Value::Array(parts)) } else { parts.pop() }
            }
            '\'' | '"' => self.quoted().map(Value::String),
            _ => self.word(),
        }
    }

    fn table(&mut self, depth: usize) -> Option<Value> {
        let mut table = Map::new();
        self.next();
        while !self.take('}') {
            self.space();
            let key = match self.peek()? {
                '\'' | '"' => self.quoted()?,
                _ => self.word()?.to_string(),
            };
            let value = if self.take(':') { self.value(depth + 1)? } else { return None };
            table.insert(key, value);
            if !self.take(',') && !self.text[self.at..].starts_with('}') {
                return None;
            }
        }
        Some(Value::Object(table))
    }

    /// The parts up to `end`, and whether there are commas.
    fn list(&mut self, end: char, depth: usize) -> Option<(Vec<Value>, bool)> {
        let (mut parts, mut has_comma) = (Vec::new(), false);
        self.next();
        while !self.take(end) {
            parts.push(self.value(depth + 1)?);
            let is_last = !self.take(',');
            has_comma |= !is_last;
            if is_last && !self.text[self.at..].starts_with(end) {
                return None;
            }
        }
        Some((parts, has_comma))
    }

    /// A text, with those that follow it.
    fn quoted(&mut self) -> Option<String> {
        let mut text = String::new();
        while let Some(quote @ ('\'' | '"')) = self.peek() {
            self.next();
            loop {
                match self.next()? {
                    one if one == quote => break,
                    '\\' => text.push(match self.next()? {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        one => one,
                    }),
                    one => text.push(one),
                }
            }
            self.space();
        }
        Some(text)
    }

    /// A number, a word, or an object as it is written.
    fn word(&mut self) -> Option<Value> {
        let (begin, mut depth) = (self.at, 0_usize);
        while let Some(one) = self.peek() {
            match one {
                '\'' | '"' => {
                    self.quoted()?;
                    continue;
                }
                '(' | '[' | '{' | '<' => depth += 1,
                ')' | ']' | '}' | '>' if depth > 0 => depth -= 1,
                ')' | ']' | '}' | ',' | ':' if depth == 0 => break,
                _ => {}
            }
            self.next();
        }
        Some(match self.text[begin..self.at].trim() {
            "" => return None,
            "None" | "null" => Value::Null,
            "True" | "true" => true.into(),
            "False" | "false" => false.into(),
            word => word.parse().map_or_else(|_| word.into(), Value::Number),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn literals_of_python_and_json_are_tables() {
        let of_python = "{'a': {'b': None, 'c': [True, 1.5, -2, 1e-06],\n       'd': ('long '\n             'text'), 'e': (1,),\n 'f': {}},\n \
            'g': \"it's \\\\ \\\"\", 'h': PosixPath('/a, b'), 1: <class 'x.Y'>, 'i': torch.bfloat16, 'j': inf}";
        let expected = json!({"a": {"b": null, "c": [true, 1.5, -2, 1e-6], "d": "long text", "e": [1], "f": {}},
            "g": "it's \\ \"", "h": "PosixPath('/a, b')", "1": "<class 'x.Y'>", "i": "torch.bfloat16", "j": "inf"});
        assert_eq!(parse(of_python), Ok(expected.clone()));
        let of_json = serde_json::to_string_pretty(&expected).unwrap();
        assert_eq!(parse(&of_json), Ok(expected));
    }

    #[test]
    fn the_end_of_a_literal_is_that_of_its_brackets() {
        let mut depth = Depth::default();
        assert_eq!(depth.end("{'a': '}', \"b\": [1,"), None);
        assert_eq!(depth.end(" 2]} and more"), Some(4));
        for text in
            ["{", "{'a' 1}", "[1 2", "{'a': 'b", "{'a': }", "{'a': 1} b", &"[".repeat(100_000)]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
