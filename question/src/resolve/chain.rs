//! Passes as chains of segments, from the keys: which layers a chunk has, and what each does.

use std::collections::BTreeMap;

use pipeline::overlap::{
    Chain, Contention, Interleaving, Layer, Overlap, Part, Rule, Segment, Stream, WeightSegment,
};
use pipeline::{Bytes, Fault, Nanos, Share};

use super::pipeline::Pipeline;
use crate::chain::Row;
use crate::hardware::Hardware;
use crate::keys::Keys;
use crate::source::ScheduleSource;
use crate::values::segments::{Amount, LoneBackward, Measured, SegmentKey};

/// A key and the error message about its value.
pub(super) type Wrong = (&'static str, String);

/// How long a segment takes that moves these bytes, where there are wires to move them over: [`wires`].
pub(super) type Wires<'a> = Option<&'a dyn Fn(Bytes) -> Nanos>;

/// The most bytes that a segment moves, as a message.
const MOST_BYTES: Bytes = Bytes(1 << 44);

/// Checks that the keys of the two streams are consistent.
pub(super) fn check(keys: &Keys) -> Result<(), Wrong> {
    let wrong = |key, message: &str| Err((key, message.to_owned()));
    if !keys.has_chain() {
        return match keys.of_streams().next() {
            Some(key) => Err((key, format!("{key} is about passes as segments: give --chain too"))),
            None => Ok(()),
        };
    }
    let key = if keys.chain.is_some() { "chain" } else { "chain-file" };
    if keys.chain.is_some() && keys.chain_file.is_some() {
        return wrong("chain-file", "chain and chain-file exclude each other");
    }
    let others = [
        ("forward", keys.forward.is_some()),
        ("backward", keys.backward.is_some()),
        ("backward-input", keys.backward_input.is_some()),
        ("backward-weight", keys.backward_weight.is_some()),
        ("profile", keys.profile.is_some()),
        ("overhead", keys.overhead.is_some()),
    ];
    if let Some((other, _)) = others.into_iter().find(|(_, given)| *given) {
        return Err((
            other,
            format!("{key} and {other} exclude each other: {key} gives the times"),
        ));
    }
    if let (Some(_), Some(Measured::Beside)) = (keys.contention, keys.chain_measured) {
        return wrong(
            "contention",
            "times measured while the other stream ran include contention: leave contention \
             out, or give times measured alone",
        );
    }
    check_sizes(keys)?;
    match (keys.chain_dense.is_some(), keys.dense_layers.is_some()) {
        (true, false) => wrong("chain-dense", "chain-dense needs dense-layers, the number of them"),
        (false, true) => wrong("dense-layers", "dense-layers needs chain-dense, what they do"),
        _ => Ok(()),
    }
}

/// Checks that segments that are sizes have wires, and that those can carry them.
fn check_sizes(keys: &Keys) -> Result<(), Wrong> {
    if keys.expert_parallel == Some(0) {
        let message = "expert-parallel is 0: give the number of devices over which a layer's experts are spread";
        return Err(("expert-parallel", message.to_owned()));
    }
    if let Some((key, one, bytes)) = keys.segment_sizes().find(|(_, _, bytes)| *bytes > MOST_BYTES)
    {
        return Err((key, format!("the segment {} moves {bytes}: at most {MOST_BYTES}", one.name)));
    }
    let needed = [
        ("--cluster", keys.hardware.cluster.is_none()),
        ("--expert-parallel", keys.expert_parallel.is_none()),
    ];
    let missing: Vec<&str> = needed.iter().filter(|one| one.1).map(|one| one.0).collect();
    match keys.segment_sizes().next() {
        Some((key, one, bytes)) if !missing.is_empty() => {
            let (name, missing) = (&one.name, missing.join(" and "));
            let message = format!(
                "the segment {name} is a size, {bytes}, which moves over wires: give {missing}, or its time"
            );
            Err((key, message))
        }
        _ => Ok(()),
    }
}

/// How long a segment takes that moves bytes over the wires of `hardware`, if it has expert groups.
pub(super) fn wires(hardware: &Hardware) -> Option<impl Fn(Bytes) -> Nanos> {
    let group = hardware.experts?;
    Some(move |bytes| group.time(&hardware.cluster, bytes))
}

/// Whether any segment that the keys give is on the communication stream.
pub fn communicates(keys: &Keys) -> bool {
    let all = [&keys.chain, &keys.chain_dense, &keys.chain_head, &keys.chain_tail, &keys.chain_mtp];
    all.into_iter().flatten().flatten().any(|one| one.stream == Stream::Communication)
}

/// How the passes of a slot share the streams, as the keys say, for the orders of `rule`.
pub(super) fn rule(keys: &Keys, rule: &ScheduleSource) -> Rule {
    let published = || Interleaving::Published;
    let lone = match keys.lone_backward {
        Some(key) => key == LoneBackward::Overlapped,
        None => {
            let searched = matches!(rule, ScheduleSource::Searched(_));
            searched || rule.family().is_some_and(|family| family.about().overlaps_lone)
        }
    };
    Rule {
        interleaving: keys.interleaving.clone().map_or_else(published, |key| key.0),
        weights: keys.weight_gradient.map_or_else(Default::default, |key| key.weights()),
        lone,
    }
}

/// The chains of all chunks, in model order. `rows` are those of the file of segments, if there is one.
pub(super) fn chains(
    keys: &Keys,
    rows: Option<&[Row]>,
    pipeline: &Pipeline,
    wires: Wires<'_>,
) -> Result<Vec<Chain>, Wrong> {
    let layers = layers(keys, rows, pipeline)?;
    let made = Maker { keys, segments: u64::from(pipeline.segments), wires };
    let head = made.layer("chain-head", keys.chain_head.as_deref())?;
    let tail = made.layer("chain-tail", keys.chain_tail.as_deref())?;
    let measured = rows.map(|rows| made.measured(rows)).transpose()?;
    let plain = made.layer("chain", keys.chain.as_deref())?;
    let dense = made.layer("chain-dense", keys.chain_dense.as_deref())?;
    let mtp = match &keys.chain_mtp {
        Some(segments) => made.layer("chain-mtp", Some(segments))?,
        None => plain.clone(),
    };
    let all = layers.iter().map(|one| one.count).sum::<u64>();
    let count = |layers: u64| u32::try_from(layers).unwrap_or(u32::MAX);
    let chunk = |(at, chunk): (usize, &OfChunk)| {
        let mut runs = match &measured {
            Some(measured) => measured_of(measured, chunk, all)?,
            None => {
                let thin =
                    keys.dense_layers.unwrap_or(0).saturating_sub(chunk.first).min(chunk.count);
                vec![(dense.clone(), count(thin)), (plain.clone(), count(chunk.count - thin))]
            }
        };
        runs.push((mtp.clone(), count(chunk.mtp)));
        runs.retain(|(_, count)| *count > 0);
        let ends = [at == 0, at + 1 == layers.len()];
        let end =
            |is_there: bool, layer: &Layer| if is_there { layer.clone() } else { Layer::default() };
        let chain = Chain::new(end(ends[0], &head), runs, end(ends[1], &tail));
        chain.map_err(|fault| (key_of(keys), fault.to_string()))
    };
    layers.iter().enumerate().map(chunk).collect()
}

/// The buffers that each chunk holds while its F or B runs, if the keys give any; a chunk's are those of its
/// stage, since its layers use them one after the other.
pub(super) fn buffers(
    keys: &Keys,
    &Pipeline { shape, placement, .. }: &Pipeline,
) -> Result<Option<Vec<Bytes>>, Wrong> {
    let Some(values) = &keys.communication_buffers else { return Ok(None) };
    let chunks = 0..shape.chunks();
    let (given, stages) = (values.len(), shape.stages());
    Ok(Some(match &values[..] {
        [all] => vec![*all; chunks.len()],
        each if given == chunks.len() => each.to_vec(),
        each if given == stages => {
            chunks.map(|chunk| each[placement.stage(shape, chunk, 0)]).collect()
        }
        _ => {
            let (what, chunks) = ("communication-buffers", shape.chunks());
            let fault = Fault::ValueCount { what, given, stages, chunks };
            return Err((what, fault.to_string()));
        }
    }))
}

/// The overlap of `chains` under `rule`.
pub(super) fn overlap(keys: &Keys, chains: Vec<Chain>, rule: Rule) -> Result<Overlap, Wrong> {
    Overlap::new(chains, rule).map_err(|fault| match fault {
        Fault::Interleaving { .. } => ("interleaving", fault.to_string()),
        _ => (key_of(keys), fault.to_string()),
    })
}

fn key_of(keys: &Keys) -> &'static str {
    if keys.chain.is_some() { "chain" } else { "chain-file" }
}

