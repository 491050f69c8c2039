//! Timelines as the bytes of a file, written and read.

use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use super::raw::{Raw, VERSION};
use super::{Recorded, check};
use question::kinds;
use question::kinds::InputKind;
use question::{Context, Diagnostic, memory};

/// The largest file.
pub(crate) const MAX_FILE: u64 = 512 << 20;

/// Bytes that each byte of a file takes when it is read: a slot is fifty bytes or more.
const OF_A_BYTE: u64 = 6;

/// The version of a file, read before all else.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// `recorded` as the bytes of a file.
pub fn bytes(recorded: &Recorded) -> Result<Vec<u8>, Diagnostic> {
    text(recorded).map_err(|error| Diagnostic::new(error.to_string()))
}

fn text(recorded: &Recorded) -> serde_json::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(&Raw::of(recorded))?;
    text.push(b'\n');
    Ok(text)
}

/// Reads a file of [`bytes`].
pub fn read(context: &Context<'_>, path: &Path) -> Result<Recorded, Diagnostic> {
    read_content(context, path, &context.read_bytes(path, MAX_FILE)?)
}

/// Reads the content of a file of [`bytes`] that has been read from `path`.
pub(crate) fn read_content(
    context: &Context<'_>,
    path: &Path,
    bytes: &[u8],
) -> Result<Recorded, Diagnostic> {
    let what = format!("the timeline in {}", path.display());
    let cure = "record fewer steps, or give the process more memory";
    memory::demand(context.host(), &what, (bytes.len() as u64).saturating_mul(OF_A_BYTE), cure)?;
    parse(bytes).map_err(|cause| {
        let error = Diagnostic::unreadable(path, &cause);
        kinds::misplaced(path, &String::from_utf8_lossy(bytes), &[InputKind::Timeline], error)
    })
}

/// Whether `content` is a timeline rather than a trace, by the first of its keys that tells.
pub(crate) fn is_one(content: &[u8]) -> bool {
    let mut found = false;
    // The error that ends the search says nothing.
    let _ = serde_json::Deserializer::from_slice(content).deserialize_map(Keys(&mut found));
    found
}

/// Looks for a key that timelines have and traces have not, or the other way round.
struct Keys<'f>(&'f mut bool);

impl<'de> Visitor<'de> for Keys<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while let Some(key) = entries.next_key::<std::borrow::Cow<'de, str>>()? {
            *self.0 = matches!(&*key, "schedule" | "steps" | "costs");
            if *self.0 || key == "traceEvents" {
                return Err(A::Error::custom("decided"));
            }
            entries.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// Reads the bytes of a file.
pub(super) fn parse(bytes: &[u8]) -> Result<Recorded, String> {
    let not_one = |error: serde_json::Error| match error.is_eof() {
        true => "it is not a timeline: it is empty or cut off".to_owned(),
        false => format!("it is not a timeline: {error}"),
    };
    let Versioned { version } = serde_json::from_slice(bytes).map_err(not_one)?;
    if version != VERSION {
        return Err(format!("it has version {version} of the format, not {VERSION}"));
    }
    check::whole(serde_json::from_slice(bytes).map_err(not_one)?)
}

#[cfg(test)]
mod tests {
    use pipeline::{Costs, Measurement, Nanos, PassTimes, Schedule, Step, Timeline};
    use sim::Replay;

    use super::super::Source;
    use super::*;

    /// Two steps of a schedule with a pair, as if they had been measured.
    fn recorded() -> Recorded {
        let text = "F0.0 F0.1&BW0.0 BW0.1\nF1.0 BW1.0 F1.1 BW1.1\n";
        let schedule: Schedule = text.parse().unwrap();
        let ms = Nanos(1_000_000);
        let times = PassTimes::new(ms, ms, ms);
        let costs = Costs::uniform(schedule.shape(), times, Nanos(7));
        let Timeline { stages } = Replay::new().timeline(&schedule, &costs).unwrap();
        let place = (schedule.shape(), schedule.placement());
        let measure = |(stage, spans): (usize, &Vec<pipeline::Span>)| {
            let slot = |span: &pipeline::Span| Measurement {
                slot: span.slot,
                arrived: span.slot.received(place, stage).next().map(|one| (one, span.start)),
                start: span.start,
                end: span.end,
            };
            spans.iter().map(slot).collect::<Vec<_>>()
        };
        let stages: Vec<_> = stages.iter().enumerate().map(measure).collect();
        let step =
            |loss, began| Step { ends: vec![ms * 20; 2], stages: stages.clone(), loss, began };
        Recorded {
            source: Source::Measured,
            name: "a \"name\"".to_owned(),
            device: "a test".to_owned(),
            costs: Some(costs.clone()),
            steps: vec![step(Some(0.1), Nanos(0)), step(None, Nanos(5))],
            schedule,
            facts: None,
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let recorded = recorded();
        assert_eq!(parse(&text(&recorded).unwrap()), Ok(recorded.clone()));
        let bare = Recorded { costs: None, ..recorded };
        assert_eq!(parse(&text(&bare).unwrap()), Ok(bare.clone()));
    }

    #[test]
    fn no_prefix_of_a_file_is_read() {
        let whole = text(&recorded()).unwrap();
        assert!((0..whole.len() - 1).all(|end| parse(&whole[..end]).is_err()));
    }

    proptest::proptest! {
        /// For any change of any byte, the file is read or refused, and nothing breaks.
        #[test]
        fn a_damaged_file_breaks_nothing(at in 0..2_000usize, byte: u8) {
            let mut bytes = text(&recorded()).unwrap();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = parse(&bytes);
        }
    }
}
