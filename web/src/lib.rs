//! The library as WebAssembly: a worker answers the requests of `web/page` with [`work`].
//!
//! It holds no rule of the domain: requests are JSON, questions in them are TOML or objects of the same
//! keys, files are those that were dropped on the page, and answers are the JSON that the command line
//! prints, with pictures and tables that the room `draw` makes. Nothing here reaches a network or a disk.
#![warn(missing_docs)]

mod edit;
mod encoder;
mod export;
mod failures;
mod figure9;
mod fsdp;
mod groups;
mod host;
mod limits;
mod lists;
mod open;
mod plan;
mod request;
mod rl;
mod search;
mod sheet;
mod simulate;
mod text;
mod wording;

pub use host::Files;
pub use request::{Failure, answer};

use std::path::PathBuf;

use js_sys::{Map, Uint8Array};
use question::Context;
use wasm_bindgen::prelude::*;

use host::Page;

#[wasm_bindgen]
extern "C" {
    /// The request, as JSON.
    #[wasm_bindgen(js_namespace = ["self", "page"])]
    fn request() -> String;

    /// Its files: bytes by name.
    #[wasm_bindgen(js_namespace = ["self", "page"])]
    fn files() -> Map;

    /// Takes the answer, as JSON.
    #[wasm_bindgen(js_namespace = ["self", "page"])]
    fn answered(answer: &str);

    /// Takes the reason why there is none: a [`Failure`] as JSON.
    #[wasm_bindgen(js_namespace = ["self", "page"])]
    fn refused(failure: &str);
}

/// Answers the request of the page. It takes and returns nothing, so that browsers can pause it while it
/// works, and hear whether to end.
#[wasm_bindgen]
pub fn work() {
    let host = Page::new(lent(&files()));
    match answer(&Context::new(&host), &request()) {
        Ok(answer) => answered(&answer),
        Err(failure) => refused(&failure.json()),
    }
}

/// The version of the library.
#[wasm_bindgen]
#[must_use]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// Reports a panic of the library to the page.
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|panic| host::broken(&panic.to_string())));
}

/// The files of the page.
fn lent(files: &Map) -> Files {
    let mut all = Files::new();
    files.for_each(&mut |content, name| {
        if let (Some(name), Ok(content)) = (name.as_string(), content.dyn_into::<Uint8Array>()) {
            all.insert(PathBuf::from(name), content.to_vec());
        }
    });
    all
}

#[cfg(test)]
mod tests;
