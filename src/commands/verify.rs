//! `debubble verify`: a certificate, checked from scratch.

use std::io::Write;
use std::path::PathBuf;

use answer::verify::verify;
use clap::Args;
use question::Context;

use super::{OUTPUT, Verdict, print_json, print_sheet};
use crate::error::Error;
use crate::help;
use crate::host::Host;

const EXAMPLES: &str = "\
Examples:
  debubble verify best.cert
  debubble verify best.cert --json | jq .gap_ns

A certificate holds an order of passes, its times, sizes and memory limit, its cost, and a lower bound for every
order with the name of the argument. Nothing in it is trusted: the order is rebuilt, timed and its memory
counted, and the argument is evaluated at the stages that the certificate names.

Exit codes: 0 valid, 1 a claim is wrong, 2 the file is not a certificate.";

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
            false => print_sheet(out, &answer.sheet())?,
        }
        Ok(verdict)
    }
}
