//! Sets of keys in files of their own.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::field::Plain;
use super::table::Set;
use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::kinds::{self, InputKind};

/// The largest file of a question.
pub const MAX_QUESTION: u64 = 1 << 20;

/// The keys of the file at `path`, a question of the kind `kind`.
pub fn read<T: Set + DeserializeOwned>(
    context: &Context<'_>,
    path: &Path,
    kind: InputKind,
) -> Result<T, Diagnostic> {
    of_text(context, path, &context.read_text(path, MAX_QUESTION)?, kind)
}

/// The same of the file's `text`, which is read only once where it may be something else.
pub(crate) fn of_text<T: Set + DeserializeOwned>(
    context: &Context<'_>,
    path: &Path,
    text: &str,
    kind: InputKind,
) -> Result<T, Diagnostic> {
    context.check_toml(path, text)?;
    let keys: T = toml::from_str(text).map_err(|error| {
        let error = Diagnostic::toml(path, text, &error, &[]);
        kinds::misplaced(path, text, &[kind], error)
    })?;
    check_ranges(&keys)?;
    Ok(keys)
}

/// Refuses numbers of `keys` outside the ranges of their rows, which flags cannot have.
pub fn check_ranges<T: Set>(keys: &T) -> Result<(), Diagnostic> {
    for (row, field) in T::rows().into_iter().zip(keys.fields()) {
        let Some((least, most)) = row.range else { continue };
        for value in field.values() {
            if let Plain::Whole(number) = value
                && !(least..=most).contains(&number)
            {
                let message = format!("`{}` is {number}: from {least} to {most}", row.name);
                return Err(Diagnostic::new(message).about(row.name));
            }
        }
    }
    Ok(())
}

/// The file `name` in the folder of the `question` that names it; `name` itself if there is none, for it may be built in.
pub(crate) fn beside(context: &Context<'_>, question: &Path, name: PathBuf) -> PathBuf {
    let path = question.parent().unwrap_or(Path::new("")).join(&name);
    if context.exists(&path) { path } else { name }
}

/// The same for the machine `name`, whose files end in `.toml`.
pub(crate) fn machine_beside(context: &Context<'_>, question: &Path, name: String) -> String {
    match name.ends_with(".toml") {
        true => beside(context, question, name.into()).to_string_lossy().into_owned(),
        false => name,
    }
}
