//! Certificates that a search starts from.

use std::path::Path;

use ::search::bounds::{Argument, Bound, Proof, Raised};
use ::search::{Instance, Objective};
use certificate::{Backwards, Certificate, MAX_BYTES, Objective as CertificateObjective};
use pipeline::{Nanos, Schedule};
use question::kinds::{self, InputKind};
use question::{Diagnostic, quote};

use super::asked::Asked;

/// The order and the bound of a certificate.
pub(crate) struct WarmStart {
    pub(crate) schedule: Schedule,
    /// The bound with its proof.
    pub(crate) proved: (Bound, Proof),
}

impl WarmStart {
    /// Those of `certificate`, if a search knows its argument.
    pub(crate) fn of(certificate: Certificate) -> Option<Self> {
        let Certificate { schedule, bound, argument, proof, .. } = certificate;
        let argument = Argument::named(argument.name(), &argument.stages())?;
        let raised = proof.heads.list().iter();
        let proof = Proof {
            raised: raised.map(|&(pass, start)| Raised { pass, start: Nanos(start) }).collect(),
            log: proof.log.map_or_else(Vec::new, |log| log.nodes().to_vec()),
        };
        Some(Self { schedule, proved: (Bound { argument, cost: bound }, proof) })
    }

    /// Those of the certificate in `file`, with all that it claims checked, where it is of the question `asked`.
    pub(super) fn read(asked: &Asked<'_>, file: &Path) -> Result<Self, Diagnostic> {
        let Asked { context, scenario, setting, keys, .. } = *asked;
        let text = context.read_toml(file, MAX_BYTES as u64)?;
        let certificate = Certificate::read(&text).map_err(|refusal| {
            let error = Diagnostic::unreadable(file, &refusal.to_string());
            kinds::misplaced(file, &text, &[InputKind::Certificate], error)
        })?;
        let wrong = |cause: &str, cure: &str| {
            let message = format!("{}: {cause}", quote::path(file));
            Err(Diagnostic::file(file, message).with_help(cure))
        };
        let objective = keys.objective().unwrap_or_default();
        let instance = cases::searchable(context, scenario, setting, keys.placement(), objective)?;
        let differences = differences(&instance, &certificate);
        if !differences.is_empty() {
            let cause = format!(
                "this certificate is of another question: {} differ",
                differences.join(", ")
            );
            return wrong(
                &cause,
                "give the question that it was made for, with its chunks and placement",
            );
        }
        if certificate.backwards == Backwards::Split {
            return wrong(
                "the bound is about split backwards alone: version 1",
                "make a new certificate",
            );
        }
        if let Err(refusal) = certificate::verify(&text) {
            return wrong(
                &format!("this certificate does not hold: {refusal}"),
                "`debubble verify` says the same",
            );
        }
        match Self::of(certificate) {
            Some(start) => Ok(start),
            None => {
                wrong("no search knows the argument of this certificate", "make a new certificate")
            }
        }
    }
}

/// The difference between the pipeline of `instance` and that of `certificate`.
pub(crate) fn differences(instance: &Instance, certificate: &Certificate) -> Vec<&'static str> {
    let Instance { shape, placement, costs, footprints, limits, objective } = instance;
    let other = certificate.schedule.shape();
    let chunks = || 0..shape.chunks().min(other.chunks());
    let times = |costs: &pipeline::Costs, chunk: u16| {
        let times = costs.chunks()[usize::from(chunk)];
        [times.forward, times.backward_input, times.backward_weight, times.whole_backward()]
    };
    let mut all_times = chunks();
    let same_times = all_times.all(|chunk| {
        times(costs, chunk) == times(&certificate.costs, chunk)
            && costs.recompute(chunk) == certificate.costs.recompute(chunk)
    });
    let same_sizes = chunks().all(|chunk| {
        footprints.of(chunk) == certificate.footprints.of(chunk)
            && footprints.kept(chunk) == certificate.footprints.kept(chunk)
    });
    let objective = match objective {
        Objective::Span => CertificateObjective::Span,
        Objective::Makespan => CertificateObjective::Makespan,
    };
    let alike = [
        ("stages", shape.stages() == other.stages()),
        ("microbatches", shape.microbatches() == other.microbatches()),
        ("chunks per stage", shape.chunks_per_stage() == other.chunks_per_stage()),
        ("vocabulary", shape.vocabulary() == other.vocabulary()),
        ("placement", *placement == certificate.schedule.placement()),
        ("times", same_times),
        ("hops", costs.hops() == certificate.costs.hops()),
        ("activation sizes", same_sizes),
        ("memory limit", *limits == certificate.limits),
        ("objective", objective == certificate.objective),
    ];
    alike.into_iter().filter(|(_, same)| !same).map(|(what, _)| what).collect()
}
