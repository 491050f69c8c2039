//! Recipes in Python, followed without being run: functions that fill objects with numbers and words.
//!
//! Branches on known conditions are followed, loops are not. A call of a function that is not there makes an object that
//! has the call as its class. Steps, depth and files are bounded.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::super::source::Source;
use super::operators;
use super::syntax::{Expr, Statement, statements};
use super::tokens::tokens;
use super::values::{Heap, Table, Value};

/// The most steps of a recipe.
const MOST_STEPS: usize = 300_000;
/// The deepest nesting of calls and expressions.
const MOST_DEEP: usize = 160;
/// The most files.
const MOST_FILES: usize = 48;

/// Functions that build a model, of which a recipe's arguments say more than their bodies.
pub(super) const NEVER_FOLLOWED: [&str; 2] = ["model_registry", "default_log"];

/// A file.
pub(super) struct Module {
    path: PathBuf,
    names: RefCell<BTreeMap<String, Value>>,
    /// Names of other files: the module, and the name there.
    imports: RefCell<BTreeMap<String, (String, String)>>,
    /// Functions in the order of the file.
    order: RefCell<Vec<String>>,
}

impl Module {
    /// Functions and other names of the file that are not imported, in their order.
    pub(super) fn names_in_order(&self) -> Vec<String> {
        let mut all = self.order.borrow().clone();
        let names = self.names.borrow();
        let tables = names.iter().filter(|(_, value)| matches!(value, Value::Table(_)));
        all.extend(tables.map(|(name, _)| name.clone()));
        all
    }
}

/// Why a recipe is not followed on.
pub(super) enum Stop {
    /// The value that a function returns.
    Return(Value),
    /// Too much of it.
    TooLong,
}

/// A file and those that it imports.
pub(super) struct Run<'a> {
    source: &'a Source<'a>,
    pub(super) heap: Heap,
    modules: RefCell<BTreeMap<PathBuf, Option<Rc<Module>>>>,
    steps: Cell<usize>,
    depth: Cell<usize>,
    /// Functions of modules that are not there, by name.
    pub(super) lacking: RefCell<BTreeMap<String, String>>,
    /// Whether a branch was left out, for its condition is not known.
    pub(super) unknown_branches: Cell<bool>,
}

impl Drop for Run<'_> {
    /// Functions hold their module, which holds them.
    fn drop(&mut self) {
        for module in self.modules.get_mut().values().flatten() {
            module.names.borrow_mut().clear();
        }
    }
}

/// Names of a function's own.
pub(super) type Scope = BTreeMap<String, Value>;

impl<'a> Run<'a> {
    pub(super) fn new(source: &'a Source<'a>) -> Self {
        Self {
            source,
            heap: Heap::default(),
            modules: RefCell::default(),
            steps: Cell::new(0),
            depth: Cell::new(0),
            lacking: RefCell::default(),
            unknown_branches: Cell::new(false),
        }
    }

    /// The file itself.
    ///
    /// # Errors
    /// If it is too long.
    pub(super) fn main(&self) -> Result<Rc<Module>, String> {
        self.load(self.source.path, self.source.text)
    }

    fn load(&self, path: &Path, text: &str) -> Result<Rc<Module>, String> {
        let statements = statements(&tokens(text)?);
        let module = Rc::new(Module {
            path: path.to_owned(),
            names: RefCell::default(),
            imports: RefCell::default(),
            order: RefCell::default(),
        });
        self.modules.borrow_mut().insert(path.to_owned(), Some(Rc::clone(&module)));
        let mut scope = Scope::new();
        for statement in &statements {
            // Statements beside definitions matter little.
            if let Err(Stop::TooLong) = self.statement(statement, &mut scope, &module) {
                return Err("it takes too many steps to follow".to_owned());
            }
            if let Statement::Define(function) = statement {
                module.order.borrow_mut().push(function.name.clone());
            }
            module.names.borrow_mut().extend(std::mem::take(&mut scope));
        }
        Ok(module)
    }

