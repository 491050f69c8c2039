//! Both orders of pairs that windows leave open.
//!
//! Of two passes of a stage one is before the other. If windows contradict each other where the first is
//! before the second, the second is before the first in every order that costs as little; and from that more
//! follows. Of the passes of a lane that may be before or behind another pass, the first and the last are
//! tried: to run behind the first, or before the last, says most.

use super::passes::Passes;
use super::propagate::{End, Propagation};
use super::state::Windows;

/// A pass, as lane and microbatch.
pub(super) type Place = (usize, usize);

/// Tries the pairs of all stages until windows contradict each other or nothing more follows. Notes in
/// `tried` the pairs of which the first was shown not to be before the second.
///
/// `left` is how many steps may be made, and is lowered by those made.
pub(super) fn refute(
    passes: &Passes,
    mut windows: Windows,
    left: &mut u64,
    tried: &mut Vec<[Place; 2]>,
) -> Result<(), End> {
    loop {
        let before = tried.len();
        for stage in (0..passes.stages()).rev() {
            for own in 0..passes.width {
                for k in 0..windows.microbatches {
                    for lane in (0..passes.width).filter(|&lane| lane != own) {
                        let pass = (stage * passes.width + own, k);
                        let other = stage * passes.width + lane;
                        windows = pair(passes, windows, pass, other, left, tried)?;
                    }
                }
            }
        }
        if tried.len() == before {
            return Ok(());
        }
    }
}

/// Tries `pass` before the first pass of a lane that need not be before it.
fn pair(
    passes: &Passes,
    mut windows: Windows,
    pass: Place,
    lane: usize,
    left: &mut u64,
    tried: &mut Vec<[Place; 2]>,
) -> Result<Windows, End> {
    loop {
        let [own, local] = [pass.0, lane].map(|lane| lane % passes.width);
        let first = windows.row(passes, pass.0, pass.1)[local] as usize;
        let is_open = first < windows.microbatches
            && windows.row(passes, lane, first)[own] as usize <= pass.1;
        if !is_open {
            return Ok(windows);
        }
        let mut assumed = windows.clone();
        assumed.put_before(passes, pass, (lane, first));
        match run(passes, assumed, pass.0 / passes.width, left).1 {
            Ok(()) => return Ok(windows),
            Err(End::Spent) => return Err(End::Spent),
            Err(End::Empty) => {}
        }
        tried.push([pass, (lane, first)]);
        windows.put_before(passes, (lane, first), pass);
        let (narrower, end) = run(passes, windows, pass.0 / passes.width, left);
        end?;
        windows = narrower;
    }
}

fn run(
    passes: &Passes,
    windows: Windows,
    stage: usize,
    left: &mut u64,
) -> (Windows, Result<(), End>) {
    let mut propagation = Propagation::new(passes, windows, *left);
    propagation.look_only_at(stage);
    let end = propagation.run();
    *left = propagation.left;
    (propagation.windows, end)
}
