//! Configurations that `python -m debubble.recipe` writes: what a recipe makes where its framework is installed.

use question::diagnostic::Diagnostic;
use serde_json::{Map, Value as Tree};

use super::super::source::Source;
use super::super::{Given, Imported};
use super::{Recipe, is_configuration, question};

/// The key that such a file begins with.
const HEADER: &str = "debubble_recipe";
/// The deepest nesting of keys.
const MOST_DEEP: usize = 64;

/// Whether `source` is one.
pub(in super::super) fn is_dump(source: &Source<'_>) -> bool {
    source.text.trim_start().starts_with('{') && source.tree().get(HEADER).is_some()
}

/// The question of one.
pub(in super::super) fn of_dump(
    source: &Source<'_>,
    given: &Given,
) -> Result<Imported, Diagnostic> {
    let header = source.tree().pointer("/debubble_recipe/function").and_then(Tree::as_str);
    let mut tree = Tree::Object(Map::new());
    let keys = source.tree().get("keys").and_then(Tree::as_object).into_iter().flatten();
    for (name, value) in keys {
        set(&mut tree, name, value)
            .ok_or_else(|| source.wrong(&format!("{name}: it is two values")))?;
    }
    let recipe = Recipe { name: header.unwrap_or_default().to_owned(), tree, is_dump: true };
    match is_configuration(&recipe.tree) {
        true => question(source, &recipe, given),
        false => Err(source.wrong("it is no configuration of a training run that is known")),
    }
}

/// Puts `value` in `tree` under a name with dots.
fn set(tree: &mut Tree, name: &str, value: &Tree) -> Option<()> {
    let mut place = tree;
    for part in name.split('.').take(MOST_DEEP) {
        place = place.as_object_mut()?.entry(part).or_insert_with(|| Tree::Object(Map::new()));
    }
    *place = value.clone();
    Some(())
}
