//! Writing files: always whole ones, and never into a folder that is not there.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::builder::TypedValueParser;
use clap::{Arg, Command};
use question::quote;

use crate::error::Error;

/// Reads the name of a file that is to be written, and refuses it at once where it cannot be: nothing
/// is computed for a file that has no folder, or whose name ends as another form than that of the flag's `FILE.svg`.
#[derive(Clone)]
pub struct Output;

impl TypedValueParser for Output {
    type Value = PathBuf;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<PathBuf, clap::Error> {
        let names = arg.and_then(Arg::get_value_names).unwrap_or_default();
        // A flag with a choice of forms looks at the ending itself.
        let name = names.first().filter(|name| !name.contains('|'));
        let form = name.and_then(|name| name.rsplit_once('.')).map(|(_, form)| form.to_owned());
        let parse = move |name: &str| output(name, form.as_deref());
        parse.parse_ref(command, arg, value)
    }
}

/// Endings of the forms that are written, and of those that people may expect.
const FORMS: [&str; 14] = [
    "csv", "eps", "gif", "html", "jpeg", "jpg", "json", "parquet", "pdf", "png", "svg", "toml",
    "webp", "xlsx",
];

/// That `path` ends as another form than `form`, with the hint.
fn other_form(path: &Path, form: &str) -> Option<String> {
    let end = path.extension()?.to_str()?.to_ascii_lowercase();
    let is_other = end != form && FORMS.contains(&&end[..]);
    let convert = match (form, &end[..]) {
        ("svg", "png" | "pdf" | "eps") => {
            format!(" and convert it, such as with `rsvg-convert -f {end} -o FILE.{end} FILE.svg`")
        }
        _ => String::new(),
    };
    is_other.then(|| format!("a .{form} file is written, not .{end}: name it FILE.{form}{convert}"))
}

fn output(name: &str, form: Option<&str>) -> Result<PathBuf, String> {
    let path = Path::new(name);
    if let Some(message) = form.and_then(|form| other_form(path, form)) {
        return Err(message);
    }
    if name.is_empty() {
        return Err("it is empty: give the name of a file".to_owned());
    }
    if path.is_dir() {
        return Err("it is a folder: give the name of a file in it".to_owned());
    }
    match missing_folder(path) {
        Some(message) => Err(message),
        None => Ok(path.to_owned()),
    }
}

/// That the folder of `path` is not there, with the cure; nothing if it is.
fn missing_folder(path: &Path) -> Option<String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty())?;
    let name = quote::path(folder);
    match fs::metadata(folder) {
        Ok(metadata) if metadata.is_dir() => None,
        Ok(_) => Some(format!("{name} is not a folder")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Some(format!("there is no folder {name}: make it first, with `mkdir -p {name}`"))
        }
        Err(error) => Some(format!("the folder {name} cannot be used: {error}")),
    }
}

/// Refuses to write `path` where its folder is not there.
pub fn check_folder(path: &Path) -> Result<(), Error> {
    match missing_folder(path) {
        Some(message) => {
            Err(Error::question(format!("cannot write {}: {message}", quote::path(path))))
        }
        None => Ok(()),
    }
}

/// Makes the folder `folder`, which was asked for as one; its parent must be there.
pub fn make_folder(folder: &Path) -> Result<(), Error> {
    if folder.is_dir() {
        return Ok(());
    }
    check_folder(folder)?;
    fs::create_dir(folder).map_err(|cause| Error::write(folder, &cause))
}

/// Writes a whole file: readers see the old one or the new one, never half of it. Folders are not
/// made: a name that is mistyped leaves nothing behind.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Error> {
    let fail = |cause: io::Error| Error::write(path, &cause);
    check_folder(path)?;
    // A device or a pipe cannot be replaced by renaming.
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return fs::write(path, content).map_err(fail);
    }
    write_by(path, |file| file.write_all(content.as_ref()))
}

/// Writes a whole file piece by piece, likewise.
pub fn write_by(
    path: &Path,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Error> {
    check_folder(path)?;
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let create = || {
        let mut file = BufWriter::new(File::create(&partial)?);
        content(&mut file)?;
        file.flush()
    };
    create()
        .and_then(|()| fs::rename(&partial, path))
        .inspect_err(|_| drop(fs::remove_file(&partial)))
        .map_err(|cause| Error::write(path, &cause))
}
