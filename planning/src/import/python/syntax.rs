//! Statements and expressions of Python, as far as recipes have them: assignments, calls, branches and functions. Others
//! are skipped, and their values are not known.

use super::tokens::Token;

/// An expression.
#[derive(Clone, Debug)]
pub(super) enum Expr {
    None,
    Bool(bool),
    Whole(i64),
    Number(f64),
    Text(String),
    Name(String),
    Attribute(Box<Expr>, String),
    Index(Box<Expr>, Box<Expr>),
    Call(Box<Expr>, Vec<Argument>),
    List(Vec<Expr>),
    /// Keys and values; without a key, another table whose keys are taken.
    Table(Vec<(Option<Expr>, Expr)>),
    Not(Box<Expr>),
    Minus(Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    /// The value if a condition holds, the condition, and the value otherwise.
    Choice(Box<Expr>, Box<Expr>, Box<Expr>),
    Unknown,
}

/// An argument of a call.
#[derive(Clone, Debug)]
pub(super) enum Argument {
    Plain(Expr),
    Named(String, Expr),
    /// A table whose keys are names.
    Spread(Expr),
}

/// A function.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) parameters: Vec<(String, Option<Expr>)>,
    pub(super) body: Vec<Statement>,
}

/// A statement.
#[derive(Debug)]
pub(super) enum Statement {
    Assign(Vec<Expr>, Expr),
    Evaluate(Expr),
    Return(Expr),
    If(Expr, Vec<Statement>, Vec<Statement>),
    /// Statements that run in place, as those of `with` and `try`.
    Block(Vec<Statement>),
    Define(std::rc::Rc<Function>),
    Class(String, Vec<Expr>, Vec<Statement>),
    /// The module, and each name in it with its own.
    Import(String, Vec<(String, String)>),
    Skip,
}

/// The deepest nesting of expressions and blocks.
pub(super) const MOST_DEEP: usize = 48;

/// The most operators and names in the expressions of one statement, of which each may nest in the one before.
pub(super) const MOST_LINKS: usize = 4096;

/// The statements of `tokens`.
pub(super) fn statements(tokens: &[Token]) -> Vec<Statement> {
    Parser { tokens, at: 0, depth: 0, links: 0 }.block(false)
}

pub(super) struct Parser<'a> {
    pub(super) tokens: &'a [Token],
    pub(super) at: usize,
    pub(super) depth: usize,
    /// The operators and names of the statement so far.
    pub(super) links: usize,
}

