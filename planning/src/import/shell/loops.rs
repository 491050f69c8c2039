//! Loops: round by round while what decides on them is known, and until nothing changes more where it is not.

use super::parse::{Loop, Node};
use super::run::{Flow, Followed, Reader};
use super::state::{Truth, Value};

/// The most rounds of a loop that are followed one by one.
const MOST_ROUNDS: usize = 256;

impl Reader<'_> {
    /// Follows a loop by `run`, within which it may be left early.
    fn within(&mut self, part: &'static str, run: impl FnOnce(&mut Self) -> Followed) -> Followed {
        let escaped = self.escaped.take();
        self.parts.push(part.to_owned());
        self.loops += 1;
        let flow = run(self)?;
        self.loops -= 1;
        self.parts.pop();
        self.join_escaped()?;
        if let Some(old) = escaped {
            self.escape(old)?;
        }
        if self.escaped.is_some() || flow == Flow::Next {
            self.status = Truth::Unknown;
        }
        Ok(flow)
    }

    /// Follows a round: whether the loop ends, and how it goes on then.
    fn round(&mut self, body: &Node) -> Result<Option<Flow>, String> {
        let flow = self.follow(body)?;
        self.join_escaped()?;
        Ok(match flow {
            Flow::Next | Flow::Continue(0 | 1) => None,
            Flow::Break(0 | 1) => Some(Flow::Next),
            Flow::Break(levels) => Some(Flow::Break(levels - 1)),
            Flow::Continue(levels) => Some(Flow::Continue(levels - 1)),
            flow => Some(flow),
        })
    }

    /// Follows rounds of a loop until they change nothing more.
    fn settle(
        &mut self,
        mut round: impl FnMut(&mut Self) -> Result<Option<Flow>, String>,
    ) -> Followed {
        loop {
            let before = self.snapshot()?;
            let flow = round(self)?.unwrap_or(Flow::Next);
            self.merge(flow, (Flow::Next, before.clone()))?;
            if self.state == before {
                return Ok(Flow::Next);
            }
        }
    }

    pub(super) fn for_words(
        &mut self,
        name: &str,
        words: Option<&[String]>,
        body: &Node,
    ) -> Followed {
        let all = ["\"$@\"".to_owned()];
        let raw = words.unwrap_or(&all);
        let words = self.words(raw)?;
        let is_known = !words.iter().any(|word| super::many(word).is_some())
            && !raw.iter().any(|word| {
                word.contains(['*', '?', '[']) && !word.contains('$') && !word.contains('\'')
            });
        self.within("a `for` loop", |own| {
            if is_known {
                for word in words {
                    let word = Self::named(&word, name);
                    own.set_text(name, word)?;
                    if let Some(flow) = own.round(body)? {
                        return Ok(flow);
                    }
                }
                return Ok(Flow::Next);
            }
            own.settle(|own| {
                own.set(name, Value::Unknown(false));
                own.round(body)
            })
        })
    }

    pub(super) fn repeat(&mut self, own: &Loop) -> Followed {
        let wanted = Truth::of(own.name != "until");
        let part = match own.name {
            "for" => "a `for` loop",
            "until" => "an `until` loop",
            _ => "a `while` loop",
        };
        let round = |reader: &mut Self| -> Result<Option<Flow>, String> {
            let flow = reader.round(&own.body)?;
            if let (None, Some(step)) = (flow, &own.step) {
                reader.sum(step)?.ok();
            }
            Ok(flow)
        };
        self.within(part, |reader| {
            for _ in 0..MOST_ROUNDS {
                let flow = reader.test(&own.condition)?;
                if flow != Flow::Next {
                    return Ok(flow);
                }
                match reader.status {
                    Truth::Unknown => break,
                    status if status != wanted => return Ok(Flow::Next),
                    _ => {}
                }
                if let Some(flow) = round(reader)? {
                    return Ok(flow);
                }
            }
            reader.settle(|reader| {
                let flow = round(reader)?;
                match flow {
                    None => reader
                        .test(&own.condition)
                        .map(|flow| Some(flow).filter(|flow| *flow != Flow::Next)),
                    flow => Ok(flow),
                }
            })
        })
    }
}
