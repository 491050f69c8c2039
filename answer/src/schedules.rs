//! The schedules: description, requirements and figures of each.

use cases::SEARCHED;
use pipeline::{Choice, Chunks, Family, InTorch, LeftOut, LimitUse};
use question::format;
use question::sheet::Sheet;
use question::{Diagnostic, source};
use serde::Serialize;

/// All schedules that have a name.
#[derive(Serialize, Clone, Debug)]
pub struct SchedulesAnswer {
    /// Every family, and the order that is searched.
    pub schedules: Vec<Entry>,
    /// Published schedules that are not offered.
    pub not_offered: Vec<NotOffered>,
}

impl SchedulesAnswer {
    /// Those among `names`, in that order.
    pub fn named(&self, names: &[String]) -> Result<Self, Diagnostic> {
        let entry = |name: &String| {
            let found = self.schedules.iter().find(|entry| entry.name == *name);
            found.cloned().ok_or_else(|| source::unknown(name))
        };
        let schedules = names.iter().map(entry).collect::<Result<_, _>>()?;
        Ok(Self { schedules, not_offered: Vec::new() })
    }

    /// A line for each schedule: name and source.
    #[must_use]
    pub fn brief(&self) -> Sheet {
        let width = self.schedules.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
        let line = |entry: &Entry| format!("{:width$}  {}\n", entry.name, entry.source);
        Sheet::default().and_text(self.schedules.iter().map(line).collect::<String>())
    }

    /// All of it for people, in lines of at most 100 columns.
    #[must_use]
    pub fn sheet(&self) -> Sheet {
        let mut sheet = Sheet::default();
        self.schedules.iter().for_each(|entry| sheet.push_text(&entry.text()));
        if !self.not_offered.is_empty() {
            sheet.push_text("\nNot offered\n");
        }
        for NotOffered { name, source, why } in &self.not_offered {
            let why = wrapped(why);
            sheet.push_text(&format!("{name}\n  source  {source}\n  why     {why}\n"));
        }
        sheet.and_text(
            "\np stages, m microbatches, v chunks per stage, k segments per microbatch, g microbatches per group;\n\
             F, B, W: forward, backward for the input, for the weights, of one stage and microbatch. M_B: what\n\
             one microbatch holds on one stage between F and B. Bubble: of the longest span of a step, between\n\
             equal stages, without communication; a formula is exact where it says so.\n",
        )
    }
}

/// `text` in lines of at most 100 columns, each but the first with a hanging indent.
fn wrapped(text: &str) -> String {
    let indent = " ".repeat(10);
    let whole = format::wrapped(&format!("{indent}{text}"), 100, &indent);
    whole.trim_start().to_owned()
}

/// A published schedule that is not offered.
#[derive(Serialize, Clone, Debug)]
pub struct NotOffered {
    pub name: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// Why it is not offered.
    pub why: &'static str,
}

/// A schedule, in words.
#[derive(Serialize, Clone, Debug)]
pub struct Entry {
    /// The name that questions use.
    pub name: &'static str,
    /// The paper or program that describes it.
    pub source: &'static str,
    /// The numbers of stages, microbatches and chunks that it takes.
    pub needs: &'static str,
    /// Chunks per stage.
    pub chunks: String,
    /// The effect of a memory limit on its order.
    pub memory_limit: String,
    /// Its bubble per step, without communication.
    pub bubble: &'static str,
    /// Its peak memory.
    pub memory: &'static str,
    /// The further parameter, and the key for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<String>,
    /// The training frameworks that run its order.
    pub runs_in: String,
    /// A remark on these figures.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub note: &'static str,
}

impl Entry {
    /// A line for each thing that is known of it, under its name.
    fn text(&self) -> String {
        let lines = [
            ("source", self.source),
            ("needs", self.needs),
            ("chunks", &self.chunks),
            ("bubble", self.bubble),
            ("memory", self.memory),
            ("limit", &self.memory_limit),
            ("choice", self.choice.as_deref().unwrap_or_default()),
            ("runs in", &self.runs_in),
            ("note", self.note),
        ];
        let known = lines.into_iter().filter(|(_, text)| !text.is_empty());
        let lines = known.map(|(what, text)| format!("  {what:8}{}\n", wrapped(text)));
        format!("{}\n{}", self.name, lines.collect::<String>())
    }
}

impl From<Family> for Entry {
    fn from(family: Family) -> Self {
        let about = family.about();
        let chunks = match about.chunks {
            Chunks::Exactly(chunks) => format!("{chunks}"),
            Chunks::Any { default } => format!("any, {default} by default"),
        };
        let memory_limit = match about.limit {
            LimitUse::Checked => "only checked".to_owned(),
            LimitUse::Own(limit) => {
                format!("built for {limit}; another limit is checked, not used")
            }
            LimitUse::Shapes { default: None } => "shapes the order, none by default".to_owned(),
            LimitUse::Shapes { default: Some(limit) } => {
                format!("shapes the order, {limit} by default")
            }
        };
        let choice = match about.choice {
            Choice::Nothing => None,
            Choice::Group => Some("--group, p by default".to_owned()),
            Choice::Offload => {
                Some("--group, 1 by default; --offload-chunks, --offload".to_owned())
            }
            Choice::Segments { default } => Some(format!("--segments, {default} by default")),
        };
        Self {
            name: about.name,
            source: about.source,
            needs: about.needs,
            chunks,
            memory_limit,
            bubble: about.bubble,
            memory: about.memory,
            choice,
            runs_in: runs_in(family),
            note: about.note,
        }
    }
}

/// The frameworks that run `family`, and how.
fn runs_in(family: Family) -> String {
    let torch = match family.in_torch() {
        InTorch::Class(name) => format!("torchtitan ({name})"),
        InTorch::Order => "torchtitan (as a CSV file)".to_owned(),
        InTorch::No(lacks) => {
            return format!("neither Megatron-LM nor torchtitan, whose orders have no {lacks}");
        }
    };
    if family.in_megatron() { format!("Megatron-LM, {torch}") } else { torch }
}

/// The order that is searched, which is not a family.
fn searched() -> Entry {
    Entry {
        name: SEARCHED,
        source: "`debubble search` at its default effort",
        needs: "any p, any m",
        chunks: "any, 1 by default; 2 form a V".to_owned(),
        memory_limit: "shapes the order, none by default".to_owned(),
        bubble: "no more than that of any schedule above with its chunks that fits the limit",
        memory: "up to the limit",
        choice: Some("--seed, 0 by default".to_owned()),
        runs_in: "torchtitan (as a CSV file)".to_owned(),
        note: "how far any order can be from it: `debubble search`",
    }
}

/// All schedules that have a name, and published ones that are not offered.
#[must_use]
pub fn schedules() -> SchedulesAnswer {
    let families = Family::ALL.into_iter().map(Entry::from);
    let one = |LeftOut { name, source, why }| NotOffered { name, source, why };
    SchedulesAnswer {
        schedules: families.chain([searched()]).collect(),
        not_offered: LeftOut::ALL.into_iter().map(one).collect(),
    }
}