impl Parser<'_> {
    pub(super) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    pub(super) fn is(&self, operator: &str) -> bool {
        matches!(self.peek(), Some(Token::Operator(own)) if *own == operator)
    }

    pub(super) fn is_name(&self, name: &str) -> bool {
        matches!(self.peek(), Some(Token::Name(own)) if own == name)
    }

    pub(super) fn take(&mut self, operator: &str) -> bool {
        let is_it = self.is(operator);
        self.at += usize::from(is_it);
        is_it
    }

    pub(super) fn take_name(&mut self, name: &str) -> bool {
        let is_it = self.is_name(name);
        self.at += usize::from(is_it);
        is_it
    }

    pub(super) fn name(&mut self) -> Option<String> {
        let Some(Token::Name(name)) = self.peek() else { return None };
        let name = name.clone();
        self.at += 1;
        Some(name)
    }

    /// Statements up to the end of the block, or of the file.
    fn block(&mut self, is_inner: bool) -> Vec<Statement> {
        let mut all = Vec::new();
        while let Some(token) = self.peek() {
            match token {
                Token::Dedent => {
                    self.at += 1;
                    if is_inner {
                        break;
                    }
                }
                Token::Newline | Token::Indent => self.at += 1,
                Token::Operator(";") => self.at += 1,
                _ => {
                    let begin = self.at;
                    let statement = self.statement();
                    all.push(statement.unwrap_or_else(|| {
                        self.at = begin;
                        self.skip();
                        Statement::Skip
                    }));
                }
            }
        }
        all
    }

    /// Skips a statement with the block below it.
    fn skip(&mut self) {
        while self.peek().is_some_and(|token| *token != Token::Newline) {
            self.at += 1;
        }
        self.at += 1;
        if self.peek() != Some(&Token::Indent) {
            return;
        }
        let mut depth = 0_usize;
        while let Some(token) = self.peek() {
            match token {
                Token::Indent => depth += 1,
                Token::Dedent => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    /// The block behind a colon, on the same line or indented.
    fn suite(&mut self) -> Option<Vec<Statement>> {
        if !self.take(":") || self.depth >= MOST_DEEP {
            return None;
        }
        if self.peek() != Some(&Token::Newline) {
            let one = self.statement()?;
            return Some(vec![one]);
        }
        self.at += 1;
        if self.peek() != Some(&Token::Indent) {
            return None;
        }
        self.at += 1;
        self.depth += 1;
        let block = self.block(true);
        self.depth -= 1;
        Some(block)
    }

    fn statement(&mut self) -> Option<Statement> {
        self.links = 0;
        while self.take("@") {
            self.expression()?;
            self.at += usize::from(self.peek() == Some(&Token::Newline));
        }
        let word = match self.peek() {
            Some(Token::Name(word)) => word.as_str(),
            _ => "",
        };
        match word {
            "if" => {
                self.at += 1;
                self.branch()
            }
            "def" => {
                self.at += 1;
                self.function()
            }
            "class" => {
                self.at += 1;
                self.class()
            }
            "from" | "import" => self.import(),
            "with" | "try" => {
                while !self.is(":") && self.peek().is_some_and(|token| *token != Token::Newline) {
                    self.at += 1;
                }
                Some(Statement::Block(self.suite()?))
            }
            "return" => {
                self.at += 1;
                let is_bare = matches!(self.peek(), None | Some(Token::Newline));
                Some(Statement::Return(if is_bare { Expr::None } else { self.list()? }))
            }
            "for" | "while" | "async" | "raise" | "assert" | "del" | "global" | "nonlocal"
            | "except" | "finally" | "else" | "elif" | "pass" | "break" | "continue" | "match" => {
                None
            }
            _ => self.simple(),
        }
    }

    fn branch(&mut self) -> Option<Statement> {
        let condition = self.expression()?;
        let then = self.suite()?;
        // The next token may be behind the end of the line.
        let begin = self.at;
        while self.peek() == Some(&Token::Newline) {
            self.at += 1;
        }
        let otherwise = if self.depth < MOST_DEEP && self.take_name("elif") {
            self.depth += 1;
            let otherwise = self.branch();
            self.depth -= 1;
            vec![otherwise?]
        } else if self.take_name("else") {
            self.suite()?
        } else {
            self.at = begin;
            Vec::new()
        };
        Some(Statement::If(condition, then, otherwise))
    }

    fn function(&mut self) -> Option<Statement> {
        let name = self.name()?;
        if !self.take("(") {
            return None;
        }
        let mut parameters = Vec::new();
        while !self.take(")") {
            let is_starred = self.take("*") || self.take("**") || self.take("/");
            if let Some(name) = self.name() {
                if self.take(":") {
                    self.expression()?;
                }
                let default = if self.take("=") { Some(self.expression()?) } else { None };
                if !is_starred {
                    parameters.push((name, default));
                }
            } else if !is_starred {
                return None;
            }
            if !self.take(",") && !self.is(")") {
                return None;
            }
        }
        if self.take("->") {
            self.expression()?;
        }
        let body = self.suite()?;
        Some(Statement::Define(std::rc::Rc::new(Function { name, parameters, body })))
    }

    fn class(&mut self) -> Option<Statement> {
        let name = self.name()?;
        let mut bases = Vec::new();
        if self.take("(") {
            for argument in self.arguments()? {
                if let Argument::Plain(base) = argument {
                    bases.push(base);
                }
            }
        }
        Some(Statement::Class(name, bases, self.suite()?))
    }

    fn dotted(&mut self) -> String {
        let mut text = String::new();
        loop {
            match self.peek() {
                Some(Token::Operator("...")) => text += "...",
                Some(Token::Operator(".")) => text.push('.'),
                Some(Token::Name(name)) if name != "import" && name != "as" => text += name,
                _ => return text,
            }
            self.at += 1;
        }
    }

    fn import(&mut self) -> Option<Statement> {
        if self.take_name("import") {
            let module = self.dotted();
            let alias = if self.take_name("as") { self.name()? } else { module.clone() };
            let first = alias.split('.').next().unwrap_or_default().to_owned();
            return Some(Statement::Import(module, vec![(String::new(), first)]));
        }
        self.at += 1;
        let module = self.dotted();
        if !self.take_name("import") {
            return None;
        }
        let is_open = self.take("(");
        let mut names = Vec::new();
        while let Some(name) = self.name() {
            let alias = if self.take_name("as") { self.name()? } else { name.clone() };
            names.push((name, alias));
            if !self.take(",") {
                break;
            }
        }
        (!is_open || self.take(")")).then_some(Statement::Import(module, names))
    }

    /// An assignment or an expression.
    fn simple(&mut self) -> Option<Statement> {
        let first = self.list()?;
        // The type of a variable.
        if self.take(":") {
            self.expression()?;
        }
        for (operator, plain) in [("+=", "+"), ("-=", "-"), ("*=", "*"), ("//=", "//"), ("/=", "/")]
        {
            if self.take(operator) {
                let value = self.list()?;
                let value = Expr::Binary(plain, Box::new(first.clone()), Box::new(value));
                return Some(Statement::Assign(vec![first], value));
            }
        }
        let mut all = vec![first];
        while self.take("=") {
            all.push(self.list()?);
        }
        let is_end = matches!(self.peek(), None | Some(Token::Newline | Token::Operator(";")));
        let value = all.pop().filter(|_| is_end)?;
        Some(match all.is_empty() {
            true => Statement::Evaluate(value),
            false => Statement::Assign(all, value),
        })
    }
}
