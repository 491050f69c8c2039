//! The answer as a picture and as one page.

mod cells;
mod page;
mod points;

pub use page::html;
pub use points::svg;
