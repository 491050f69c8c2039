//! Schedule families: each is a rule that turns a problem into a schedule, or says why it cannot.

mod chimera;
mod controllable;
mod dualpipe;
mod frameworks;
mod gis;
mod gpipe;
mod hanayo;
mod handcrafted;
mod interleaved;
mod left_out;
mod looped_bfs;
mod one_f_one_b;
mod overlapped;
mod period;
mod pipedream;
mod pipeoffload;
mod recomputed;
mod run_ahead;
mod seq1f1b;
mod sharded;
mod slots;
mod stp;
pub(crate) mod times;
mod v_zb;
mod vocabulary;
mod zb_h1;
mod zb_h2;
mod zb_heuristic;
mod zb_v;

use std::borrow::Cow;

pub use frameworks::InTorch;
pub use interleaved::group as interleaved_group;
pub use left_out::LeftOut;
pub use period::{Period, Repeats};
pub use pipeoffload::{ROUND_TRIPS, in_turn as copied_in_turn};

use crate::fault::Fault;
use crate::problem::{Limit, Problem};
use crate::schedule::Schedule;
use crate::shape::Vocabulary::{OneBarrier, TwoBarriers};
use crate::shape::{Placement, Vocabulary};

type Rule = fn(&Problem) -> Result<Schedule, Fault>;

