//! The families: each a rule that turns a problem into a schedule, or says why it cannot.

mod chimera;
mod controllable;
mod dualpipe;
mod frameworks;
mod gis;
mod gpipe;
mod hanayo;
mod hand;
mod interleaved;
mod left_out;
mod one_f_one_b;
mod pipedream;
mod pipeoffload;
mod seq1f1b;
mod slots;
mod v_zb;
mod vocabulary;
mod zb_h1;
mod zb_h2;
mod zb_heuristic;
mod zb_v;

pub use frameworks::InTorch;
pub use left_out::LeftOut;

use crate::fault::Fault;
use crate::problem::{Limit, Problem};
use crate::schedule::Schedule;
use crate::shape::{Placement, Vocabulary};

/// A rule that makes schedules.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Family {
    /// All forwards, then all backwards.
    GPipe,
    /// One forward, one backward.
    OneFOneB,
    /// 1F1B over several chunks per stage.
    Interleaved,
    /// Zero Bubble with the memory of 1F1B.
    ZbH1,
    /// Zero Bubble with twice the memory.
    ZbH2,
    /// The published search for an order under any memory limit.
    ZbHeuristic,
    /// [`Family::ZbHeuristic`] at 1p.
    Zb1p,
    /// [`Family::ZbHeuristic`] at 2p.
    Zb2p,
    /// Zero Bubble over two chunks per stage in a V.
    ZbV,
    /// A V in a third of the memory of 1F1B.
    VMin,
    /// A V in half the memory of 1F1B.
    VHalf,
    /// [`Family::VMin`] for the times given.
    VMinTimed,
    /// [`Family::VHalf`] for the times given.
    VHalfTimed,
    /// The best V under any memory limit.
    VAdaptive,
    /// A V with whole backwards in two thirds of the memory of 1F1B.
    OneFOneBV,
    /// Interleaved in groups of microbatches, with split backward.
    Gis,
    /// [`Family::Gis`] in groups of p/2.
    GisH,
    /// [`Family::Gis`] in groups of one, with half of its chunks on the host between forward and backward.
    PoH,
    /// [`Family::Gis`] in groups of one, with all of its chunks on the host between forward and backward.
    PoF,
    /// 1F1B over segments of the sequence.
    Seq1F1B,
    /// Microbatches from both ends, forwards beside backwards.
    DualPipe,
    /// [`Family::DualPipe`] over two chunks per stage in a V.
    DualPipeV,
    /// Two copies of the model in opposite directions.
    Chimera,
    /// Waves over several chunks per stage.
    Hanayo,
    /// A V without a bubble in the memory of 1F1B, from a building block.
    VZb,
    /// 1F1B that never flushes, with an update after every microbatch.
    PipeDream,
    /// [`Family::PipeDream`] with two versions of the weights.
    PipeDream2Bw,
    /// 1F1B with the output layer in shards on all stages, and two barriers.
    Vocab1,
    /// 1F1B with the output layer in shards on all stages, and one barrier.
    Vocab2,
    /// 1F1B with the output layer as tensor parallelism over all stages.
    Interlaced1F1B,
    /// [`Family::VHalf`] with the output layer in shards on all stages, and two barriers.
    VHalfVocab1,
    /// [`Family::VHalf`] with the output layer in shards on all stages, and one barrier.
    VHalfVocab2,
}

/// How many chunks per stage a family works with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Chunks {
    /// This many and no other.
    Exactly(u16),
    /// Any number, and this many unless told.
    Any {
        /// The number unless told.
        default: u16,
    },
}

/// What else a user may choose of a family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// Nothing.
    Nothing,
    /// How many microbatches go through a chunk one after the other, from 1 to p; p unless told
    /// ([`Problem::with_group`]).
    Group,
    /// The groups, of 1 unless told, how many chunks of a stage go to the host
    /// ([`Problem::with_offload_chunks`]), and what part of an activation does
    /// ([`Problem::with_offload_part`]).
    Offload,
    /// Into how many segments each microbatch is cut ([`Problem::with_segments`]).
    Segments {
        /// The number unless told.
        default: u32,
    },
}

