//! The words of the book's glossary as a module of the page.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

/// The terms that the page explains.
const EXPLAINED: [&str; 11] = [
    "bubble rate",
    "M_B",
    "m",
    "makespan",
    "memory limit",
    "overlap",
    "p",
    "Pareto front",
    "peak memory",
    "span",
    "v",
];

/// The module: an object of terms and what they mean, for `glossary`, the Markdown of the book.
pub(crate) fn module(glossary: &str) -> Result<String> {
    let mut terms = terms(glossary);
    terms.retain(|term, _| EXPLAINED.contains(&&term[..]));
    ensure!(terms.len() == EXPLAINED.len(), "the glossary lacks some of {EXPLAINED:?}");
    Ok(format!("export const GLOSSARY = {};\n", serde_json::to_string(&terms)?))
}

/// The meaning of each term. A term begins its line, and what it means is indented below it.
fn terms(glossary: &str) -> BTreeMap<String, String> {
    let body = glossary.lines().skip_while(|line| !line.starts_with("```{glossary}")).skip(1);
    let mut terms: BTreeMap<String, String> = BTreeMap::new();
    let mut term = String::new();
    for line in body.take_while(|line| !line.starts_with("```")) {
        match line.strip_prefix("  ") {
            Some(meaning) => {
                let text = terms.entry(term.clone()).or_default();
                text.push_str(if text.is_empty() { "" } else { " " });
                text.push_str(&plain(meaning.trim()));
            }
            None if !line.trim().is_empty() => line.trim().clone_into(&mut term),
            None => {}
        }
    }
    terms
}

/// `text` without the marks of references to other terms, and of code.
fn plain(text: &str) -> String {
    text.replace("{term}", "").replace('`', "")
}
