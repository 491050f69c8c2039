//! Where the paper's settings and figures are read from.

use std::path::{Path, PathBuf};

use question::{Context, Diagnostic};
use scenarios::PAPER;
use crate::files;
use question::scenario::Scenario;

/// The folder looked for when none is named.
const FOLDER: &str = "scenarios/paper";

/// The largest file of figures.
const MAX_FILE: u64 = 16 << 20;

/// A folder with the paper's settings, or the ones built in.
pub(super) enum Sources {
    Folder(PathBuf),
    BuiltIn,
}

impl Sources {
    /// The folder named, which must exist; else [`FOLDER`] if it does; else what was built in.
    pub(super) fn find(named: Option<PathBuf>) -> Result<Self, Diagnostic> {
        match named {
            Some(path) if path.is_dir() => Ok(Self::Folder(path)),
            Some(path) => Err(Error::Read { path, cause: "it is no folder".to_owned() }),
            None if Path::new(FOLDER).is_dir() => Ok(Self::Folder(PathBuf::from(FOLDER))),
            None => Ok(Self::BuiltIn),
        }
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::Folder(path) => path.display().to_string(),
            Self::BuiltIn => "those built in".to_owned(),
        }
    }

    /// The path to name in errors, and the text of the file `name`.
    pub(super) fn text(&self, name: &str) -> Result<(PathBuf, String), Diagnostic> {
        match self {
            Self::Folder(folder) => {
                let path = folder.join(name);
                let text = files::read_text(&path, MAX_FILE)?;
                Ok((path, text))
            }
            Self::BuiltIn => {
                Ok((PathBuf::from(name), PAPER.get(name).unwrap_or_default().to_owned()))
            }
        }
    }

    pub(super) fn scenario(&self, name: &str) -> Result<Scenario, Diagnostic> {
        let (path, text) = self.text(name)?;
        Scenario::parse(&path, text)
    }
}
