//! More memory: for activations where the order is made for a limit, on devices where passes wait.

use pipeline::{Bytes, Family, Limit, LimitUse, Limits};

use super::{Bench, Links, problem};
use question::Diagnostic;
use question::case::Case;

/// One GiB.
const GIB: Bytes = Bytes(1 << 30);

impl Bench<'_> {
    /// More memory, where the order is made for a limit, or passes wait for it: on a stage and its
    /// device, or on all.
    pub(super) fn try_memory(&mut self, on: Option<usize>) -> Result<(), Diagnostic> {
        let (more, amount) = match self.case.has_whole_bytes {
            true => (GIB, "1 GiB"),
            false => (self.case.microbatch_bytes(), "1 M_B"),
        };
        if let Some(case) = self.with_limits(more, on) {
            let place = on.map_or("all stages".to_owned(), |stage| format!("stage {stage}"));
            let name = format!("{amount} more on {place}");
            self.add(name, &case, Links::None, true)?;
        }
        let Some(hardware) = &self.case.hardware else { return Ok(()) };
        let device = on.map(|stage| hardware.seats.device(stage));
        // A device is tried with the first of its stages.
        let seats = hardware.seats.devices();
        if device.is_some() && seats.iter().position(|&seat| Some(seat) == device) != on {
            return Ok(());
        }
        if let Some(hardware) = hardware.with_memory(GIB, device) {
            let place =
                device.map_or("all devices".to_owned(), |device| format!("device {device}"));
            let case = Case { hardware: Some(hardware), ..self.case.clone() };
            self.add(format!("1 GiB more on {place}"), &case, Links::None, false)?;
        }
        Ok(())
    }

    /// The case with the order its family makes under larger limits, where a limit shapes it and
    /// there is one.
    fn with_limits(&self, more: Bytes, on: Option<usize>) -> Option<Case> {
        let (family, limits) = limited(self.case)?;
        let raised = |(stage, limit): (usize, &Bytes)| match on.is_none_or(|on| on == stage) {
            true => Bytes(limit.0.saturating_add(more.0)),
            false => *limit,
        };
        let limits: Vec<Bytes> = limits.by_stage().iter().enumerate().map(raised).collect();
        let limits = Limits::new(self.case.schedule.shape(), &limits).ok()?;
        let costs = self.case.problem.costs().clone();
        let problem = problem(self.case, costs, Some(&limits)).ok()?;
        let schedule = family.schedule(&problem).ok()?;
        Some(Case { problem, schedule, limits: Some(limits), ..self.case.clone() })
    }
}

/// The family and the limits of `case`, where limits shape its order.
fn limited(case: &Case) -> Option<(Family, Limits)> {
    let family = case.family?;
    let shape = case.schedule.shape();
    let everywhere =
        |limit: Limit| Limits::new(shape, &[limit.bytes(shape, case.microbatch_bytes())]).ok();
    match family.about().limit {
        // A family with a limit of its own is the search at that limit.
        LimitUse::Own(limit) if matches!(family, Family::Zb1p | Family::Zb2p) => {
            Some((Family::ZbHeuristic, everywhere(limit)?))
        }
        LimitUse::Shapes { default } => {
            Some((family, case.limits.clone().or_else(|| default.and_then(everywhere))?))
        }
        _ => None,
    }
}
