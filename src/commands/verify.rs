//! `debubble verify`: a certificate, checked from scratch.

use std::io::Write;
use std::path::PathBuf;

use answer::verify::verify;
use clap::Args;
use draw::text;
use question::Context;

use super::{OUTPUT, Verdict, print_json};
use crate::error::Error;
use crate::help;
use crate::host::Host;

const EXAMPLES: &str = "\
Examples:
  debubble verify best.cert
  debubble verify best.cert --json | jq .gap_ns

A certificate holds an order of passes, the times and sizes it is for, the memory limit, what the
order costs, and a lower bound for every order, with the name of the argument for it. Nothing of
that is believed: the order is put together, timed and its memory counted again, and the argument is
evaluated at the stages that the certificate names.

Exit codes: 0 all of it holds, 1 something in it does not, 2 the file is no certificate.";

/// Check a certificate: the order, its memory, its cost, and that no order costs less than the bound
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES))]
pub struct Verify {
    /// The certificate
    #[arg(value_name = "CERTIFICATE")]
    file: PathBuf,
    /// Print one JSON object instead of text
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
}

impl Verify {
    /// Answers on `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<Verdict, Error> {
        let host = Host::default();
        let answer = verify(&Context::new(&host), &self.file)?;
        let verdict = if answer.holds() { Verdict::Done } else { Verdict::Missed };
        match self.json {
            true => print_json(out, &answer)?,
            false => write!(out, "{}", text::sheet(&answer.sheet()))?,
        }
        Ok(verdict)
    }
}
