//! A timeline as text: one line per stage, one cell per unit of time.

use pipeline::{Kind, Nanos, Pass, Slot, Span, Timeline};
use question::format;

use super::{is_later_chunk, later_chunk_means};

/// More stages than this are not drawn.
const MAX_STAGES: usize = 16;

/// Draws `timeline` in at most `columns` characters per line, legend included; `None` if it does
/// not fit so that every pass can be read, or has more than 16 stages.
///
/// A pass begins with its kind and microbatch, `F0`, and takes cells in proportion to its time; a
/// stage that waits shows `.`. Passes of a later chunk are in lower case, and a legend says so.
/// Where a cell divides all times, equal passes are equally wide; else the ends of passes are
/// rounded to the nearest cell.
pub fn gantt(timeline: &Timeline, columns: usize) -> Option<String> {
    let stages = &timeline.stages;
    // Even the shortest label takes two cells.
    let room = |spans: &Vec<Span>| 2 * timed(spans).count() <= columns;
    if stages.is_empty() || stages.len() > MAX_STAGES || !stages.iter().all(room) {
        return None;
    }
    let boxes = labelled(timeline);
    let scale = Scale::finest(&boxes, room_for(stages.len(), columns)?)?;
    let length = boxes.iter().flatten().map(|one| scale.cell(one.end)).max().unwrap_or(0);
    let mut text = rows(&boxes, scale, length, "|");
    if let Some(meaning) = later_chunk_means(timeline) {
        let legend = format!("lower case: {meaning}");
        if legend.len() > columns {
            return None;
        }
        text += &legend;
        text.push('\n');
    }
    Some(text)
}

/// Draws the first part of `timeline`, as much of it as `columns` characters per line show so that most passes can be
/// read, and says how much that is; `None` if no pass takes any time or there is no room for one.
pub fn first_part(timeline: &Timeline, columns: usize) -> Option<String> {
    let mut boxes = labelled(timeline);
    let end = boxes.iter().flatten().map(|one| one.end).max()?;
    boxes.truncate(MAX_STAGES);
    let cells = room_for(boxes.len(), columns)?;
    let scale = Scale::of_most(&boxes)?;
    let is_seen = |one: &Labelled| scale.cell(one.start) < cells;
    for row in &mut boxes {
        row.retain(is_seen);
    }
    let last = boxes.iter().flatten().map(|one| one.end).max().unwrap_or(0);
    let length = cells.min(scale.cell(last));
    let shown = Nanos(scale.time_of(length).min(end));
    let mut text = rows(&boxes, scale, length, if shown.0 < end { "" } else { "|" });
    let (part, whole) = (format::time(shown), format::time(Nanos(end)));
    text += &format!("the first {part} of {whole}");
    if timeline.stages.len() > boxes.len() {
        text += &format!(", {} of {} stages", boxes.len(), timeline.stages.len());
    }
    if let Some(meaning) = later_chunk_means(timeline) {
        text += &format!("; lower case: {meaning}");
    }
    Some(text + "\n")
}

/// The name of a stage at the left of its row.
fn head(stage: usize) -> String {
    format!("stage {stage}")
}

/// How many cells rows of so many `stages` have in `columns` characters.
fn room_for(stages: usize, columns: usize) -> Option<usize> {
    let widest = head(stages.checked_sub(1)?).len();
    columns.checked_sub(widest + " ||".len()).filter(|&cells| cells > 0)
}

/// A line for each stage of `length` cells, with `close` at its end.
fn rows(boxes: &[Vec<Labelled>], scale: Scale, length: usize, close: &str) -> String {
    let widest = head(boxes.len().saturating_sub(1)).len();
    let line = |(stage, row): (usize, &Vec<Labelled>)| {
        format!("{:widest$} |{}{close}\n", head(stage), draw_row(row, scale, length))
    };
    boxes.iter().enumerate().map(line).collect()
}

/// A slot in time with its label.
struct Labelled {
    label: String,
    start: u64,
    end: u64,
}

impl Labelled {
    const fn duration(&self) -> u64 {
        self.end - self.start
    }
}

/// The slots that take time.
fn timed(spans: &[Span]) -> impl Iterator<Item = &Span> {
    spans.iter().filter(|span| span.end > span.start)
}

/// Every slot that takes time, by stage.
fn labelled(timeline: &Timeline) -> Vec<Vec<Labelled>> {
    let stages = timeline.stages.len();
    let row = |(stage, spans): (usize, &Vec<Span>)| {
        let labelled = timed(spans).map(|span| Labelled {
            label: slot_label(stages, stage, span.slot),
            start: span.start.0,
            end: span.end.0,
        });
        labelled.collect()
    };
    timeline.stages.iter().enumerate().map(row).collect()
}