    /// The module `name` as `from` imports it, if it is there.
    fn import(&self, name: &str, from: &Module) -> Option<Rc<Module>> {
        let dots = name.chars().take_while(|c| *c == '.').count();
        let below = name[dots..].replace('.', "/");
        let candidates = [format!("{below}.py"), format!("{below}/__init__.py")];
        let path = if dots > 0 {
            let folder = from.path.ancestors().nth(dots)?;
            candidates.iter().map(|own| folder.join(own)).find(|path| self.source.exists(path))?
        } else {
            candidates.iter().find_map(|own| self.source.upwards(own))?
        };
        if let Some(known) = self.modules.borrow().get(&path) {
            return known.clone();
        }
        if self.modules.borrow().len() >= MOST_FILES {
            return None;
        }
        let text = self.source.text_of(&path);
        let module = text.and_then(|text| self.load(&path, &text).ok());
        self.modules.borrow_mut().insert(path, module.clone());
        module
    }

    /// The value of `name` in `module`.
    pub(super) fn named(&self, name: &str, module: &Module) -> Option<Value> {
        if let Some(value) = module.names.borrow().get(name) {
            return Some(value.clone());
        }
        let (origin, original) = module.imports.borrow().get(name).cloned()?;
        if self.depth.get() >= MOST_DEEP {
            return None;
        }
        self.depth.set(self.depth.get() + 1);
        let found = match original.is_empty() || NEVER_FOLLOWED.contains(&original.as_str()) {
            true => None,
            false => {
                let other = self.import(&origin, module);
                let found = other.and_then(|other| self.named(&original, &other));
                found.filter(|found| !matches!(found, Value::Outside(_))).or_else(|| {
                    // A module of a package.
                    let inner = format!(
                        "{origin}{}{original}",
                        if origin.ends_with('.') { "" } else { "." }
                    );
                    self.import(&inner, module).map(Value::Module)
                })
            }
        };
        self.depth.set(self.depth.get() - 1);
        let found = found.unwrap_or_else(|| {
            let of_module = if original.is_empty() { origin.clone() } else { original.clone() };
            self.lacking.borrow_mut().insert(of_module.clone(), origin.clone());
            Value::Outside(Rc::from(of_module.as_str()))
        });
        module.names.borrow_mut().insert(name.to_owned(), found.clone());
        Some(found)
    }

    fn step(&self) -> Result<(), Stop> {
        self.steps.set(self.steps.get() + 1);
        match self.steps.get() > MOST_STEPS {
            true => Err(Stop::TooLong),
            false => Ok(()),
        }
    }

    pub(super) fn block(
        &self,
        block: &[Statement],
        scope: &mut Scope,
        module: &Rc<Module>,
    ) -> Result<(), Stop> {
        block.iter().try_for_each(|statement| self.statement(statement, scope, module))
    }

    fn statement(
        &self,
        statement: &Statement,
        scope: &mut Scope,
        module: &Rc<Module>,
    ) -> Result<(), Stop> {
        self.step()?;
        match statement {
            Statement::Assign(targets, value) => {
                let value = self.value(value, scope, module)?;
                for target in targets {
                    self.assign(target, &value, scope, module)?;
                }
            }
            Statement::Evaluate(value) => drop(self.value(value, scope, module)?),
            Statement::Return(value) => {
                return Err(Stop::Return(self.value(value, scope, module)?));
            }
            Statement::If(condition, then, otherwise) => {
                match self.value(condition, scope, module)?.truth() {
                    Some(true) => self.block(then, scope, module)?,
                    Some(false) => self.block(otherwise, scope, module)?,
                    None => self.unknown_branches.set(true),
                }
            }
            Statement::Block(block) => self.block(block, scope, module)?,
            Statement::Define(function) => {
                let value = Value::Function(Rc::clone(function), Rc::clone(module));
                scope.insert(function.name.clone(), value);
            }
            Statement::Class(name, bases, body) => {
                let class = self.class(name, bases, body, (scope, module))?;
                scope.insert(name.clone(), class);
            }
            Statement::Import(origin, names) => {
                for (name, own) in names {
                    let import = (origin.clone(), name.clone());
                    module.imports.borrow_mut().insert(own.clone(), import);
                }
            }
            Statement::Skip => {}
        }
        Ok(())
    }

