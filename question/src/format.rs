//! Numbers and text as people read them.

use std::time::Duration;

use pipeline::{Bytes, Nanos};

/// Milliseconds with three decimals, or more digits for less than a millisecond.
pub fn time(nanos: Nanos) -> String {
    let scaled = |unit: u64, name: &str| {
        let thousandths = (u128::from(nanos.0) * 1000 + u128::from(unit) / 2) / u128::from(unit);
        format!("{}.{:03} {name}", thousandths / 1000, thousandths % 1000)
    };
    match nanos.0 {
        0..1_000_000 => scaled(1_000, "us"),
        1_000_000..10_000_000_000 => scaled(1_000_000, "ms"),
        _ => scaled(1_000_000_000, "s"),
    }
}

/// `value` with three significant digits.
pub fn three_digits(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// A time with three significant digits.
pub fn rounded_time(nanos: Nanos) -> String {
    let units = [("s", 1e9), ("ms", 1e6), ("us", 1e3)];
    #[allow(clippy::cast_precision_loss)] // Of three digits.
    let nanos = three_digits(nanos.0 as f64);
    let Some((name, unit)) = units.into_iter().find(|(_, unit)| nanos >= *unit) else {
        return format!("{nanos} ns");
    };
    let value = nanos / unit;
    let decimals = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.decimals$} {name}")
}

/// A length of time as people say it.
pub fn length(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..90 => format!("{seconds} s"),
        90..5_400 => format!("{} min", (seconds + 30) / 60),
        5_400..172_800 => format!("{:.1} h", time.as_secs_f64() / 3600.0),
        _ => format!("{:.1} days", time.as_secs_f64() / 86_400.0),
    }
}

/// A difference of two times in nanoseconds, its sign always written.
pub fn signed_time(nanos: i64) -> String {
    let sign = match nanos {
        ..0 => "-",
        0 => "",
        1.. => "+",
    };
    format!("{sign}{}", time(Nanos(nanos.unsigned_abs())))
}

/// A size with three significant digits or more, in binary units.
pub fn size(bytes: Bytes) -> String {
    let units = [("TiB", 1u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|(_, unit)| bytes.0 >= *unit) {
        None => format!("{} B", bytes.0),
        Some((name, unit)) => {
            let hundredths = (u128::from(bytes.0) * 100 + u128::from(unit) / 2) / u128::from(unit);
            format!("{}.{:02} {name}", hundredths / 100, hundredths % 100)
        }
    }
}

/// A rate in percent with two decimals.
pub fn percent(rate: f64) -> String {
    format!("{:.2} %", 100.0 * rate)
}

/// A number without decimals, its thousands parted by commas.
pub fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let (sign, digits) = digits.strip_prefix('-').map_or(("", &digits[..]), |rest| ("-", rest));
    let mut parted = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            parted.push(',');
        }
        parted.push(digit);
    }
    format!("{sign}{parted}")
}

/// `text` in lines of at most `columns`, each but the first after `indent`; blanks at its beginning
/// stay, and units with their numbers.
pub fn wrapped(text: &str, columns: usize, indent: &str) -> String {
    let lead = text.len() - text.trim_start().len();
    let (mut lines, mut line) = (String::new(), text[..lead].to_owned());
    for word in with_units(text) {
        let is_empty = line.trim_start().is_empty();
        let space = usize::from(!is_empty);
        if !is_empty && line.chars().count() + space + word.chars().count() > columns {
            lines += &(line + "\n");
            line = indent.to_owned() + &word;
        } else {
            line = line + &" "[..space] + &word;
        }
    }
    lines + &line
}

/// The words of `text`; short ones behind a digit, as units are, belong to the word before.
fn with_units(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match words.last_mut() {
            Some(last) if word.len() <= 2 && last.ends_with(|one: char| one.is_ascii_digit()) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// A difference in percent with two decimals, its sign always written.
pub fn signed_percent(rate: f64) -> String {
    format!("{:+.2} %", 100.0 * rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounded_times_have_three_digits() {
        for (nanos, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_004, "1.00 us"),
            (39_806_000, "39.8 ms"),
            (999_600_000, "1.00 s"),
            (5_784_482_000, "5.78 s"),
            (417_355_000_000, "417 s"),
            (41_735_500_000_000, "41700 s"),
        ] {
            assert_eq!(rounded_time(Nanos(nanos)), text);
        }
    }

    #[test]
    fn long_text_goes_on_in_indented_lines() {
        assert_eq!(wrapped("one two three", 8, "  "), "one two\n  three");
        assert_eq!(wrapped("  one two three", 9, "    "), "  one two\n    three");
        assert_eq!(wrapped("every 2588 s", 10, ""), "every\n2588 s");
        assert_eq!(wrapped("unbreakable", 4, " "), "unbreakable");
    }

    #[test]
    fn thousands_are_parted() {
        let all = [0.0, 999.4, 999.6, 510_783.0, 1_032_161.0, -1234.0].map(grouped);
        assert_eq!(all, ["0", "999", "1,000", "510,783", "1,032,161", "-1,234"]);
    }

    #[test]
    fn lengths_are_said_in_the_unit_that_fits() {
        let lengths = [(5, "5 s"), (89, "89 s"), (120, "2 min"), (7_200, "2.0 h")];
        for (count, text) in lengths {
            assert_eq!(length(Duration::from_secs(count)), text);
        }
        assert_eq!(length(Duration::from_secs(864_000)), "10.0 days");
    }
}
