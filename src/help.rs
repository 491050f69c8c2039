//! Texts of the help that flow: paragraphs are as wide as the terminal, examples stay as they are.

/// `text` with the lines of each paragraph put together, for clap to wrap them where the terminal
/// ends. Lines of commands and of files stay lines; so do titles, which end with a colon.
pub fn flow(text: &str) -> String {
    let mut flowing = String::new();
    let mut last: Option<&str> = None;
    for line in text.lines() {
        let joins = last.is_some_and(|last| {
            !last.is_empty()
                && !line.is_empty()
                && indent(last) == indent(line)
                && !is_literal(last, None)
                && !is_literal(line, Some(last))
                && !last.ends_with(':')
        });
        match (joins, last) {
            (true, _) => flowing = flowing + " " + line.trim_start(),
            (false, Some(_)) => flowing = flowing + "\n" + line,
            (false, None) => flowing.push_str(line),
        }
        last = Some(line);
    }
    flowing
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Whether `line` behind `last` is typed or stands in a file as it is.
pub fn is_literal(line: &str, last: Option<&str>) -> bool {
    let start = line.trim_start();
    let begins = ["debubble ", "DEBUBBLE_", "[", "- "].iter().any(|word| start.starts_with(word));
    let is_indented = start.len() < line.len();
    let assigns = is_indented && start.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '));
    begins && is_indented
        || assigns
        || last.is_some_and(|last| last.ends_with('\\'))
        || line.ends_with('\\')
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory};

    use super::*;

    /// Lines of `text` that are not as wide as they could be, or wider than `width`.
    fn faults(text: &str, width: usize) -> Vec<String> {
        let lines: Vec<&str> = text.lines().collect();
        let length = |line: &str| line.chars().count();
        let too_wide = lines.iter().filter(|line| length(line) > width);
        let mut faults: Vec<String> = too_wide.map(|line| format!("too wide: {line}")).collect();
        for pair in lines.windows(2) {
            let [first, second] = pair else { continue };
            let word = second.trim_start().split(' ').next().unwrap_or_default();
            let fits = length(first) + 1 + length(word) <= width;
            // Lists have a row for each entry, with columns.
            let is_row = |line: &str| line.trim_start().contains("  ");
            let is_list = is_row(first) || is_row(second) || word.starts_with('-');
            let is_empty = |line: &str| line.trim().is_empty();
            let apart = is_empty(first) || is_empty(second) || indent(first) != indent(second);
            let literal = is_literal(first, None) || is_literal(second, Some(first));
            if fits && !apart && !is_list && !literal && !first.ends_with(':') {
                faults.push(format!("cut short: {first}"));
            }
        }
        faults
    }

    fn all_commands() -> Vec<Command> {
        let root = crate::Cli::command();
        let mut all: Vec<Command> = root.get_subcommands().cloned().collect();
        all.push(root);
        all
    }

    #[test]
    fn help_reads_well_at_any_width() {
        for width in [80, 100] {
            for command in all_commands() {
                let name = command.get_name().to_owned();
                let mut command = command.term_width(width);
                for text in [command.render_help(), command.render_long_help()] {
                    let faults = faults(&text.to_string(), width);
                    assert!(faults.is_empty(), "{name} at {width}:\n{}", faults.join("\n"));
                }
            }
        }
    }

    #[test]
    fn a_hand_wrap_is_found() {
        let text = "A sentence that was wrapped by hand at forty\ncolumns, and then once more.\n";
        assert_eq!(faults(text, 80).len(), 1);
        assert_eq!(faults(&flow(text), 100).len(), 0);
        assert_eq!(faults(&"word ".repeat(30), 100).len(), 1);
    }

    #[test]
    fn examples_stay_as_they_are() {
        let text =
            "Examples:\n  Two words:\n    debubble a \\\n      --b c\n  [sweep]\n  a = 1\n  b = 2";
        assert_eq!(flow(text), text);
        assert_eq!(flow("a\nb\n\nc\n  d\n  e\n"), "a b\n\nc\n  d e");
    }
}
