//! Steps with documents packed into sequences.

use pipeline::Nanos;
use plan::{DocumentSteps, Dynamic, Finalist, FinalistError, Inputs};
use planning::{Packed, Question};
use question::format;
use serde::Serialize;

/// Steps with documents packed into sequences.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct PackedSteps {
    /// Of the pairs of tokens of a sequence, the share that attend to each other, in the mean.
    pub attended: f64,
    /// The same of the replica that has most to do in a step.
    pub slowest_attended: f64,
    /// A step whose microbatches all have the mean share, in nanoseconds.
    pub even_step_ns: u64,
    /// Steps of microbatches as they are packed, with context groups of one size.
    #[serde(flatten)]
    pub steps: Steps,
    /// Where context groups are as large as documents need: steps with these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dynamic: Option<DynamicGroups>,
}

/// Steps that were drawn.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
pub struct Steps {
    /// How many.
    pub steps_drawn: u64,
    /// The mean, in nanoseconds.
    pub mean_step_ns: u64,
    /// 95th percentile of the step, in nanoseconds.
    pub p95_step_ns: u64,
}

impl Steps {
    fn of(steps: DocumentSteps) -> Self {
        let DocumentSteps { drawn, mean, p95 } = steps;
        Self { steps_drawn: drawn, mean_step_ns: mean.0, p95_step_ns: p95.0 }
    }

    fn words(&self) -> String {
        let [mean, p95] =
            [self.mean_step_ns, self.p95_step_ns].map(|time| format::time(Nanos(time)));
        format!("{mean} in the mean, 95 % at most {p95}")
    }
}

/// Steps whose context groups are as large as documents need.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct DynamicGroups {
    #[serde(flatten)]
    pub steps: Steps,
    /// The most tokens of a microbatch on a device.
    pub tokens_per_device: u64,
    /// Mean share of the tokens of a step that fit into its microbatches; the rest belongs to later
    /// steps, and times are those of all tokens.
    pub filled: f64,
    /// The sizes of groups, the smallest first, each with its share of all tokens.
    pub groups: Vec<OfGroup>,
}

/// The groups of one size.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct OfGroup {
    /// Devices that share each document.
    pub context: u64,
    /// The share of all tokens that they have.
    pub tokens: f64,
}

impl DynamicGroups {
    fn of(found: Dynamic) -> Self {
        let Dynamic { steps, tokens_per_device, filled, groups } = found;
        let group = |one: plan::GroupShare| OfGroup { context: one.context, tokens: one.tokens };
        let groups = groups.into_iter().map(group).collect();
        Self { steps: Steps::of(steps), tokens_per_device, filled, groups }
    }
}

impl PackedSteps {
    /// Of `finalist`, which `inputs` came to, where `question` tells the lengths of documents. Nothing if
    /// `stop` is so before the last step is drawn.
    pub(super) fn of(
        question: &Question,
        inputs: &Inputs<'_>,
        finalist: &Finalist,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Self>, FinalistError> {
        let Some(packed) = &question.packed else { return Ok(None) };
        let steps = plan::document_steps(inputs, finalist, packed.attended(), stop)?;
        let dynamic = match question.dynamic_context {
            true => plan::dynamic(inputs, finalist, packed.documents(), stop)?,
            false => None,
        };
        let (Some(steps), false) = (steps, question.dynamic_context && dynamic.is_none()) else {
            return Ok(None);
        };
        let data = finalist.costed().setup.data.max(1);
        Ok(Some(Self {
            attended: Packed::mean(packed),
            slowest_attended: packed.slowest(data, question.recipe.batch / data),
            even_step_ns: finalist.step.0,
            steps: Steps::of(steps),
            dynamic: dynamic.map(DynamicGroups::of),
        }))
    }

    /// The reported step: with context groups by documents, where there are some, else with fixed
    /// groups.
    pub(super) fn step(&self) -> Nanos {
        let steps = self.dynamic.as_ref().map_or(self.steps, |dynamic| dynamic.steps);
        Nanos(steps.mean_step_ns)
    }

    /// Parts of the reported step that are neither in an even step nor in its parts, by name, in
    /// nanoseconds: they add up to the difference.
    pub(super) fn parts(&self) -> Vec<(&'static str, i64)> {
        let signed = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
        let fixed = signed(self.steps.mean_step_ns);
        let uneven = ("uneven documents", fixed - signed(self.even_step_ns));
        let dealt = ("context groups by documents", signed(self.step().0) - fixed);
        [uneven, dealt].into_iter().filter(|(_, time)| *time != 0).collect()
    }

    /// In words: a line each.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![
            format!(
                "of the pairs of tokens {} attend to each other, of the replica with most to do {}",
                format::percent(self.attended),
                format::percent(self.slowest_attended),
            ),
            format!(
                "with context groups of one size a step takes {}; of even microbatches {}",
                self.steps.words(),
                format::time(Nanos(self.even_step_ns)),
            ),
        ];
        let Some(dynamic) = &self.dynamic else {
            let words = self.steps.words();
            let even = format::time(Nanos(self.even_step_ns));
            lines[1] =
                format!("by its documents a step takes {words}; of even microbatches {even}");
            return lines;
        };
        let of =
            |group: &OfGroup| format!("{} on {}", format::percent(group.tokens), group.context);
        let groups: Vec<String> = dynamic.groups.iter().map(of).collect();
        lines.push(format!(
            "with context groups by documents {}; its microbatches of up to {} tokens on a device are {} \
             full; of all tokens {}",
            dynamic.steps.words(),
            dynamic.tokens_per_device,
            format::percent(dynamic.filled),
            groups.join(", "),
        ));
        lines
    }
}
