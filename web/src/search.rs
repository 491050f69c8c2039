//! The best order under a memory limit.

use answer::search::{SearchRow, certificate};
use cases::{Case, ScheduleSource};
use draw::gantt::{self, Chart};
use draw::pictures;
use pipeline::{Family, Timeline};
use question::scenario::{Scenario, Setting};
use question::search::SearchKeys;
use question::{Context, Diagnostic, keywords, object};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits;
use crate::sheet::parts;
use crate::text::{scenario, text};

/// A question for [`answer::search`].
#[derive(Deserialize)]
pub(crate) struct Request {
    /// The scenario.
    text: String,
    /// The keys of the search.
    #[serde(default)]
    keys: Value,
}

/// An order that was found.
fn found(
    asked: &Asked<'_>,
    row: &SearchRow,
    setting: &Setting,
) -> Result<impl Serialize + use<>, Diagnostic> {
    let order = &row.searched.found.schedule;
    let torch = pipeline::torch_csv::write(order);
    Ok(object!(
        title = row.title(),
        // In the text form, and as torch reads it, or why torch cannot run it.
        order = order.to_string(),
        torch = torch.as_ref().ok().cloned(),
        not_torch = torch.err().map(|refusal| refusal.to_string()),
        certificate = certificate(row)?,
        // Its timeline, above that of the best published schedule that fits, and the name of that schedule.
        svg = asked.drawn(row, setting)?,
        published = row.published().map(|one| one.family.name()),
    ))
}

/// The question that was answered.
struct Asked<'a> {
    context: &'a Context<'a>,
    scenario: &'a Scenario,
}

impl Asked<'_> {
    /// The timelines of the order in `row`, and of the best published schedule of its `setting`.
    fn drawn(&self, row: &SearchRow, setting: &Setting) -> Result<String, Diagnostic> {
        let title = row.title();
        let found = timeline(&row.searched.case)?;
        // Searches split each backward where it stands: a schedule that has none of its own to draw is left out.
        let published = row.published().and_then(|one| self.published(one.family, setting).ok());
        let mut charts = vec![chart(&title, &found)];
        charts.extend(published.as_ref().map(|(name, timeline)| chart(name, timeline)));
        Ok(gantt::svg(&charts)?)
    }

    fn published(
        &self,
        family: Family,
        setting: &Setting,
    ) -> Result<(&'static str, Timeline), Diagnostic> {
        let rule = ScheduleSource::Family(family);
        let case = cases::case(self.context, self.scenario, setting, &rule)?;
        Ok((family.name(), timeline(&case)?))
    }
}

fn timeline(case: &Case) -> Result<Timeline, Diagnostic> {
    let timeline = case.simulation().timeline(None);
    timeline.map_err(|error| case.error(&error))
}

const fn chart<'a>(title: &'a str, timeline: &'a Timeline) -> Chart<'a> {
    Chart { title, timeline, row: "stage", copies: &[], costs: None }
}

impl Request {
    /// Answers it.
    pub(crate) fn answer(self, context: &Context<'_>) -> Result<impl Serialize, Diagnostic> {
        let keys = match self.keys {
            Value::Null => SearchKeys::default(),
            keys => keywords::keys(&keys.to_string())?,
        };
        let scenario =
            scenario(context, self.text)?.with(context, &question::keys::Keys::default())?;
        limits::check_passes(&scenario, &ScheduleSource::Searched(keys.placement()))?;
        let answer = answer::search::search(context, &scenario, &keys)?;
        let settings = answer::search::settings(&scenario, &keys);
        let asked = Asked { context, scenario: &scenario };
        let rows = answer.rows.iter().zip(&settings);
        let found = rows.map(|(row, setting)| found(&asked, row, setting));
        let found = found.collect::<Result<Vec<_>, Diagnostic>>()?;
        let front = (answer.rows.len() > 1).then(|| pictures::search::svg(None, &answer.rows));
        let (sheet, csv) = (parts(answer.sheet()), text(answer.csv()?));
        Ok(object!(
            flat(answer) = answer,
            (sheet, csv) = (sheet, csv),
            // Bubble against memory, where there are several limits.
            some(front) = front.transpose()?,
            found = found,
        ))
    }
}
