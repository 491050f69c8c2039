//! Reading files of strangers: never more than a limit, and never a half-read one.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use question::echo;
use crate::error::Error;
use crate::memory;

/// Reads a text file of at most `limit` bytes.
pub fn read_text(path: &Path, limit: u64) -> Result<String, Error> {
    let not_text = |_| Error::Read { path: path.to_owned(), cause: "it is not UTF-8 text".into() };
    String::from_utf8(read_bytes(path, limit)?).map_err(not_text)
}

/// The most values of a TOML file.
const MAX_VALUES: u64 = 1 << 20;
/// Bytes that each of them takes while the file is parsed, measured and rounded up.
const OF_A_VALUE: u64 = 256;

/// Reads a TOML file of at most `limit` bytes, of which a value may take only three: parsed, they would
/// take a hundred times as much.
pub fn read_toml(path: &Path, limit: u64) -> Result<String, Error> {
    let text = read_text(path, limit)?;
    let begins = |byte: &u8| matches!(byte, b',' | b'=' | b'[' | b'{' | b'\n');
    let values = text.as_bytes().iter().filter(|byte| begins(byte)).count() as u64;
    if values > MAX_VALUES {
        let cause = format!("it has some {values} values and lines: at most {MAX_VALUES}");
        return Err(Error::Read { path: path.to_owned(), cause });
    }
    memory::demand(&echo::path(path), values * OF_A_VALUE, "give the process more memory")?;
    Ok(text)
}

/// What a pipe or a device may give: it does not say how much it has before it is read.
const MAX_STREAM: u64 = 64 << 20;

/// Reads a file of at most `limit` bytes; a pipe or a device of at most [`MAX_STREAM`].
pub fn read_bytes(path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    let fail = |cause: String| Error::Read { path: path.to_owned(), cause };
    let file = File::open(path).map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound => fail("there is no such file".to_owned()),
        _ => fail(cause.to_string()),
    })?;
    let metadata = file.metadata().map_err(|cause| fail(cause.to_string()))?;
    if metadata.is_dir() {
        return Err(fail("it is a folder".to_owned()));
    }
    let limit = if metadata.is_file() { limit } else { limit.min(MAX_STREAM) };
    if metadata.len() <= limit {
        let cure = "give the process more memory";
        memory::demand(&echo::path(path), metadata.len(), cure)?;
    }
    let mut bytes = Vec::new();
    let read =
        if metadata.len() > limit { Ok(0) } else { file.take(limit + 1).read_to_end(&mut bytes) };
    read.map_err(|cause| fail(cause.to_string()))?;
    if metadata.len().max(bytes.len() as u64) > limit {
        return Err(fail(format!("it is larger than {limit} bytes")));
    }
    Ok(bytes)
}

/// Reads the name of a file that is to be written, and refuses it at once where it cannot be: nothing
/// is computed for a file that has no folder.
pub fn output(name: &str) -> Result<PathBuf, String> {
    let path = Path::new(name);
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
    let name = echo::path(folder);
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
            Err(Error::question(format!("cannot write {}: {message}", echo::path(path))))
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
    fs::create_dir(folder).map_err(|cause| Error::Write { path: folder.to_owned(), cause })
}

/// Writes a whole file: readers see the old one or the new one, never half of it. Folders are not
/// made: a name that is mistyped leaves nothing behind.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Error> {
    let fail = |cause| Error::Write { path: path.to_owned(), cause };
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
        .map_err(|cause| Error::Write { path: path.to_owned(), cause })
}
