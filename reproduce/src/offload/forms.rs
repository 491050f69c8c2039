//! Table 1: bubble and memory, in passes and activations of a chunk where F = B = W.

use pipeline::closed_form::Uniform;
use pipeline::{CopyTimes, Costs, Family, Fault, Footprints, Nanos, PassTimes, Problem, Shape};
use question::Diagnostic;
use question::sheet::Sheet;

use super::super::cell::{Cell, Check, whole};
use super::{held, simulate, wrong};

/// p and v; m = 4p.
const SHAPES: [[u64; 2]; 6] = [[4, 2], [4, 4], [8, 2], [8, 4], [16, 2], [16, 4]];
/// F, B and W of a chunk.
const PASS: Nanos = Nanos(1000);
/// Tolerance of the peak of PO-H above its average, in chunk activations.
const ABOVE: f64 = 3.0;
/// The chunk activations that PO-F keeps on a device, at k of [`K_PER_MILLE`].
const FEW: f64 = 4.0;
const K_PER_MILLE: u64 = 700;

/// A row of the table for a shape.
struct Form {
    family: Family,
    /// Bubble in nanoseconds, and whether that is a bound.
    bubble: (u64, bool),
    /// Chunk activations, with tolerances below and above.
    memory: (f64, [f64; 2]),
    /// k of the copies, in thousandths.
    k: u64,
}

fn forms([p, v]: [u64; 2]) -> [Form; 6] {
    let uniform = uniform([p, v]);
    let (all, pass) = (whole(p * v), PASS.0);
    let exactly = [0.0; 2];
    let form = |family, bubble, memory, k| Form { family, bubble, memory, k };
    [
        form(Family::OneFOneB, (v * (p - 1) * 3 * pass, false), (all, exactly), 0),
        // d v + d - 1, of which (v+1)/v M is the rounded form.
        form(Family::Interleaved, ((p - 1) * 3 * pass, false), (all + whole(p - 1), exactly), 0),
        form(Family::Gis, ((p - 1) * 2 * pass, false), (all, exactly), 0),
        form(
            Family::GisH,
            (((p - 1) * 2 + (v - 1) * p / 2) * pass, false),
            (whole((v + 1) * p / 2), exactly),
            0,
        ),
        form(
            Family::PoH,
            (v * (p - 1) * 3 * pass, true),
            (uniform.po_h_on_device(v), [0.0, ABOVE]),
            0,
        ),
        form(Family::PoF, (v * (p - 1) * 3 * pass, true), (FEW, [2.0, 1.0]), K_PER_MILLE),
    ]
}

fn uniform([p, v]: [u64; 2]) -> Uniform {
    let time = Nanos(v * PASS.0);
    let times = PassTimes::new(time, time, time);
    Uniform { stages: p, microbatches: 4 * p, times, hop: Nanos(0) }
}

/// Bubble and peak of every form.
pub(super) fn cells() -> Result<Vec<Cell>, Diagnostic> {
    let mut cells = Vec::new();
    for shape in SHAPES {
        for form in forms(shape) {
            let row =
                format!("{} p={} v={} m={}", form.family.name(), shape[0], shape[1], 4 * shape[0]);
            let two = of_form(&row, shape, &form);
            cells.extend(two.map_err(|fault| wrong("table 1", &row, &fault))?);
        }
    }
    Ok(cells)
}

fn of_form(row: &str, [p, v]: [u64; 2], form: &Form) -> Result<[Cell; 2], Fault> {
    let one_chunk = form.family.about().chunks.of(Some(v)) == 1;
    let (chunks, parts) = if one_chunk { (1, v) } else { (v, 1) };
    let shape = Shape::new(p, chunks, 4 * p)?;
    let time = Nanos(PASS.0 * parts);
    let times = PassTimes::new(time, time, time);
    let way = Nanos(3 * PASS.0 * form.k / 2000);
    let copies = vec![CopyTimes { out: way, back: way }; usize::from(shape.chunks())];
    let costs = Costs::uniform(shape, times, Nanos(0)).with_copies(copies);
    let footprints = Footprints::uniform(shape, held(parts));
    let problem = Problem::new(shape, costs)?.with_footprints(footprints)?;
    let ours = simulate(form.family, &problem)?;
    let bubble = (ours.makespan - ours.work).0;
    let (published, is_bound) = form.bubble;
    let (memory, [below, above]) = form.memory;
    let peak = whole(ours.peak);
    let cell = |column: &str, convention, figures: [f64; 2], matches| Cell {
        digits: 1,
        ..Cell::new(row, column, convention, figures, Check::of(matches))
    };
    let fits = memory - below <= peak && peak <= memory + above;
    let is_exact = below + above == 0.0;
    let [bubbles, peaks] = [
        if is_bound { "less than" } else { "formula" },
        if is_exact { "formula" } else { "about" },
    ];
    let met = if is_bound { bubble < published } else { bubble == published };
    Ok([
        cell("bubble ns", bubbles, [whole(published), whole(bubble)], met),
        cell("peak chunks", peaks, [memory, peak], fits),
    ])
}

/// One line per schedule and shape.
pub(super) fn sheet(cells: &[Cell]) -> Sheet {
    let rows = cells.chunks(2).map(|pair| {
        let show = |cell: &Cell| {
            let sign = match (cell.check, cell.convention) {
                (Check::Matched, "less than") => '>',
                (Check::Matched, "about") => '~',
                (check, _) => check.sign(),
            };
            format!("{} {sign} {}", cell.published, cell.ours)
        };
        std::iter::once(pair[0].row.clone()).chain(pair.iter().map(show)).collect()
    });
    Sheet::table(&["table 1 = ours", "bubble, ns", "peak, chunks"], rows)
}
