//! Orders of other families with the output layer in shards over all stages.
//!
//! Source: Vocabulary Parallelism (Yeung et al. 2024, arXiv 2411.05288), section 5: one S and one T
//! per microbatch go into the building block of a schedule, and every barrier between the forward and
//! the backward of the last chunk lets a microbatch live one repetition longer. Here that is done to
//! any order that is repeated, without looking into its block:
//!
//! 1. The backwards come as many repetitions later as there are barriers ([`later`]).
//! 2. By a clock on which S, T and the barriers take no time, all stages do S of a microbatch when its
//!    forward has ended, and T when that of the next one has, or sooner where its backward cannot wait ([`insert`]).
//!
//! A repetition of interleaved 1F1B is F and B+W of one chunk; of all others it is the whole of a
//! microbatch.

mod insert;
mod later;

pub(super) use self::insert::insert;
use super::vocabulary::{SOURCE, with_shards};
use super::{
    About, Family, LimitUse, controllable, dualpipe, interleaved, zb_h1, zb_heuristic, zb_v,
};
use crate::fault::Fault;
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::shape::Vocabulary;

/// A family whose orders take S and T: with algorithm 1 and with algorithm 2.
pub(super) struct Sharded {
    base: Family,
    about: &'static About,
    names: [&'static str; 2],
    needs: &'static str,
    bubble: &'static str,
    memory: [&'static str; 2],
}

pub(super) const INTERLEAVED: Sharded = Sharded {
    base: Family::Interleaved,
    about: &interleaved::ABOUT,
    names: ["1f1b-i-vocab-1", "1f1b-i-vocab-2"],
    needs: "any p, any m; times of S and T (vocab-s, vocab-t)",
    bubble: "about (p-1)(F+B+W)/v, and what of the barriers F+B+W of a chunk does not hide",
    memory: ["(p + (p+1)/v) M_B", "(p + p/v) M_B"],
};

pub(super) const ZB_H1: Sharded = Sharded {
    base: Family::ZbH1,
    about: &zb_h1::ABOUT,
    names: ["zb-h1-vocab-1", "zb-h1-vocab-2"],
    needs: "any p, any m; times of S and T (vocab-s, vocab-t)",
    bubble: "about that of zb-h1, and what of the barriers a repetition does not hide",
    memory: ["(p+2) M_B", "(p+1) M_B"],
};

pub(super) const ZB_2P: Sharded = Sharded {
    base: Family::Zb2p,
    about: &zb_heuristic::ABOUT_2P,
    names: ["zb-2p-vocab-1", "zb-2p-vocab-2"],
    needs: "any p, any m; times of S and T (vocab-s, vocab-t); optimizer without a barrier",
    bubble: "about that of zb-2p, and what of the barriers a repetition does not hide",
    memory: ["(2p+2) M_B", "(2p+1) M_B"],
};

pub(super) const ZB_V: Sharded = Sharded {
    base: Family::ZbV,
    about: &zb_v::ABOUT,
    names: ["zb-v-vocab-1", "zb-v-vocab-2"],
    bubble: "about that of zb-v, and what of the barriers a repetition does not hide",
    memory: ["(p+2) M_B", "(p+1) M_B"],
    ..ZB_2P
};

pub(super) const V_MIN: Sharded = Sharded {
    base: Family::VMin,
    about: &controllable::ABOUT_MIN,
    names: ["v-min-vocab-1", "v-min-vocab-2"],
    needs: "p at most 256, any m; times of S and T (vocab-s, vocab-t); optimizer without a barrier; \
            the order of F, B and W is made for F = B = W",
    bubble: "about that of v-min, and what of the barriers a repetition does not hide",
    memory: ["floor((p+10)/3) M_B", "floor((p+7)/3) M_B"],
};

pub(super) const DUAL_PIPE_V: Sharded = Sharded {
    base: Family::DualPipeV,
    about: &dualpipe::ABOUT_V,
    names: ["dualpipe-v-vocab-1", "dualpipe-v-vocab-2"],
    needs: "any p, m >= 2p; times of S and T (vocab-s, vocab-t)",
    bubble: "about that of dualpipe-v, and what of the barriers a repetition does not hide",
    memory: ["(2p+5)/2 M_B", "(2p+3)/2 M_B"],
};

impl Sharded {
    const fn of(vocabulary: Vocabulary) -> usize {
        if vocabulary.barriers() == 2 { 0 } else { 1 }
    }

    /// The facts about the family with that algorithm.
    pub(super) const fn about(&self, vocabulary: Vocabulary) -> About {
        let algorithm = Self::of(vocabulary);
        About {
            name: self.names[algorithm],
            source: SOURCE,
            needs: self.needs,
            chunks: self.about.chunks,
            placement: self.about.placement,
            limit: LimitUse::Checked,
            vocabulary,
            whole_backwards: self.about.whole_backwards,
            uses_times: true,
            bubble: self.bubble,
            memory: self.memory[algorithm],
            note: [
                "the output layer over all stages (algorithm 1: a barrier behind S and one behind \
                 T), by the authors' generic method; none of their orders was available",
                "the output layer over all stages (algorithm 2: one barrier, behind S), by the \
                 authors' generic method; none of their orders was available",
            ][algorithm],
            ..About::PLAIN
        }
    }

    /// The order of `problem` with that algorithm. A memory limit does not shape it: the order that it
    /// is made from has the limit of its family by default.
    pub(super) fn schedule(
        &self,
        problem: &Problem,
        vocabulary: Vocabulary,
    ) -> Result<Schedule, Fault> {
        let name = self.names[Self::of(vocabulary)];
        let shape = with_shards(problem, name, vocabulary)?;
        if self.base == Family::DualPipeV {
            dualpipe::check_v(shape, name)?;
        }
        let (whole, barriers) = (shape.with_vocabulary(Vocabulary::Whole)?, vocabulary.barriers());
        let order = match self.base {
            Family::Interleaved => interleaved::ahead(whole, barriers),
            base => later::later(problem, whole, barriers, base),
        };
        insert::into_schedule(&order.map_err(|fault| named(fault, name))?, problem, shape)
    }
}

/// `fault` in the name of `family`.
fn named(fault: Fault, family: &'static str) -> Fault {
    match fault {
        Fault::Needs { key, what, .. } => Fault::Needs { family, key, what },
        other => other,
    }
}

#[cfg(test)]
mod tests;
