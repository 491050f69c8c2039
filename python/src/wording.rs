//! The texts of the library as Python says them: it has keywords and methods, no flags.

use planning::{
    LengthsDocument, NoiseDocument, SearchDocument, SetupDocument, SizesDocument, TrainingDocument,
};
use question::{Diagnostic, spelling};

/// Keys of plans, which are not flags.
const MORE: [&[&str]; 7] = [
    LengthsDocument::NAMES,
    NoiseDocument::NAMES,
    SearchDocument::NAMES,
    SetupDocument::NAMES,
    SizesDocument::NAMES,
    TrainingDocument::NAMES,
    &["deadline-days"],
];

/// Steps of the command line, as texts name them, and their counterparts in Python.
const OWN: [(&str, &str); 14] = [
    (
        "--export best.txt, then `debubble simulate --schedule best.txt`",
        "`debubble.simulate(question, found.schedule)`",
    ),
    (
        "write it with --export-scenario best.toml, and search that",
        "then search `found[0].question`",
    ),
    (
        "every flag of `--help-all` is a key here, without its dashes",
        "`debubble.schema()` describes every key",
    ),
    ("every flag is also a scenario key", "`debubble.schema()` describes every key"),
    (
        ", or write the program out with --write-lp for another solver",
        ", or leave `ilp` out and give `found.to_lp()` to another solver",
    ),
    (" more: see --json", " more: see `to_json()`"),
    ("--pareto: ", ""),
    ("--details: ", "`details()`: "),
    ("--beside", "beside"),
    ("--set ", "`variables`: "),
    ("--machine", "`machine`"),
    ("--model", "`debubble import --model`"),
    ("--tokens", "`debubble import --tokens`"),
    ("--recipe", "`debubble import --recipe`"),
];

/// `text` as Python says it.
#[pyo3::pyfunction]
pub(crate) fn said(text: &str) -> String {
    spelling::as_keywords(&own(text), &MORE)
}

fn own(text: &str) -> String {
    let mut said = text.to_owned();
    for (theirs, ours) in OWN {
        if said.contains(theirs) && !said.contains(ours) {
            said = said.replace(theirs, ours);
        }
    }
    said
}

/// `diagnostic` as Python says it. Where it points into a file, keys are named as they stand there.
pub(crate) fn fault(diagnostic: &Diagnostic) -> Diagnostic {
    let worded = |text: &str| match diagnostic.place {
        Some(_) => spelling::without_flags(&own(text)),
        None => said(text),
    };
    Diagnostic {
        message: worded(&diagnostic.message),
        help: diagnostic.help.as_deref().map(worded),
        key: diagnostic.key.as_deref().map(|key| key.replace('-', "_")),
        ..diagnostic.clone()
    }
}
