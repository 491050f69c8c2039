//! The pipeline of a job: its schedule, chunks and layers.

use super::super::arguments::{Arguments, Wrong};
use super::super::assemble::Notes;
use planning::{SetupDocument, SizesDocument};

/// Classes of `torch.distributed.pipelining`, the schedule that is nearest, and how it differs.
const SCHEDULES: [(&str, &str, Option<&str>); 7] = [
    ("1F1B", "1f1b", None),
    ("GPipe", "gpipe", None),
    ("Interleaved1F1B", "1f1b-i", None),
    ("LoopedBFS", "looped-bfs", None),
    (
        "InterleavedZeroBubble",
        "zb-auto",
        Some("its order is for passes of equal length: an order for these times is searched"),
    ),
    (
        "ZBVZeroBubble",
        "zb-v",
        Some("its order is for passes of equal length: zb-v is made for these times"),
    ),
    (
        "DualPipeV",
        "dualpipe-v",
        Some("its order is for passes of equal length: dualpipe-v is made for these times"),
    ),
];

/// The most layers whose chunks are written down.
const MOST_LAYERS: u64 = 10_000;

/// Sets schedule, chunks and layout of a pipeline.
pub(super) fn schedule(
    arguments: &Arguments,
    model: &SizesDocument,
    setup: &mut SetupDocument,
    notes: &mut Notes,
) -> Result<(), Wrong> {
    let name = |key: &str| format!("parallelism.pipeline-parallel-{key}");
    let class = arguments.text(&name("schedule"))?;
    let csv = arguments.text(&name("schedule-csv"))?.filter(|path| !path.is_empty());
    let each = arguments.whole(&name("layers-per-stage"))?;
    let first = arguments.whole(&name("first-stage-less-layers"))?.unwrap_or(1);
    let last = arguments.whole(&name("last-stage-less-layers"))?.unwrap_or(1);
    let modules = arguments.all("parallelism.module-fqns-per-model-part")?;
    let Some(stages) = setup.pipeline else { return Ok(()) };
    if csv.is_some() {
        notes.push("pipeline_parallel_schedule_csv names its own order: the schedule in the file is planned instead; plan the order with `debubble simulate`".to_owned());
    }
    let class = class.unwrap_or_else(|| "1F1B".to_owned());
    let found = SCHEDULES.iter().find(|(own, _, _)| own.eq_ignore_ascii_case(&class));
    let Some((class, schedule, differs)) = found else {
        let known: Vec<&str> = SCHEDULES.iter().map(|(own, _, _)| *own).collect();
        let message = format!("no schedule is known as {}", question::quote::clip(&class));
        return Err(Wrong::new(&name("schedule"), message)
            .hint(format!("write one of {}", known.join(", "))));
    };
    notes.extend(differs.map(|differs| format!("{class}: {differs}")));
    setup.schedule = Some((*schedule).to_owned());
    let is_single = matches!(*class, "1F1B" | "GPipe");
    let all = model.layers.saturating_add(first).saturating_add(last);
    let parts = match (modules.is_empty(), each.filter(|each| *each > 0)) {
        (false, _) => modules.len() as u64,
        (true, Some(each)) => all.div_ceil(each),
        (true, None) => stages.saturating_mul(if is_single { 1 } else { 2 }),
    };
    if parts == 0 || !parts.is_multiple_of(stages) {
        let message = format!("{parts} parts of the model are not a multiple of {stages} stages");
        return Err(Wrong::new(&name("layers-per-stage"), message)
            .hint("torchtitan refuses them, too: choose another number of layers"));
    }
    if parts > stages {
        setup.chunks = Some(parts / stages);
    }
    if model.layers > MOST_LAYERS || parts > model.layers {
        return Ok(());
    }
    let counts = match modules.is_empty() {
        true => split(model.layers, parts, (first, last)),
        false => modules.iter().map(|part| layers_in(part)).collect(),
    };
    let is_even = counts.iter().all(|count| *count == counts[0]);
    if !is_even {
        setup.layout = layout(&counts, model.mtp).parse().ok();
        setup.chunks = setup.chunks.filter(|_| setup.layout.is_none());
    }
    Ok(())
}

/// The layers of each part, as torchtitan deals them: embedding and output layer count as `first` and `last` layers.
fn split(layers: u64, parts: u64, (first, last): (u64, u64)) -> Vec<u64> {
    let all = layers + first + last;
    let (each, more) = (all / parts, all % parts);
    let mut left = layers;
    (0..parts)
        .map(|at| {
            let mut own = each + u64::from(at < more);
            if at == 0 {
                own = own.saturating_sub(first);
            }
            if at + 1 == parts {
                // The rest, however much was cut off of the others.
                return left;
            }
            own = own.min(left);
            left -= own;
            own
        })
        .collect()
}

/// The layers among the modules of a part, which is a list in JSON.
fn layers_in(part: &str) -> u64 {
    part.matches("layers.").count() as u64
}

/// The layers of chunks as Megatron-LM writes them.
fn layout(counts: &[u64], mtp: Option<u64>) -> String {
    let last = counts.len() - 1;
    let part = |(at, count): (usize, &u64)| {
        let mut text = if at == 0 { "E".to_owned() } else { String::new() };
        if *count > 0 {
            text += &format!("t*{count}");
        }
        if at == last {
            text += &"m".repeat(usize::try_from(mtp.unwrap_or(0)).unwrap_or(0).min(64));
            text.push('L');
        }
        text
    };
    counts.iter().enumerate().map(part).collect::<Vec<_>>().join("|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_dealt_as_in_torchtitan() {
        // 126 layers on 16 parts, with one for embedding and output layer each.
        assert_eq!(split(126, 16, (1, 1)), [vec![7], vec![8; 14], vec![7]].concat());
        assert_eq!(split(32, 4, (1, 1)), [8, 9, 8, 7]);
        assert_eq!(split(32, 4, (0, 0)), [8, 8, 8, 8]);
        assert_eq!(layout(&[8, 9, 8, 7], None), "Et*8|t*9|t*8|t*7L");
        assert_eq!(layers_in(r#"["tok_embeddings","layers.0","layers.10"]"#), 2);
    }
}
