//! How long values travel between stages, link by link.

use std::sync::Arc;

use crate::fault::Fault;
use crate::shape::{Placement, Shape};
use crate::units::Nanos;

/// The latency of one transfer over each link between two stages, the same both ways.
///
/// Link i joins stages i and i+1, and link p-1 joins stages p-1 and 0. Two stages share one link. All that is
/// handed from chunk to chunk crosses one of them, whatever the [`Placement`]; only loops of several chunks
/// per stage cross the last one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hops(Links);

/// Equal latencies are always [`Self::Alike`].
#[derive(Clone, PartialEq, Eq, Debug)]
enum Links {
    Alike(Nanos),
    Each(Arc<[Nanos]>),
}

impl Hops {
    /// All links alike.
    #[must_use]
    pub const fn alike(hop: Nanos) -> Self {
        Self(Links::Alike(hop))
    }

    /// The latencies of links in a pipeline of `shape`: one for all; or one per link between neighbouring
    /// stages, and then, if given, that of the link from the last stage back to the first.
    ///
    /// # Errors
    /// [`Fault::HopCount`] for any other number of them.
    pub fn new(shape: Shape, links: &[Nanos]) -> Result<Self, Fault> {
        check_count(links.len(), shape, false)?;
        Ok(Self::of(links))
    }

    /// The same for chunks that lie as `placement` says: where they go round in loops, the link from the last
    /// stage back to the first must have its latency, too.
    ///
    /// # Errors
    /// [`Fault::HopCount`].
    pub fn placed(shape: Shape, placement: Placement, links: &[Nanos]) -> Result<Self, Fault> {
        check_count(links.len(), shape, wraps(shape, placement))?;
        Ok(Self::of(links))
    }

    fn of(links: &[Nanos]) -> Self {
        match links.split_first() {
            None => Self::alike(Nanos(0)),
            Some((first, rest)) if rest.iter().all(|one| one == first) => Self::alike(*first),
            Some(_) => Self(Links::Each(links.into())),
        }
    }

    /// The latency between two stages: none within one stage, and the longest between stages that no link
    /// joins.
    #[inline]
    #[must_use]
    pub fn between(&self, from: usize, to: usize) -> Nanos {
        match &self.0 {
            _ if from == to => Nanos(0),
            Links::Alike(hop) => *hop,
            Links::Each(links) => {
                let link = links.get(Self::link(from, to)).copied();
                link.unwrap_or_else(|| self.longest())
            }
        }
    }

    /// The number of the link between two neighbouring stages.
    #[inline]
    #[must_use]
    pub const fn link(from: usize, to: usize) -> usize {
        let (low, high) = if from < to { (from, to) } else { (to, from) };
        if high - low == 1 { low } else { high }
    }

    /// One latency for all links, or one for each, as they were given.
    #[must_use]
    pub fn by_link(&self) -> &[Nanos] {
        match &self.0 {
            Links::Alike(hop) => std::slice::from_ref(hop),
            Links::Each(links) => links,
        }
    }

    /// Whether all links are alike.
    #[must_use]
    pub const fn are_alike(&self) -> bool {
        matches!(self.0, Links::Alike(_))
    }

    /// The longest latency of all links.
    #[must_use]
    pub fn longest(&self) -> Nanos {
        self.by_link().iter().copied().max().unwrap_or_default()
    }

    /// Every latency changed as `change` says.
    #[must_use]
    pub fn map(&self, change: impl Fn(Nanos) -> Nanos) -> Self {
        Self::of(&self.by_link().iter().map(|&hop| change(hop)).collect::<Vec<_>>())
    }

    /// Checks that these are the latencies of a pipeline of `shape`.
    ///
    /// # Errors
    /// [`Fault::HopCount`].
    pub fn check(&self, shape: Shape) -> Result<(), Fault> {
        check_count(self.by_link().len(), shape, false)
    }

    /// Checks that there is a latency for every link that chunks cross which lie as `placement` says.
    ///
    /// # Errors
    /// [`Fault::HopCount`].
    pub fn check_placed(&self, shape: Shape, placement: Placement) -> Result<(), Fault> {
        check_count(self.by_link().len(), shape, wraps(shape, placement))
    }
}

