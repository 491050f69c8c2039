//! Published and derived formulas for the cost of a step, each with the domain where it is exact.
//!
//! All are for equal stages: F, B, W per stage and microbatch, c per hop, p stages, m microbatches.
//! Each returns `None` outside its domain.

use crate::costs::PassTimes;
use crate::units::Nanos;

/// Equal stages: what one does per microbatch, and the latency of a hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uniform {
    /// Number of stages, p.
    pub stages: u64,
    /// Number of microbatches, m.
    pub microbatches: u64,
    /// F, B and W of one stage.
    pub times: PassTimes,
    /// Latency of one hop, c.
    pub hop: Nanos,
}

impl Uniform {
    const fn parts(&self) -> [u64; 4] {
        let PassTimes { forward, backward_input, backward_weight } = self.times;
        [forward.0, backward_input.0, backward_weight.0, self.hop.0]
    }

    /// The work of one stage, m (F+B+W).
    #[must_use]
    pub const fn work(&self) -> Nanos {
        let [f, b, w, _] = self.parts();
        Nanos(self.microbatches * (f + b + w))
    }

    /// GPipe, makespan: (m+p-1)(F+B+W) + 2(p-1)c. Exact everywhere. (Huang et al. 2019; the hops
    /// are those of the first microbatch down and the last one up.)
    #[must_use]
    pub fn gpipe(&self) -> Nanos {
        let [f, b, w, c] = self.parts();
        Nanos((self.microbatches + self.stages - 1) * (f + b + w) + 2 * (self.stages - 1) * c)
    }

    /// 1F1B, makespan: (m+p-1)(F+B+W) + K c (Zero Bubble, table 2, and its latency derived).
    ///
    /// With m = q p + r: K = 2(p-1)q + 2(p-2) for r = 0. Exact for p >= 2, where p divides m and
    /// where 2 c is at most F and at most B+W, and everywhere for c = 0.
    #[must_use]
    pub fn one_f_one_b(&self) -> Option<Nanos> {
        let [f, b, w, c] = self.parts();
        let (p, m) = (self.stages, self.microbatches);
        let base = (m + p - 1) * (f + b + w);
        if c == 0 || p == 1 {
            return Some(Nanos(base));
        }
        let small_hop = 2 * c <= f && 2 * c <= b + w;
        (m.is_multiple_of(p) && small_hop)
            .then(|| Nanos(base + (2 * (p - 1) * (m / p) + 2 * p - 4) * c))
    }

    /// Interleaved 1F1B with `chunks` per stage (v), makespan, every dependency enforced:
    /// m(F+B+W) + (p-1)(F+B+W)/v + (2vp-2)c. Exact where p divides m, v >= 2 divides F and B+W and
    /// ... small hops.
    #[must_use]
    pub fn interleaved(&self, chunks: u64) -> Option<Nanos> {
        let [f, b, w, c] = self.parts();
        let (p, v) = (self.stages, chunks);
        let whole = f.is_multiple_of(v) && (b + w).is_multiple_of(v);
        let in_domain = self.microbatches.is_multiple_of(p) && v >= 2 && whole;
        in_domain.then(|| Nanos(self.work().0 + (p - 1) * (f + b + w) / v + (2 * v * p - 2) * c))
    }

    /// ZB-H1, makespan: m(F+B+W) + (p-1)(F+B-W) + 4(p-1)c (Zero Bubble, table 2; latency derived).
    /// Exact for m >= 2p where 2c <= W <= F, B.
    #[must_use]
    pub fn zb_h1(&self) -> Option<Nanos> {
        let [f, b, w, c] = self.parts();
        let in_domain = self.is_long() && 2 * c <= w && w <= f.min(b);
        in_domain.then(|| Nanos(self.work().0 + (self.stages - 1) * (f + b - w + 4 * c)))
    }

    /// ZB-H2, longest span: m(F+B+W) + (p-1)(F+B+2c-2W) (Zero Bubble, table 2; latency derived).
    /// Exact for m >= 2p where W <= F, B.
    #[must_use]
    pub fn zb_h2(&self) -> Option<Nanos> {
        let [f, b, w, c] = self.parts();
        let in_domain = self.is_long() && w <= f.min(b);
        in_domain.then(|| Nanos(self.work().0 + (self.stages - 1) * (f + b + 2 * c - 2 * w)))
    }

    const fn is_long(&self) -> bool {
        self.microbatches >= 2 * self.stages
    }
}
