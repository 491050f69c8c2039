//! Warm-up and cool-down of a repeated block, rearranged to be as short as its memory allows.

use super::super::grid::{Grid, Row};
use super::super::work::Work;
use Work::{BDown, BUp, FDown, FUp, WDown, WUp};

/// Rearranges what each stage does before its first backward down.
///
/// Stage i takes f = min(i + 1, k / 2) forwards up and k - f down, k the peak: those down in every
/// cell from i, then one of each in turn. Then what is left goes as backward, W and forward, those up
/// first. `None` where that finds no room.
pub(super) fn warm_up(mut grid: Grid) -> Option<Grid> {
    let stages = grid.rows.len();
    let peak = usize::try_from(grid.peak()).ok()?.min(2 * stages);
    for (stage, row) in grid.rows.iter_mut().enumerate() {
        let up = (stage + 1).min(peak / 2).min(grid.microbatches);
        let down = (peak - up).min(grid.microbatches);
        warm_up_row(row, stage, stages, [down, up])?;
    }
    Some(grid)
}

fn warm_up_row(row: &mut Row, stage: usize, stages: usize, first: [usize; 2]) -> Option<()> {
    let end = row.iter().position(|&cell| cell == Some(BDown)).unwrap_or(row.len());
    let mut left = [0usize; 6];
    for cell in &mut row[..end] {
        if let Some(work) = cell.take() {
            left[work as usize] += 1;
        }
    }
    if left[WDown as usize] > 0 {
        return None;
    }
    let mut first = first;
    let mut cell = stage;
    let mut put_first = |row: &mut Row, cell: usize, work: Work, left: &mut [usize; 6]| {
        if first[work as usize] > 0 && left[work as usize] > 0 {
            first[work as usize] -= 1;
            left[work as usize] -= 1;
            put(row, cell, work)?;
        }
        Some(())
    };
    for _ in 0..2 * (stages - 1 - stage) {
        put_first(row, cell, FDown, &mut left)?;
        cell += 1;
    }
    for _ in 0..=stage {
        put_first(row, cell, FDown, &mut left)?;
        put_first(row, cell + 1, FUp, &mut left)?;
        cell += 2;
    }
    while left.iter().any(|&count| count > 0) {
        for choice in [&[BUp][..], &[WUp], &[FUp, FDown]] {
            if let Some(&work) = choice.iter().find(|&&work| left[work as usize] > 0) {
                left[work as usize] -= 1;
                put(row, cell, work)?;
            }
            cell += 1;
        }
    }
    Some(())
}

/// Fills an empty cell.
fn put(row: &mut Row, cell: usize, work: Work) -> Option<()> {
    if row.len() <= cell {
        row.resize(cell + 1, None);
    }
    row[cell].replace(work).is_none().then_some(())
}

/// Rearranges what each stage does behind its last forward: backwards as tight as their inputs
/// allow, W passes where cells are empty. `None` where that finds no room.
pub(super) fn cool_down(mut grid: Grid) -> Option<Grid> {
    let stages = grid.rows.len();
    let peak = usize::try_from(grid.peak()).ok().filter(|&peak| peak <= 2 * stages)?;
    let down = peak.div_ceil(2).min(grid.microbatches);
    let up = (peak - down).min(grid.microbatches);
    let last_forward = grid.rows[0].iter().rposition(|&cell| cell == Some(FUp))?;
    for (stage, row) in grid.rows.iter_mut().enumerate() {
        let up = up.min(stage + 1);
        let [up, down] = [(BUp, up), (BDown, down)].map(|(work, most)| take_last(row, work, most));
        take_weights(row, [up, down], peak);
        for k in 0..down {
            put(row, (last_forward + 2 * stages).checked_sub(stage + 2 * k)?, BDown)?;
        }
        for k in 0..up {
            put(row, (last_forward + 1 + stage).checked_sub(2 * k)?, BUp)?;
        }
        put_weights(row);
    }
    grid.squeeze()
}

/// Takes the last passes of a kind out of the row, at most `most`; how many there were.
fn take_last(row: &mut Row, work: Work, most: usize) -> usize {
    let cells = row.iter_mut().rev().filter(|cell| **cell == Some(work)).take(most);
    cells.map(|cell| *cell = None).count()
}

/// Takes W passes out from the end: as many as backwards were taken, and `peak` in all.
fn take_weights(row: &mut Row, backwards: [usize; 2], peak: usize) {
    let mut taken = [0usize; 2];
    for cell in row.iter_mut().rev() {
        let enough = taken.iter().zip(backwards).all(|(&taken, wanted)| taken >= wanted);
        if enough && taken.iter().sum::<usize>() >= peak {
            return;
        }
        match cell {
            Some(WUp) => taken[0] += 1,
            Some(WDown) => taken[1] += 1,
            _ => continue,
        }
        *cell = None;
    }
}

/// Puts the missing W passes into the empty cells behind the last one, those up first.
fn put_weights(row: &mut Row) {
    let last = row.iter().rposition(|cell| cell.is_some_and(Work::is_weight));
    let from = last.map_or(0, |last| last + 1);
    let mut waiting = [0i64; 2];
    for (at, cell) in row.iter_mut().enumerate() {
        match cell {
            Some(BUp) => waiting[0] += 1,
            Some(BDown) => waiting[1] += 1,
            Some(WUp) => waiting[0] -= 1,
            Some(WDown) => waiting[1] -= 1,
            Some(_) => {}
            None if at < from => {}
            None if waiting[0] > 0 => {
                waiting[0] -= 1;
                *cell = Some(WUp);
            }
            None if waiting[1] > 0 => {
                waiting[1] -= 1;
                *cell = Some(WDown);
            }
            None => {}
        }
    }
    for (work, count) in [WUp, WDown].into_iter().zip(waiting) {
        let count = usize::try_from(count).unwrap_or(0);
        row.extend(std::iter::repeat_n(Some(work), count));
    }
}

/// Takes the passes of all but the first microbatches out.
pub(super) fn shorten(mut grid: Grid, microbatches: usize) -> Grid {
    for row in &mut grid.rows {
        let mut counts = [0usize; 6];
        for cell in row {
            let Some(work) = *cell else { continue };
            counts[work as usize] += 1;
            if counts[work as usize] > microbatches {
                *cell = None;
            }
        }
    }
    grid.microbatches = microbatches;
    grid
}

/// Lets every stage hold `most` chunk activations by putting its first W passes last.
pub(super) fn delay_weights(mut grid: Grid, most: i32) -> Grid {
    for row in &mut grid.rows {
        let spare = usize::try_from(most - super::super::grid::peak(row)).unwrap_or(0);
        let weights = row.iter_mut().filter(|cell| cell.is_some_and(Work::is_weight));
        let late: Row = weights.take(spare).map(Option::take).collect();
        row.extend(late);
    }
    grid
}
