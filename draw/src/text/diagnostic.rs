//! A diagnostic as a person reads it: the message, the lines of the file with the place marked, the
//! cure. It is plain text, without colours, as wide on every terminal.

use std::fmt::Write;

use question::Diagnostic;
use question::excerpt::Excerpt;
use textwrap::core::Word;
use textwrap::{Options, WordSeparator};
use unicode_linebreak::linebreaks;
use unicode_width::UnicodeWidthChar;

/// The columns that a message may fill.
const WIDTH: usize = 198;
/// The columns between two tab stops.
const TAB: usize = 4;

/// `diagnostic` with its excerpt and its cure, every part on lines of its own.
#[must_use]
pub fn diagnostic(diagnostic: &Diagnostic) -> String {
    let mut text = wrapped(&diagnostic.message, "  error: ", "  │ ").trim_start().to_owned();
    if let Some((place, excerpt)) =
        diagnostic.place.as_deref().and_then(|place| Some((place, place.excerpt.as_ref()?)))
    {
        text += &snippet(&place.file, excerpt);
    }
    if let Some(help) = &diagnostic.help {
        text += &wrapped(help, "  help: ", "        ");
    }
    text
}

/// `text` with line breaks where it would become too wide, after `first` or, on later lines, `rest`.
fn wrapped(text: &str, first: &str, rest: &str) -> String {
    let options = Options::new(WIDTH)
        .initial_indent(first)
        .subsequent_indent(rest)
        .word_separator(WordSeparator::Custom(words));
    textwrap::fill(text, options) + "\n"
}

/// The parts of `line` between which Unicode lets it break; hyphens are left to `textwrap`.
fn words(line: &str) -> Box<dyn Iterator<Item = Word<'_>> + '_> {
    let breaks = linebreaks(line).map(|(at, _)| at);
    let breaks = breaks.filter(|&at| at == line.len() || !line[..at].ends_with(['-', '\u{ad}']));
    let mut start = 0;
    Box::new(breaks.map(move |at| Word::from(&line[std::mem::replace(&mut start, at)..at])))
}

/// The lines of `excerpt`, numbered, under the name of the `file` and the place, which is marked.
fn snippet(file: &str, excerpt: &Excerpt) -> String {
    let Excerpt { lines, before, label } = excerpt;
    let first = lines[..label.start].rfind('\n').map_or(0, |at| at + 1);
    let line = before + lines[..label.start].matches('\n').count() + 1;
    let last = before + lines.lines().count();
    let width = if lines.is_empty() { 1 } else { last.to_string().len() };
    let mut text = format!("{:1$}╭─[{file}:{line}:{2}]\n", "", width + 2, label.start - first + 1);
    let mut start = 0;
    for (number, shown) in (before + 1..).zip(lines.split_inclusive('\n')) {
        let end = start + shown.len();
        let shown = shown.trim_end_matches('\n');
        // Writing to a string cannot fail.
        let _ = writeln!(text, " {number:width$} │ {}", expanded(shown));
        // Behind the last character of a file there is nothing to mark.
        if (start..end).contains(&label.start) {
            let [from, to] =
                [label.start, label.end].map(|at| columns(&shown[..(at - start).min(shown.len())]));
            text += &marks(width, from, to.max(from + 1), label.is_empty());
        }
        start = end;
    }
    let _ = writeln!(text, "{:1$}╰────", "", width + 2);
    text
}

/// The two lines under a line of a file that mark its columns `from..to`, or point at `from` if there
/// is nothing to mark there.
fn marks(width: usize, from: usize, to: usize, is_point: bool) -> String {
    let middle = (from + to) / 2;
    let [left, right] = [middle - from, to - middle - 1].map(|count| "─".repeat(count));
    let pointer = if is_point { '▲' } else { '┬' };
    let margin = format!(" {:width$} · ", "");
    format!("{margin}{:from$}{left}{pointer}{right}\n{margin}{:middle$}╰── here\n", "", "")
}

/// The columns that `text` takes at the beginning of a line.
fn columns(text: &str) -> usize {
    text.chars().fold(0, |column, c| column + columns_of(c, column))
}

/// The columns that `c` takes behind `column` columns.
fn columns_of(c: char, column: usize) -> usize {
    match c {
        '\t' => TAB - column % TAB,
        c => c.width().unwrap_or(0),
    }
}

/// `line` with spaces for tabs.
fn expanded(line: &str) -> String {
    let (mut text, mut column) = (String::new(), 0);
    for c in line.chars() {
        let width = columns_of(c, column);
        match c {
            '\t' => text.extend(std::iter::repeat_n(' ', width)),
            c => text.push(c),
        }
        column += width;
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The report of an error at `place` of a file that is `file`.
    fn report(file: &str, place: std::ops::Range<usize>) -> String {
        diagnostic(&Diagnostic::at(Path::new("a.toml"), file, Some(place), "wrong"))
    }

    #[test]
    fn a_place_is_marked_under_its_line() {
        assert_eq!(
            report("one = 1\n\ttwo = 漢字é\nthree = 3", 15..21),
            "error: wrong
   ╭─[a.toml:2:8]
 1 │ one = 1
 2 │     two = 漢字é
   ·           ──┬─
   ·             ╰── here
 3 │ three = 3
   ╰────
"
        );
    }

    #[test]
    fn where_nothing_stands_there_is_a_pointer_or_nothing() {
        assert_eq!(
            report("a\n\nb", 2..2),
            "error: wrong
   ╭─[a.toml:2:1]
 1 │ a
 2 │ 
   · ▲
   · ╰── here
 3 │ b
   ╰────
"
        );
        assert_eq!(report("", 0..0), "error: wrong\n   ╭─[a.toml:1:1]\n   ╰────\n");
        let behind = "error: wrong\n   ╭─[a.toml:2:1]\n 1 │ a\n   ╰────\n";
        assert_eq!(report("a\n", 2..2), behind);
        let long = "a\n".repeat(99) + "b";
        assert!(
            report(&long, 198..199).starts_with("error: wrong\n     ╭─[a.toml:100:1]\n  99 │ a")
        );
    }

    #[test]
    fn long_messages_break_where_words_end() {
        let long = Diagnostic::new("word ".repeat(60)).with_help("help ".repeat(60));
        let lines: Vec<String> = diagnostic(&long).lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0], format!("error: {}", ["word"; 38].join(" ")));
        assert_eq!(lines[1], format!("  │ {}", ["word"; 22].join(" ")));
        assert_eq!(lines[2], format!("  help: {}", ["help"; 38].join(" ")));
        assert_eq!(lines[3], format!("        {}", ["help"; 22].join(" ")));
    }
}
