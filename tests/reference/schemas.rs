//! The schemas of questions: files that every door shows, derived from the types that read the questions.

use question::schemas::SCHEMAS;
use serde_json::Value;

use super::{CURE, derived_schemas, hold, root};

/// The schema of the question `name`.
pub fn named(name: &str) -> Result<Value, String> {
    derived_schemas::named(name).ok_or_else(|| format!("there is no schema of `{name}`"))
}

#[test]
fn files_of_schemas_say_what_questions_are_read() {
    let folder = root().join("question/schemas");
    let mut wrong = Vec::new();
    for one in SCHEMAS {
        let text = serde_json::to_string_pretty(&named(one.name).unwrap()).unwrap() + "\n";
        wrong.extend(hold(&folder.join(format!("{}.json", one.name)), &text));
    }
    assert!(wrong.is_empty(), "{CURE}\n{}", wrong.join("\n"));
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), SCHEMAS.len());
}
