//! What of a user's input is said back to them: never more than a line of it, however much there was.

use std::ops::Range;
use std::path::Path;

use miette::{MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};

/// The most characters of one piece of input that are said back.
const MOST: usize = 80;
/// The most characters of a message in all.
const MOST_OF_MESSAGE: usize = 1500;
/// The most characters of a line of a file that are shown.
const MOST_OF_LINE: usize = 96;
/// What is shown of a neighbour that is longer.
const MOST_OF_NEIGHBOUR: usize = 12;

/// `text` on one line; the middle is left out if it is long.
pub fn clip(text: &str) -> String {
    clip_to(text, MOST)
}

fn clip_to(text: &str, most: usize) -> String {
    // Bytes are counted first, for counting characters of much text takes time.
    let is_long = text.len() > most && text.chars().nth(most).is_some();
    let text = match is_long {
        false => text.to_owned(),
        true => {
            let head: String = text.chars().take(most * 3 / 4).collect();
            let mut tail: Vec<char> = text.chars().rev().take(most / 5).collect();
            tail.reverse();
            format!("{head}…{}", tail.into_iter().collect::<String>())
        }
    };
    let plain = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(plain).collect()
}

/// A path as it is said back.
pub fn path(path: &Path) -> String {
    clip(&path.to_string_lossy())
}

/// `message` on one line, with everything in it that is quoted or is one long word clipped.
pub fn brief(message: &str) -> String {
    let mut text = String::new();
    let mut rest = message;
    while let Some(at) = rest.find(['`', '"']) {
        let quote = if rest[at..].starts_with('`') { '`' } else { '"' };
        let Some(length) = rest[at + 1..].find(quote) else { break };
        let inside = &rest[at + 1..at + 1 + length];
        text += &words(&rest[..at]);
        text += &format!("{quote}{}{quote}", clip(inside));
        rest = &rest[at + length + 2..];
    }
    text += &words(rest);
    clip_to(&text, MOST_OF_MESSAGE)
}

/// `text` with every long word clipped.
fn words(text: &str) -> String {
    text.split(' ').map(clip).collect::<Vec<_>>().join(" ")
}

/// The line of a file at some place of it and its neighbours, as errors show them: long lines are cut
/// to what lies around the place.
#[derive(Clone, Debug)]
pub struct Excerpt {
    /// What to call the file.
    pub file: String,
    /// The line of the place in the file, from 1.
    pub line: usize,
    /// The column of the place, in characters from 1.
    pub column: usize,
    lines: String,
    /// How many lines of the file stand before `lines`.
    before: usize,
}

impl Excerpt {
    /// What to show of `text`, which is called `file`, and where in it `place` is.
    pub fn of(file: &Path, text: &str, place: Range<usize>) -> (Self, SourceSpan) {
        let start = floor(text, place.start);
        let first = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let line = text[..first].bytes().filter(|byte| *byte == b'\n').count();
        let column = text[first..start].chars().count();
        let above = text[..first].strip_suffix('\n').map(|above| {
            let begin = above.rfind('\n').map_or(0, |at| at + 1);
            neighbour(&above[begin..])
        });
        let below = text[end..].strip_prefix('\n').and_then(|below| below.lines().next());
        let until = floor(text, place.end).clamp(start, end);
        let (shown, label) = window(&text[first..end], start - first..until - first);
        let mut lines = above.iter().map(|above| format!("{above}\n")).collect::<String>();
        let label = lines.len() + label.start..lines.len() + label.end;
        lines += &shown;
        if let Some(below) = below {
            lines += &format!("\n{}", neighbour(below));
        }
        let before = line - usize::from(above.is_some());
        let excerpt =
            Self { file: self::path(file), line: line + 1, column: column + 1, lines, before };
        (excerpt, SourceSpan::from(label))
    }
}

impl SourceCode for Excerpt {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let found = self.lines.read_span(span, before, after)?;
        Ok(Box::new(MietteSpanContents::new_named(
            self.file.clone(),
            found.data(),
            *found.span(),
            self.before + found.line(),
            found.column(),
            found.line_count(),
        )))
    }
}

