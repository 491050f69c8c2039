//! Who found an order or a bound, when, and with which program: a comment line of a record.

use std::fmt;

use question::{Diagnostic, quote};

/// The longest name.
const MOST: usize = 80;

/// Who found it, when, and with what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credit {
    /// A person or a program.
    pub by: String,
    /// The day, as in 2026-11-30.
    pub date: String,
    /// The program that checked it, with its version.
    pub program: String,
}

impl Credit {
    /// Puts the parts together.
    pub fn new(by: &str, date: &str, program: &str) -> Result<Self, Diagnostic> {
        if !is_date(date) {
            let message = format!("`{}` is not a date", quote::clip(date));
            return Err(Diagnostic::new(message).with_help("write it as in 2026-11-30"));
        }
        if let Some(wrong) = [by, program].into_iter().find(|text| !fits(text)) {
            let message = format!("`{}` is not allowed in a record", quote::clip(wrong));
            let cure = format!("give a name of 1 to {MOST} letters in one line, without `;`");
            return Err(Diagnostic::new(message).with_help(cure));
        }
        let [by, date, program] = [by, date, program].map(|text| text.trim().to_owned());
        Ok(Self { by, date, program })
    }

    /// Reads the line of `what` among the comments at the top of `text`, if there is one that is whole.
    pub(super) fn read(text: &str, what: &str) -> Option<Self> {
        let mut comments = text.lines().map_while(|line| line.strip_prefix('#'));
        let start = format!("{what}:");
        let line = comments.find_map(|line| line.trim_start().strip_prefix(&start))?;
        let parts: Vec<&str> = line.split(';').map(str::trim).collect();
        let [by, date, program] = parts[..] else { return None };
        Self::new(by, date, program).ok()
    }
}

impl fmt::Display for Credit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}; {}", self.by, self.date, self.program)
    }
}

fn fits(text: &str) -> bool {
    let breaks = |sign: char| sign.is_control() || sign == ';';
    !text.trim().is_empty() && text.chars().count() <= MOST && !text.contains(breaks)
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let number = |at: usize, digits: usize| {
        let part = parts.get(at).filter(|part| part.len() == digits)?;
        part.bytes().all(|one| one.is_ascii_digit()).then(|| part.parse::<u32>().ok()).flatten()
    };
    let (year, month, day) = (number(0, 4), number(1, 2), number(2, 2));
    let within = |part: Option<u32>, most| part.is_some_and(|part| (1..=most).contains(&part));
    parts.len() == 3 && year.is_some() && within(month, 12) && within(day, 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_is_written() {
        let credit = Credit::new("Ada Lovelace", "2026-11-30", "debubble 0.2.0").unwrap();
        let text = format!("# order: {credit}\n# bound: x\nversion = 2\n# late: {credit}\n");
        assert_eq!(Credit::read(&text, "order"), Some(credit));
        assert_eq!(Credit::read(&text, "bound"), None);
        assert_eq!(Credit::read(&text, "late"), None);
    }

    #[test]
    fn what_breaks_a_line_is_refused() {
        for by in ["", " ", "a;b", "a\nb", &"a".repeat(81)] {
            assert!(Credit::new(by, "2026-11-30", "debubble").is_err(), "{by}");
        }
        for date in
            ["", "2026", "2026-13-01", "2026-1-1", "2026-11-32", "+026-11-30", "2026-11-30-1"]
        {
            assert!(Credit::new("a", date, "debubble").is_err(), "{date}");
        }
    }
}
