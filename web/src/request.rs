//! Requests of the page, by name, and errors as the page shows them.

use std::path::PathBuf;

use question::questions::{self, QuestionKind};
use question::{Context, Diagnostic, keywords, object};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::text::{keys, unwritable};
use crate::{
    edit, encoder, export, failures, figure9, fsdp, groups, limits, lists, open, plan, rl, search,
    simulate, wording,
};

/// A request.
#[derive(Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
enum Request {
    /// The JSON schema of the question `of`.
    Schema { of: Of },
    /// All schedules: description, requirements and figures of each.
    Schedules,
    /// Questions of the kind `of` to begin with.
    Examples { of: Of },
    /// The keys of a scenario file.
    Keys { text: String },
    /// The scenario file of keys.
    Text { keys: Value },
    /// The scenario file with some of its keys changed.
    Change(edit::Request),
    /// Schedules side by side.
    Simulate(simulate::Request),
    /// The best order under a memory limit.
    Search(search::Request),
    /// Set-ups of a model on machines.
    Plan(plan::Request),
    /// A step of reinforcement learning.
    Rl(rl::Request),
    /// Packing and communication side by side.
    Fsdp(fsdp::Request),
    /// A minibatch of such a question in time.
    Minibatch(fsdp::Minibatch),
    /// An encoder in front of a language model.
    Encoder(encoder::Request),
    /// Dead workers of the schedules of a scenario.
    Failures(failures::Request),
    /// The columns of a file of lengths.
    Columns { file: PathBuf },
    /// The names of the built-in items.
    BuiltIn,
    /// A schedule for other tools.
    Export(export::Request),
    /// The timelines of a question as a picture.
    Picture(export::Picture),
    /// The figures of a question, or of all questions of a sweep, as CSV.
    Sweep(export::Sweep),
    /// The memory limits of a figure of bubble against memory.
    Limits(figure9::Limits),
    /// A point of such a figure.
    Point(figure9::Point),
    /// The figure itself, of the points that there are.
    Figure(figure9::Figure),
    /// Whether the page should read a file.
    Admit { name: String, bytes: u64 },
    /// The kind of a file.
    Kind(open::File),
    /// The shape of an order.
    Order(open::File),
    /// The profile in a file.
    Profile(open::File),
    /// Whether a certificate holds.
    Verify(open::File),
    /// The changes of a run.
    Advise(open::Advise),
    /// The steps of a real run.
    Replay(open::Replay),
    /// A timeline.
    Timeline(open::File),
    /// Prediction against measurement.
    Compare(open::Compare),
}

/// A kind of question that the page has a form for.
#[derive(Deserialize, Clone, Copy)]
#[serde(try_from = "String")]
struct Of(&'static QuestionKind);

impl TryFrom<String> for Of {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        questions::named(&name).map(Self).map_err(|unknown| unknown.message)
    }
}

impl Of {
    /// Questions to begin with.
    fn examples(self) -> Result<impl Serialize, Diagnostic> {
        let folder = self.0.examples.ok_or_else(|| {
            Diagnostic::new(format!("questions of the kind {} have no examples", self.0.name))
        })?;
        lists::examples(folder)
    }

    /// The schema as the page shows it: texts without flags, and the group of each field as `group`.
    fn shown(self) -> Result<Value, Diagnostic> {
        let mut schema: Value = keywords::value(self.0.schema)?;
        wording::describe(&mut schema);
        for row in self.0.rows {
            schema["properties"][row.name]["group"] = row.heading.into();
        }
        schema["order"] = self.0.rows.iter().map(|row| row.name).collect();
        Ok(schema)
    }
}

/// Why there is no answer.
#[derive(Serialize)]
pub struct Failure {
    /// All of it in words.
    text: String,
    #[serde(flatten)]
    diagnostic: Diagnostic,
}

impl Failure {
    /// As JSON.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|error| format!("{{\"text\":\"{error}\"}}"))
    }
}

impl From<Diagnostic> for Failure {
    fn from(diagnostic: Diagnostic) -> Self {
        let diagnostic = wording::fault(diagnostic);
        Self { text: draw::text::diagnostic(&diagnostic), diagnostic }
    }
}

/// Answers `request`: JSON in, JSON out.
///
/// # Errors
/// If it is not a request, or its question has a fault.
pub fn answer(context: &Context<'_>, request: &str) -> Result<String, Failure> {
    let request: Request = keywords::value(request)?;
    Ok(match request {
        Request::Schema { of } => json(context, &of.shown()?),
        Request::Schedules => json(context, &groups::schedules()),
        Request::Examples { of } => json(context, &of.examples()?),
        Request::Keys { text } => json(context, &object!(keys = keys(&text)?)),
        Request::Text { keys } => {
            let text = keywords::written(&keys)?;
            json(context, &object!(text = text))
        }
        Request::Change(request) => json(context, &request.answer()?),
        Request::Simulate(request) => json(context, &request.answer(context)?),
        Request::Search(request) => json(context, &request.answer(context)?),
        Request::Plan(request) => json(context, &request.answer(context)?),
        Request::Rl(request) => json(context, &request.answer(context)?),
        Request::Fsdp(request) => json(context, &request.answer(context)?),
        Request::Minibatch(request) => json(context, &request.answer(context)?),
        Request::Encoder(request) => json(context, &request.answer(context)?),
        Request::Failures(request) => json(context, &request.answer(context)?),
        Request::Columns { file } => {
            let columns = question::fsdp::columns(context, &file)?;
            json(context, &object!(columns = columns))
        }
        Request::BuiltIn => json(context, &lists::built_in()),
        Request::Export(request) => json(context, &request.answer(context)?),
        Request::Picture(request) => json(context, &request.answer(context)?),
        Request::Sweep(request) => json(context, &request.answer(context)?),
        Request::Limits(request) => json(context, &request.answer()?),
        Request::Point(request) => json(context, &request.answer(context)?),
        Request::Figure(request) => json(context, &request.answer()?),
        Request::Admit { name, bytes } => json(context, &limits::check_file(&name, bytes)?),
        Request::Kind(file) => json(context, &file.kind(context)?),
        Request::Order(file) => json(context, &file.order(context)?),
        Request::Profile(file) => json(context, &file.profile(context)?),
        Request::Verify(file) => json(context, &file.verify(context)?),
        Request::Advise(request) => json(context, &request.answer(context)?),
        Request::Replay(request) => json(context, &request.answer(context)?),
        Request::Timeline(file) => json(context, &file.timeline(context)?),
        Request::Compare(request) => json(context, &request.answer(context)?),
    }?)
}

fn json(context: &Context<'_>, answer: &impl Serialize) -> Result<String, Diagnostic> {
    let warnings = context.take_warnings();
    let warnings = warnings.iter().map(|one| wording::said(one));
    serde_json::to_string(&object!(flat(answer) = answer, [warnings] = warnings))
        .map_err(unwritable)
}
