//! The machine that a fit begins with, and its file with other efficiencies.

use std::path::Path;

use plan::{CalibratedRun, Machine};
use question::diagnostic::Diagnostic;
use question::host::Context;

use crate::machines::{self, calibrated};

/// A machine with the text of its file.
#[derive(Clone, Debug)]
pub struct Base {
    pub machine: Machine,
    /// Its file.
    pub text: String,
}

impl Base {
    /// The machine `name`: one that is built in, or a file.
    pub fn named(context: &Context<'_>, name: &str) -> Result<Self, Diagnostic> {
        let (machine, text) = machines::with_text(context, name, Path::new(""))?;
        Ok(Self { machine, text })
    }

    /// The built-in machine of a type of devices.
    pub(super) fn of_device(device: &str) -> Result<Self, Diagnostic> {
        let machine = machines::of_device(device)?;
        let text = scenarios::MACHINES.get(&machine.name).unwrap_or_default().to_owned();
        Ok(Self { machine, text })
    }

    /// Its file under the comment `head`, with other shares in its table `[efficiency]`, keys with their values, and with
    /// `runs` as the set-ups that it is calibrated by.
    pub fn with_shares(
        &self,
        head: &str,
        shares: &[(&str, f64)],
        runs: &[CalibratedRun],
    ) -> Result<String, Diagnostic> {
        let name = &self.machine.name;
        let mut text: String = head.lines().map(|line| format!("# {line}\n")).collect();
        let written = self.efficiencies();
        let (known, new): (Vec<_>, Vec<_>) =
            shares.iter().partition(|(key, _)| written.iter().any(|(known, _)| known == key));
        let mut left = known.len();
        let (mut is_inside, mut is_old) = (false, false);
        for line in self.text.lines() {
            if let Some(table) = header(line) {
                is_inside = table == "efficiency";
                is_old = table == "calibrated" && !runs.is_empty();
            }
            if is_old {
                continue;
            }
            if header(line).is_some() {
                text += &format!("{line}\n");
                if is_inside {
                    new.iter().for_each(|(key, value)| text += &share(key, *value, None, name));
                }
                continue;
            }
            let own = key_of(line).filter(|_| is_inside);
            match own
                .and_then(|(key, old)| known.iter().find(|(one, _)| *one == key).zip(Some(old)))
            {
                Some(((key, value), old)) => {
                    left -= 1;
                    text += &share(key, *value, Some(old), name);
                }
                None => text += &format!("{line}\n"),
            }
        }
        text += &calibrated::text(runs);
        // Dotted keys and tables within a line are read, but not written here.
        let machine =
            machines::parse(name, Path::new(name), &text).map_err(|_| self.unknown_form())?;
        let is_whole = left == 0 && (shares.is_empty() || machine != self.machine);
        if is_whole { Ok(text) } else { Err(self.unknown_form()) }
    }

    /// The keys of `[efficiency]` with the text of their values.
    fn efficiencies(&self) -> Vec<(&str, &str)> {
        let lines = self.text.lines().skip_while(|line| header(line) != Some("efficiency")).skip(1);
        lines.take_while(|line| header(line).is_none()).filter_map(key_of).collect()
    }

    fn unknown_form(&self) -> Diagnostic {
        let message =
            format!("the file of the machine {} has no lines of its own", self.machine.name);
        let cure =
            "write the table [efficiency] with a key on each line, as built-in machines have it";
        Diagnostic::new(format!("{message} for its efficiencies")).with_help(cure)
    }
}

/// The table that begins with `line`, if one does.
fn header(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix('[')?.trim_start_matches('[').split(']').next().map(str::trim)
}

/// The key of `line` and the text of its value, if there is one.
fn key_of(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split('#').next()?.split_once('=')?;
    Some((key.trim(), value.trim()))
}

/// The line of a share that was fitted, in place of `old`.
fn share(key: &str, value: f64, old: Option<&str>, base: &str) -> String {
    let old =
        old.map_or_else(|| format!("{base} does not tell it"), |old| format!("{old} of {base}"));
    let value = format!("{value:.6}");
    let value = value.trim_end_matches('0');
    let zero = if value.ends_with('.') { "0" } else { "" };
    format!("{key} = {value}{zero}    # fitted; {old}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn h100() -> Base {
        Base::of_device("H100").unwrap()
    }

    #[test]
    fn shares_are_changed_where_they_stand_and_all_else_stays() {
        let base = h100();
        let text =
            base.with_shares("How it\nwas made.", &[("matmul", 0.5), ("link", 0.25)], &[]).unwrap();
        assert!(text.starts_with("# How it\n# was made.\n# NVIDIA H100"), "{text}");
        let (_, old) = base.efficiencies().into_iter().find(|(key, _)| *key == "matmul").unwrap();
        let line = format!("\nmatmul = 0.5    # fitted; {old} of h100\n");
        assert!(text.contains(&line), "{text}");
        // `link` of the device is another key.
        assert!(text.contains("link = \"450GB/s\"") && text.contains("link = 0.25    #"), "{text}");
        let machine = machines::parse("h100", Path::new("h100"), &text).unwrap();
        let mut expected = base.machine.clone();
        (expected.efficiency.matmul, expected.efficiency.link) = (0.5, 0.25);
        assert_eq!(machine, expected);
        assert_eq!(base.with_shares("", &[], &[]).unwrap(), base.text);
        // A key that the file does not have stands first in the table.
        let short: String = base
            .text
            .lines()
            .filter(|line| key_of(line).is_none_or(|(key, _)| key != "power"))
            .map(|line| format!("{line}\n"))
            .collect();
        let machine = machines::parse("h100", Path::new("h100"), &short).unwrap();
        let short = Base { machine, text: short };
        let text = short.with_shares("", &[("power", 0.75)], &[]).unwrap();
        assert!(text.contains("[efficiency]\npower = 0.75    # fitted; h100 does not"), "{text}");
    }

    #[test]
    fn a_table_within_a_line_is_refused() {
        let base = h100();
        let (before, rest) = base.text.split_once("[efficiency]").unwrap();
        let (table, after) = rest.split_once("[price]").unwrap();
        let dotted = |(key, value)| format!("efficiency.{key} = {value}\n");
        let keys: String = table.lines().filter_map(key_of).map(dotted).collect();
        let (source, device) = before.split_once("[device]").unwrap();
        let text = format!("{source}\n{keys}[device]{device}\n[price]{after}");
        let machine = machines::parse("own", Path::new("own"), &text).unwrap();
        assert_eq!(machine.efficiency, base.machine.efficiency);
        let dotted = Base { machine, text };
        let error = dotted.with_shares("", &[("matmul", 0.5)], &[]).unwrap_err();
        assert!(error.help.unwrap().contains("a key on each line"));
    }
}
