//! Answers to look at: pictures as SVG, pages and fragments of HTML, text for a terminal, and Chrome
//! trace events.
//!
//! Everything is made in memory or written to what the caller gives; nothing here opens a path. Diagrams
//! and charts take plain data ([`gantt`], [`plot`], [`html`], [`terminal`], [`trace`]); [`pictures`] makes
//! them of answers. The tables and words of an answer are a [`question::sheet::Sheet`], which [`text::sheet`]
//! lines up for a terminal and [`html::sheet`] makes tables of for a page.
//!
//! ```
//! use draw::gantt::{Chart, svg};
//! use pipeline::{Costs, Family, Nanos, PassTimes, Problem, Shape};
//! use sim::Replay;
//!
//! let shape = Shape::new(4, 1, 8)?;
//! let ms = Nanos(1_000_000);
//! let times = PassTimes::new(ms, ms, ms);
//! let costs = Costs::uniform(shape, times, Nanos(0));
//! let schedule = Family::ZbH1.schedule(&Problem::new(shape, costs.clone())?)?;
//! let timeline = Replay::new().timeline(&schedule, &costs)?;
//! let chart = Chart { title: "zb-h1", timeline: &timeline, row: "stage", copies: &[], costs: None };
//! assert!(svg(&[chart])?.starts_with("<svg"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod canvas;
#[cfg(test)]
mod eyes;
pub mod gantt;
pub mod html;
mod lanes;
pub mod pictures;
pub mod plot;
pub mod terminal;
pub mod text;
pub mod trace;
mod width;

use std::io;

use pipeline::{Pass, Timeline};
use plotters::drawing::DrawingAreaErrorKind;
use question::Diagnostic;
use thiserror::Error;

pub use width::Width;

/// Why there is no picture.
#[derive(Debug, Error)]
pub enum DrawError {
    /// Nothing that takes time, no panel, or no group.
    #[error("there is nothing to draw: {what}")]
    Empty {
        /// The resource that is lacking.
        what: &'static str,
    },
    /// A value that has no place on an axis.
    #[error("cannot draw `{name}`: it has a value that is not a finite number")]
    NotFinite {
        /// The series it belongs to.
        name: String,
    },
    /// A map whose cells cannot be read in its width.
    #[error("a map of {columns} columns needs a width of {least}px or more")]
    Narrow {
        /// The columns of the map.
        columns: usize,
        /// The least width of the picture, in pixels.
        least: u32,
    },
    /// More than a browser opens.
    #[error("the page would be {} MB or more: at most {} MB", bytes / 1_000_000, most / 1_000_000)]
    TooLarge {
        /// The bytes that it would take at least.
        bytes: u64,
        /// The bytes that it may take.
        most: u64,
    },
    /// The drawing library gave up.
    #[error("cannot draw: {0}")]
    Library(#[from] DrawingAreaErrorKind<io::Error>),
}

impl From<DrawError> for Diagnostic {
    fn from(error: DrawError) -> Self {
        Self::new(format!("cannot draw the picture: {error}"))
    }
}

/// Whether `pass` belongs to a later chunk of its stage than the first, or travels against stage
/// order where every stage holds one chunk per direction. Pictures give those another shade.
fn is_later_chunk(stages: usize, stage: usize, pass: Pass) -> bool {
    if pass.kind.is_of_vocabulary() {
        return false;
    }
    let (lap, step) = (usize::from(pass.chunk) / stages, usize::from(pass.chunk) % stages);
    lap > 0 || step != stage
}

/// The meaning of the other shade of [`is_later_chunk`] in `timeline`; `None` if it has none.
fn later_chunk_means(timeline: &Timeline) -> Option<&'static str> {
    let stages = timeline.stages.len();
    let passes = |spans: &[pipeline::Span]| {
        spans.iter().flat_map(|span| span.slot.passes()).map(|pass| pass.chunk).max()
    };
    let last = timeline.stages.iter().filter_map(|spans| passes(spans)).max()?;
    if usize::from(last) >= stages {
        return Some("later chunk of the stage");
    }
    let against = |(stage, spans): (usize, &Vec<pipeline::Span>)| {
        let mut passes = spans.iter().flat_map(|span| span.slot.passes());
        passes.any(|pass| is_later_chunk(stages, stage, pass))
    };
    timeline.stages.iter().enumerate().any(against).then_some("last stage to first")
}

/// Timelines to draw, and rules for every picture.
#[cfg(test)]
mod samples {
    use pipeline::overlap::{Chain, Interleaving, Layer, Overlap, Rule, Segment, WeightSegment};
    use pipeline::{
        Costs, Family, Nanos, Pass, PassTimes, Problem, Schedule, Shape, Slot, Span, Timeline,
    };

    /// `family` with F, B and W of one millisecond per chunk and no latency.
    pub(super) fn timeline(
        family: Family,
        stages: u64,
        chunks: u64,
        microbatches: u64,
    ) -> Timeline {
        let ms = Nanos(1_000_000);
        let times = PassTimes::new(ms, ms, ms);
        costed(family, Shape::new(stages, chunks, microbatches).unwrap(), times)
    }