/// The layers of a chunk.
struct OfChunk {
    /// The first of them, from 0 in model order.
    first: u64,
    count: u64,
    mtp: u64,
}

/// The layers of every chunk: of the layout, or cut as evenly as can be.
fn layers(keys: &Keys, rows: Option<&[Row]>, pipeline: &Pipeline) -> Result<Vec<OfChunk>, Wrong> {
    let shape = pipeline.shape;
    let chunks = u64::from(shape.chunks());
    let counts: Vec<u64> = if keys.layout.is_some() {
        pipeline.layers.clone()
    } else {
        let of_stages = keys.layers_per_stage.map(|own| own.saturating_mul(shape.stages() as u64));
        let of_file = rows.map(|rows| {
            let last = rows.iter().map(|row| u64::from(row.layer)).max().unwrap_or(0);
            (last + 1).saturating_mul(chunks)
        });
        let all = keys.layers.or(of_stages).or(of_file).ok_or_else(|| {
            let message = "chain says what a layer does, and not how many there are: give layers (of the \
                           whole model), layers-per-stage or layout";
            (key_of(keys), message.to_owned())
        })?;
        (0..chunks).map(|chunk| all / chunks + u64::from(chunk < all % chunks)).collect()
    };
    let mut first = 0;
    let one = |(at, count): (usize, u64)| {
        let mtp = keys.layout.as_ref().map_or(0, |layout| layout.mtp_in(at));
        let own = OfChunk { first, count, mtp };
        first += count;
        own
    };
    Ok(counts.into_iter().enumerate().map(one).collect())
}

