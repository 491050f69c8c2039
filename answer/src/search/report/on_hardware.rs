//! Searches on a cluster, or over several steps, for people.

use pipeline::Nanos;
use question::hardware::Hardware;
use question::sheet::Sheet;
use question::{format, table};
use search::{ArgumentOnHardware, FiguresOnHardware, FoundOnHardware};
use sim::boundary::Synchronisation;

use super::SearchRow;
use crate::search::joint_choice::gain;

/// How the steps of `hardware` meet, as the key says it.
pub(super) const fn boundary(hardware: &Hardware) -> &'static str {
    match hardware.boundary.synchronisation {
        Synchronisation::Asynchronous => "asynchronous",
        Synchronisation::Barrier => "barrier",
        Synchronisation::PostValidation { .. } => "post-validation",
    }
}

/// Adds to `sheet` the results of the searches on hardware among `rows`.
pub(super) fn tell(sheet: &mut Sheet, rows: &[SearchRow]) {
    let all = rows.iter().filter_map(|row| Some((row, row.searched.on_hardware.as_ref()?)));
    let all: Vec<(&SearchRow, &FoundOnHardware)> = all.collect();
    if all.is_empty() {
        return;
    }
    sheet.push_text("\n");
    sheet.push(table!(
        (name, one) = all.iter().flat_map(|(row, found)| orders(row, found)),
        "on hardware" = name,
        "no link shared" = one.nominal,
        "span" = one.span,
        "makespan" = one.makespan,
        "step" = one.step,
        "out of memory" = if one.is_out_of_memory { "yes" } else { "-" },
    ));
    sheet.push_text("\n");
    for (row, found) in &all {
        sheet.push_text(&in_words(row, found));
    }
    sheet.push_text(
        "\non hardware: figures of the event engine, those of `debubble simulate` with the same keys\nno link shared: \
         the cost where a transfer takes as long as while nothing else moves, as in the first table\nnominal: the best \
         order found there; proxy: links that are not shared, with hops fitted to runs, where orders are searched\n",
    );
}

/// The orders of `row` by their names.
fn orders<'a>(row: &SearchRow, found: &'a FoundOnHardware) -> Vec<(String, &'a FiguresOnHardware)> {
    let name = |order: &str| row.named("", order);
    let published = found.published.iter().map(|(family, one)| (name(family.name()), one));
    let nominal = found.nominal.as_ref().map(|one| (name("nominal"), one));
    let answer = (!found.is_nominal).then(|| (name("found"), &found.answer));
    published.chain(nominal).chain(answer).collect()
}

/// The result of a search on hardware, in words.
fn in_words(row: &SearchRow, found: &FoundOnHardware) -> String {
    let steps = row.searched.case.hardware.as_ref().map_or(String::new(), |hardware| {
        let s = if hardware.steps == 1 { "" } else { "s" };
        format!(" ({} step{s}, {})", hardware.steps, boundary(hardware))
    });
    let value = found.answer.value;
    let memory = match found.answer.is_out_of_memory {
        true => {
            "  a device runs out of memory, as in every order that was proposed: give a lower --memory-limit\n"
        }
        false => "",
    };
    let stuck = match found.stuck {
        0 => String::new(),
        1 => ", 1 that was proposed got stuck".to_owned(),
        count => format!(", {count} that were proposed got stuck"),
    };
    format!(
        "{}: {}{steps}\n  {}{}\n{}{memory}  {}\n  judged: {} orders{stuck}\n",
        row.named("", row.objective.name()),
        format::time(value),
        over_nominal(found),
        over_published(found),
        proxy(found),
        bound(row, found),
        found.judged,
    )
}

fn over_nominal(found: &FoundOnHardware) -> String {
    match &found.nominal {
        None => "the nominal order gets stuck".to_owned(),
        Some(_) if found.is_nominal => {
            "no order was found that beats the nominal one: it is the answer".to_owned()
        }
        Some(one) if one.is_out_of_memory && !found.answer.is_out_of_memory => {
            "the nominal order runs out of memory".to_owned()
        }
        Some(one) => format!("{} below the nominal order", share(found.answer.value, one.value)),
    }
}

fn over_published(found: &FoundOnHardware) -> String {
    match found.published.first() {
        None => ", no published schedule fits".to_owned(),
        Some((family, one)) if one.is_out_of_memory && !found.answer.is_out_of_memory => {
            format!(", {} runs out of memory", family.name())
        }
        Some((family, one)) if one.value == found.answer.value => {
            format!("; {} takes as long", family.name())
        }
        Some((family, one)) => {
            format!(", {} below {}", share(found.answer.value, one.value), family.name())
        }
    }
}

/// The error of the proxy, and the times of its links.
fn proxy(found: &FoundOnHardware) -> String {
    let FoundOnHardware { proxy, answer, alone, fitted, rounds, .. } = found;
    let s = if *rounds == 1 { "" } else { "s" };
    let side = if *proxy > answer.value { "above" } else { "below" };
    let off = share((*proxy).min(answer.value), (*proxy).max(answer.value));
    let head = format!("  proxy: {}, {off} {side}, after {rounds} round{s}", format::time(*proxy));
    let longest = |links: &[Nanos]| links.iter().copied().max().unwrap_or_default();
    match (longest(alone), longest(fitted)) {
        (Nanos(0), Nanos(0)) => format!("{head}\n"),
        (alone, fitted) => format!(
            "{head}; the slowest link takes {} alone, and took {} in the mean\n",
            format::time(alone),
            format::time(fitted)
        ),
    }
}

fn bound(row: &SearchRow, found: &FoundOnHardware) -> String {
    let bound = &found.bound;
    let between = match bound.between {
        Nanos(0) => String::new(),
        time => format!(", with {} between two steps", format::time(time)),
    };
    format!("{} ({}{between})", row.solution().against_bound(), argument(row, found))
}

/// Why no order undercuts the bound of `row`.
pub(in crate::search) fn argument(row: &SearchRow, found: &FoundOnHardware) -> String {
    let wires = row.searched.case.hardware.iter().flat_map(|hardware| hardware.cluster.wires());
    match found.bound.argument {
        ArgumentOnHardware::NotShared(argument) => format!("{argument}, no link shared"),
        ArgumentOnHardware::Wire(at) => {
            let name = wires.map(|wire| wire.name.as_str()).nth(at).unwrap_or_default();
            format!("what {name} must carry")
        }
    }
}

/// By how much `less` is below `more`, as a share of that.
fn share(less: Nanos, more: Nanos) -> String {
    format::percent(gain(less, more))
}
