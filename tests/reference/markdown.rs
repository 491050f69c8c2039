//! Markdown as GitHub and Sphinx read it.

/// A table with a row for the head.
pub fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: Vec<String>| {
        let cells = cells.iter().map(|cell| cell.replace('|', "\\|"));
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let mut table = line(head.iter().map(|&cell| cell.to_owned()).collect());
    table += &format!("|{}\n", "---|".repeat(head.len()));
    rows.into_iter().for_each(|row| table += &line(row));
    table
}

/// `text` as it is, in the font of code.
pub fn code(text: &str) -> String {
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

/// Help of the program as Markdown: signs that Markdown would take for its own are kept.
pub fn prose(text: &str) -> String {
    let mut prose = String::new();
    for (at, part) in text.split('`').enumerate() {
        // Between two backquotes, text is code already.
        if at % 2 == 1 {
            prose += &format!("`{part}`");
            continue;
        }
        for sign in part.chars() {
            if matches!(sign, '*' | '<' | '[' | ']' | '~') {
                prose.push('\\');
            }
            prose.push(sign);
        }
    }
    prose
}

/// `text` as a sentence.
pub fn sentence(text: &str) -> String {
    let text = prose(text.trim());
    if text.is_empty() || text.ends_with(['.', ':', '!', '?']) { text } else { text + "." }
}

/// The name under which GitHub and Sphinx find a heading of code.
pub fn anchor(heading: &str) -> String {
    let kept = |sign: char| sign.is_alphanumeric() || sign == '-' || sign == '_';
    heading.to_lowercase().replace(' ', "-").chars().filter(|&sign| kept(sign)).collect()
}

#[test]
fn signs_of_markdown_stay() {
    assert_eq!(prose("t*4 in `a*b` [default: 1]"), "t\\*4 in `a*b` \\[default: 1\\]");
    assert_eq!(sentence("Time of a hop"), "Time of a hop.");
    assert_eq!(anchor("[[cluster]] parts"), "cluster-parts");
    assert_eq!(table(&["a"], [vec!["x|y".to_owned()]]), "| a |\n|---|\n| x\\|y |\n");
}