/// Declares [`Family`] from one row per family: its variant, the facts about it and its rule.
macro_rules! families {
    ($($(#[doc = $doc:literal])* $family:ident: $about:expr, $rule:expr;)*) => {
        /// A schedule family: a rule that makes the order of passes for a problem.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Family {
            $($(#[doc = $doc])* $family,)*
        }

        /// The names of the variants.
        const VARIANTS: [&str; ROWS.len()] = [$(stringify!($family)),*];

        /// One-line summary of each family, from its documentation, in which families are links.
        const SUMMARIES: [&str; ROWS.len()] = [$(concat!($($doc),*)),*];

        /// The facts and the rule of each family, in the order of the variants.
        const ROWS: [(&About, Rule); [$(stringify!($family)),*].len()] = [$((&$about, $rule)),*];

        impl Family {
            /// Every family, in the order in which they are listed.
            pub const ALL: [Self; ROWS.len()] = [$(Self::$family),*];
        }
    };
}

families! {
    /// All forwards, then all backwards.
    GPipe: gpipe::ABOUT, gpipe::schedule;
    /// One forward, one backward.
    OneFOneB: one_f_one_b::ABOUT, one_f_one_b::schedule;
    /// 1F1B over several chunks per stage.
    Interleaved: interleaved::ABOUT, interleaved::schedule;
    /// All forwards of a chunk before those of the next one, then all backwards so.
    LoopedBfs: looped_bfs::ABOUT, looped_bfs::schedule;
    /// [`Family::OneFOneB`] in pairs of a forward and a backward.
    OneFOneBOverlap: overlapped::ABOUT, overlapped::schedule;
    /// [`Family::Interleaved`] in pairs of a forward and a backward.
    InterleavedOverlap: overlapped::ABOUT_INTERLEAVED, overlapped::schedule_interleaved;
    /// Zero Bubble with the memory of 1F1B.
    ZbH1: zb_h1::ABOUT, zb_h1::schedule;
    /// Zero Bubble with twice the memory.
    ZbH2: zb_h2::ABOUT, zb_h2::schedule;
    /// The published search for an order under any memory limit.
    ZbHeuristic: zb_heuristic::ABOUT, zb_heuristic::schedule;
    /// [`Family::ZbHeuristic`] at 1p.
    Zb1p: zb_heuristic::ABOUT_1P, zb_heuristic::schedule;
    /// [`Family::ZbHeuristic`] at 2p.
    Zb2p: zb_heuristic::ABOUT_2P, zb_heuristic::schedule;
    /// Zero Bubble over two chunks per stage in a V.
    ZbV: zb_v::ABOUT, zb_v::schedule;
    /// A V in a third of the memory of 1F1B.
    VMin: controllable::ABOUT_MIN, controllable::v_min;
    /// A V in half the memory of 1F1B.
    VHalf: controllable::ABOUT_HALF, controllable::v_half;
    /// [`Family::VMin`] for the times given.
    VMinTimed: controllable::ABOUT_MIN_TIMED, controllable::v_min_timed;
    /// [`Family::VHalf`] for the times given.
    VHalfTimed: controllable::ABOUT_HALF_TIMED, controllable::v_half_timed;
    /// The best V under any memory limit.
    VAdaptive: controllable::ABOUT_ADAPTIVE, controllable::adaptive;
    /// A V with whole backwards in two thirds of the memory of 1F1B.
    OneFOneBV: controllable::ABOUT_1F1B, controllable::one_f_one_b_v;
    /// Interleaved in groups of microbatches, with split backward.
    Gis: gis::ABOUT, gis::schedule;
    /// [`Family::Gis`] in groups of p/2.
    GisH: gis::ABOUT_HALF, gis::schedule_half;
    /// [`Family::Gis`] in groups of one, with half of its chunks on the host between forward and backward.
    PoH: pipeoffload::ABOUT_HALF, pipeoffload::schedule_half;
    /// [`Family::Gis`] in groups of one, with all of its chunks on the host between forward and backward.
    PoF: pipeoffload::ABOUT_FULL, pipeoffload::schedule_full;
    /// 1F1B over segments of the sequence.
    Seq1F1B: seq1f1b::ABOUT, seq1f1b::schedule;
    /// Microbatches from both ends, forwards beside backwards.
    DualPipe: dualpipe::ABOUT, dualpipe::schedule;
    /// [`Family::DualPipe`] over two chunks per stage in a V.
    DualPipeV: dualpipe::ABOUT_V, dualpipe::schedule_v;
    /// A V of pairs of a forward and a backward of one chunk, which hide collectives of tensor groups.
    Stp: stp::ABOUT, stp::schedule;
    /// Two copies of the model in opposite directions.
    Chimera: chimera::ABOUT, chimera::schedule;
    /// Waves over several chunks per stage.
    Hanayo: hanayo::ABOUT, hanayo::schedule;
    /// A V without a bubble in the memory of 1F1B, from a building block.
    VZb: v_zb::ABOUT, v_zb::schedule;
    /// 1F1B that never flushes, with an update after every microbatch.
    PipeDream: pipedream::ABOUT, pipedream::schedule;
    /// [`Family::PipeDream`] with two versions of the weights.
    PipeDream2Bw: pipedream::ABOUT_2BW, pipedream::schedule_2bw;
    /// 1F1B with the output layer in shards on all stages, and two barriers.
    Vocab1: vocabulary::ABOUT_1, vocabulary::schedule_1;
    /// 1F1B with the output layer in shards on all stages, and one barrier.
    Vocab2: vocabulary::ABOUT_2, vocabulary::schedule_2;
    /// [`Family::Vocab1`] for the times given.
    Vocab1Timed: vocabulary::ABOUT_1_TIMED, vocabulary::schedule_1_timed;
    /// [`Family::Vocab2`] for the times given.
    Vocab2Timed: vocabulary::ABOUT_2_TIMED, vocabulary::schedule_2_timed;
    /// 1F1B with the output layer as tensor parallelism over all stages.
    Interlaced1F1B: vocabulary::ABOUT_INTERLACED, vocabulary::interlaced;
    /// [`Family::VHalf`] with the output layer in shards on all stages, and two barriers.
    VHalfVocab1: controllable::ABOUT_VOCAB_1, controllable::v_half_vocab_1;
    /// [`Family::VHalf`] with the output layer in shards on all stages, and one barrier.
    VHalfVocab2: controllable::ABOUT_VOCAB_2, controllable::v_half_vocab_2;
    /// [`Family::Interleaved`] with the output layer in shards on all stages, and two barriers.
    InterleavedVocab1: sharded::INTERLEAVED.about(TwoBarriers), |problem| sharded::INTERLEAVED.schedule(problem, TwoBarriers);
    /// [`Family::Interleaved`] with the output layer in shards on all stages, and one barrier.
    InterleavedVocab2: sharded::INTERLEAVED.about(OneBarrier), |problem| sharded::INTERLEAVED.schedule(problem, OneBarrier);
    /// [`Family::ZbH1`] with the output layer in shards on all stages, and two barriers.
    ZbH1Vocab1: sharded::ZB_H1.about(TwoBarriers), |problem| sharded::ZB_H1.schedule(problem, TwoBarriers);
    /// [`Family::ZbH1`] with the output layer in shards on all stages, and one barrier.
    ZbH1Vocab2: sharded::ZB_H1.about(OneBarrier), |problem| sharded::ZB_H1.schedule(problem, OneBarrier);
    /// [`Family::Zb2p`] with the output layer in shards on all stages, and two barriers.
    Zb2pVocab1: sharded::ZB_2P.about(TwoBarriers), |problem| sharded::ZB_2P.schedule(problem, TwoBarriers);
    /// [`Family::Zb2p`] with the output layer in shards on all stages, and one barrier.
    Zb2pVocab2: sharded::ZB_2P.about(OneBarrier), |problem| sharded::ZB_2P.schedule(problem, OneBarrier);
    /// [`Family::ZbV`] with the output layer in shards on all stages, and two barriers.
    ZbVVocab1: sharded::ZB_V.about(TwoBarriers), |problem| sharded::ZB_V.schedule(problem, TwoBarriers);
    /// [`Family::ZbV`] with the output layer in shards on all stages, and one barrier.
    ZbVVocab2: sharded::ZB_V.about(OneBarrier), |problem| sharded::ZB_V.schedule(problem, OneBarrier);
    /// [`Family::VMin`] with the output layer in shards on all stages, and two barriers.
    VMinVocab1: sharded::V_MIN.about(TwoBarriers), |problem| sharded::V_MIN.schedule(problem, TwoBarriers);
    /// [`Family::VMin`] with the output layer in shards on all stages, and one barrier.
    VMinVocab2: sharded::V_MIN.about(OneBarrier), |problem| sharded::V_MIN.schedule(problem, OneBarrier);
    /// [`Family::DualPipeV`] with the output layer in shards on all stages, and two barriers.
    DualPipeVVocab1: sharded::DUAL_PIPE_V.about(TwoBarriers), |problem| sharded::DUAL_PIPE_V.schedule(problem, TwoBarriers);
    /// [`Family::DualPipeV`] with the output layer in shards on all stages, and one barrier.
    DualPipeVVocab2: sharded::DUAL_PIPE_V.about(OneBarrier), |problem| sharded::DUAL_PIPE_V.schedule(problem, OneBarrier);
}

/// The numbers of chunks per stage that a family supports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Chunks {
    /// Exactly this number.
    Exactly(u16),
    /// Any number, with a default.
    Any {
        /// The default number.
        default: u16,
    },
}

/// The further parameter that a family has, if any.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// There is no further parameter.
    Nothing,
    /// The number of microbatches that go through a chunk one after the other, from 1 to p, p by
    /// default ([`Problem::with_group`]).
    Group,
    /// The number of microbatches of a group, 1 by default; how many chunks of a stage go to the host
    /// ([`Problem::with_offload_chunks`]); and which part of their activations does ([`Problem::with_offload_part`]).
    Offload,
    /// Into how many segments each microbatch is cut ([`Problem::with_segments`]).
    Segments {
        /// The default number.
        default: u32,
    },
}

impl Chunks {
    /// The chunks per stage if the user asks for `given`: the only number possible, or else `given`,
    /// or else the default.
    #[must_use]
    pub fn of(self, given: Option<u64>) -> u64 {
        match self {
            Self::Exactly(chunks) => u64::from(chunks),
            Self::Any { default } => given.unwrap_or(u64::from(default)),
        }
    }
}

/// The version of the weights that a microbatch sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Semantics {
    /// The weights after the last update: the pipeline is empty when weights are updated, or trains as if it were.
    Synchronous,
    /// Older weights too: the pipeline never flushes, and has several versions of its weights. Its time
    /// per step is that of its steady state ([`SteadyState`](crate::SteadyState)).
    Asynchronous,
}

