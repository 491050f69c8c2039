//! How texts name keys. The library writes a key as a flag, `--hop`: a door without flags shows its texts with the
//! keys as files have them.

use crate::fsdp::FsdpKeys;
use crate::keys::{HardwareKeys, Keys};
use crate::replay::ReplayKeys;
use crate::rl::RlKeys;
use crate::search::SearchKeys;

/// The names of the keys that are flags.
const NAMES: [&[&str]; 6] = [
    Keys::NAMES,
    HardwareKeys::NAMES,
    SearchKeys::NAMES,
    ReplayKeys::NAMES,
    FsdpKeys::NAMES,
    RlKeys::NAMES,
];

/// `text` with `` `hop` `` in place of `--hop`, for every key. Commands, which stand between backticks, stay as they are.
#[must_use]
pub fn without_flags(text: &str) -> String {
    let part = |(at, part): (usize, &str)| match at % 2 {
        0 => prose(part),
        _ => part.to_owned(),
    };
    text.split('`').enumerate().map(part).collect::<Vec<_>>().join("`")
}

/// The same for text without backticks.
fn prose(text: &str) -> String {
    let mut parts = text.split("--");
    let mut said = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
        let (name, rest) = part.split_at(end.unwrap_or(part.len()));
        let is_flag = is_key(name) && !said.ends_with(|c: char| c.is_alphanumeric() || c == '-');
        said += &if is_flag { format!("`{name}`{rest}") } else { format!("--{part}") };
    }
    said
}

fn is_key(name: &str) -> bool {
    NAMES.iter().any(|names| names.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_named_as_in_files() {
        for (text, expected) in [
            ("give --hidden, --heads and --seq", "give `hidden`, `heads` and `seq`"),
            ("as in --hop 10us; (--memory-limit)", "as in `hop` 10us; (`memory-limit`)"),
            (
                "see `debubble simulate --hop 1us`, --ilp",
                "see `debubble simulate --hop 1us`, `ilp`",
            ),
            ("--moe-expert is another's", "--moe-expert is another's"),
            ("a--hop, ---hop and -- hop", "a--hop, ---hop and -- hop"),
            ("", ""),
        ] {
            assert_eq!(without_flags(text), expected);
        }
    }
}
