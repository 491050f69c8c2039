//! Published and derived formulas for the cost and the memory of a step, each with the domain where
//! it is exact.
//!
//! All are for equal stages: F, B, W per stage and microbatch, c per hop, p stages, m microbatches,
//! of a [`Shape`](crate::Shape) and [`Costs`](crate::Costs) that pass
//! [`Costs::check`](crate::Costs::check). A formula with a domain returns `None` outside it.

use crate::costs::{Footprint, PassTimes};
use crate::units::{Bytes, Nanos};

/// A pipeline of equal stages: the work of a stage per microbatch, and the latency of a hop.
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
        let PassTimes { forward, backward_input, backward_weight, .. } = self.times;
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

    /// The breadth-first pipeline of v chunks per stage, makespan without hops: (m + (p-1)/v)(F+B+W) for m >= p.
    /// (Lamy-Poirier 2023, arXiv 2211.05953: no stage waits for a chunk but before its first pass, at the turn, and
    /// behind its last.) `None` where m < p, hops take time, or v does not divide the times.
    #[must_use]
    pub fn looped_bfs(&self, chunks: u64) -> Option<Nanos> {
        let [f, b, w, c] = self.parts();
        let whole = chunks > 0 && [f, b, w].into_iter().all(|time| time.is_multiple_of(chunks));
        let fits = whole && c == 0 && self.microbatches >= self.stages;
        fits.then(|| Nanos((self.microbatches * chunks + self.stages - 1) * ((f + b + w) / chunks)))
    }

    /// GPipe whose stages recompute in `again`, makespan: (m+p-1)(F+B+W) + m R + 2(p-1)c. Exact everywhere.
    /// (Derived: the first R of a stage runs while it waits for the first gradient, and every other while
    /// the next stage runs its own, so that the bubble is that without R.)
    #[must_use]
    pub fn gpipe_recomputing(&self, again: Nanos) -> Nanos {
        self.gpipe() + Nanos(self.microbatches * again.0)
    }

    /// 1F1B, makespan: (m+p-1)(F+B+W) + K c (Zero Bubble, table 2, and its latency derived). Exact
    /// everywhere.
    ///
    /// With m = q p + r, K = 2(p-1)q + 2(p-2), and where p does not divide m another 2 max(1, r-1).
    #[must_use]
    pub fn one_f_one_b(&self) -> Nanos {
        let [f, b, w, c] = self.parts();
        let (p, m) = (self.stages, self.microbatches);
        let base = (m + p - 1) * (f + b + w);
        if p == 1 {
            return Nanos(base);
        }
        let rest = match m % p {
            0 => 0,
            r => 2 * (r - 1).max(1),
        };
        Nanos(base + (2 * (p - 1) * (m / p) + 2 * (p - 2) + rest) * c)
    }

    /// PipeDream and PipeDream-2BW, an update of m microbatches in the steady state:
    /// m(F+B+W) + 2(p-1)c m/p, rounded up. Without hops no bubble (Chimera, table 2); the latency is
    /// derived: stage 0 has p microbatches under way, each of which takes p(F+B+W) and a hop over
    /// each of p-1 links and back. Exact everywhere.
    #[must_use]
    pub const fn pipedream(&self) -> Nanos {
        let (p, m) = (self.stages, self.microbatches);
        Nanos(self.work().0 + (2 * (p - 1) * self.hop.0 * m).div_ceil(p))
    }

    /// PipeDream, versions of the weights on `stage`: p-r, those that a microbatch under way has
    /// seen and the latest (Chimera, table 2, D at most). Exact for m >= p microbatches in a run.
    #[must_use]
    pub const fn pipedream_versions(&self, stage: u64) -> u64 {
        self.stages - stage
    }

    /// Interleaved 1F1B with `chunks` per stage (v), makespan, every dependency enforced:
    /// m(F+B+W) + (p-1)(F+B+W)/v + (2vp-2)c.
    ///
    /// Exact where p divides m, v >= 2 divides F and B+W, and no hop is longer than the forward or
    /// the backward of a chunk: v c <= F and v c <= B+W. For p = 1 there are no hops: m(F+B+W).
    #[must_use]
    pub fn interleaved(&self, chunks: u64) -> Option<Nanos> {
        let [f, b, w, c] = self.parts();
        let (p, v) = (self.stages, chunks);
        if p == 1 {
            return (v >= 1).then(|| self.work());
        }
        let whole = v >= 2 && f.is_multiple_of(v) && (b + w).is_multiple_of(v);
        let in_domain =
            whole && self.microbatches.is_multiple_of(p) && c <= (f / v).min((b + w) / v);
        in_domain.then(|| Nanos(self.work().0 + (p - 1) * (f + b + w) / v + (2 * v * p - 2) * c))
    }

    /// ZB-H1, makespan: m(F+B+W) + (p-1)(F+B-W) + 4(p-1)c (Zero Bubble, table 2; latency derived).
    ///
    /// Exact for m >= 2p where 2c <= W <= F, B: then the round trip of a microbatch to the next
    /// stage and back fits into two periods F+B+W.
    #[must_use]
    pub fn zb_h1(&self) -> Option<Nanos> {
        let [f, b, w, c] = self.parts();
        let in_domain = self.is_long() && 2 * c <= w && w <= f.min(b);
        in_domain.then(|| Nanos(self.work().0 + (self.stages - 1) * (f + b - w + 4 * c)))
    }

    /// ZB-H2, longest span: m(F+B+W) + (p-1)(F+B+2c-2W) (Zero Bubble, table 2; latency derived).
    ///
    /// Exact for m >= 2p where W <= F, B and 2c <= F+B; a longer hop is not hidden by the second
    /// forward of head start.
    #[must_use]
    pub fn zb_h2(&self) -> Option<Nanos> {
        let [f, b, w, c] = self.parts();
        let in_domain = self.is_long() && w <= f.min(b) && 2 * c <= f + b;
        in_domain.then(|| Nanos(self.work().0 + (self.stages - 1) * (f + b + 2 * c - 2 * w)))
    }

    /// GIS with `chunks` per stage (v) and groups of `group` microbatches (g), makespan:
    /// m(F+B+W) + (p-1)(F+B)/v + (p-g)(v-1)(F+B-W)/v (PipeOffload, table 1, there for g = p and
    /// g = p/2).
    ///
    /// Exact without hops where g divides m, v divides F, B and W, and g = p; or 2g = p, m >= 2g,
    /// W <= F, B and no more between F and B than W; or g >= p/2, m >= 2g and F = B = W.
    #[must_use]
    pub fn gis(&self, chunks: u64, group: u64) -> Option<Nanos> {
        let [f, b, w, c] = self.parts();
        let (p, v, g) = (self.stages, chunks, group);
        let whole = v >= 1 && [f, b, w].into_iter().all(|time| time.is_multiple_of(v));
        let in_groups = g >= 1 && self.microbatches.is_multiple_of(g) && whole && c == 0;
        let even = w <= f.min(b) && f.abs_diff(b) <= w;
        let long = self.microbatches >= 2 * g;
        let hidden = long && ((2 * g == p && even) || (2 * g >= p && f == b && b == w));
        let in_domain = in_groups && g <= p && (g == p || hidden);
        in_domain.then(|| {
            let turns = (p - 1) * (f + b) + (p - g) * (v - 1) * (f + b - w.min(f + b));
            Nanos(self.work().0 + turns / v)
        })
    }

    /// GIS in groups too small to come back in time (g < p/2), with `chunks` per stage (v): length in
    /// passes of equal length of the uniform repetition that the order is read off, before passes
    /// move up into its gaps, which is the published length (PipeOffload's generator). For m a
    /// multiple of g: 6 P + 3(p+g-1) + 3 g v (m/g - 1), where the last chunk of a group begins P
    /// forwards after its first.
    #[must_use]
    pub fn gis_repetition(&self, chunks: u64, group: u64) -> Option<u64> {
        let (p, v, g) = (self.stages, chunks, group);
        let in_domain = g >= 1 && v >= 1 && 2 * g < p && self.microbatches.is_multiple_of(g);
        in_domain.then(|| {
            let spread = p.div_ceil(2).div_ceil(g);
            let common = (1..=v.min(spread)).rev().find(|&n| v % n == 0 && spread % n == 0);
            let last = g * (spread * (v - 1) + (v - 1) * common.unwrap_or(1) / v);
            6 * last + 3 * (p + g - 1) + 3 * g * v * (self.microbatches / g - 1)
        })
    }

    /// PO-H and PO-F, makespan less than m(F+B+W) + (p-1)(F+B+W) (PipeOffload, table 1, which says
    /// less than 1F1B). For p >= 2 and F = B = W without hops, m a multiple of p.
    #[must_use]
    pub fn po_bound(&self) -> Option<Nanos> {
        let [f, b, w, c] = self.parts();
        let in_domain = self.stages >= 2 && f > 0 && f == b && b == w && c == 0;
        let in_domain = in_domain && self.microbatches.is_multiple_of(self.stages);
        in_domain.then(|| Nanos(self.work().0 + (self.stages - 1) * (f + b + w)))
    }

    /// Seq1F1B with `segments` of equal time per microbatch (k), makespan:
    /// m(F+B+W) + (p-1)(F+B+W)/k (derived: the last stage never waits from its first forward on).
    /// Exact without hops where k divides F and B+W.
    #[must_use]
    pub fn seq1f1b(&self, segments: u64) -> Option<Nanos> {
        let [f, b, w, c] = self.parts();
        let k = segments;
        let in_domain = k >= 1 && f.is_multiple_of(k) && (b + w).is_multiple_of(k) && c == 0;
        in_domain.then(|| Nanos(self.work().0 + (self.stages - 1) * ((f + b + w) / k)))
    }

    /// DualPipe, makespan and longest span: m(F+B+W) + (p/2-1)(F + max(B,W) - W) + max((p/2-1)F, (p/2-1)B - F), which
    /// is m(F+B+W) + (p/2-1)(F+2B-W) where W <= F = B (DeepSeek-V3, table 2, where B has W in it and a pair takes F&B;
    /// here a pair takes F+B+W; derived for other times).
    ///
    /// Exact without hops for even p and even m >= 2p.
    #[must_use]
    pub fn dualpipe(&self) -> Option<Nanos> {
        let even = self.stages.is_multiple_of(2) && self.microbatches.is_multiple_of(2);
        let in_domain = even && self.is_still();
        in_domain.then(|| self.work() + self.both_ways(self.stages / 2))
    }

    /// DualPipeV, makespan and longest span: m(F+B+W) and half of what [`Uniform::dualpipe`] of 2p stages has beyond,
    /// ((p-1)(F + max(B,W) - W) + max((p-1)F, (p-1)B - F))/2 (DualPipe's code, where B has W in it, a pair takes F&B,
    /// times are those of chunks and PP = 2p; derived for other times than W <= F = B).
    ///
    /// Exact without hops for m >= 2p where F, B and W are even.
    #[must_use]
    pub fn dualpipe_v(&self) -> Option<Nanos> {
        let whole = self.parts().into_iter().all(|time| time.is_multiple_of(2));
        let in_domain = whole && self.is_still();
        in_domain.then(|| Nanos(self.work().0 + self.both_ways(self.stages).0 / 2))
    }

    /// STP, makespan and longest span: m(F+B+W) + (p-1)(2max(F,W) + max(B,W) + max(F,B) - 3W)/2, which is
    /// m(F+B+W) + (p-1)(F+B-W)/2 where F = B = W (STP, table of the README, without all-reduces; derived for other
    /// times).
    ///
    /// Exact without hops for m >= 3p-1 where F, B and W are even.
    #[must_use]
    pub fn stp(&self) -> Option<Nanos> {
        let [f, b, w, c] = self.parts();
        let whole = [f, b, w].into_iter().all(|time| time.is_multiple_of(2));
        let in_domain = whole && c == 0 && self.microbatches + 1 >= 3 * self.stages;
        let bubble = (self.stages - 1) * (2 * f.max(w) + b.max(w) + f.max(b) - 3 * w) / 2;
        in_domain.then(|| self.work() + Nanos(bubble))
    }

    /// The bubble of DualPipe whose two directions meet after `half` stages.
    fn both_ways(&self, half: u64) -> Nanos {
        let [f, b, w, _] = self.parts();
        let turns = half - 1;
        Nanos(turns * (f + b.saturating_sub(w)) + (turns * f).max((turns * b).saturating_sub(f)))
    }

    /// Chimera by direct concatenation, makespan: (m + p/2 - 1)(F+B+W) (Chimera, table 2: idle share
    /// (p-2)/(2m+p-2); from a secondary copy, and derived again from its slots).
    ///
    /// Exact without hops for even p that divides m, where F = B+W or p = 2.
    #[must_use]
    pub fn chimera(&self) -> Option<Nanos> {
        let [f, b, w, c] = self.parts();
        let (p, m) = (self.stages, self.microbatches);
        let in_domain = p.is_multiple_of(2) && m.is_multiple_of(p) && c == 0;
        let in_domain = in_domain && (f == b + w || p == 2);
        in_domain.then(|| Nanos((m + p / 2 - 1) * (f + b + w)))
    }

    /// Hanayo with `chunks` per stage (v, two for each wave), makespan: m(F+B+W) + (p-1)(F+B+W)/v
    /// (derived from its slots; no formula of the paper's was at hand).
    ///
    /// Exact without hops for even v and p that divides m, where v divides F and F = B+W; or p = 1.
    #[must_use]
    pub fn hanayo(&self, chunks: u64) -> Option<Nanos> {
        let [f, b, w, c] = self.parts();
        let (p, v) = (self.stages, chunks);
        let even = v >= 2 && v.is_multiple_of(2) && c == 0 && f.is_multiple_of(v);
        let whole = even && (b + w).is_multiple_of(v) && self.microbatches.is_multiple_of(p);
        let in_domain = whole && (f == b + w || p == 1);
        in_domain.then(|| Nanos(self.work().0 + (p - 1) * ((f + b + w) / v)))
    }

    /// V-Min, longest span: m(F+B+W) + (4p-5) F/2, where 3 divides p (4p-7) F/2 (regenerated with the
    /// authors' code).
    ///
    /// Exact for p >= 2 and m >= p+2 where F = B = W is even and there are no hops.
    #[must_use]
    pub fn v_min(&self) -> Option<Nanos> {
        let pass = self.unit_pass().filter(|_| self.stages >= 2 && self.is_past_p())?;
        let less = if self.stages.is_multiple_of(3) { 7 } else { 5 };
        Some(Nanos(self.work().0 + (4 * self.stages - less) * pass))
    }

    /// V-Half, longest span: m(F+B+W) + (3p-7) F/2, for odd p (3p-4) F/2 (regenerated with the
    /// authors' code).
    ///
    /// Exact for p >= 3 and m >= p+2 where F = B = W is even and there are no hops.
    #[must_use]
    pub fn v_half(&self) -> Option<Nanos> {
        let pass = self.unit_pass().filter(|_| self.stages >= 3 && self.is_past_p())?;
        let less = if self.stages.is_multiple_of(2) { 7 } else { 4 };
        Some(Nanos(self.work().0 + (3 * self.stages - less) * pass))
    }

    /// The adaptive V with room for `chunks` (k) chunk activations, longest span:
    /// m(F+B+W) + (3p-1-3k + max(3p, p-1+2(1+floor((k+1)/2)))) F/2 (`v_auto_schedule.py`).
    ///
    /// Exact for 2 floor((p+4)/3) <= k <= 2p and m >= 2p where F = B = W is even and there are no
    /// hops.
    #[must_use]
    pub fn v_adaptive(&self, chunks: u64) -> Option<Nanos> {
        let (p, k) = (self.stages, chunks);
        let fits = 2 * ((p + 4) / 3) <= k && k <= 2 * p;
        let pass = self.unit_pass().filter(|_| fits && self.is_long())?;
        let passes = 3 * p + (3 * p).max(p - 1 + 2 * (1 + k.div_ceil(2))) - 1 - 3 * k;
        Some(Nanos(self.work().0 + passes * pass))
    }

    /// GPipe, most microbatches in flight on any stage: m. Exact everywhere.
    #[must_use]
    pub const fn gpipe_in_flight(&self) -> u64 {
        self.microbatches
    }

    /// 1F1B, most microbatches in flight on `stage` (from 0): min(m, p-r). Exact everywhere.
    #[must_use]
    pub fn one_f_one_b_in_flight(&self, stage: u64) -> u64 {
        self.microbatches.min(self.stages - stage)
    }

    /// Interleaved 1F1B with `chunks` per stage (v), most chunk activations in flight on `stage`:
    /// one more than the warm-up, 2(p-r-1) + (v-1)p + 1, or all v m. Exact where p divides m.
    #[must_use]
    pub fn interleaved_in_flight(&self, chunks: u64, stage: u64) -> Option<u64> {
        let (p, m) = (self.stages, self.microbatches);
        let warm_up = 2 * (p - stage - 1) + (chunks.saturating_sub(1)) * p;
        (chunks >= 1 && m.is_multiple_of(p)).then(|| (warm_up + 1).min(chunks * m))
    }

    /// GIS with `chunks` per stage (v) and groups of `group` microbatches (g), most chunk activations
    /// in flight on `stage`: g(v-1) + p-r, or all v m (PipeOffload, section 4). Exact where
    /// p/2 <= g <= p and g divides m.
    #[must_use]
    pub fn gis_in_flight(&self, chunks: u64, group: u64, stage: u64) -> Option<u64> {
        let (p, v, g) = (self.stages, chunks, group);
        let most = g * v.saturating_sub(1) + p - stage;
        let in_domain = v >= 1 && self.microbatches.is_multiple_of(g.max(1));
        (in_domain && 2 * g >= p && g <= p).then(|| most.min(v * self.microbatches))
    }

    /// PO-H with `chunks` per stage (v), chunk activations on the device of stage 0 on average, once the
    /// pipeline is full and where copies take no time: n (ceil(p/2) (n-1) + p) / v with n = floor(v/2)
    /// chunks that stay. For even p and v that is p (v+2)/8, PipeOffload's (v+2)/(8v) M (table 1); for
    /// odd ones it is derived. For F = B = W and m >= 4p the peak is up to 3 more.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn po_h_on_device(&self, chunks: u64) -> f64 {
        let stay = chunks / 2;
        let held = stay * (self.stages.div_ceil(2) * stay.saturating_sub(1) + self.stages);
        held as f64 / chunks.max(1) as f64
    }

    /// Seq1F1B with `segments` per microbatch (k), most segments in flight on `stage`: p-r-1+k, or all
    /// m k. Exact everywhere.
    #[must_use]
    pub fn seq1f1b_in_flight(&self, segments: u64, stage: u64) -> u64 {
        (self.stages - stage - 1 + segments).min(self.microbatches * segments)
    }

    /// Chimera, most microbatches in flight on `stage`: p/2+1 at the ends and one more with each stage
    /// towards the middle, up to p (Chimera, table 2). Exact for even p and m >= p.
    #[must_use]
    pub fn chimera_in_flight(&self, stage: u64) -> Option<u64> {
        let in_domain = self.stages.is_multiple_of(2) && self.microbatches >= self.stages;
        in_domain.then(|| self.stages / 2 + 1 + stage.min(self.stages - 1 - stage))
    }

    /// Hanayo with `chunks` per stage (v), most chunk activations in flight on `stage`:
    /// (v-1) p + r + 1 (derived). Exact for even v and p that divides m.
    #[must_use]
    pub fn hanayo_in_flight(&self, chunks: u64, stage: u64) -> Option<u64> {
        let in_domain = chunks >= 2 && chunks.is_multiple_of(2);
        let in_domain = in_domain && self.microbatches.is_multiple_of(self.stages);
        in_domain.then(|| (chunks - 1) * self.stages + stage + 1)
    }

    /// V-Min, most chunk activations in flight on the stage that has most: 2 floor((p+4)/3), or all
    /// 2m (Controllable Memory, official page). Exact everywhere.
    #[must_use]
    pub fn v_min_in_flight(&self) -> u64 {
        2 * self.microbatches.min((self.stages + 4) / 3)
    }

    /// V-Half, most chunk activations in flight on the stage that has most: 2 floor((p+2)/2), or all
    /// 2m (Controllable Memory, official page). Exact everywhere.
    #[must_use]
    pub fn v_half_in_flight(&self) -> u64 {
        2 * self.microbatches.min((self.stages + 2) / 2)
    }

    /// STP, most chunk activations in flight on `stage` (r): 3p + max(1, r); until B, not W, 3p+1 on every stage (STP,
    /// table of the README: 3p; derived from its slots, in which a forward runs beside a backward that needs all).
    /// Exact for m >= 3p-1.
    #[must_use]
    pub fn stp_in_flight(&self, stage: u64) -> u64 {
        3 * self.stages + stage.max(1)
    }

    /// 1F1B with the output layer in shards and `barriers` behind S and T (k, 2 of algorithm 1 and 1 of
    /// algorithm 2), most microbatches in flight on `stage`: p-r+k, or all m (Vocabulary Parallelism,
    /// section 5.2: p+2 and p+1 on the first stage). Exact everywhere.
    #[must_use]
    pub fn vocabulary_in_flight(&self, barriers: u64, stage: u64) -> u64 {
        self.microbatches.min(self.stages - stage + barriers)
    }

    /// Interlaced 1F1B, most microbatches in flight on `stage`: 1 + ceil(3(p-1-r)/2), or all m
    /// (Vocabulary Parallelism, appendix B: 1.5p on the first stage). Exact everywhere.
    #[must_use]
    pub fn interlaced_in_flight(&self, stage: u64) -> u64 {
        self.microbatches.min(1 + (3 * (self.stages - 1 - stage)).div_ceil(2))
    }

    /// V-Half with the output layer in shards and `barriers` behind S and T (k), most chunk activations
    /// in flight on the stage that has most: 2 (floor((p+2)/2) + k), or all 2m (derived: every barrier
    /// lets a microbatch live a repetition longer). Exact everywhere.
    #[must_use]
    pub fn v_half_vocabulary_in_flight(&self, barriers: u64) -> u64 {
        2 * self.microbatches.min((self.stages + 2) / 2 + barriers)
    }

    /// ZB-H1, peak activation memory of `stage` (from 0): (p-r) M_B + r M_W (Zero Bubble, section
    /// 2.1). Exact for m >= 2p where M_W <= M_B.
    #[must_use]
    pub fn zb_h1_peak(&self, held: Footprint, stage: u64) -> Option<Bytes> {
        let in_domain = self.is_long() && held.until_weight <= held.until_backward;
        let delayed = held.until_weight * stage;
        in_domain.then(|| held.until_backward * (self.stages - stage) + delayed)
    }

    /// ZB-H2, peak activation memory of `stage` (from 0): (2p-2r-1) M_B + 2r M_W (Zero Bubble,
    /// section 2.2). Exact for m >= 2p where M_W <= M_B.
    #[must_use]
    pub fn zb_h2_peak(&self, held: Footprint, stage: u64) -> Option<Bytes> {
        let in_domain = self.is_long() && held.until_weight <= held.until_backward;
        let delayed = held.until_weight * (2 * stage);
        in_domain.then(|| held.until_backward * (2 * (self.stages - stage) - 1) + delayed)
    }

    /// Whether no hop takes time and there are microbatches enough for DualPipe.
    const fn is_still(&self) -> bool {
        self.hop.0 == 0 && self.is_long()
    }

    const fn is_past_p(&self) -> bool {
        self.microbatches >= self.stages + 2
    }

    /// The time of every pass of one of two chunks per stage, where all take the same and no hop
    /// takes any.
    fn unit_pass(&self) -> Option<u64> {
        let [f, b, w, c] = self.parts();
        (f == b && b == w && c == 0 && f.is_multiple_of(2)).then_some(f / 2)
    }

    const fn is_long(&self) -> bool {
        self.microbatches >= 2 * self.stages
    }
}

/// PipeOffload's k, of a transformer layer of hidden size `hidden` and sequences of `seq`: its
/// activations to the host and back, 20 b s h bytes each way once LayerNorm, GeLU and dropout are
/// computed again, over its F, B and W, 12 b s h (6h+s) FLOPs: 10/(3(6h+s)) Bc/Bo, where the device
/// computes at Bc = `flops` per second and copies at Bo = `bandwidth` bytes per second (arXiv
/// 2503.01328, formula 1).
#[must_use]
pub fn offload_ratio(hidden: f64, seq: f64, flops: f64, bandwidth: f64) -> f64 {
    10.0 / (3.0 * (6.0 * hidden + seq)) * flops / bandwidth
}
