//! Calls of functions, classes and methods.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::run::{Module, NEVER_FOLLOWED, Run, Scope, Stop};
use super::syntax::{Argument, Expr, Function, Statement};
use super::values::{Table, Value};
use super::{builtins, operators};

impl Run<'_> {
    /// A class with the fields of its bases and its own.
    pub(super) fn class(
        &self,
        name: &str,
        bases: &[Expr],
        body: &[Statement],
        (scope, module): (&mut Scope, &Rc<Module>),
    ) -> Result<Value, Stop> {
        let mut table = Table { class: name.to_owned(), ..Table::default() };
        for base in bases {
            if let Value::Class(base) = self.value(base, scope, module)? {
                table.fields.extend(base.borrow().fields.clone());
            }
        }
        for statement in body {
            if let Statement::Assign(targets, value) = statement {
                let value = self.value(value, scope, module)?;
                for target in targets {
                    if let Expr::Name(field) = target {
                        table.fields.insert(field.clone(), value.clone());
                    }
                }
            }
        }
        Ok(self.heap.class(table))
    }

    pub(super) fn call(
        &self,
        callee: &Expr,
        arguments: &[Argument],
        scope: &mut Scope,
        module: &Rc<Module>,
    ) -> Result<Value, Stop> {
        let mut plain = Vec::new();
        let mut named = BTreeMap::new();
        for argument in arguments {
            match argument {
                Argument::Plain(value) => plain.push(self.value(value, scope, module)?),
                Argument::Named(name, value) => {
                    let value = self.value(value, scope, module)?;
                    named.insert(name.clone(), value);
                }
                Argument::Spread(value) => {
                    operators::spread(&self.value(value, scope, module)?, &mut named);
                }
            }
        }
        if let Expr::Name(name) = callee {
            let is_own = scope.contains_key(name);
            if let Some(value) =
                builtins::call(&self.heap, name, &plain, &named).filter(|_| !is_own)
            {
                return Ok(value);
            }
        }
        if let Expr::Attribute(owner, method) = callee {
            let owner = self.value(owner, scope, module)?;
            if let Some(value) = builtins::method(&self.heap, &owner, method, &plain, &named) {
                return Ok(value);
            }
        }
        let callee = self.value(callee, scope, module)?;
        self.applied(&callee, plain, named)
    }

    /// The value of `callee` for its arguments.
    pub(super) fn applied(
        &self,
        callee: &Value,
        plain: Vec<Value>,
        named: BTreeMap<String, Value>,
    ) -> Result<Value, Stop> {
        match callee {
            Value::Function(function, home) => self.function(function, home, plain, named),
            Value::Class(class) => {
                let mut table = Table::clone(&class.borrow());
                table.made_of = plain;
                table.fields.extend(named);
                Ok(self.heap.table(table))
            }
            Value::Outside(name) => {
                let table = Table { class: name.to_string(), made_of: plain, fields: named };
                Ok(self.heap.table(table))
            }
            _ => Ok(Value::Unknown),
        }
    }

    fn function(
        &self,
        function: &Rc<Function>,
        home: &Rc<Module>,
        plain: Vec<Value>,
        mut named: BTreeMap<String, Value>,
    ) -> Result<Value, Stop> {
        if NEVER_FOLLOWED.contains(&function.name.as_str()) {
            let class = function.name.clone();
            return Ok(self.heap.table(Table { class, made_of: plain, fields: named }));
        }
        let mut scope = Scope::new();
        let mut plain = plain.into_iter();
        for (name, default) in &function.parameters {
            let given = plain.next().or_else(|| named.remove(name));
            let value = match (given, default) {
                (Some(value), _) => value,
                (None, Some(default)) => self.value(default, &mut Scope::new(), home)?,
                (None, None) => Value::Unknown,
            };
            scope.insert(name.clone(), value);
        }
        match self.block(&function.body, &mut scope, home) {
            Ok(()) => Ok(Value::None),
            Err(Stop::Return(value)) => Ok(value),
            Err(stop) => Err(stop),
        }
    }
}
