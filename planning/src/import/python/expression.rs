//! Expressions of Python, by how tightly their operators bind.

use super::syntax::{Argument, Expr, MOST_DEEP, MOST_LINKS, Parser};
use super::tokens::Token;

impl Parser<'_> {
    /// One expression, or several with commas between.
    pub(super) fn list(&mut self) -> Option<Expr> {
        let first = self.expression()?;
        if !self.is(",") {
            return Some(first);
        }
        let mut all = vec![first];
        while self.take(",") {
            let is_end = matches!(self.peek(), None | Some(Token::Newline)) || self.is("=");
            if is_end || self.is(")") || self.is("]") {
                break;
            }
            all.push(self.expression()?);
        }
        Some(Expr::List(all))
    }

    /// Counts an operator or a name of the statement.
    fn link(&mut self) -> Option<()> {
        self.links += 1;
        (self.links <= MOST_LINKS).then_some(())
    }

    /// An expression.
    pub(super) fn expression(&mut self) -> Option<Expr> {
        if self.depth >= MOST_DEEP {
            return None;
        }
        self.depth += 1;
        let expression = self.choice();
        self.depth -= 1;
        expression
    }

    fn choice(&mut self) -> Option<Expr> {
        if self.take_name("lambda") {
            while !self.is(":") && self.peek().is_some_and(|token| *token != Token::Newline) {
                self.at += 1;
            }
            self.take(":");
            self.expression()?;
            return Some(Expr::Unknown);
        }
        let value = self.level(0)?;
        if self.take(":=") {
            self.expression()?;
            return Some(Expr::Unknown);
        }
        if !self.take_name("if") {
            return Some(value);
        }
        let condition = self.level(0)?;
        if !self.take_name("else") {
            return None;
        }
        let otherwise = self.expression()?;
        Some(Expr::Choice(Box::new(value), Box::new(condition), Box::new(otherwise)))
    }

    /// Operators from those that bind least on.
    fn level(&mut self, level: usize) -> Option<Expr> {
        const LEVELS: [&[&str]; 6] = [
            &["or"],
            &["and"],
            &["==", "!=", "<=", ">=", "<", ">", "in", "is", "not"],
            &["|", "&", "<<", ">>"],
            &["+", "-"],
            &["*", "//", "/", "%", "@"],
        ];
        let Some(own) = LEVELS.get(level) else { return self.unary() };
        if level == 2 && self.take_name("not") {
            if self.depth >= MOST_DEEP {
                return None;
            }
            self.depth += 1;
            let value = self.level(level);
            self.depth -= 1;
            return Some(Expr::Not(Box::new(value?)));
        }
        let mut left = self.level(level + 1)?;
        while let Some(operator) = self.operator(own) {
            self.link()?;
            let right = self.level(level + 1)?;
            left = Expr::Binary(operator, Box::new(left), Box::new(right));
        }
        Some(left)
    }

    fn operator(&mut self, own: &[&'static str]) -> Option<&'static str> {
        let found = own.iter().find(|operator| self.is(operator) || self.is_name(operator))?;
        self.at += 1;
        Some(match *found {
            "is" if self.take_name("not") => "!=",
            "is" => "==",
            "not" if self.take_name("in") => "not in",
            other => other,
        })
    }

    fn unary(&mut self) -> Option<Expr> {
        if self.depth >= MOST_DEEP {
            return None;
        }
        if self.take("-") {
            self.depth += 1;
            let value = self.unary();
            self.depth -= 1;
            return Some(Expr::Minus(Box::new(value?)));
        }
        if self.take("+") || self.take("~") || self.take_name("await") {
            return self.postfix();
        }
        let value = self.postfix()?;
        if self.take("**") {
            let exponent = self.postfix()?;
            return Some(Expr::Binary("**", Box::new(value), Box::new(exponent)));
        }
        Some(value)
    }

    fn postfix(&mut self) -> Option<Expr> {
        let mut value = self.atom()?;
        loop {
            self.link()?;
            if self.take(".") {
                value = Expr::Attribute(Box::new(value), self.name()?);
            } else if self.take("(") {
                value = Expr::Call(Box::new(value), self.arguments()?);
            } else if self.take("[") {
                let index = self.list();
                if index.is_some() && self.take("]") {
                    value = Expr::Index(Box::new(value), Box::new(index.unwrap_or(Expr::Unknown)));
                } else {
                    self.close();
                    value = Expr::Unknown;
                }
            } else {
                return Some(value);
            }
        }
    }

    /// Goes on behind the bracket that closes the open one.
    fn close(&mut self) {
        let mut depth = 1_usize;
        while let Some(token) = self.peek() {
            match token {
                Token::Operator("(" | "[" | "{") => depth += 1,
                Token::Operator(")" | "]" | "}") => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    /// The arguments of a call up to its end.
    pub(super) fn arguments(&mut self) -> Option<Vec<Argument>> {
        let mut all = Vec::new();
        while !self.take(")") {
            if self.take("**") {
                all.push(Argument::Spread(self.expression()?));
            } else if self.take("*") {
                self.expression()?;
                all.push(Argument::Plain(Expr::Unknown));
            } else {
                let begin = self.at;
                match (self.name(), self.take("=")) {
                    (Some(name), true) => all.push(Argument::Named(name, self.expression()?)),
                    _ => {
                        self.at = begin;
                        all.push(Argument::Plain(self.expression()?));
                    }
                }
            }
            if self.is_name("for") {
                self.close();
                return Some(vec![Argument::Plain(Expr::Unknown)]);
            }
            if !self.take(",") && !self.is(")") {
                return None;
            }
        }
        Some(all)
    }

    fn atom(&mut self) -> Option<Expr> {
        let token = self.peek()?.clone();
        self.at += 1;
        Some(match token {
            Token::Name(name) => match name.as_str() {
                "None" => Expr::None,
                "True" => Expr::Bool(true),
                "False" => Expr::Bool(false),
                "yield" | "if" | "else" | "for" | "in" | "and" | "or" | "is" => return None,
                _ => Expr::Name(name),
            },
            Token::Number(text) => number(&text),
            Token::Text(mut text) => {
                // Quotes that follow each other are one.
                while let Some(Token::Text(more)) = self.peek() {
                    text += more;
                    self.at += 1;
                }
                match self.peek() {
                    Some(Token::Formatted) => self.formatted(),
                    _ => Expr::Text(text),
                }
            }
            Token::Formatted => self.formatted(),
            Token::Operator("...") => Expr::None,
            Token::Operator("(") => self.parts(")")?,
            Token::Operator("[") => self.parts("]")?,
            Token::Operator("{") => self.table()?,
            _ => return None,
        })
    }

    fn formatted(&mut self) -> Expr {
        while matches!(self.peek(), Some(Token::Text(_) | Token::Formatted)) {
            self.at += 1;
        }
        Expr::Unknown
    }

    /// The parts of a list or a tuple up to `end`; one in round brackets is itself.
    fn parts(&mut self, end: &str) -> Option<Expr> {
        let mut all = Vec::new();
        let mut has_comma = false;
        while !self.take(end) {
            self.take("*");
            all.push(self.expression()?);
            if self.is_name("for") {
                self.close();
                return Some(Expr::Unknown);
            }
            if self.take(",") {
                has_comma = true;
            } else if !self.is(end) {
                return None;
            }
        }
        let is_one = end == ")" && all.len() == 1 && !has_comma;
        match is_one {
            true => all.pop(),
            false => Some(Expr::List(all)),
        }
    }

    fn table(&mut self) -> Option<Expr> {
        let mut all = Vec::new();
        let mut is_set = false;
        while !self.take("}") {
            if self.take("**") {
                all.push((None, self.expression()?));
            } else {
                let key = self.expression()?;
                match self.take(":") {
                    true => all.push((Some(key), self.expression()?)),
                    false => {
                        is_set = true;
                        all.push((None, key));
                    }
                }
            }
            if self.is_name("for") {
                self.close();
                return Some(Expr::Unknown);
            }
            if !self.take(",") && !self.is("}") {
                return None;
            }
        }
        Some(match is_set {
            true => Expr::List(all.into_iter().map(|(_, value)| value).collect()),
            false => Expr::Table(all),
        })
    }
}

fn number(text: &str) -> Expr {
    let digits = text.replace('_', "");
    if let Ok(whole) = digits.parse() {
        return Expr::Whole(whole);
    }
    match digits.parse::<f64>() {
        Ok(number) if number.is_finite() => Expr::Number(number),
        _ => Expr::Unknown,
    }
}
