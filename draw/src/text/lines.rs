//! The lines of the planner's answers.

use question::format;

/// The columns of a line where no terminal says how many there are.
pub const COLUMNS: usize = 100;

/// Each line of `text` in lines of at most `columns`, with a hanging indent.
pub(super) fn paragraph(text: &str, columns: usize) -> String {
    let line = |line: &str| {
        let lead = " ".repeat(line.len() - line.trim_start().len() + 2);
        format::wrapped(line, columns, &lead) + "\n"
    };
    text.lines().map(line).collect()
}
