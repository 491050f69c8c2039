//! The set of pipelines, and which of them a certificate is of.

use std::path::Path;

use certificate::Certificate;
use pipeline::{Placement, Shape};
use question::scenario::{Scenario, Setting};
use question::{Context, Diagnostic, keywords, nearest, quote};
use search::{Instance, Objective};

use crate::search::differences;

/// The file of the set, as errors name it.
const FILE: &str = "scenarios/records.toml";

/// A pipeline of the set.
pub struct RecordInstance {
    /// Its name, which is that of its file.
    pub name: String,
    /// Its memory limit as the set writes it.
    pub limit: String,
    /// Shape, costs, limits and objective.
    pub instance: Instance,
    /// The same as a question.
    setting: Setting,
}

/// The pipelines, in the order of the file.
pub struct RecordSet {
    scenario: Scenario,
    /// All of them.
    pub instances: Vec<RecordInstance>,
}

impl RecordSet {
    /// The set that is built in.
    pub fn built_in(context: &Context<'_>) -> Result<Self, Diagnostic> {
        let scenario =
            Scenario::parse(context, Path::new(FILE), scenarios::RECORDS.to_owned())?.detached();
        let instances = scenario.settings.iter().map(|setting| of(context, &scenario, setting));
        let instances = instances.collect::<Result<_, _>>()?;
        Ok(Self { scenario, instances })
    }

    /// The pipeline `name`.
    pub fn named(&self, name: &str) -> Result<&RecordInstance, Diagnostic> {
        let found = self.instances.iter().find(|one| one.name == name);
        found.ok_or_else(|| {
            let near = nearest::question(name, self.instances.iter().map(|one| one.name.as_str()));
            let message = format!("there is no record of `{}`{near}", quote::clip(name));
            Diagnostic::new(message).with_help("`debubble records` lists the names")
        })
    }

    /// The pipeline that `certificate` is of.
    pub fn instance_of(&self, certificate: &Certificate) -> Result<&RecordInstance, Diagnostic> {
        let found = self.instances.iter().find(|one| one.is_of(certificate));
        found.ok_or_else(|| self.unknown(certificate))
    }

    fn unknown(&self, certificate: &Certificate) -> Diagnostic {
        let shape = certificate.schedule.shape();
        let (stages, microbatches) = (shape.stages(), shape.microbatches());
        let chunks = shape.chunks_per_stage();
        let message = format!(
            "no pipeline of the set has this shape, these times, sizes and limits: \
             p = {stages}, m = {microbatches}, v = {chunks}"
        );
        let differences = self.instances.iter().map(|one| (one, one.differences(certificate)));
        let near = differences.min_by_key(|(one, differences)| {
            (distance(one.instance.shape, shape), differences.len())
        });
        let list = "`debubble records` lists all";
        let cure = match near {
            Some((near, differences)) => {
                let name = &near.name;
                let what = differences.join(", ");
                format!(
                    "{list}; nearest is `{name}`, which differs in {what}: `debubble records --scenario {name}` \
                     prints its question for `debubble search`"
                )
            }
            None => list.to_owned(),
        };
        Diagnostic::new(message).with_help(cure)
    }

    /// Keys of the questions, for a search of them.
    pub(super) const fn scenario(&self) -> &Scenario {
        &self.scenario
    }
}

/// How far two shapes lie from each other.
fn distance(one: Shape, other: Shape) -> (usize, u32, u16) {
    (
        one.stages().abs_diff(other.stages()),
        one.microbatches().abs_diff(other.microbatches()),
        one.chunks_per_stage().abs_diff(other.chunks_per_stage()),
    )
}

fn of(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
) -> Result<RecordInstance, Diagnostic> {
    let instance = cases::searchable(context, scenario, setting, None, Objective::Span)?;
    let limits = setting.keys.memory_limit.iter().flatten();
    Ok(RecordInstance {
        name: setting.name.clone().unwrap_or_default(),
        limit: limits.map(ToString::to_string).collect::<Vec<_>>().join(","),
        instance,
        setting: setting.clone(),
    })
}

impl RecordInstance {
    /// Its question as a scenario file, for `debubble search`.
    pub fn scenario(&self) -> Result<String, Diagnostic> {
        let mut setting = self.setting.clone();
        setting.name = None;
        keywords::written(&Scenario::from(vec![setting]))
    }

    pub(super) const fn setting(&self) -> &Setting {
        &self.setting
    }

    /// How the chunks lie, in words.
    #[must_use]
    pub fn chunks(&self) -> String {
        let chunks = self.instance.shape.chunks_per_stage();
        match self.instance.placement {
            _ if chunks == 1 => "1".to_owned(),
            Placement::Vee => format!("{chunks} in a V"),
            _ => format!("{chunks} looped"),
        }
    }

    /// Whether `certificate` is about this pipeline.
    #[must_use]
    pub fn is_of(&self, certificate: &Certificate) -> bool {
        self.differences(certificate).is_empty()
    }

    /// The difference of the pipeline that `certificate` is about.
    #[must_use]
    pub fn differences(&self, certificate: &Certificate) -> Vec<&'static str> {
        differences(&self.instance, certificate)
    }
}