    fn assign(
        &self,
        target: &Expr,
        value: &Value,
        scope: &mut Scope,
        module: &Rc<Module>,
    ) -> Result<(), Stop> {
        match target {
            Expr::Name(name) => drop(scope.insert(name.clone(), value.clone())),
            Expr::Attribute(owner, field) => {
                if let Value::Table(table) = self.owner(owner, scope, module)? {
                    table.borrow_mut().fields.insert(field.clone(), value.clone());
                }
            }
            Expr::Index(owner, index) => {
                let index = self.value(index, scope, module)?.key();
                if let (Value::Table(table), Some(key)) = (self.owner(owner, scope, module)?, index)
                {
                    table.borrow_mut().fields.insert(key, value.clone());
                }
            }
            Expr::List(targets) => {
                let parts = match value {
                    Value::List(parts) => parts.borrow().clone(),
                    _ => Vec::new(),
                };
                for (at, target) in targets.iter().enumerate() {
                    let part = parts.get(at).cloned().unwrap_or(Value::Unknown);
                    if let Expr::Name(name) = target {
                        scope.insert(name.clone(), part);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The object that fields are assigned to: one that is not known yet is made.
    fn owner(&self, owner: &Expr, scope: &mut Scope, module: &Rc<Module>) -> Result<Value, Stop> {
        let value = self.value(owner, scope, module)?;
        if !matches!(value, Value::None | Value::Unknown | Value::Outside(_)) {
            return Ok(value);
        }
        let Expr::Attribute(above, field) = owner else { return Ok(value) };
        self.step()?;
        let Value::Table(above) = self.owner(above, scope, module)? else { return Ok(value) };
        let made = self.heap.table(Table::default());
        above.borrow_mut().fields.insert(field.clone(), made.clone());
        Ok(made)
    }

    /// The value of an expression.
    pub(super) fn value(
        &self,
        expression: &Expr,
        scope: &mut Scope,
        module: &Rc<Module>,
    ) -> Result<Value, Stop> {
        self.step()?;
        if self.depth.get() >= MOST_DEEP {
            return Ok(Value::Unknown);
        }
        self.depth.set(self.depth.get() + 1);
        let value = self.value_of(expression, scope, module);
        self.depth.set(self.depth.get() - 1);
        value
    }

    fn value_of(
        &self,
        expression: &Expr,
        scope: &mut Scope,
        module: &Rc<Module>,
    ) -> Result<Value, Stop> {
        let mut of = |expression: &Expr| self.value(expression, scope, module);
        Ok(match expression {
            Expr::None => Value::None,
            Expr::Bool(is) => Value::Bool(*is),
            Expr::Whole(number) => Value::Whole(*number),
            Expr::Number(number) => Value::Number(*number),
            Expr::Text(text) => Value::text(text),
            Expr::Unknown => Value::Unknown,
            Expr::Name(name) => match scope.get(name) {
                Some(value) => value.clone(),
                None => self.named(name, module).unwrap_or_else(|| {
                    self.lacking.borrow_mut().insert(name.clone(), String::new());
                    Value::Outside(Rc::from(name.as_str()))
                }),
            },
            Expr::Attribute(owner, field) => match of(owner)? {
                Value::Module(other) => self.named(field, &other).unwrap_or(Value::Unknown),
                owner => operators::field(&owner, field),
            },
            Expr::Index(owner, index) => operators::part(&of(owner)?, &of(index)?),
            Expr::List(parts) => {
                self.heap.list(parts.iter().map(of).collect::<Result<Vec<Value>, Stop>>()?)
            }
            Expr::Table(parts) => {
                let mut table = Table::default();
                for (key, value) in parts {
                    let value = of(value)?;
                    match key {
                        Some(key) => {
                            let key = of(key)?.key();
                            key.into_iter()
                                .for_each(|key| drop(table.fields.insert(key, value.clone())));
                        }
                        None => operators::spread(&value, &mut table.fields),
                    }
                }
                self.heap.table(table)
            }
            Expr::Not(value) => of(value)?.truth().map_or(Value::Unknown, |is| Value::Bool(!is)),
            Expr::Minus(value) => operators::minus(&of(value)?),
            Expr::Binary(operator @ ("and" | "or"), left, right) => {
                let left = of(left)?;
                match (left.truth(), *operator) {
                    (Some(true), "and") | (Some(false), "or") => of(right)?,
                    (Some(_), _) => left,
                    (None, "or") if of(right)?.truth() == Some(true) => Value::Bool(true),
                    (None, _) => Value::Unknown,
                }
            }
            Expr::Binary(operator, left, right) => {
                operators::binary(&self.heap, operator, &of(left)?, &of(right)?)
            }
            Expr::Choice(then, condition, otherwise) => match of(condition)?.truth() {
                Some(true) => of(then)?,
                Some(false) => of(otherwise)?,
                None => Value::Unknown,
            },
            Expr::Call(callee, arguments) => return self.call(callee, arguments, scope, module),
        })
    }
}