/// The effect of a memory limit on a family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitUse {
    /// A limit does not change the order; it can only be checked.
    Checked,
    /// The order is made to fit the limit; without one, the default limit holds, if there is one.
    Shapes {
        /// The default limit.
        default: Option<Limit>,
    },
    /// The order is made to fit the family's own limit; another can only be checked.
    Own(Limit),
}

/// The facts about a family that help to choose one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct About {
    /// The name on the command line.
    pub name: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// The shapes and inputs that it needs.
    pub needs: &'static str,
    /// Chunks per stage.
    pub chunks: Chunks,
    /// Placement of chunks.
    pub placement: Placement,
    /// The effect of a memory limit.
    pub limit: LimitUse,
    /// Its further parameter, if any.
    pub choice: Choice,
    /// Which weights a microbatch sees.
    pub semantics: Semantics,
    /// How the output layer is split over the stages.
    pub vocabulary: Vocabulary,
    /// Whether every backward is whole: B and W in one pass.
    pub whole_backwards: bool,
    /// Whether a whole backward that stands alone hides its communication behind its own W where the
    /// schedule was published.
    pub overlaps_lone: bool,
    /// Whether the order is made for the durations of the problem even without a memory limit.
    pub uses_times: bool,
    /// After how many microbatches its order repeats where there are many.
    pub repeats: Repeats,
    /// Whether Megatron-LM has the schedule.
    pub in_megatron: bool,
    /// The class of `torch.distributed.pipelining` that makes the same order, if there is one.
    pub torch_class: Option<&'static str>,
    /// Bubble per step without communication, F, B and W per stage and microbatch, in clauses between
    /// semicolons. Formulas are read and held against the replay by a test: each has the domain where
    /// it is exact behind ` where `, or ends in ` for all times`.
    pub bubble: &'static str,
    /// Peak activation memory of the stage that holds most.
    pub memory: &'static str,
    /// A remark on these figures: how they differ from the source, or that they could not be
    /// checked against it. Empty if there is none.
    pub note: &'static str,
}

