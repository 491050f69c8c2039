//! The order as an integer program: solved, and written out for other solvers.

use cases::Searched;
use ilp::{End, Model, Unsuitable};
use pipeline::Nanos;
use question::search::SearchKeys;
use question::{Context, Diagnostic, format};

use super::Improvements;

/// Result of the integer program of a search.
pub struct Solved {
    /// The pairs of passes whose order is open: binaries of the program.
    pub binaries: u64,
    /// Nodes of all trees of branch and bound.
    pub nodes: usize,
    /// How the work ended.
    pub end: End,
}

/// Solves the integer program of the searched instance. Replaces the order by a better one if there is
/// one, and the bound by a higher one.
pub(super) fn solve(
    context: &Context<'_>,
    keys: &SearchKeys,
    searched: &mut Searched,
    seen: &Improvements<'_>,
) -> Result<Solved, Diagnostic> {
    let (host, limit) = (context.host(), keys.solver_time());
    let begin = host.clock();
    let late = || host.clock().zip(begin).is_some_and(|(now, begin)| now - begin >= limit);
    let stop = || context.stopped() || late();
    let work = host.begin(1, "");
    let progress = |cost: Nanos, bound: Nanos, nodes: usize| {
        seen.see_beside(cost, Some(bound));
        let [cost, bound] = [cost, bound].map(format::time);
        work.set_message(format!("solving: best {cost}, bound {bound}, {nodes} nodes"));
    };
    let Searched { case, instance, found, .. } = searched;
    let was = found.cost;
    let (nodes, end) = ilp::warm_start(instance, found, u64::MAX, progress, &stop)
        .map_err(|why| unsuitable("--ilp", &why))?;
    if found.cost < was {
        let better = found.cost;
        context.warn(format!(
            "the integer program has an order of {better}, the search found one of {was}"
        ));
        case.schedule = found.schedule.clone();
    }
    if end == End::Stopped && !context.cut_short() {
        let text = "the clock cut the solver short: another run may prove another bound";
        context.warn(text.to_owned());
    }
    Ok(Solved { binaries: ilp::binaries(instance), nodes, end })
}

/// The integer program of the searched instance, with the cost of the order found as upper bound.
pub fn program(searched: &Searched) -> Result<Model, Diagnostic> {
    Model::of(&searched.instance, searched.found.cost)
        .map_err(|why| unsuitable("the integer program", &why))
}

fn unsuitable(what: &str, why: &Unsuitable) -> Diagnostic {
    let cure = match why {
        Unsuitable::TooLarge { .. } => {
            "ask for fewer microbatches or stages, or write the program out with --write-lp for another solver"
        }
        Unsuitable::TooManyBinaries { .. } => "ask for fewer microbatches or stages",
        Unsuitable::Instant => "give passes that take no time a nanosecond",
        Unsuitable::Mirrored
        | Unsuitable::Overlapped
        | Unsuitable::Unequal
        | Unsuitable::Infeasible(_)
        | Unsuitable::Fault(_) => "leave it out",
    };
    Diagnostic::new(format!("{what}: {why}")).with_help(cure)
}