fn slot_label(stages: usize, stage: usize, slot: Slot) -> String {
    let labels: Vec<String> = slot.passes().map(|pass| pass_label(stages, stage, pass)).collect();
    labels.join("&")
}

fn pass_label(stages: usize, stage: usize, pass: Pass) -> String {
    let name = match (pass.kind, is_later_chunk(stages, stage, pass)) {
        (kind @ (Kind::S | Kind::T), _) | (kind, false) => kind.name(),
        (Kind::F, true) => "f",
        (Kind::B, true) => "b",
        (Kind::W, true) => "w",
        (Kind::BW, true) => "bw",
        (Kind::R, true) => "r",
    };
    format!("{name}{}", pass.microbatch)
}

/// So many cells stand for so many nanoseconds.
#[derive(Clone, Copy)]
struct Scale {
    cells: u64,
    time: u64,
}

impl Scale {
    /// The cell that begins nearest to `time`.
    fn cell(self, time: u64) -> usize {
        let doubled = 2 * u128::from(time) * u128::from(self.cells) + u128::from(self.time);
        usize::try_from(doubled / (2 * u128::from(self.time))).unwrap_or(usize::MAX)
    }

    /// A scale on which three quarters of all slots have room for the longest label.
    fn of_most(boxes: &[Vec<Labelled>]) -> Option<Self> {
        let all = || boxes.iter().flatten();
        let cells = all().map(|one| one.label.len()).max()?;
        let mut durations: Vec<u64> = all().map(Labelled::duration).collect();
        let quarter = durations.len() / 4;
        let time = *durations.select_nth_unstable(quarter).1;
        Some(Self { cells: u64::try_from(cells).ok()?, time })
    }

    /// When cell number `cell` begins.
    fn time_of(self, cell: usize) -> u64 {
        let time = cell as u128 * u128::from(self.time) / u128::from(self.cells);
        u64::try_from(time).unwrap_or(u64::MAX)
    }

    /// A scale that shows every label within `cells` cells: one that divides all times if there
    /// is one, and then one with a blank behind every label if there is room.
    fn finest(boxes: &[Vec<Labelled>], cells: usize) -> Option<Self> {
        let all = || boxes.iter().flatten();
        let divisor = all().fold(0, |divisor, one| gcd(gcd(divisor, one.start), one.end));
        let shortest = all().map(Labelled::duration).min()?;
        let fits = |scale: &Self| all().all(|one| scale.cell(one.end) <= cells);
        let candidates = [(divisor, 1), (divisor, 0), (shortest, 1), (shortest, 0)];
        candidates
            .into_iter()
            .find_map(|(time, blank)| Self::for_labels(boxes, time, blank).filter(fits))
    }

