//! Sweeps as Parquet, where it is built in.

#[cfg_attr(not(feature = "parquet"), path = "no_rows.rs")]
mod rows;

use std::path::Path;

use answer::parquet;
use question::{Diagnostic, quote};

pub use self::rows::write;
use crate::error::Error;

/// Whether a file of this name is to be Parquet.
pub fn is_named(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet"))
}

/// Checks that this build can write the format of `out`, before anything is answered.
///
/// # Errors
/// If `out` is to be Parquet, and this build has none.
pub fn check(out: &Path) -> Result<(), Error> {
    match is_named(out) && !parquet::IS_BUILT {
        true => Err(missing(out)),
        false => Ok(()),
    }
}

/// The error of a build without Parquet that is to write `out`.
fn missing(out: &Path) -> Error {
    let message = format!("{} is to be Parquet, and {}", quote::path(out), parquet::MISSING);
    let cure = format!("name it .csv; {}", parquet::CURE);
    Diagnostic::new(message).about("out").with_help(cure).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_built_says_how_to_get_it() {
        let error = missing(Path::new("grid.parquet")).diagnostic();
        assert!(error.message.contains("grid.parquet is to be Parquet"), "{error}");
        assert!(
            error.help.unwrap_or_default().contains("cargo build --release --features parquet")
        );
        assert_eq!(check(Path::new("grid.parquet")).is_ok(), parquet::IS_BUILT);
        assert!(check(Path::new("grid.csv")).is_ok());
    }
}
