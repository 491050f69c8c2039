//! Data files that can be named without being there.

use std::borrow::Cow;
use std::path::Path;

use scenarios::Folder;

use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::nearest;
use crate::quote;

/// The largest of such files when a user writes one.
const MAX_FILE: u64 = 1 << 20;

/// Built-in files by name.
pub struct BuiltIn {
    /// The subject of the files, as errors say it.
    pub what: &'static str,
    /// The files, under their names.
    pub folder: Folder,
}

impl BuiltIn {
    /// The text of that `name`, or else of the file in `path`.
    pub fn text(
        &self,
        context: &Context<'_>,
        name: &str,
        path: &Path,
    ) -> Result<Cow<'static, str>, Diagnostic> {
        match self.folder.get(name) {
            Some(text) => Ok(Cow::Borrowed(text)),
            None if context.exists(path) || name.contains(['/', '.']) => {
                context.read_text(path, MAX_FILE).map(Cow::Owned)
            }
            None => Err(self.unknown(name)),
        }
    }

    fn unknown(&self, name: &str) -> Diagnostic {
        let known: Vec<&str> = self.folder.names().collect();
        let near = nearest::question(name, known.iter().copied());
        let message = format!("there is no {} `{}`{near}", self.what, quote::clip(name));
        let cure = format!("built in are {}; a file name needs a `.` or a `/`", known.join(", "));
        Diagnostic::new(message).with_help(cure)
    }
}