    /// The coarsest scale of whole cells per `time` on which every slot has room for its label and
    /// `blank` more.
    fn for_labels(boxes: &[Vec<Labelled>], time: u64, blank: usize) -> Option<Self> {
        let need = |one: &Labelled| (one.label.len() + blank) as u128;
        let cells_of = |one: &Labelled| {
            let cells = (need(one) * u128::from(time)).div_ceil(u128::from(one.duration()));
            u64::try_from(cells).ok()
        };
        let all = || boxes.iter().flatten();
        let cells = all().map(cells_of).try_fold(0, |most, cells| Some(cells?.max(most)))?;
        let readable = |scale: &Self| {
            let width = |one: &Labelled| scale.cell(one.end) - scale.cell(one.start);
            all().all(|one| width(one) as u128 >= need(one))
        };
        // Rounding can take one cell away from a slot.
        [cells, cells + 1]
            .into_iter()
            .map(|cells| Self { cells, time })
            .find(|scale| readable(scale))
    }
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// One stage of `length` cells. A label ends where its slot ends.
fn draw_row(row: &[Labelled], scale: Scale, length: usize) -> String {
    let mut line = String::new();
    for one in row {
        let (start, end) = (scale.cell(one.start), scale.cell(one.end).min(length));
        line.extend(std::iter::repeat_n('.', start.saturating_sub(line.len())));
        let width = end.saturating_sub(start);
        line += &format!("{:width$.width$}", one.label);
    }
    line.extend(std::iter::repeat_n('.', length.saturating_sub(line.len())));
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use pipeline::{Family, Nanos, PassTimes, Shape};

    fn check_lines(text: &str, stages: usize, columns: usize) {
        let lengths: Vec<usize> = text.lines().take(stages).map(str::len).collect();
        assert!(lengths.iter().all(|&one| one == lengths[0] && one <= columns), "{text}");
    }

    #[test]
    fn zb_h1_as_in_the_paper() {
        let drawn = gantt(&samples::timeline(Family::ZbH1, 4, 1, 8), 80).unwrap();
        let golden = "\
stage 0 |F0F1F2F3......B0W0F4B1W1F5B2W2F6B3W3F7B4W4B5W5B6W6B7W7|
stage 1 |..F0F1F2....B0F3B1W0F4B2W1F5B3W2F6B4W3F7B5W4B6W5B7W6W7|
stage 2 |....F0F1..B0F2B1F3B2W0F4B3W1F5B4W2F6B5W3F7B6W4B7W5W6W7|
stage 3 |......F0B0F1B1F2B2F3B3W0F4B4W1F5B5W2F6B6W3F7B7W4W5W6W7|
";
        assert_eq!(drawn, golden);
    }

    #[test]
    fn a_blank_separates_passes_where_there_is_room() {
        let drawn = gantt(&samples::timeline(Family::OneFOneB, 2, 1, 2), 80).unwrap();
        let golden = "\
stage 0 |F0 F1 ......BW0   ...BW1   |
stage 1 |...F0 BW0   F1 BW1   ......|
";
        assert_eq!(drawn, golden);
    }

    #[test]
    fn later_chunks_are_in_lower_case() {
        let drawn = gantt(&samples::timeline(Family::Interleaved, 2, 2, 2), 80).unwrap();
        let golden = "\
stage 0 |F0 F1 f0 f1 ......bw0   ...bw1   BW0   BW1   |
stage 1 |...F0 F1 f0 bw0   f1 bw1   BW0   BW1   ......|
lower case: later chunk of the stage
";
        assert_eq!(drawn, golden);
        let golden = "\
stage 0 |F0  f1&bw1      ..BW0     |
stage 1 |F0  f1&bw1      ..BW0     |
lower case: last stage to first
";
        assert_eq!(gantt(&samples::paired(), 80).unwrap(), golden);
    }

    #[test]
    fn uneven_times_line_up() {
        let times = PassTimes::new(Nanos(18_522_123), Nanos(18_086_001), Nanos(9_337_999));
        let timeline = samples::costed(Family::ZbH2, Shape::new(4, 1, 8).unwrap(), times);
        check_lines(&gantt(&timeline, 140).unwrap(), 4, 140);
    }

    #[test]
    fn of_a_long_timeline_the_first_part_is_drawn() {
        let long = samples::timeline(Family::ZbH1, 4, 1, 400);
        assert!(gantt(&long, 40).is_none());
        let golden = "\
stage 0 |F0  F1  F2  F3  ............
stage 1 |....F0  F1  F2  ........B0  
stage 2 |........F0  F1  ....B0  F2  
stage 3 |............F0  B0  F1  B1  
the first 7.000 ms of 1203.000 ms
";
        assert_eq!(first_part(&long, 38).unwrap(), golden);
        // As wide as it may be, of no more stages than are drawn, and whole where it is short.
        let tall = first_part(&samples::timeline(Family::GPipe, 17, 1, 40), 80).unwrap();
        assert_eq!(tall.lines().count(), MAX_STAGES + 1);
        assert!(tall.lines().take(MAX_STAGES).all(|line| line.len() <= 80));
        assert!(tall.contains("16 of 17 stages"), "{tall}");
        let short = samples::timeline(Family::OneFOneB, 2, 1, 2);
        assert!(first_part(&short, 400).unwrap().contains("the first 9.000 ms of 9.000 ms"));
        assert_eq!(first_part(&Timeline { stages: vec![Vec::new(); 2] }, 80), None);
        assert_eq!(first_part(&short, 5), None);
    }

    #[test]
    fn what_cannot_be_read_is_not_drawn() {
        let small = samples::timeline(Family::ZbH1, 4, 1, 8);
        assert!(gantt(&small, 64).is_some() && gantt(&small, 63).is_none());
        assert!(gantt(&small, 5).is_none());
        assert!(gantt(&samples::timeline(Family::GPipe, 17, 1, 1), 1_000).is_none());
        assert!(gantt(&samples::timeline(Family::OneFOneB, 2, 1, 4_000), 200).is_none());
        assert!(gantt(&Timeline { stages: vec![Vec::new(); 2] }, 80).is_none());
    }
}
