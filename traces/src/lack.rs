//! Information about a run that its trace lacks.

use std::fmt;

use pipeline::{Kind, Nanos};

use crate::operation::{OpType, Operation};

/// A kind of information that a trace lacks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lack {
    /// Transfers between stages.
    Transfers,
    /// The gradient of inputs and that of weights apart.
    SplitBackwards,
    /// The optimizer's step.
    Optimizer,
    /// Time of an iteration before the first pass and after the last, by the marks of the trace.
    OutsidePasses {
        /// The median over the iterations.
        nanos: u64,
    },
    /// Passes at the end of the trace that had begun.
    NeverEnded {
        /// How many.
        passes: usize,
    },
    /// Steps at the begin or the end of the trace with fewer passes than the rest: left out.
    CutSteps {
        /// Their numbers.
        steps: Vec<u64>,
    },
    /// Ranks of the run without a trace of their own.
    Ranks {
        /// Their number.
        given: usize,
        /// Number of ranks that the run has.
        world: u32,
    },
    /// Which stage a rank is: each is taken for the stage of its number.
    Stages,
    /// Most sends and receives of a trace of spans.
    Between,
    /// Times on the device: those of the host are taken.
    DeviceTimes,
    /// Names of passes: what each is follows from autograd and from the sends between ranks.
    Names,
    /// Arrivals of values that passes waited for: passes are taken to begin when what they need was
    /// made.
    Arrivals,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transfers => f.write_str("no transfers between stages: hops are estimated"),
            Self::SplitBackwards => f.write_str("no B and W apart: backward passes are whole"),
            Self::Optimizer => f.write_str("no optimizer: a step ends with its last operation"),
            Self::OutsidePasses { nanos } => {
                let time = Nanos(*nanos);
                write!(f, "{time} of each iteration outside its passes, which are not predicted")
            }
            Self::NeverEnded { passes } => {
                write!(f, "no end of {passes} passes that had begun: they are left out")
            }
            Self::CutSteps { steps } => {
                let steps: Vec<String> = steps.iter().map(u64::to_string).collect();
                write!(f, "not all passes of step {}, which is left out", steps.join(" and "))
            }
            Self::Ranks { given, world } => {
                write!(f, "{given} of the {world} ranks of the run, which hold all its stages")
            }
            Self::Stages => f.write_str("no stages: rank r is taken for stage r"),
            Self::Between => f.write_str(
                "no sends and receives in most of a step: the time between two passes of a rank is its own, \
                 unless the second one waited for a value",
            ),
            Self::DeviceTimes => f.write_str(
                "no times on a GPU: spans are those of the host, which goes on while its kernels run; passes \
                 look shorter and hops longer than they are",
            ),
            Self::Names => f.write_str(
                "no names of passes: F and B are inferred from autograd, chunks and microbatches \
                 from the sends between ranks",
            ),
            Self::Arrivals => f.write_str(
                "no arrivals of values: a pass is taken to begin when what it needs was made",
            ),
        }
    }
}

/// The parts of a step that none of `operations` is.
pub(crate) fn missing(operations: &[Operation]) -> Vec<Lack> {
    let has = |is: fn(OpType) -> bool| operations.iter().any(|one| is(one.optype));
    let transfers = has(|optype| matches!(optype, OpType::Transfer(..)));
    let several = operations.iter().any(|one| one.stage != operations[0].stage);
    let weights = has(|optype| matches!(optype, OpType::Pass(Kind::W)));
    let optimizer = has(|optype| optype == OpType::Optimizer);
    let lacks = [
        (Lack::Transfers, several && !transfers),
        (Lack::SplitBackwards, !weights),
        (Lack::Optimizer, !optimizer),
    ];
    lacks.into_iter().filter(|(_, lacks)| *lacks).map(|(lack, _)| lack).collect()
}

/// Leaves out the first and the last step, where they have fewer passes than the fullest one.
pub(crate) fn without_cut_steps(operations: Vec<Operation>) -> (Vec<Operation>, Option<Lack>) {
    let mut passes = std::collections::BTreeMap::new();
    for one in operations.iter().filter(|one| one.pass().is_some()) {
        *passes.entry(one.step).or_insert(0usize) += 1;
    }
    let most = passes.values().copied().max().unwrap_or(0);
    let ends = [passes.first_key_value(), passes.last_key_value()];
    let cut = ends.into_iter().flatten().filter(|(_, count)| **count < most);
    let mut steps: Vec<u64> = cut.map(|(step, _)| *step).collect();
    steps.dedup();
    if steps.is_empty() {
        return (operations, None);
    }
    let whole = operations.into_iter().filter(|one| !steps.contains(&one.step));
    (whole.collect(), Some(Lack::CutSteps { steps }))
}
