//! Table 1: bubble and memory, in passes and activations of a chunk where F = B = W.

use pipeline::closed_form::Uniform;
use pipeline::{CopyTimes, Costs, Family, Fault, Footprints, Nanos, PassTimes, Problem, Shape};
use question::Diagnostic;
use question::sheet::Sheet;

use super::super::cell::{Basis, Cell, Figure, whole};
use super::super::check::{Check, Evidence, Verdict};
use super::{held, simulate, wrong};

/// p and v; m = 4p.
const SHAPES: [[u64; 2]; 6] = [[4, 2], [4, 4], [8, 2], [8, 4], [16, 2], [16, 4]];
/// F, B and W of a chunk.
const PASS: Nanos = Nanos(1000);
const FORMULA: Basis = Basis::new("formula", Evidence::ClosedForm, Check::Absolute(0.0));
const LESS_THAN: Basis = Basis::new("less than", Evidence::Inequality, Check::Below);
/// PO-H holds up to v / 2 chunk activations more than the average that is published, PO-F up to one more.
const ABOUT: [Basis; 2] = [about(1.0), about(2.0)];
const fn about(above: f64) -> Basis {
    Basis::new("about", Evidence::ClosedForm, Check::Between { below: 0.0, above })
}
/// The chunk activations that PO-F keeps on a device, at k of [`K_PER_MILLE`].
const FEW: f64 = 4.0;
const K_PER_MILLE: u64 = 700;

/// A row of the table for a shape.
struct Form {
    family: Family,
    /// Bubble in nanoseconds.
    bubble: (u64, Basis),
    /// Chunk activations.
    memory: (f64, Basis),
    /// k of the copies, in thousandths.
    k: u64,
}

fn forms([p, v]: [u64; 2]) -> [Form; 6] {
    let uniform = uniform([p, v]);
    let (all, pass) = (whole(p * v), PASS.0);
    let [few, more] = ABOUT;
    let form = |family, bubble, memory, k| Form { family, bubble, memory, k };
    [
        form(Family::OneFOneB, (v * (p - 1) * 3 * pass, FORMULA), (all, FORMULA), 0),
        // d v + d - 1, of which (v+1)/v M is the rounded form.
        form(Family::Interleaved, ((p - 1) * 3 * pass, FORMULA), (all + whole(p - 1), FORMULA), 0),
        form(Family::Gis, ((p - 1) * 2 * pass, FORMULA), (all, FORMULA), 0),
        form(
            Family::GisH,
            (((p - 1) * 2 + (v - 1) * p / 2) * pass, FORMULA),
            (whole((v + 1) * p / 2), FORMULA),
            0,
        ),
        form(
            Family::PoH,
            (v * (p - 1) * 3 * pass, LESS_THAN),
            (uniform.po_h_on_device(v), if v == 2 { few } else { more }),
            0,
        ),
        form(Family::PoF, (v * (p - 1) * 3 * pass, LESS_THAN), (FEW, few), K_PER_MILLE),
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
    let cell = |column: &str, (published, basis): (f64, Basis), ours: u64| {
        Figure::new(row, column, basis, published).digits(1).beside(whole(ours))
    };
    let (bubble, basis) = form.bubble;
    Ok([
        cell("bubble ns", (whole(bubble), basis), (ours.makespan - ours.work).0),
        cell("peak chunks", form.memory, ours.peak),
    ])
}

/// One line per schedule and shape.
pub(super) fn sheet(cells: &[Cell]) -> Sheet {
    let rows = cells.chunks(2).map(|pair| {
        let show = |cell: &Cell| {
            let sign = match (cell.verdict(), cell.convention) {
                (Verdict::Matched, "less than") => '>',
                (Verdict::Matched, "about") => '~',
                (verdict, _) => verdict.sign(),
            };
            format!("{} {sign} {}", cell.published, cell.ours)
        };
        std::iter::once(pair[0].row.clone()).chain(pair.iter().map(show)).collect()
    });
    Sheet::table(["table 1 = ours", "bubble, ns", "peak, chunks"], rows)
}