impl About {
    /// One chunk per stage from first to last, and nothing to choose.
    const PLAIN: Self = Self {
        name: "",
        source: "",
        needs: "any p, any m",
        chunks: Chunks::Exactly(1),
        placement: Placement::Looped,
        limit: LimitUse::Checked,
        choice: Choice::Nothing,
        semantics: Semantics::Synchronous,
        vocabulary: Vocabulary::Whole,
        whole_backwards: false,
        overlaps_lone: false,
        uses_times: false,
        repeats: Repeats::Unknown,
        in_megatron: false,
        torch_class: None,
        bubble: "",
        memory: "",
        note: "",
    };
}

impl Family {
    const fn row(self) -> (&'static About, Rule) {
        ROWS[self as usize]
    }

    /// The facts about the family: its source, its needs, its bubble and memory.
    #[must_use]
    pub const fn about(self) -> &'static About {
        self.row().0
    }

    /// One-line summary of the family.
    #[must_use]
    pub fn summary(self) -> String {
        let mut parts = SUMMARIES[self as usize].trim().split("[`Family::");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| {
            let (variant, rest) = part.split_once("`]").unwrap_or(("", part));
            let other = VARIANTS.iter().position(|name| *name == variant);
            text + other.map_or(variant, |at| Self::ALL[at].name()) + rest
        })
    }

    /// How the family splits the output layer over the stages.
    #[must_use]
    pub const fn vocabulary(self) -> Vocabulary {
        self.about().vocabulary
    }

    /// The error that the family gives if the times of S and T are missing.
    #[must_use]
    pub fn needs_shard_times(self) -> Fault {
        vocabulary::needs_times(self.name())
    }

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.about().name
    }

    /// The family of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.name() == name)
    }

    /// Whether the order depends on the durations of passes, hops or copies.
    #[must_use]
    pub fn depends_on_times(self) -> bool {
        self.about().uses_times || self.about().limit != LimitUse::Checked
    }

    /// Whether every backward of its orders is whole: B and W in one pass.
    #[must_use]
    pub const fn has_whole_backwards(self) -> bool {
        self.about().whole_backwards
    }

    /// The order of every stage for `problem`.
    ///
    /// A memory limit shapes the order of the families that use it ([`LimitUse`]); the rest ignore it. Where the
    /// costs of the problem have times of R, those chunks recompute ([`Schedule::recomputing`]).
    ///
    /// # Errors
    /// If the family cannot do the shape, or finds no order under the limit; if the footprints keep only
    /// a part of a chunk that the costs do not recompute.
    pub fn schedule(self, problem: &Problem) -> Result<Schedule, Fault> {
        if problem.footprints().has_buffers() {
            return self.schedule(&problem.without_buffers(self.about().placement)?);
        }
        let (about, rule) = self.row();
        let given = problem.shape().chunks_per_stage();
        if let Chunks::Exactly(chunks) = about.chunks
            && given != chunks
        {
            let what = format!("chunks per stage = {chunks}, not {given}");
            return Err(Fault::Needs { family: about.name, key: "chunks", what });
        }
        let order = |problem: &Problem| rule(&self.limited(problem));
        let (costs, footprints) = (problem.costs(), problem.footprints());
        let lost =
            |&chunk: &u16| footprints.kept(chunk).is_some() && costs.recompute(chunk).is_none();
        if footprints.has_kept()
            && let Some(chunk) = (0..problem.shape().chunks()).find(lost)
        {
            return Err(Fault::NotRecomputed { chunk });
        }
        match costs.has_recompute() {
            true => recomputed::schedule(self, problem, order),
            false => order(problem),
        }
    }

    /// The problem under the limit that the family gives its orders.
    fn limited<'a>(self, problem: &'a Problem) -> Cow<'a, Problem> {
        let limit = match self.about().limit {
            LimitUse::Own(limit) => Some(limit),
            LimitUse::Shapes { default } if !problem.is_limited() => default,
            LimitUse::Shapes { .. } | LimitUse::Checked => None,
        };
        match limit {
            Some(limit) => Cow::Owned(problem.clone().with_limit(limit)),
            None => Cow::Borrowed(problem),
        }
    }
}
