//! Conditions of branches, as far as values are known.

use super::UNKNOWN;
use super::expand::Expander;

/// Whether a condition holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Truth {
    Yes,
    No,
    /// Only a run knows.
    Unknown,
}

impl Truth {
    const fn of(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }

    const fn not(self) -> Self {
        match self {
            Self::Yes => Self::No,
            Self::No => Self::Yes,
            Self::Unknown => Self::Unknown,
        }
    }

    const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Yes, Self::Yes) => Self::Yes,
            _ => Self::Unknown,
        }
    }
}

/// Whether `condition` holds: tests in brackets, joined by `&&` and `||`.
pub(super) fn holds(condition: &str, expander: &Expander<'_>) -> Result<Truth, String> {
    let mut any = Truth::No;
    for part in condition.split("||") {
        let mut all = Truth::Yes;
        for test in part.split("&&") {
            all = all.and(self::test(test, expander)?);
        }
        any = any.not().and(all.not()).not();
    }
    Ok(any)
}

/// Whether one test holds.
fn test(text: &str, expander: &Expander<'_>) -> Result<Truth, String> {
    let text = text.trim().trim_matches(['[', ']', ';']).trim();
    let text = text.strip_prefix("test ").unwrap_or(text).trim();
    if let Some(rest) = text.strip_prefix("! ") {
        return Ok(test(rest, expander)?.not());
    }
    for (sign, wanted) in [("-n ", true), ("-z ", false)] {
        if let Some(word) = text.strip_prefix(sign) {
            let word = expander.word(word.trim())?;
            // A variable of the environment that nobody has set is empty.
            let is_set = !word.is_empty() && !word.contains(UNKNOWN);
            return Ok(Truth::of(is_set == wanted));
        }
    }
    let compare = |sign: &str| text.split_once(sign);
    let signs = [" == ", " != ", " = ", " -eq ", " -ne ", " -gt ", " -ge ", " -lt ", " -le "];
    let Some((sign, (left, right))) =
        signs.iter().find_map(|sign| Some((sign.trim(), compare(sign)?)))
    else {
        return Ok(Truth::Unknown);
    };
    let (left, right) = (expander.word(left.trim())?, expander.word(right.trim())?);
    if left.contains(UNKNOWN) || right.contains(UNKNOWN) {
        return Ok(Truth::Unknown);
    }
    let numbers = left.parse::<i64>().ok().zip(right.parse::<i64>().ok());
    Ok(match (sign, numbers) {
        ("==" | "=", _) => Truth::of(left == right),
        ("!=", _) => Truth::of(left != right),
        ("-eq", Some((left, right))) => Truth::of(left == right),
        ("-ne", Some((left, right))) => Truth::of(left != right),
        ("-gt", Some((left, right))) => Truth::of(left > right),
        ("-ge", Some((left, right))) => Truth::of(left >= right),
        ("-lt", Some((left, right))) => Truth::of(left < right),
        ("-le", Some((left, right))) => Truth::of(left <= right),
        _ => Truth::Unknown,
    })
}
