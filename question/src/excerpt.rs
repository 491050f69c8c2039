//! The line of a file that an error is about, and its neighbours.

use std::ops::Range;

use crate::quote::clip;

/// The most characters of a line of a file that are shown.
const MOST_OF_LINE: usize = 96;
/// The characters of a longer neighbour that are shown.
const MOST_OF_NEIGHBOUR: usize = 12;

/// The line of a file that an error is about and its neighbours; a long line is cut to the surroundings
/// of the place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Excerpt {
    /// Up to three lines of the file, without the line break after the last.
    pub lines: String,
    /// The number of lines of the file that stand before [`Excerpt::lines`].
    pub before: usize,
    /// The bytes of [`Excerpt::lines`] that the error is about.
    pub label: Range<usize>,
}

/// A line and a column of a file, both from 1; columns count characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl Excerpt {
    /// The excerpt of `text` around the bytes of `place`, and where in the file that is. A `place`
    /// beyond the end of `text` is taken as its end.
    #[must_use]
    pub fn of(text: &str, place: Range<usize>) -> (Self, Position) {
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
        (Self { lines, before, label }, Position { line: line + 1, column: column + 1 })
    }
}

/// The last boundary between characters of `text` that is not behind `at`.
fn floor(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// The line beside that of the place as it is shown: its beginning, if it is long.
fn neighbour(line: &str) -> String {
    match line.chars().nth(MOST_OF_LINE) {
        None => line.replace(|c: char| c.is_control() && c != '\t', " "),
        Some(_) => clip(&line.chars().take(MOST_OF_NEIGHBOUR).collect::<String>()) + "…",
    }
}

/// The part of a line that is shown, and where `place` is in it.
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
    use crate::quote;
    use proptest::prelude::*;

    #[test]
    fn the_place_is_shown_with_its_line_and_column() {
        let (excerpt, at) = Excerpt::of("one = 1\ntwo = x\nthree = 3", 14..15);
        assert_eq!((at.line, at.column), (2, 7));
        assert_eq!(excerpt.lines, "one = 1\ntwo = x\nthree = 3");
        assert_eq!(excerpt.label, 14..15);
        let long = format!("a = 1\nb = {}y{}\nc", "x".repeat(9_000), "z".repeat(9_000));
        let (excerpt, at) = Excerpt::of(&long, 9_010..9_011);
        assert!(excerpt.lines.len() < 400, "{}", excerpt.lines);
        assert_eq!((at.line, at.column), (2, 9_005));
        assert_eq!(&excerpt.lines[excerpt.label], "y");
    }

    proptest! {
        #[test]
        fn every_place_of_every_text_has_an_excerpt(
            text in "[a-z é\n\r\t☃`\"]{0,400}",
            start in 0usize..1700,
            length in 0usize..900,
        ) {
            let (excerpt, _) = Excerpt::of(&text, start..start + length);
            prop_assert!(excerpt.lines.get(excerpt.label).is_some());
            prop_assert!(excerpt.lines.chars().count() <= 6 * MOST_OF_LINE);
            prop_assert!(quote::brief(&text).lines().count() <= 1);
        }
    }
}
