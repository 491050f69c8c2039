//! The width of pictures.

use clap::Args;
use draw::Width;

use super::OUTPUT;

/// The width of the pictures of a command.
#[derive(Args)]
pub struct Pictures {
    /// The width of pictures: in millimetres or pixels, or 1 or 2 columns of a paper
    #[arg(long, help_heading = OUTPUT, value_name = "84mm|1200px|1col|2col")]
    pub width: Option<Width>,
}
