//! Assignments, and commands that declare variables.

use std::rc::Rc;

use super::run::Reader;
use super::scan::is_name;
use super::state::Value;
use super::{COUNTED, END, MANY, UNKNOWN};

/// An assignment: the name, the index in an array, whether it adds, and the value.
pub(super) struct Parts<'t> {
    name: &'t str,
    index: Option<&'t str>,
    adds: bool,
    value: &'t str,
}

/// The parts of `word`, if it is an assignment.
pub(super) fn parts(word: &str) -> Option<Parts<'_>> {
    let end = word.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    let (name, mut rest) = word.split_at(end);
    let mut index = None;
    if let Some(inner) = rest.strip_prefix('[') {
        let (own, after) = inner.split_once(']')?;
        (index, rest) = (Some(own), after);
    }
    let adds = rest.starts_with("+=");
    let value = rest.strip_prefix("+=").or_else(|| rest.strip_prefix('='))?;
    is_name(name).then_some(Parts { name, index, adds, value })
}

impl Reader<'_> {
    /// Gives variable `name` a value, unless the caller gives it another.
    pub(super) fn set(&mut self, name: &str, value: Value) {
        // Values of these have forms that are not followed.
        let value = if self.state.odd.contains_key(name) { Value::Unknown(false) } else { value };
        if !self.given.contains_key(name) {
            self.state.variables.insert(name.to_owned(), value);
        }
    }

    pub(super) fn set_text(&mut self, name: &str, text: String) -> Result<(), String> {
        self.spend(std::slice::from_ref(&text))?;
        self.set(name, Value::Text(text.into()));
        Ok(())
    }

    /// Does the assignment `word`.
    pub(super) fn assign(&mut self, word: &str) -> Result<(), String> {
        let Some(parts) = parts(word) else { return Ok(()) };
        let list = parts.value.strip_prefix('(').and_then(|list| list.strip_suffix(')'));
        if let Some(list) = list.filter(|_| parts.index.is_none()) {
            return self.assign_list(&parts, list);
        }
        let text = self.word(parts.value)?;
        let text = Self::named(&text, parts.name);
        match self.state.odd.get(parts.name) {
            Some('r') => return Err(format!("{} is fixed, and assigned again", parts.name)),
            Some('i') if parts.index.is_none() => return self.assign_sum(&parts, &text),
            _ => {}
        }
        if let Some(index) = parts.index {
            return self.assign_element(&parts, index, text);
        }
        let old = self.state.variables.get(parts.name).cloned();
        match old.filter(|_| parts.adds) {
            Some(Value::Text(old)) => {
                self.work(old.len())?;
                self.put(parts.name, format!("{old}{text}"))
            }
            Some(Value::List(_)) => self.assign_element(&parts, "0", text),
            Some(Value::Unknown(flags)) => {
                self.set(parts.name, Value::Unknown(flags || text.contains("--")));
                Ok(())
            }
            _ => match self.state.variables.get(parts.name) {
                Some(Value::List(_)) => self.assign_element(&parts, "0", text),
                _ => self.put(parts.name, text),
            },
        }
    }

    /// Does the assignment `word`, whose value is not expanded again.
    fn assign_expanded(&mut self, word: &str) -> Result<(), String> {
        match parts(word) {
            Some(Parts { name, index: None, adds: false, value })
                if !self.state.odd.contains_key(name) =>
            {
                self.set_text(name, Self::named(value, name))
            }
            Some(Parts { name, .. }) => {
                self.set(name, Value::Unknown(true));
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Assigns the sum `text` to a variable that holds numbers.
    fn assign_sum(&mut self, parts: &Parts<'_>, text: &str) -> Result<(), String> {
        let text = match parts.adds {
            true => format!("{} + ({text})", parts.name),
            false => text.to_owned(),
        };
        let value = match self.sum(&text)? {
            Ok(value) => Value::Text(value.to_string().into()),
            Err(name) if name == "%sum" => {
                return Err("bash would refuse one of its sums".to_owned());
            }
            Err(_) => Value::Unknown(false),
        };
        if !self.given.contains_key(parts.name) {
            self.state.variables.insert(parts.name.to_owned(), value);
        }
        Ok(())
    }

    /// Sets `name` to `text`; a value that the caller gives only grows.
    fn put(&mut self, name: &str, text: String) -> Result<(), String> {
        let given = self.given.get(name).filter(|given| text.starts_with(given.as_str()));
        if given.is_some_and(|given| text[given.len()..].starts_with(' ')) {
            self.spend(std::slice::from_ref(&text))?;
            self.state.variables.insert(name.to_owned(), Value::Text(text.into()));
            return Ok(());
        }
        self.set_text(name, text)
    }

    fn assign_list(&mut self, parts: &Parts<'_>, list: &str) -> Result<(), String> {
        let list = super::expand::raw_words(list)?;
        let has_keys = list.iter().any(|word| word.starts_with('[') && word.contains("]="));
        let has_globs = list.iter().any(|word| super::expand::may_name_files(word));
        let words = self.words(&list)?;
        let words: Vec<String> =
            words.into_iter().map(|word| Self::named(&word, parts.name)).collect();
        self.spend(&words)?;
        let flags = words.iter().any(|word| word.contains("--"));
        let old = self.state.variables.get(parts.name).cloned().filter(|_| parts.adds);
        let value = match old {
            _ if has_keys || has_globs => Value::Unknown(flags),
            Some(Value::Unknown(old)) => Value::Unknown(old || flags),
            Some(Value::List(mut all)) => {
                if Rc::strong_count(&all) > 2 {
                    self.work(all.len() * 32)?;
                }
                self.state.variables.remove(parts.name);
                Rc::make_mut(&mut all).extend(words);
                Value::List(all)
            }
            Some(Value::Text(text)) => {
                Value::List(Rc::new(std::iter::once(text.to_string()).chain(words).collect()))
            }
            _ => Value::List(Rc::new(words)),
        };
        if parts.adds && self.given.contains_key(parts.name) {
            self.state.variables.insert(parts.name.to_owned(), value);
        } else {
            self.set(parts.name, value);
        }
        Ok(())
    }

    fn assign_element(
        &mut self,
        parts: &Parts<'_>,
        index: &str,
        text: String,
    ) -> Result<(), String> {
        let index = self.sum(index)?.ok().and_then(|index| usize::try_from(index).ok());
        let mut all = match self.state.variables.get(parts.name) {
            Some(Value::List(all)) => Rc::clone(all),
            Some(Value::Text(text)) => Rc::new(vec![text.to_string()]),
            Some(Value::Unknown(_)) => return Ok(()),
            _ => Rc::default(),
        };
        self.work(all.len() * 32)?;
        let is_counted = !all.iter().any(|word| super::many(word).is_some());
        let value = match index.filter(|index| *index <= all.len() && is_counted) {
            None => Value::Unknown(true),
            Some(index) => {
                let list = Rc::make_mut(&mut all);
                match list.get_mut(index) {
                    Some(old) if parts.adds => old.push_str(&text),
                    Some(old) => *old = text,
                    None => list.push(text),
                }
                Value::List(all)
            }
        };
        self.set(parts.name, value);
        Ok(())
    }

    /// `text`, where parts of no name, such as the output of a command, are called `name`.
    pub(super) fn named(text: &str, name: &str) -> String {
        let mut out = String::new();
        for (at, part) in text.split(UNKNOWN).enumerate() {
            let own = part.trim_start_matches(MANY);
            let several = &part[..part.len() - own.len()];
            match own.split_once(END).filter(|_| at > 0) {
                Some((old, rest)) => {
                    let is_known = is_name(old.trim_start_matches(COUNTED));
                    let own = if is_known { old } else { name };
                    out += &format!("{UNKNOWN}{several}{own}{END}{rest}");
                }
                None => out += part,
            }
        }
        out
    }

    /// `export`, `declare` and the like, with their words as they are written.
    pub(super) fn declare(&mut self, kind: &str, words: &[String]) -> Result<(), String> {
        let (options, words): (Vec<&String>, Vec<&String>) =
            words.iter().partition(|word| word.starts_with(['-', '+']));
        let has = |letters: &[char]| options.iter().any(|word| word.contains(letters));
        if has(&['f', 'F', 'p']) {
            return Ok(());
        }
        if has(&['n']) && kind != "export" {
            return Err(
                "a name that stands for another, of `declare -n`, is not followed".to_owned()
            );
        }
        let is_local = !self.state.locals.is_empty()
            && matches!(kind, "local" | "declare" | "typeset")
            && !has(&['g']);
        for raw in words {
            let all = match parts(raw) {
                Some(_) => vec![raw.clone()],
                None => self.words(std::slice::from_ref(raw))?,
            };
            for word in all {
                let own = parts(&word);
                let name = own.as_ref().map_or(word.as_str(), |own| own.name);
                if !is_name(name) {
                    self.forget();
                    continue;
                }
                if is_local {
                    self.localize(name, own.as_ref().is_some_and(|own| !own.adds));
                }
                let odd = ['A', 'u', 'l', 'c', 'i'].into_iter().find(|letter| has(&[*letter]));
                if let Some(letter) = odd {
                    self.state.odd.insert(name.to_owned(), letter);
                }
                match parts(raw) {
                    Some(_) => self.assign(&word)?,
                    None => self.assign_expanded(&word)?,
                }
                if kind == "readonly" || has(&['r']) {
                    self.state.odd.insert(name.to_owned(), 'r');
                }
            }
        }
        Ok(())
    }

    /// Makes `name` a variable of the function that runs; it keeps its value if it gets one at once.
    fn localize(&mut self, name: &str, gets_value: bool) {
        let old = self.state.variables.get(name).cloned();
        if let Some(locals) = self.state.locals.last_mut()
            && !locals.iter().any(|(own, _)| own == name)
        {
            locals.push((name.to_owned(), old));
        }
        if !gets_value {
            self.set(name, Value::Unset);
        }
    }
}
