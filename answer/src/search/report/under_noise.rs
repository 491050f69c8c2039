//! Searches under noise, for people.

use pipeline::Nanos;
use question::sheet::Sheet;
use question::{format, table};
use search::{Difference, FoundUnderNoise, Objective, ValidatedOrder};

use super::SearchRow;

/// How a step of `row` ends, as the key says it.
pub(super) const fn boundary(row: &SearchRow) -> &'static str {
    match row.searched.instance.objective {
        Objective::Span => "asynchronous",
        Objective::Makespan => "barrier",
    }
}

/// Adds to `sheet` the results of the searches under noise among `rows`.
pub(super) fn tell(sheet: &mut Sheet, rows: &[SearchRow]) {
    let noisy: Vec<(&SearchRow, &FoundUnderNoise)> =
        rows.iter().filter_map(|row| Some((row, row.searched.under_noise.as_ref()?))).collect();
    if noisy.is_empty() {
        return;
    }
    sheet.push_text("\n");
    sheet.push(table!(
        (name, one) = noisy.iter().flat_map(|(row, found)| orders(row, found)),
        "step under noise" = name,
        "noise-free" = one.nominal,
        "mean" = time(one.times.mean),
        "P50" = Nanos(one.times.p50.value),
        "P95" = Nanos(one.times.p95.value),
        "P99" = Nanos(one.times.p99.value),
    ));
    sheet.push_text("\n");
    for (row, found) in &noisy {
        sheet.push_text(&in_words(row, found));
    }
    sheet.push_text(
        "\nunder noise: in replicas that no search has seen, those of `debubble simulate` with the same keys; \
         [95 % confidence]\nnominal: the best order found without noise; mean times: the best found where every \
         pass takes its mean time under noise\n",
    );
}

/// The orders of `row` by their names.
fn orders<'a>(
    row: &SearchRow,
    found: &'a FoundUnderNoise,
) -> impl Iterator<Item = (String, &'a ValidatedOrder)> + use<'a> {
    let name = |order: &str| row.named("", order);
    let published = found.published.as_ref().map(|(family, one)| (name(family.name()), one));
    let expected = found.expected.as_ref().map(|one| (name("mean times"), one));
    let robust = (!found.is_nominal).then(|| (name("found"), &found.answer));
    let nominal = Some((name("nominal"), &found.nominal));
    [published, nominal, expected, robust].into_iter().flatten()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // No time is below zero.
fn time(nanos: f64) -> String {
    format::time(Nanos(nanos.round() as u64))
}

/// The result of a search under noise, in words.
fn in_words(row: &SearchRow, found: &FoundUnderNoise) -> String {
    let name = row.named("", row.objective.name());
    let FoundUnderNoise { answer, nominal, robust_gain, published_gain, replicas, .. } = found;
    let step = match row.searched.instance.objective {
        Objective::Span => "span, no barrier between steps",
        Objective::Makespan => "makespan, a barrier between steps",
    };
    let value = format!("{name}: {} over {replicas} replicas ({step})", time(answer.value));
    let gain = gain(robust_gain, nominal.value);
    let verdict = match found.is_nominal {
        true if robust_gain.by == 0.0 => {
            "no order was found that beats the nominal one: it is the answer".to_owned()
        }
        true => format!(
            "the nominal order is the answer: the best other one is {gain} below it, which is not beyond \
             chance"
        ),
        false => format!("{gain} below the nominal order"),
    };
    let published =
        found.published.as_ref().zip(*published_gain).map(|((family, one), by)| {
            match by.by == 0.0 {
                true => format!("; {} takes as long", family.name()),
                false => format!(", {} below {}", self::gain(&by, one.value), family.name()),
            }
        });
    let solution = row.solution();
    let why = solution.argument.iter().map(|why| format!(" ({why})")).collect::<String>();
    let bound = solution.against_bound();
    format!("{value}\n  {verdict}{}\n  {bound}{why}\n", published.unwrap_or_default())
}

/// `difference` as a share of `of`, with its interval.
fn gain(difference: &Difference, of: f64) -> String {
    let share = |by: f64| format::percent(by / of.max(1.0));
    match difference.ci95 {
        Some([low, high]) => {
            format!("{} [{}, {}]", share(difference.by), share(low), share(high))
        }
        None => format!("{} (too few replicas to say how surely)", share(difference.by)),
    }
}
