//! A file that is imported: its text, its tree of keys if it has one, and the files beside it.

use std::cell::OnceCell;
use std::path::{Component, Path, PathBuf};

use question::Context;
use question::diagnostic::Diagnostic;
use question::quote;
use serde_json::Value;

use super::arguments::{Arguments, Wrong};
use super::printed::{self, Printed};
use super::{Given, Imported, models, simulators, yaml};
use planning::SizesDocument;

/// The largest text that is taken for a tree of keys.
const MOST_OF_TREE: usize = 1 << 20;
/// The most values of a tree in TOML or JSON.
const MOST_VALUES: usize = 200_000;

/// A file, and how it is parsed once.
pub(super) struct Source<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
    context: &'a Context<'a>,
    tree: OnceCell<Tree>,
    printed: OnceCell<Vec<Printed>>,
}

/// Keys and values of a text.
struct Tree {
    value: Value,
    is_toml: bool,
    /// Why there are none.
    error: Option<String>,
}

impl<'a> Source<'a> {
    pub(super) fn new(context: &'a Context<'a>, path: &'a Path, text: &'a str) -> Self {
        Self { path, text, context, tree: OnceCell::new(), printed: OnceCell::new() }
    }

    /// The tree of keys; null for a text that is not TOML, JSON or YAML.
    pub(super) fn tree(&self) -> &Value {
        &self.parsed().value
    }

    /// The configurations that frameworks have printed in it.
    pub(super) fn printed(&self) -> &[Printed] {
        self.printed.get_or_init(|| printed::all(self.text))
    }

    /// Whether it is TOML.
    pub(super) fn is_toml(&self) -> bool {
        self.parsed().is_toml
    }

    fn parsed(&self) -> &Tree {
        self.tree.get_or_init(|| parse(self.text))
    }

    /// The tree of the YAML file `name` in the folder `folder`. `None` if there is none.
    pub(super) fn beside(&self, folder: &Path, name: &str) -> Result<Option<Value>, Diagnostic> {
        let path = folder.join(name);
        let ends = |ending| name.ends_with(ending);
        let is_yaml = cfg!(feature = "recipes") && (ends(".yaml") || ends(".yml"));
        if !is_yaml || !self.context.exists(&path) {
            return Ok(None);
        }
        let text = self.context.read_text(&path, MOST_OF_TREE as u64)?;
        let tree = yaml::parse(&text);
        tree.map(Some).map_err(|why| Diagnostic::unreadable(&path, &why))
    }

    /// The first folder upwards of the file's in which `below` lies.
    pub(super) fn upwards(&self, below: &str) -> Option<PathBuf> {
        let folders = self.path.ancestors().skip(1);
        folders.map(|folder| folder.join(below)).find(|path| self.context.exists(path))
    }

    /// The text of the file `path`, if there is one.
    pub(super) fn text_of(&self, path: &Path) -> Option<String> {
        let text =
            self.context.exists(path).then(|| self.context.read_text(path, MOST_OF_TREE as u64));
        text?.ok()
    }

    /// The text of the script `name`, a path in the file's folder.
    pub(super) fn script_beside(&self, name: &str) -> Option<String> {
        let is_inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        let path = Path::new(name);
        let folder = self.path.parent().filter(|_| path.components().all(is_inside))?;
        self.text_of(&folder.join(path))
    }

    /// `wrong`, which says nothing of what only the `files` have that the script reads.
    pub(super) fn hide(&self, wrong: Diagnostic, files: &[(String, String)]) -> Diagnostic {
        let text = format!("{} {}", wrong.message, wrong.help.as_deref().unwrap_or_default());
        let own = format!("{} {}", self.path.display(), self.text);
        let is_value = |word: &&str| word.len() > 2 && !own.contains(*word);
        let signs = |c: char| !c.is_ascii_alphanumeric() && !"_-./".contains(c);
        let of = |(_, own): &&(String, String)| {
            text.split(signs).filter(is_value).any(|word| own.split(signs).any(|own| own == word))
        };
        match files.iter().find(of) {
            Some((name, _)) => {
                let wrong = self.wrong(&format!("{} sets what cannot be used", quote::clip(name)));
                wrong.with_help("write the values of that file in the script: it says which then")
            }
            None => wrong,
        }
    }

