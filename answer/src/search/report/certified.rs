//! Certificates of the results of searches.

use cases::Searched;
use certificate::{Backwards, BoundArgument, Certificate, Heads, Log, Proof, Refusal};
use question::Diagnostic;
use search::bounds::Argument::Branching;
use search::{Found, Objective};

use super::SearchRow;

/// The certificate that proves the result to a third party.
pub(in crate::search) fn certificate(row: &SearchRow) -> Result<Certificate, Diagnostic> {
    let searched = &row.searched;
    if row.overlaps() {
        let message =
            "a certificate proves orders of passes on one stream, not of pairs that overlap";
        return Err(searched.case.error(&message).with_help("leave it out"));
    }
    if searched.case.problem.costs().microbatch_work().is_some() {
        let message = "a certificate proves orders of microbatches that all take as long";
        let cure = "leave it out: the search says what bound is proved";
        return Err(searched.case.error(&message).with_help(cure));
    }
    if searched.case.schedule.copies().is_some() {
        let message = "a certificate proves orders that copy nothing to the host";
        let cure = "leave it out, or offload out of --vary";
        return Err(searched.case.error(&message).with_help(cure));
    }
    certificate_of(searched)
}

/// The same for an order of passes on one stream that copies nothing to the host.
pub(crate) fn certificate_of(searched: &Searched) -> Result<Certificate, Diagnostic> {
    let (instance, found) = (&searched.instance, &searched.found);
    let stages = instance.shape.stages();
    let (name, at) = (found.bound.argument.name(), found.bound.argument.stages());
    let argument = BoundArgument::new(name, &at, stages);
    let refused = |refusal: Refusal| searched.case.error(&refusal);
    Ok(Certificate {
        schedule: found.schedule.clone(),
        costs: instance.costs.clone(),
        footprints: instance.footprints.clone(),
        limits: instance.limits.clone(),
        objective: match instance.objective {
            Objective::Span => certificate::Objective::Span,
            Objective::Makespan => certificate::Objective::Makespan,
        },
        cost: found.cost,
        bound: found.bound.cost,
        argument: argument.map_err(refused)?,
        proof: proof_of(found).map_err(refused)?,
        backwards: Backwards::SplitOrWhole,
    })
}

/// The proof behind the argument of a search, beyond the bounds of stages.
fn proof_of(found: &Found) -> Result<Proof, Refusal> {
    let raised = found.proof.raised.iter().map(|one| (one.pass, one.start.0));
    let branching = found.bound.argument == Branching;
    let log = branching.then(|| Log::new(found.proof.log.clone())).transpose()?;
    Ok(Proof { heads: Heads::new(raised), log })
}
