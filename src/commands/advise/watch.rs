//! `debubble advise --watch`: a growing log, and when its steps leave what they were.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use answer::advise::AdviceQuestion;
use imports::measured::watch::{Alarm, Cause, Watcher};
use question::{Context, format};
use serde::Serialize;

use super::tail::{Tail, is_stream};
use crate::commands::{Verdict, note};
use crate::error::Error;
use crate::host::Host;
use crate::interrupt;

/// How often the log is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// How often Ctrl-C is looked for.
const HEAR: Duration = Duration::from_millis(50);

/// Follows the last of the files of `question` until Ctrl-C, or until it has not grown for `timeout`.
pub(super) fn run(
    question: &AdviceQuestion,
    timeout: Option<Duration>,
    json: bool,
    out: &mut dyn Write,
) -> Result<Verdict, Error> {
    interrupt::listen_silently();
    let Some(path) = question.files.last() else {
        return Err(Error::question("there is no log to follow"));
    };
    let mut tail = Tail::new(path);
    // What is read of a pipe is gone: only the tail reads it.
    let files = question.files.iter().filter(|path| !is_stream(path)).cloned().collect();
    let question = &AdviceQuestion { files, given: question.given.clone() };
    let tokens = answer::advise::tokens(&Context::new(&Host::default()), question);
    let mut watcher = Watcher::new(tokens);
    let mut grown = Instant::now();
    while !interrupt::pressed() {
        let lines = tail.lines()?;
        let has_grown = !lines.is_empty();
        for line in lines {
            for alarm in watcher.add(&line) {
                said(&alarm, question, json, out)?;
            }
        }
        if has_grown {
            grown = Instant::now();
            continue;
        }
        if let Some(alarm) = watcher.idle() {
            said(&alarm, question, json, out)?;
        }
        if timeout.is_some_and(|timeout| grown.elapsed() >= timeout) {
            break;
        }
        let asleep = Instant::now();
        while asleep.elapsed() < LOOK && !interrupt::pressed() {
            thread::sleep(HEAR);
        }
    }
    Ok(Verdict::Done)
}

/// Prints `alarm`, and with the first steady step how far it is from the prediction.
fn said(
    alarm: &Alarm,
    question: &AdviceQuestion,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Error> {
    #[derive(Serialize)]
    struct Json<'a> {
        #[serde(flatten)]
        alarm: &'a Alarm,
        words: &'a str,
    }
    let mut words = alarm.words();
    if alarm.cause == Cause::Steady
        && let Some(more) = predicted(question, alarm)
    {
        words = format!("{words}; {more}");
    }
    match json {
        true => {
            let line = Json { alarm, words: &words };
            serde_json::to_writer(&mut *out, &line).map_err(std::io::Error::from)?;
            writeln!(out)?;
        }
        false => writeln!(out, "{words}")?,
    }
    Ok(out.flush()?)
}

/// The prediction of the step of `alarm` beside the measured one; none where no file has the set-up.
fn predicted(question: &AdviceQuestion, alarm: &Alarm) -> Option<String> {
    let host = Host::default();
    let context = Context::new(&host);
    match answer::advise::predicted(&context, question, alarm.batch) {
        Ok((step, words)) => {
            let off = format::signed_percent(alarm.now / step - 1.0);
            Some(format!("{step:.3} s predicted{words}: {off} of that"))
        }
        Err(error) => {
            note(&format!("nothing is predicted: {}", error.message));
            None
        }
    }
}