impl Chunks {
    /// The chunks per stage where `told` are asked for: the only ones, or else those, or as many as
    /// unless told.
    #[must_use]
    pub fn of(self, told: Option<u64>) -> u64 {
        match self {
            Self::Exactly(chunks) => u64::from(chunks),
            Self::Any { default } => told.unwrap_or(u64::from(default)),
        }
    }
}

/// Which weights a microbatch meets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Semantics {
    /// Those after the last update: the pipeline is empty when weights are updated, or as if.
    Synchronous,
    /// Older ones too: the pipeline never flushes, and has several versions of its weights. What a
    /// step takes is that of its steady state ([`Steady`](crate::Steady)).
    Asynchronous,
}

/// What a memory limit does to a family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitUse {
    /// The order is what it is: a limit can only be checked.
    Checked,
    /// The order is made to fit; without a limit the given one holds, or none.
    Shapes {
        /// The limit unless told.
        default: Option<Limit>,
    },
    /// The order is made to fit the family's own limit; another can only be checked.
    Own(Limit),
}

/// What a user wants to know before choosing a family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct About {
    /// The name on the command line.
    pub name: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// What it asks of the shape.
    pub needs: &'static str,
    /// Chunks per stage.
    pub chunks: Chunks,
    /// Where the chunks lie.
    pub placement: Placement,
    /// What a memory limit does.
    pub limit: LimitUse,
    /// What else may be chosen.
    pub choice: Choice,
    /// Which weights a microbatch meets.
    pub semantics: Semantics,
    /// Bubble per step without communication, F, B and W per stage and microbatch.
    pub bubble: &'static str,
    /// Peak activation memory of the stage that holds most.
    pub memory: &'static str,
    /// What should be known of these figures: what differs from the source, or could not be held
    /// against it. Empty if nothing.
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
        bubble: "",
        memory: "",
        note: "",
    };
}

type Rule = fn(&Problem) -> Result<Schedule, Fault>;

impl Family {
    /// Every family, in the order in which they are listed.
    pub const ALL: [Self; 32] = [
        Self::GPipe,
        Self::OneFOneB,
        Self::Interleaved,
        Self::ZbH1,
        Self::ZbH2,
        Self::ZbHeuristic,
        Self::Zb1p,
        Self::Zb2p,
        Self::ZbV,
        Self::VMin,
        Self::VHalf,
        Self::VMinTimed,
        Self::VHalfTimed,
        Self::VAdaptive,
        Self::OneFOneBV,
        Self::Gis,
        Self::GisH,
        Self::PoH,
        Self::PoF,
        Self::Seq1F1B,
        Self::DualPipe,
        Self::DualPipeV,
        Self::Chimera,
        Self::Hanayo,
        Self::VZb,
        Self::PipeDream,
        Self::PipeDream2Bw,
        Self::Vocab1,
        Self::Vocab2,
        Self::Interlaced1F1B,
        Self::VHalfVocab1,
        Self::VHalfVocab2,
    ];