/// The last boundary between characters of `text` that is not behind `at`.
fn floor(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// What is shown of a line beside that of the place: its beginning, if it is long.
fn neighbour(line: &str) -> String {
    match line.chars().nth(MOST_OF_LINE) {
        None => line.replace(|c: char| c.is_control() && c != '\t', " "),
        Some(_) => clip(&line.chars().take(MOST_OF_NEIGHBOUR).collect::<String>()) + "…",
    }
}

/// What is shown of a line, and where `place` is in that.
fn window(line: &str, place: Range<usize>) -> (String, Range<usize>) {
    let all = line.chars().nth(MOST_OF_LINE).is_none();
    let lead = if all { usize::MAX } else { MOST_OF_LINE / 3 };
    let head: Vec<char> = line[..place.start].chars().rev().take(lead).collect();
    let is_cut = head.len() < line[..place.start].chars().count();
    let head: String = head.into_iter().rev().collect();
    let room = if all { usize::MAX } else { MOST_OF_LINE - head.chars().count() };
    let tail: String = line[place.start..].chars().take(room).collect();
    let is_cut_behind = tail.len() < line.len() - place.start;
    let mark = |cut: bool| if cut { "…" } else { "" };
    let (front, behind) = (mark(is_cut), mark(is_cut_behind));
    let plain = |text: &str| text.replace(|c: char| c.is_control() && c != '\t', " ");
    let start = front.len() + plain(&head).len();
    let marked = (place.end - place.start).min(tail.len());
    let marked = plain(&tail[..floor(&tail, marked)]).len();
    (format!("{front}{}{}{behind}", plain(&head), plain(&tail)), start..start + marked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn long_input_is_said_back_in_part() {
        let long = "x".repeat(100_000);
        for text in [
            format!("`{long}` is unknown"),
            format!("{long} is unknown"),
            format!("`{}` is unknown", "a b ".repeat(25_000)),
            format!("{} is unknown", "a b ".repeat(25_000)),
            format!("`{}` is unknown", "`".repeat(100_001)),
        ] {
            let brief = brief(&text);
            assert!(brief.chars().count() <= MOST_OF_MESSAGE, "{}", brief.len());
            assert!(brief.ends_with("is unknown"), "{brief}");
        }
        assert_eq!(brief("two\nlines \u{1b}[31m"), "two\\nlines \\u{1b}[31m");
        assert_eq!(brief("a `b` and \"c\""), "a `b` and \"c\"");
    }

    #[test]
    fn the_place_is_shown_with_its_line_and_column() {
        let (excerpt, span) =
            Excerpt::of(Path::new("a.toml"), "one = 1\ntwo = x\nthree = 3", 14..15);
        assert_eq!((excerpt.line, excerpt.column), (2, 7));
        assert_eq!(excerpt.lines, "one = 1\ntwo = x\nthree = 3");
        assert_eq!((span.offset(), span.len()), (14, 1));
        let long = format!("a = 1\nb = {}y{}\nc", "x".repeat(9_000), "z".repeat(9_000));
        let (excerpt, span) = Excerpt::of(Path::new("a.toml"), &long, 9_010..9_011);
        assert!(excerpt.lines.len() < 400, "{}", excerpt.lines);
        assert_eq!((excerpt.line, excerpt.column), (2, 9_005));
        assert_eq!(&excerpt.lines[span.offset()..span.offset() + span.len()], "y");
    }

    proptest! {
        #[test]
        fn every_place_of_every_text_has_an_excerpt(
            text in "[a-z é\n\r\t☃`\"]{0,400}",
            start in 0usize..1700,
            length in 0usize..900,
        ) {
            let (excerpt, span) = Excerpt::of(Path::new("f"), &text, start..start + length);
            prop_assert!(excerpt.lines.get(span.offset()..span.offset() + span.len()).is_some());
            prop_assert!(excerpt.lines.chars().count() <= 6 * MOST_OF_LINE);
            prop_assert!(excerpt.read_span(&span, 1, 1).is_ok());
            prop_assert!(brief(&text).lines().count() <= 1);
        }
    }
}
