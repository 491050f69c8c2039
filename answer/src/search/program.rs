//! The order as an integer program: solved, and written out for other solvers.

use ilp::{End, Model, Proof, Unsuitable};
use pipeline::Nanos;
use question::case::Searched;
use question::search::Keys;
use question::{Context, Diagnostic, format};

/// What solving the program adds to a search.
pub struct Solved {
    /// The pairs of passes whose order is open: binaries of the program.
    pub binaries: u64,
    /// Nodes of all trees of branch and bound.
    pub nodes: usize,
    /// How the work ended.
    pub end: End,
    /// The bound and the branching log that proves it, where that is more than the search knows.
    pub proof: Option<(Nanos, Proof)>,
}

/// Solves the program of what was searched. Replaces the order by a better one if there is one.
///
/// # Errors
/// If the pipeline is one that the program does not model, or too large.
pub(super) fn solve(
    context: &Context<'_>,
    keys: &Keys,
    searched: &mut Searched,
) -> Result<Solved, Diagnostic> {
    let (host, limit) = (context.host(), keys.solver_time());
    let begin = host.clock();
    let late = || host.clock().zip(begin).is_some_and(|(now, begin)| now - begin >= limit);
    let stop = || context.stopped() || late();
    let work = host.begin(1, "");
    let progress = |cost: Nanos, bound: Nanos, nodes: usize| {
        let [cost, bound] = [cost, bound].map(format::time);
        work.set_message(format!("solving: best {cost}, bound {bound}, {nodes} nodes"));
    };
    let instance = &searched.instance;
    let (known, proved) = (searched.found.schedule.clone(), searched.found.bound.cost);
    let answer = ilp::solve(instance, known, proved, progress, &stop)
        .map_err(|why| unsuitable("--ilp", &why))?;
    let binaries = ilp::binaries(instance);
    let found = &mut searched.found;
    if answer.cost < found.cost {
        let (better, was) = (answer.cost, found.cost);
        context.warn(format!(
            "the integer program has an order of {better}, the search found one of {was}"
        ));
        searched.case.schedule = answer.schedule.clone();
        (found.schedule, found.cost) = (answer.schedule, answer.cost);
    }
    if answer.end == End::Stopped && !context.cut_short() {
        let text = "the clock cut the solver short: another run may prove another bound";
        context.warn(text.to_owned());
    }
    let proof = answer.proof.map(|proof| (answer.bound, proof));
    Ok(Solved { binaries, nodes: answer.nodes, end: answer.end, proof })
}

/// The integer program of what was searched, whose cost is no more than that of the order found.
///
/// # Errors
/// If the pipeline is one that the program does not model, or too large.
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
        | Unsuitable::Recomputed
        | Unsuitable::Overlapped
        | Unsuitable::Infeasible(_)
        | Unsuitable::Fault(_) => "leave it out",
    };
    Diagnostic::new(format!("{what}: {why}")).with_help(cure)
}