    /// `family` with `times` per chunk and no latency.
    pub(super) fn costed(family: Family, shape: Shape, times: PassTimes) -> Timeline {
        let problem = Problem::new(shape, Costs::uniform(shape, times, Nanos(0))).unwrap();
        let schedule = family.schedule(&problem).unwrap();
        sim::Replay::new().timeline(&schedule, problem.costs()).unwrap()
    }

    /// Two stages with one chunk per direction and a pair on each.
    pub(super) fn paired() -> Timeline {
        let span = |slot: Slot, start: u64, end: u64| Span {
            slot,
            start: Nanos(start * 1_000),
            end: Nanos(end * 1_000),
        };
        let stage = |near: u16, far: u16, [a, b]: [u32; 2]| {
            vec![
                span(Pass::f(near, a).into(), 0, 2),
                span(Slot::Pair(Pass::f(far, b), Pass::bw(far, b)), 2, 8),
                span(Pass::bw(near, a).into(), 9, 13),
            ]
        };
        Timeline { stages: vec![stage(0, 1, [0, 1]), stage(1, 0, [0, 1])] }
    }

    /// Megatron-LM's overlap over four stages of two chunks with two layers of experts each: its order,
    /// and the costs of its passes.
    pub(super) fn overlapped() -> (Schedule, Costs) {
        let segment = |name: &str, time: u64| {
            let (named, time) = (name.parse().unwrap(), Nanos(time * 1_000_000));
            match name {
                "dispatch" | "combine" => Segment::communication(named, time),
                _ => Segment::compute(named, time),
            }
        };
        let all = |names: [(&str, u64); 4]| {
            names.into_iter().map(|(name, time)| segment(name, time)).collect()
        };
        let weight = |name, behind, time| WeightSegment { segment: segment(name, time), behind };
        let layer = Layer {
            forward: all([("attention", 4), ("dispatch", 6), ("experts", 4), ("combine", 8)]),
            backward: all([("combine", 5), ("experts", 5), ("dispatch", 7), ("attention", 9)]),
            weight: vec![weight("experts", 1, 6), weight("attention", 3, 2)],
        };
        let none = Layer::default();
        let chain = Chain::new(none.clone(), vec![(layer, 2)], none).unwrap();
        let shape = Shape::new(4, 2, 8).unwrap();
        let rule = Rule { interleaving: Interleaving::Published, ..Rule::default() };
        let overlap = Overlap::new(vec![chain; 8], rule).unwrap();
        let problem = Problem::new(shape, Costs::overlapped(overlap, Nanos(2_000_000))).unwrap();
        let schedule = Family::InterleavedOverlap.schedule(&problem).unwrap();
        (schedule, problem.costs().clone())
    }

    /// A rectangle of a picture.
    pub(super) struct Rectangle {
        pub(super) fill: String,
        pub(super) size: (i32, i32),
    }

    fn attribute<'a>(tag: &'a str, name: &str) -> &'a str {
        let (_, rest) = tag.split_once(&format!(" {name}=\"")).unwrap();
        rest.split_once('"').unwrap().0
    }

    fn number(tag: &str, name: &str) -> i32 {
        attribute(tag, name).parse().unwrap()
    }

    fn tags<'a>(svg: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
        svg.lines().filter(move |line| line[1..].starts_with(name) && line.starts_with('<'))
    }

    /// All rectangles of `svg` in the order in which they are drawn.
    pub(super) fn rectangles(svg: &str) -> Vec<Rectangle> {
        let rectangle = |tag| Rectangle {
            fill: attribute(tag, "fill").to_owned(),
            size: (number(tag, "width"), number(tag, "height")),
        };
        tags(svg, "rect").map(rectangle).collect()
    }

    /// Checks that `svg` is well-formed as far as its parts go, and stays inside its picture.
    pub(super) fn check_svg(svg: &str) {
        let picture = tags(svg, "svg").next().unwrap();
        let corners: Vec<i32> =
            attribute(picture, "viewBox").split(' ').map(|one| one.parse().unwrap()).collect();
        let [0, 0, width, height] = corners[..] else { panic!("{picture}") };
        let inside = |x: i32, y: i32| (0..=width).contains(&x) && (0..=height).contains(&y);
        for tag in tags(svg, "rect") {
            let (x, y) = (number(tag, "x"), number(tag, "y"));
            let (right, bottom) = (x + number(tag, "width"), y + number(tag, "height"));
            assert!(inside(x, y) && inside(right, bottom) && right >= x && bottom >= y, "{tag}");
        }
        for tag in tags(svg, "text") {
            assert!(inside(number(tag, "x"), number(tag, "y")), "{tag}");
        }
        for tag in tags(svg, "poly") {
            for point in attribute(tag, "points").split_whitespace() {
                let (x, y) = point.split_once(',').unwrap();
                assert!(inside(x.parse().unwrap(), y.parse().unwrap()), "{tag}");
            }
        }
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        assert!(svg.ends_with("</svg>\n") && svg.matches("<svg").count() == 1);
        let stray = |line: &str| !line.starts_with('<') && line.contains(['<', '>']);
        assert!(!svg.lines().any(stray) && !svg.contains(|c: char| c.is_control() && c != '\n'));
    }
}