    const fn parts(self) -> (&'static About, Rule) {
        match self {
            Self::GPipe => (&gpipe::ABOUT, gpipe::schedule),
            Self::OneFOneB => (&one_f_one_b::ABOUT, one_f_one_b::schedule),
            Self::Interleaved => (&interleaved::ABOUT, interleaved::schedule),
            Self::ZbH1 => (&zb_h1::ABOUT, zb_h1::schedule),
            Self::ZbH2 => (&zb_h2::ABOUT, zb_h2::schedule),
            Self::ZbHeuristic => (&zb_heuristic::ABOUT, zb_heuristic::schedule),
            Self::Zb1p => (&zb_heuristic::ABOUT_1P, zb_heuristic::schedule),
            Self::Zb2p => (&zb_heuristic::ABOUT_2P, zb_heuristic::schedule),
            Self::ZbV => (&zb_v::ABOUT, zb_v::schedule),
            Self::VMin => (&controllable::ABOUT_MIN, controllable::v_min),
            Self::VHalf => (&controllable::ABOUT_HALF, controllable::v_half),
            Self::VMinTimed => (&controllable::ABOUT_MIN_TIMED, controllable::v_min_timed),
            Self::VHalfTimed => (&controllable::ABOUT_HALF_TIMED, controllable::v_half_timed),
            Self::VAdaptive => (&controllable::ABOUT_ADAPTIVE, controllable::adaptive),
            Self::OneFOneBV => (&controllable::ABOUT_1F1B, controllable::one_f_one_b_v),
            Self::Gis => (&gis::ABOUT, gis::schedule),
            Self::GisH => (&gis::ABOUT_HALF, gis::schedule_half),
            Self::PoH => (&pipeoffload::ABOUT_HALF, pipeoffload::schedule_half),
            Self::PoF => (&pipeoffload::ABOUT_FULL, pipeoffload::schedule_full),
            Self::Seq1F1B => (&seq1f1b::ABOUT, seq1f1b::schedule),
            Self::DualPipe => (&dualpipe::ABOUT, dualpipe::schedule),
            Self::DualPipeV => (&dualpipe::ABOUT_V, dualpipe::schedule_v),
            Self::Chimera => (&chimera::ABOUT, chimera::schedule),
            Self::Hanayo => (&hanayo::ABOUT, hanayo::schedule),
            Self::VZb => (&v_zb::ABOUT, v_zb::schedule),
            Self::PipeDream => (&pipedream::ABOUT, pipedream::schedule),
            Self::PipeDream2Bw => (&pipedream::ABOUT_2BW, pipedream::schedule_2bw),
            Self::Vocab1 => (&vocabulary::ABOUT_1, vocabulary::schedule_1),
            Self::Vocab2 => (&vocabulary::ABOUT_2, vocabulary::schedule_2),
            Self::Interlaced1F1B => (&vocabulary::ABOUT_INTERLACED, vocabulary::interlaced),
            Self::VHalfVocab1 => (&controllable::ABOUT_VOCAB_1, controllable::v_half_vocab_1),
            Self::VHalfVocab2 => (&controllable::ABOUT_VOCAB_2, controllable::v_half_vocab_2),
        }
    }

    /// Its source, its needs, its bubble and memory.
    #[must_use]
    pub const fn about(self) -> &'static About {
        self.parts().0
    }

    /// How it spreads the output layer.
    #[must_use]
    pub const fn vocabulary(self) -> Vocabulary {
        match self {
            Self::Vocab1 | Self::Interlaced1F1B | Self::VHalfVocab1 => Vocabulary::TwoBarriers,
            Self::Vocab2 | Self::VHalfVocab2 => Vocabulary::OneBarrier,
            _ => Vocabulary::Whole,
        }
    }

    /// What it says where it lacks the times of S and T.
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

    /// Whether the order it makes depends on how long passes take.
    #[must_use]
    pub fn depends_on_times(self) -> bool {
        let timed = matches!(self, Self::VMinTimed | Self::VHalfTimed | Self::PoH | Self::PoF);
        timed || self.about().limit != LimitUse::Checked
    }

    /// Whether every backward of its orders is whole: B and W in one pass.
    #[must_use]
    pub const fn has_whole_backwards(self) -> bool {
        matches!(
            self,
            Self::GPipe
                | Self::OneFOneB
                | Self::Interleaved
                | Self::OneFOneBV
                | Self::Seq1F1B
                | Self::Chimera
                | Self::Hanayo
                | Self::PipeDream
                | Self::PipeDream2Bw
                | Self::Vocab1
                | Self::Vocab2
                | Self::Interlaced1F1B
        )
    }

    /// The order of every stage for `problem`.
    ///
    /// A memory limit shapes the order of the families that say so ([`LimitUse`]); for the others
    /// it is not looked at.
    ///
    /// # Errors
    /// If the family cannot do the shape, or finds no order under the limit.
    pub fn schedule(self, problem: &Problem) -> Result<Schedule, Fault> {
        let (about, rule) = self.parts();
        let given = problem.shape().chunks_per_stage();
        if let Chunks::Exactly(chunks) = about.chunks
            && given != chunks
        {
            let what = format!("chunks per stage = {chunks}, not {given}");
            return Err(Fault::Needs { family: about.name, key: "chunks", what });
        }
        let limited = |limit| rule(&problem.clone().with_limit(limit));
        match about.limit {
            LimitUse::Own(limit) => limited(limit),
            LimitUse::Shapes { default: Some(limit) } if !problem.is_limited() => limited(limit),
            _ => rule(problem),
        }
    }
}
