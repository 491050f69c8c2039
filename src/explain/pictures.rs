//! Outcomes as pictures that explain: levers as bars, timelines on a page.

use crate::draw::html;
use crate::draw::plot::tornado::{self, Tornado};
use crate::error::Error;
use crate::explain::levers::Lever;
use crate::outcome::{self, Outcome, title};

/// The levers of every schedule that was explained.
pub fn tornado(outcomes: &[Outcome]) -> Result<String, Error> {
    Ok(tornado::svg(&tornados(outcomes))?)
}

fn tornados(outcomes: &[Outcome]) -> Vec<Tornado> {
    let tornado = |outcome: &Outcome| {
        let levers = &outcome.explanation.as_ref()?.levers;
        let bar = |lever: &Lever| {
            let order = if lever.rebuilt { ", new order" } else { "" };
            tornado::Bar { name: format!("{}{order}", lever.name), change: lever.change }
        };
        let bars = levers.ranked.iter().map(bar).collect();
        Some(Tornado { title: title(outcome), step: levers.base, bars })
    };
    outcomes.iter().filter_map(tornado).collect()
}

/// All timelines on a page for a browser.
pub fn page(outcomes: &[Outcome]) -> Result<String, Error> {
    let charts = outcomes.iter().map(chart).collect::<Result<Vec<_>, _>>()?;
    Ok(html::page(&charts)?)
}

fn chart(outcome: &Outcome) -> Result<html::Chart<'_>, Error> {
    let Outcome { case, report, .. } = outcome;
    Ok(html::Chart {
        title: title(outcome),
        schedule: &case.schedule,
        run: outcome::recorded(outcome)?,
        devices: outcome.devices(),
        memory: report.as_ref().map_or(&[], |report| &report.occupancy.curves),
        capacities: case.hardware.as_ref().and_then(|hardware| hardware.capacities.as_deref()),
    })
}