    /// The model that the caller names.
    pub(super) fn given_model(&self, given: &Given) -> Result<Option<SizesDocument>, Diagnostic> {
        let Some(name) = &given.model else { return Ok(None) };
        let unknown = || {
            let message = format!("--model: no model is called {}", quote::clip(name));
            Diagnostic::new(message).with_help(format!("name it {}", models::NAMES))
        };
        if let Some(sizes) = models::named(name) {
            return Ok(Some(sizes));
        }
        let is_file = cfg!(feature = "recipes") && name.ends_with(".json");
        let text = if is_file { self.text_of(Path::new(name)) } else { None };
        let sizes = text.and_then(|text| simulators::sizes(&parse(&text).value));
        sizes.map(Some).ok_or_else(unknown)
    }

    /// The question that `read` makes of `arguments` and a model: that which the caller gives, or the `base`.
    pub(super) fn question_of(
        &self,
        arguments: &Arguments,
        given: &Given,
        base: Option<SizesDocument>,
        read: impl FnOnce(Option<SizesDocument>) -> Result<Imported, Wrong>,
    ) -> Result<Imported, Diagnostic> {
        let base = self.given_model(given)?.or(base);
        let result = read(base);
        if let Some((name, line)) = arguments.unknown() {
            let (name, written) = (name.to_owned(), arguments.written(name));
            let message = format!("line {line} may set it, and is not read");
            let cure = Some(format!("give {}; or the value: --set {written}=VALUE", super::DUMP));
            return Err(self.of_argument(arguments, Wrong { name, message, cure }));
        }
        result.map_err(|wrong| self.of_argument(arguments, wrong))
    }

    /// An error about the file.
    pub(super) fn wrong(&self, message: &str) -> Diagnostic {
        Diagnostic::file(self.path, format!("{}: {message}", quote::path(self.path)))
    }

    /// An error about one of its arguments.
    pub(super) fn of_argument(&self, arguments: &Arguments, wrong: Wrong) -> Diagnostic {
        let Wrong { name, message, cure } = wrong;
        let wrong = self.wrong(&format!("{}: {message}", arguments.written(&name)));
        cure.into_iter().fold(wrong, Diagnostic::with_help)
    }

    /// The error about a file of no known kind, with the `kinds` that there are.
    pub(super) fn unknown(&self, kinds: &str) -> Diagnostic {
        let of_yaml =
            |path: &Path| path.extension().is_some_and(|own| own == "yaml" || own == "yml");
        let tree = self.parsed();
        let message = match tree.error.as_ref().filter(|_| of_yaml(self.path)) {
            Some(error) => error.clone(),
            None => "it is not a configuration of a training run that is known".to_owned(),
        };
        self.wrong(&message).with_help(kinds)
    }
}

fn parse(text: &str) -> Tree {
    let none = |error: String| Tree { value: Value::Null, is_toml: false, error: Some(error) };
    let tree = |value, is_toml| Tree { value, is_toml, error: None };
    let begins = |byte: &u8| matches!(byte, b',' | b'=' | b'[' | b'{' | b'\n');
    if text.len() > MOST_OF_TREE || text.bytes().filter(|byte| begins(byte)).count() > MOST_VALUES {
        return none("it is too large for a configuration".to_owned());
    }
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text)
            .map_or_else(|error| none(error.to_string()), |value| tree(value, false));
    }
    if let Ok(value) = toml::from_str::<Value>(text) {
        return tree(value, true);
    }
    match cfg!(feature = "recipes") {
        true => yaml::parse(text).map_or_else(none, |value| tree(value, false)),
        false => none("it is not TOML or JSON".to_owned()),
    }
}
