//! Scenario files: questions in TOML.
//!
//! The keys stand at the top. A file may ask several questions that share them: each `[[setting]]`
//! has a `name` and the keys in which it differs. Tables of a paper also carry `published` figures
//! and the `convention` behind them; other commands pass over those.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::de::{self, Error};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::keys::HardwareKeys;
use crate::keys::Keys;
use crate::keys::read::{self as written, Object};
use crate::kinds::{self, InputKind};
use crate::quote;
use crate::read::{KeySpans, as_table, keys, take};
use crate::resolve::profiles;
use crate::sweep::axis::{self, Axis};

/// The largest scenario file.
const MAX_SCENARIO: u64 = 16 << 20;

/// One question of a scenario.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its own keys over those at the top of the file.
    pub keys: Keys,
    /// Published figures by schedule, as printed.
    pub published: BTreeMap<String, String>,
    /// Published figures with more digits, from the published code.
    pub regenerated: BTreeMap<String, String>,
    spans: KeySpans,
}

/// A file of questions; without a file, a single question with no keys.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The title.
    pub title: Option<String>,
    /// By schedule, how the published figures were measured.
    pub convention: BTreeMap<String, Convention>,
    /// The questions, at least one.
    pub settings: Vec<Setting>,
    file: PathBuf,
    text: String,
}

/// The times of a timeline from which a published bubble rate was computed.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Convention {
    /// The longest time from the first to the last pass of one stage.
    Span,
    /// The absolute end of the last pass.
    Makespan,
    /// The absolute end of the last pass of interleaved 1F1B, where the hop from the last stage to
    /// the first for the next chunk, and back, delays only the first microbatch of each group of
    /// p. The published code leaves out the other ones, which shortens the step by p hops.
    MakespanFirstWrap,
}

impl Convention {
    /// The name in scenario files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Span => "span",
            Self::Makespan => "makespan",
            Self::MakespanFirstWrap => "makespan-first-wrap",
        }
    }
}

/// Whether `table` is the profile of a trainer, which is a question about its own pipeline.
fn is_trainer(table: &DeTable<'_>) -> bool {
    let kind = table.get("kind").map(Spanned::get_ref);
    matches!(kind, Some(DeValue::String(kind)) if kind == "trainer")
}

/// The entries at the top of a scenario besides the keys.
#[derive(Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Head {
    /// The title of the answer.
    title: Option<String>,
    /// Where the figures come from.
    #[serde(rename = "source")]
    _source: Option<String>,
    /// By schedule, which times of the timeline the published figures were computed from.
    convention: BTreeMap<String, Convention>,
}

/// The entries of a setting besides the keys.
#[derive(Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SettingHead {
    /// The name of the setting.
    name: Option<String>,
    /// By schedule, the published figure, as it is printed.
    published: BTreeMap<String, String>,
    /// By schedule, the same figure with more digits, from the published code.
    regenerated: BTreeMap<String, String>,
}

const HEAD: [&str; 3] = ["title", "source", "convention"];
const SETTING_HEAD: [&str; 3] = ["name", "published", "regenerated"];

impl From<Keys> for Scenario {
    /// A single question, without a file.
    fn from(keys: Keys) -> Self {
        Self::from(vec![Setting::new(None, keys)])
    }
}

impl From<Vec<Setting>> for Scenario {
    /// Questions without a file; at least one.
    fn from(settings: Vec<Setting>) -> Self {
        Self {
            title: None,
            convention: BTreeMap::new(),
            settings,
            file: PathBuf::new(),
            text: String::new(),
        }
    }
}

/// As in files: with the keys of the only setting at the top if that has nothing else, else with those of
/// each setting in full.
impl Serialize for Scenario {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        if let Some(title) = &self.title {
            map.serialize_entry("title", title)?;
        }
        if !self.convention.is_empty() {
            map.serialize_entry("convention", &self.convention)?;
        }
        match &self.settings[..] {
            [only] if only.is_bare() => written::write(&only.keys, &mut map)?,
            settings => map.serialize_entry("setting", settings)?,
        }
        map.end()
    }
}

