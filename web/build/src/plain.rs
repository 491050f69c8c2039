//! Scripts without what browsers skip: comments and indentation, a tenth of the page's own bytes.

/// `script` without lines that are comments, and without indentation. Comments behind code stay. Where a text goes
/// over several lines, all stays as it is.
pub(crate) fn script(script: &str) -> String {
    let mut plain = String::new();
    let (mut in_comment, mut in_text) = (false, false);
    for line in script.lines() {
        let code = line.trim();
        let begins = !in_text && code.starts_with("/*");
        let ends = code.find("*/").map(|at| code[at + 2..].trim());
        let rest = if begins || in_comment { ends.unwrap_or_default() } else { code };
        in_comment = (begins || in_comment) && ends.is_none();
        let is_kept = in_text || !(rest.is_empty() || rest.starts_with("//"));
        if is_kept {
            plain.push_str(if in_text { line } else { rest });
            plain.push('\n');
            in_text ^= rest.matches('`').count() % 2 == 1;
        }
    }
    plain
}
