//! Reads an argument: its name and its stages.

use super::{BoundArgument, KINDS, Kind};
use crate::Refusal;

impl BoundArgument {
    /// The argument of that name at `stages` of a pipeline of `count` stages: two for `path` and `cycles`, the
    /// first no later than the second, none for `branching`, `windows` and `prefixes`, one for the rest.
    pub fn new(name: &str, stages: &[usize], count: usize) -> Result<Self, Refusal> {
        let refuse = |why| {
            let stages: Vec<String> = stages.iter().take(4).map(usize::to_string).collect();
            let name: String = name.chars().take(40).collect();
            Err(Refusal::Argument { given: format!("{name} {}", stages.join(" ")), why })
        };
        let Some(&(kind, _)) = KINDS.iter().find(|(_, known)| *known == name) else {
            return refuse("there is none of that name");
        };
        let (from, via) = match (kind, stages) {
            (kind, &[]) if kind.is_of_all() => (0, 0),
            (kind, _) if kind.is_of_all() => {
                return refuse("it looks at all stages and names none");
            }
            (Kind::Path | Kind::Cycles, &[from, via]) => (from, via),
            (Kind::Path | Kind::Cycles, _) => return refuse("it needs two stages"),
            (_, &[one]) => (one, one),
            _ => return refuse("it needs one stage"),
        };
        if from > via || (kind == Kind::Path && from == via) {
            return refuse("the first stage must come before the second");
        }
        if via >= count {
            return refuse("the pipeline has no such stage");
        }
        Ok(Self { kind, from, via })
    }
}