/// From the form of files, without their spans: errors name the key instead.
impl<'de> Deserialize<'de> for Scenario {
    fn deserialize<D: de::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut all = Object::deserialize(from)?;
        let settings = all.remove("setting").map(serde_json::from_value::<Vec<Setting>>);
        let settings = settings.transpose().map_err(D::Error::custom)?;
        let head: Head = written::take(&mut all, &HEAD).map_err(D::Error::custom)?;
        let shared: Keys = written::read(all).map_err(D::Error::custom)?;
        let scenario = Self { title: head.title, convention: head.convention, ..shared.into() };
        let Some(mut settings) = settings else { return Ok(scenario) };
        if settings.is_empty() {
            return Err(D::Error::custom("setting is empty: a scenario has at least one"));
        }
        let shared = &scenario.settings[0];
        for setting in &mut settings {
            setting.spans.add_missing(&shared.spans);
            setting.keys = std::mem::take(&mut setting.keys).over(shared.keys.clone());
        }
        Ok(Self { settings, ..scenario })
    }
}

impl Scenario {
    /// An empty scenario, without a file.
    #[must_use]
    pub fn none() -> Self {
        Keys::default().into()
    }

    /// These questions without their file: errors name the key, not its place.
    #[must_use]
    pub fn detached(mut self) -> Self {
        for setting in &mut self.settings {
            let keys = &setting.keys;
            setting.spans = KeySpans::nowhere(keys.given().chain(keys.hardware.given()));
        }
        Self { file: PathBuf::new(), text: String::new(), ..self }
    }

    /// Reads a scenario file.
    pub fn read(context: &Context<'_>, file: &Path) -> Result<Self, Diagnostic> {
        Self::parse(context, file, context.read_toml(file, MAX_SCENARIO)?)
    }

    /// Reads `text`, calling it `file` in errors.
    pub fn parse(context: &Context<'_>, file: &Path, text: String) -> Result<Self, Diagnostic> {
        match Self::parse_sweep(context, file, text)? {
            (scenario, None) => Ok(scenario),
            (scenario, Some(axes)) => {
                let place = axes.into_iter().next().map(|axis| axis.place);
                let message = "this scenario has a [sweep]: it is for `debubble sweep`".to_owned();
                let file = crate::quote::path(file);
                let cure = format!("`debubble sweep {file} --out rows.csv`, or take the table out");
                Err(scenario.error_maybe_at(place, message).with_help(cure))
            }
        }
    }

    /// Reads a scenario file that may have a table `[sweep]` of axes.
    pub fn read_sweep(
        context: &Context<'_>,
        file: &Path,
    ) -> Result<(Self, Option<Vec<Axis>>), Diagnostic> {
        Self::parse_sweep(context, file, context.read_toml(file, MAX_SCENARIO)?)
    }

    /// The question of the trainer whose profile is that file: its own pipeline.
    fn of_trainer(context: &Context<'_>, file: &Path) -> Result<Self, Diagnostic> {
        let profile = profiles::parse(context, file)?;
        let Some(trainer) = profile.trainer() else {
            return Err(Diagnostic::new(format!(
                "{} is not a profile of a trainer",
                quote::path(file)
            )));
        };
        let chunks = trainer.chunks.len() / trainer.stages;
        Ok(Self::from(Keys {
            profile: Some(file.to_owned()),
            stages: Some(trainer.stages as u64),
            microbatches: Some(u64::from(trainer.microbatches)),
            chunks: (chunks > 1).then_some(chunks as u64),
            ..Keys::default()
        }))
    }

    fn parse_sweep(
        context: &Context<'_>,
        file: &Path,
        text: String,
    ) -> Result<(Self, Option<Vec<Axis>>), Diagnostic> {
        let fail = |error: toml::de::Error| {
            let more = [HardwareKeys::NAMES, &HEAD, &SETTING_HEAD, &["setting", "sweep"]].concat();
            let wanted = [InputKind::Question("scenario"), InputKind::Question("sweep")];
            let error = Diagnostic::toml(file, &text, &error, &more);
            kinds::misplaced(file, &text, &wanted, error)
        };
        let mut table = DeTable::parse(&text).map_err(fail)?;
        if is_trainer(table.get_ref()) {
            return Ok((Self::of_trainer(context, file)?, None));
        }
        let span = table.span();
        let settings = table.get_mut().remove("setting");
        let axes =
            table.get_mut().remove("sweep").map(|axes| axis::all(context, file, &text, axes));
        let axes = axes.transpose()?;
        let head: Head = take(&mut table, &HEAD).map_err(fail)?;
        let shared_spans = KeySpans::of(table.get_ref());
        let shared = keys(table).map_err(fail)?;
        let mut scenario = Self { title: head.title, convention: head.convention, ..Self::none() };
        let only = &mut scenario.settings[0];
        (only.keys, only.spans) = (shared, shared_spans);
        if let Some(settings) = settings {
            let place = settings.span();
            let tables: Option<Vec<_>> = match settings.into_inner() {
                DeValue::Array(array) => array.into_iter().map(as_table).collect(),
                _ => None,
            };
            let tables = tables.filter(|tables| !tables.is_empty()).ok_or_else(|| {
                let message = "settings are tables: begin each with [[setting]]".to_owned();
                Diagnostic::at(file, &text, Some(place), message)
            })?;
            let shared = &scenario.settings[0];
            let settings = tables.into_iter().map(|table| setting(table, shared));
            scenario.settings = settings.collect::<Result<_, _>>().map_err(fail)?;
        }
        let folder = file.parent().unwrap_or(Path::new(""));
        scenario.settings.iter_mut().for_each(|setting| setting.keys.files_in(context, folder));
        debug_assert!(span.end <= text.len());
        (scenario.file, scenario.text) = (file.to_owned(), text);
        Ok((scenario, axes))
    }

