//! Searches as tables, with the words below them.

use ilp::End;
use pipeline::{Nanos, Placement};
use question::sheet::Sheet;
use question::{format, table};
use search::Running;
use search::bounds::Argument::Branching;

use super::{SearchRow, joint, on_hardware, simulated, under_noise};
use crate::front::Standing;
use crate::search::Solved;
use crate::solution::against_bound_in_time;

/// The searches for people, a line each.
pub(in crate::search) fn sheet(rows: &[SearchRow]) -> Sheet {
    let several =
        |row: &SearchRow| rows.iter().filter(|one| one.setting() == row.setting()).count() > 1;
    let marked = rows.iter().any(several);
    let mut sheet = lines(rows, marked);
    if rows.iter().any(|row| row.solved().is_some()) {
        sheet.push_text("\n");
        rows.iter().filter_map(|row| Some((row, row.solved()?))).for_each(|(row, solved)| {
            sheet.push_text(&in_words(row, solved));
        });
    }
    let notes = |row: &SearchRow| [beside_trainer(row), within_noise(row), running(row)];
    rows.iter().flat_map(notes).flatten().for_each(|text| sheet.push_text(&text));
    sheet.push_text(
        "\ngap: distance from the cost to the proven lower bound. argument: the proof of the bound, and its stages.\n",
    );
    if rows.iter().any(|row| !row.overlaps() && row.searched.instance.costs.has_whole()) {
        sheet.push_text(
            "bubble: share of the cost beyond the least work, F and the smaller of BW and B + W. Splitting a backward adds \
             work.\n",
        );
    }
    sheet.push_text(match rows.iter().any(SearchRow::overlaps) {
        true => {
            "bubble: where passes overlap, share of the cost in which the compute stream of the average stage waits.\n\
             published: best published schedule that fits, with its own pairs.\n"
        }
        false => {
            "published: best published schedule that fits.\n"
        }
    });
    under_noise::tell(&mut sheet, rows);
    on_hardware::tell(&mut sheet, rows);
    simulated::tell(&mut sheet, rows);
    joint::tell(&mut sheet, rows);
    if marked {
        sheet.push_text(
            "front: * marks rows of the Pareto front: no other row of the setting, found or published, is as good in bubble and \
             peak memory and better in one.\n",
        );
    }
    sheet
}

/// The table of `rows`, which are `marked` where they are on the front.
fn lines(rows: &[SearchRow], marked: bool) -> Sheet {
    table!(
        (row, published) = rows.iter().map(|row| (row, row.published())),
        "setting"[rows.iter().any(|row| row.setting().is_some())] =
            row.setting().unwrap_or_default(),
        "p" = row.searched.instance.shape.stages(),
        "m" = row.searched.instance.shape.microbatches(),
        "v" = chunks(row),
        "limit" = row.limit,
        "cost" = row.cost,
        "bubble" = format::percent(row.bubble()),
        "bound" = format::percent(row.rate(row.bound())),
        "gap" = gap(row),
        "argument" = row.argument(),
        "published" = published.map(|one| one.family.name()),
        "its bubble" = published.map(|one| format::percent(row.rate(one.cost))),
        "peak/M_B" = format!("{:.2}", row.peak()),
        "front"[marked] =
            if row.found_standing.is_some_and(Standing::is_on_front) { "*" } else { "" },
    )
}

/// The result of the integer program of a row, in words.
fn in_words(row: &SearchRow, solved: &Solved) -> String {
    let Solved { binaries, nodes, end } = solved;
    let found = &row.searched.found;
    let size = format!("{}: {binaries} binaries, {nodes} nodes", row.named("ilp", ""));
    let proved = match found.bound.argument {
        Branching => format!("a log of {} branches proves it", found.proof.branches()),
        _ => format!("the argument `{}` proves it", row.argument()),
    };
    match end {
        End::Proved => format!("{size}: solved, proved optimal; {proved}\n"),
        End::Relaxed => format!(
            "{size}: solved without whole backwards, which bounds every order; {proved}, and leaves open whether \
             one costs less than that found\n"
        ),
        End::Stopped | End::Spent => {
            format!(
                "{size}: not solved to the end, the bound is what was proved by then; {proved}\n"
            )
        }
        End::TooManyNodes => {
            format!(
                "{size}: a larger log would be too long to check, the bound is what was proved by then; {proved}\n"
            )
        }
    }
}

/// The gain over the schedule that the trainer runs, and whether its recording resolves it.
fn beside_trainer(row: &SearchRow) -> Option<String> {
    let (runs, gain) = row.trainer()?;
    let uncertainty = row.recorded.as_ref()?.uncertainty;
    let resolved = match gain.abs() > uncertainty {
        true => "more than its recording may be off",
        false => "no more than its recording may be off",
    };
    Some(format!(
        "\nthe trainer runs {}, predicted {}: the order takes {} less, {resolved} ({})\n",
        runs.family.name(),
        format::time(runs.cost),
        format::percent(gain),
        format::percent(uncertainty),
    ))
}

/// Note that the recording of a trainer cannot separate an order from the best published one.
fn within_noise(row: &SearchRow) -> Option<String> {
    let (name, gain, uncertainty) = row.within_noise()?;
    // Said beside the schedule of the trainer.
    if row.trainer().is_some_and(|(runs, _)| runs.family.name() == name) {
        return None;
    }
    let [gain, uncertainty] = [gain, uncertainty].map(format::percent);
    Some(format!(
        "\nnot distinguishable from {name}: the order is predicted to take {gain} less, and the recording knows its \
         times within {uncertainty}\n"
    ))
}

/// The step of an order whose stages run on, where it is less than the cost: the bound on costs does not hold for it.
fn running(row: &SearchRow) -> Option<String> {
    let Running { step, bound } = row.running.filter(|running| running.step < row.cost)?;
    let name = [Some("without a barrier between steps")].into_iter().chain(row.parts());
    let name: Vec<&str> = name.flatten().collect();
    Some(format!(
        "\n{}: the order takes {} a step, since a stage may begin later than in a step alone; {} ({})\n",
        name.join(", "),
        format::time(step),
        against_bound_in_time(step, Some(bound.cost)),
        bound.argument
    ))
}

/// The chunks of a stage, and how they lie.
fn chunks(row: &SearchRow) -> String {
    let instance = &row.searched.instance;
    match (instance.shape.chunks_per_stage(), instance.placement) {
        (1, _) => "1".to_owned(),
        (chunks, Placement::Vee) => format!("{chunks} in a V"),
        (chunks, _) => format!("{chunks} looped"),
    }
}

#[allow(clippy::cast_precision_loss)] // Of a share.
fn gap(row: &SearchRow) -> String {
    match row.gap() {
        Nanos(0) => "0: optimal".to_owned(),
        gap => format::percent(gap.0 as f64 / row.cost.0.max(1) as f64),
    }
}
