//! `debubble man`: the help as manual pages.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_mangen::Man as Page;
use question::quote;
use roff::{Roff, roman};

use crate::error::Error;
use crate::{files, help};

const EXAMPLES: &str = "\
Examples:
  Read a page that is not installed:
    debubble man simulate | man -l -
  All pages, as `make install` puts them where `man debubble-simulate` finds them:
    debubble man --out ~/.local/share/man/man1";

/// Print a manual page, or write those of all commands
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES))]
pub struct Man {
    /// Command to print the page of, such as `plan validate` [default: debubble itself]
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    command: Vec<String>,
    /// Write a page for every command into this folder, which must be there
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

impl Man {
    /// Answers on `out`, or in files, about the command line `root`.
    pub fn run(&self, out: &mut dyn Write, root: Command) -> Result<(), Error> {
        let mut root = root.disable_help_subcommand(true);
        // Names the commands below it in full: debubble-plan-validate.
        root.build();
        match &self.out {
            Some(folder) => {
                for command in all(&root) {
                    let page = page(command);
                    files::write(&folder.join(page.get_filename()), bytes(&page, command)?)?;
                }
                Ok(())
            }
            None => {
                let command = named(&root, &self.command)?;
                Ok(out.write_all(&bytes(&page(command), command)?)?)
            }
        }
    }
}

/// `root` and every command below it.
fn all(root: &Command) -> Vec<&Command> {
    let below = root.get_subcommands().filter(|one| !one.is_hide_set());
    [root].into_iter().chain(below.flat_map(all)).collect()
}

/// The command of `root` that `words` name.
fn named<'a>(root: &'a Command, words: &[String]) -> Result<&'a Command, Error> {
    words.iter().try_fold(root, |command, word| {
        command.find_subcommand(word).ok_or_else(|| {
            let message = format!("{} has no command `{}`", command.get_name(), quote::clip(word));
            let known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
            let error = Error::question(message);
            if known.is_empty() {
                return error;
            }
            error.with_help(format!("its commands are {}", known.join(", ")))
        })
    })
}

fn page(command: &Command) -> Page {
    // The version is in the foot of the page; a manual does not name a commit.
    Page::new(command.clone())
        .source(concat!("debubble ", env!("CARGO_PKG_VERSION")))
        .manual("debubble")
}

/// The page `page` of `command`. Its usage is that of the help, which does not name every option, and what
/// follows the options stays in lines, for there are examples in it.
fn bytes(page: &Page, command: &Command) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    page.render_title(&mut bytes)?;
    page.render_name_section(&mut bytes)?;
    usage(command).to_writer(&mut bytes)?;
    page.render_description_section(&mut bytes)?;
    page.render_options_section(&mut bytes)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut bytes)?;
    }
    if let Some(text) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        details(&text.to_string()).to_writer(&mut bytes)?;
    }
    Ok(bytes)
}

/// The section of the usage.
fn usage(command: &Command) -> Roff {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    roff.text(vec![roman(usage)]);
    roff
}

/// The section of `text`, in whose lines words are broken nowhere and moved nowhere.
fn details(text: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["DETAILS"]);
    roff.control("ad", ["l"]);
    roff.control("nh", []);
    for line in text.lines() {
        let words = line.trim_start();
        match line.len() - words.len() {
            _ if words.is_empty() => {
                roff.control("PP", []);
            }
            0 => {
                roff.control("br", []);
                roff.text(vec![roman(words)]);
            }
            indent => {
                roff.control("RS", [format!("{indent}n").as_str()]);
                roff.text(vec![roman(words)]);
                roff.control("RE", []);
            }
        }
    }
    roff
}