    fn error_maybe_at(&self, place: Option<Range<usize>>, message: String) -> Diagnostic {
        Diagnostic::at(&self.file, &self.text, place, message)
    }

    /// An error at a place of the file.
    #[must_use]
    pub fn error_at(&self, place: Range<usize>, message: String) -> Diagnostic {
        self.error_maybe_at(Some(place), message)
    }

    /// An error about `key`, shown where `setting` or the top of the file says it; without such a
    /// place, an error about the question.
    #[must_use]
    pub fn error(&self, setting: &Setting, key: Option<&str>, message: String) -> Diagnostic {
        let error = match key.and_then(|key| setting.spans.get(key)) {
            Some(place) => self.error_at(place, message),
            None => Diagnostic::new(match (&setting.name, key) {
                (Some(name), _) => format!("{}: {message}", crate::quote::clip(name)),
                (None, Some(key)) if !message.contains(key) => format!("--{key}: {message}"),
                (None, _) => message,
            }),
        };
        match key {
            Some(key) => error.about(key),
            None => error,
        }
    }
}

fn setting(mut table: Spanned<DeTable<'_>>, shared: &Setting) -> Result<Setting, toml::de::Error> {
    let head: SettingHead = take(&mut table, &SETTING_HEAD)?;
    let mut spans = KeySpans::of(table.get_ref());
    let keys = keys(table)?;
    spans.add_missing(&shared.spans);
    Ok(Setting {
        name: head.name,
        keys: keys.over(shared.keys.clone()),
        published: head.published,
        regenerated: head.regenerated,
        spans,
    })
}

/// As a table `[[setting]]` of a file.
impl Serialize for Setting {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        if let Some(name) = &self.name {
            map.serialize_entry("name", name)?;
        }
        for (key, figures) in [("published", &self.published), ("regenerated", &self.regenerated)] {
            if !figures.is_empty() {
                map.serialize_entry(key, figures)?;
            }
        }
        written::write(&self.keys, &mut map)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Setting {
    fn deserialize<D: de::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut all = Object::deserialize(from)?;
        let head: SettingHead = written::take(&mut all, &SETTING_HEAD).map_err(D::Error::custom)?;
        let keys = written::read(all).map_err(D::Error::custom)?;
        let SettingHead { published, regenerated, .. } = head;
        Ok(Self { published, regenerated, ..Self::new(head.name, keys) })
    }
}

impl Setting {
    /// A question of `keys` alone, in no file.
    #[must_use]
    pub fn new(name: Option<String>, keys: Keys) -> Self {
        let spans = KeySpans::nowhere(keys.given().chain(keys.hardware.given()));
        Self { name, keys, published: BTreeMap::new(), regenerated: BTreeMap::new(), spans }
    }

    /// Whether it has nothing but keys.
    fn is_bare(&self) -> bool {
        self.name.is_none() && self.published.is_empty() && self.regenerated.is_empty()
    }

    /// Whether the file says `key` for this setting.
    pub fn says(&self, key: &str) -> bool {
        self.spans.has(key)
    }

    /// A copy with `keys` over its own, without what only tables of a paper need.
    pub fn with(&self, keys: Keys) -> Self {
        Self {
            name: self.name.clone(),
            keys,
            published: BTreeMap::new(),
            regenerated: BTreeMap::new(),
            spans: KeySpans::default(),
        }
    }

    /// Puts flags over what the file says; errors about them no longer point into the file.
    pub fn overrule(&mut self, flags: Keys) {
        for key in flags.given().chain(flags.hardware.given()) {
            self.spans.remove(key);
        }
        self.keys = flags.over(std::mem::take(&mut self.keys));
    }
}