/// Checks that `given` values are one for all links, one for each between neighbours, unless what goes round
/// in loops `wraps`, or one more.
fn check_count(given: usize, shape: Shape, wraps: bool) -> Result<(), Fault> {
    let stages = shape.stages();
    match given {
        1 => Ok(()),
        _ if given == stages && stages > 2 => Ok(()),
        _ if given > 1 && given + 1 == stages && !wraps => Ok(()),
        _ => Err(Fault::HopCount { given, stages, wraps: wraps && given + 1 == stages }),
    }
}

/// Whether chunks go from the last stage back to the first, which are no neighbours otherwise.
fn wraps(shape: Shape, placement: Placement) -> bool {
    placement == Placement::Looped && shape.chunks_per_stage() > 1 && shape.stages() > 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos<const N: usize>(times: [u64; N]) -> Vec<Nanos> {
        times.map(Nanos).to_vec()
    }

    #[test]
    fn links_join_neighbours_and_the_ends() {
        let shape = Shape::new(4, 2, 3).unwrap();
        let hops = Hops::new(shape, &nanos([1, 30, 2, 7])).unwrap();
        for (from, to, time) in [(0, 1, 1), (1, 2, 30), (2, 3, 2), (3, 0, 7), (2, 2, 0)] {
            assert_eq!(hops.between(from, to), Nanos(time));
            assert_eq!(hops.between(to, from), Nanos(time));
        }
        assert_eq!((hops.longest(), hops.are_alike()), (Nanos(30), false));
        assert_eq!(hops.map(|hop| hop + Nanos(1)).by_link(), nanos([2, 31, 3, 8]));
        assert_eq!(hops.map(|_| Nanos(5)), Hops::alike(Nanos(5)));
        // Two stages are joined once.
        assert_eq!(Hops::alike(Nanos(9)).between(1, 0), Nanos(9));
    }

    #[test]
    fn every_placement_crosses_links_alone() {
        for placement in [Placement::Looped, Placement::Vee, Placement::Mirrored] {
            let laps = if placement == Placement::Mirrored { 1 } else { 3 };
            for stages in 2..6 {
                let shape = Shape::new(stages, laps, 4).unwrap();
                for (chunk, microbatch) in (1..shape.chunks()).flat_map(|c| [(c, 0), (c, 3)]) {
                    let [from, to] =
                        [chunk - 1, chunk].map(|chunk| placement.stage(shape, chunk, microbatch));
                    let apart = from.abs_diff(to);
                    let wraps = wraps(shape, placement) && apart == shape.stages() - 1;
                    assert!(apart <= 1 || wraps, "{placement:?} {stages} {chunk}");
                }
            }
        }
    }

    #[test]
    fn other_numbers_of_links_are_refused() {
        let shape = Shape::new(4, 2, 3).unwrap();
        for given in [0, 2, 5] {
            let fault = Hops::new(shape, &vec![Nanos(1); given]).unwrap_err();
            assert_eq!(fault, Fault::HopCount { given, stages: 4, wraps: false });
        }
        // Only loops cross the last link.
        let three = nanos([1, 2, 3]);
        assert!(Hops::placed(shape, Placement::Vee, &three).is_ok());
        let fault = Hops::placed(shape, Placement::Looped, &three).unwrap_err();
        assert_eq!(fault, Fault::HopCount { given: 3, stages: 4, wraps: true });
        assert!(fault.to_string().contains("from stage 3 back to stage 0"), "{fault}");
        let equal = nanos([2, 2, 2]);
        assert!(Hops::placed(shape, Placement::Looped, &equal).is_err());
        let two = Shape::new(2, 2, 3).unwrap();
        let fault = Hops::new(two, &nanos([1, 2])).unwrap_err();
        assert!(fault.to_string().contains("share one link"), "{fault}");
        assert!(Hops::new(shape, &three).unwrap().check(two).is_err());
        assert!(Hops::new(shape, &three).unwrap().check_placed(shape, Placement::Looped).is_err());
    }
}