/// Makes layers of the segments that the keys give.
struct Maker<'a> {
    keys: &'a Keys,
    /// Sequence segments per microbatch.
    segments: u64,
    wires: Wires<'a>,
}

impl Maker<'_> {
    fn layer(&self, key: &'static str, segments: Option<&[SegmentKey]>) -> Result<Layer, Wrong> {
        let segments = segments.unwrap_or_default();
        let mut layer = Layer::default();
        for one in segments {
            layer.forward.push(self.segment(key, one, one.forward)?);
        }
        for one in segments.iter().rev() {
            layer.backward.push(self.segment(key, one, one.backward)?);
            if let Some(weight) = one.weight {
                let segment = Segment::compute(one.name.clone(), weight.part(1, self.segments));
                let behind = layer.backward.len() - 1;
                layer.weight.push(WeightSegment { segment, behind });
            }
        }
        if let Some(name) = twice(segments.iter().map(|one| &one.name)) {
            return Err((
                key,
                format!("{key} has the segment {name} twice: give each a name of its own"),
            ));
        }
        Ok(layer)
    }

    fn segment(
        &self,
        key: &'static str,
        one: &SegmentKey,
        amount: Amount,
    ) -> Result<Segment, Wrong> {
        let (time, bytes) = match amount {
            Amount::Time(time) => (time.part(1, self.segments), None),
            Amount::Bytes(bytes) => {
                let bytes = Bytes(bytes.0.div_ceil(self.segments));
                (self.on_wires(key, bytes)?, Some(bytes))
            }
        };
        let stream = one.stream;
        Ok(self.made(Segment { bytes, stream, ..Segment::compute(one.name.clone(), time) }))
    }

    /// `segment` under the contention of its stream.
    fn made(&self, segment: Segment) -> Segment {
        let contention = match segment.stream {
            Stream::Compute => Contention::NONE,
            Stream::Communication => {
                self.keys.contention.map_or(Contention::NONE, |key| key.contention())
            }
        };
        segment.under(contention)
    }

    fn on_wires(&self, key: &'static str, bytes: Bytes) -> Result<Nanos, Wrong> {
        let Some(time) = self.wires else {
            let message = "segments that are sizes move over wires: give --cluster and --expert-parallel, \
                           or give their times";
            return Err((key, message.to_owned()));
        };
        Ok(time(bytes))
    }

    /// `one` as it was measured, which takes at least the time of its bytes where there are wires.
    fn of_file(&self, one: &Segment) -> Result<Segment, Wrong> {
        let bytes = one.bytes.filter(|_| one.stream == Stream::Communication);
        if let Some(bytes) = bytes.filter(|&bytes| bytes > MOST_BYTES) {
            let message = format!("{} moves {bytes}: at most {MOST_BYTES}", one.name);
            return Err(("chain-file", message));
        }
        let bytes = bytes.map(|all| Bytes(all.0.div_ceil(self.segments)));
        let least = self.wires.zip(bytes).map(|(on_wires, bytes)| on_wires(bytes));
        let time = one.time.part(1, self.segments).max(least.unwrap_or_default());
        Ok(self.made(Segment { time, bytes, ..one.clone() }))
    }

    /// The layers of a file of segments.
    fn measured(&self, rows: &[Row]) -> Result<Vec<Layer>, Wrong> {
        let mut layers: BTreeMap<u32, Layer> = BTreeMap::new();
        let wrong = |row: &Row, what: &str| {
            let Row { layer, part, segment } = row;
            let (name, part) = (&segment.name, part.letter());
            Err(("chain-file", format!("{name}{part} of layer {layer} {what}")))
        };
        let (passes, weights): (Vec<&Row>, Vec<&Row>) =
            rows.iter().partition(|row| row.part != Part::W);
        for row in passes {
            let layer = layers.entry(row.layer).or_default();
            let all = if row.part == Part::F { &mut layer.forward } else { &mut layer.backward };
            if all.iter().any(|one| one.name == row.segment.name) {
                return wrong(row, "is there twice");
            }
            all.push(self.of_file(&row.segment)?);
        }
        for row in weights {
            let layer = layers.entry(row.layer).or_default();
            let Segment { name, stream, time, .. } = &row.segment;
            let Some(behind) = layer.backward.iter().position(|one| one.name == *name) else {
                return wrong(row, "follows no segment of B of that name");
            };
            if *stream != Stream::Compute {
                return wrong(row, "is not on the compute stream");
            }
            let segment = Segment::compute(name.clone(), time.part(1, self.segments));
            layer.weight.push(WeightSegment { segment, behind });
        }
        let count = layers.len();
        match layers.keys().next_back() {
            Some(&last) if last as usize + 1 != count => {
                let message =
                    format!("the file of segments has layer {last}, but {count} layers in all");
                Err(("chain-file", message))
            }
            _ => Ok(layers.into_values().collect()),
        }
    }
}

/// The layers of `measured` that `chunk` holds; a file has the layers of one chunk, or all layers of the model.
fn measured_of(measured: &[Layer], chunk: &OfChunk, all: u64) -> Result<Vec<(Layer, u32)>, Wrong> {
    let has = measured.len() as u64;
    let own = if has == all { chunk.first } else { 0 };
    if has != all && has != chunk.count {
        let message = format!(
            "the file of segments has {has} layers, but the model {all} and a chunk {}: it must have those \
             of the model, or of each chunk",
            chunk.count
        );
        return Err(("chain-file", message));
    }
    let own = usize::try_from(own).unwrap_or(usize::MAX);
    let count = usize::try_from(chunk.count).unwrap_or(usize::MAX);
    Ok(measured.iter().skip(own).take(count).map(|layer| (layer.clone(), 1)).collect())
}

/// A name that is there twice.
fn twice<'a, T: Ord>(names: impl Iterator<Item = &'a T>) -> Option<&'a T> {
    let mut seen = std::collections::BTreeSet::new();
    names.into_iter().find(|&name| !seen.insert(name))
}
