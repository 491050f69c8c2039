//! The collectives that benchmarks of networks time, and the bytes that pass a device.

use serde::{Serialize, Serializer};

/// A collective, as nccl-tests names its programs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Collective {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    SendRecv,
    /// One that no constant of a machine is of, such as broadcast.
    Other,
}

/// The names of each in programs and tables, the usual one first.
const NAMES: [(Collective, &[&str]); 6] = [
    (Collective::AllReduce, &["all_reduce", "allreduce"]),
    (Collective::AllGather, &["all_gather", "allgather"]),
    (Collective::ReduceScatter, &["reduce_scatter", "reducescatter"]),
    (Collective::AllToAll, &["alltoall", "all_to_all"]),
    (Collective::SendRecv, &["sendrecv", "send_recv"]),
    (
        Collective::Other,
        &[
            "another collective",
            "broadcast",
            "reduce",
            "gather",
            "scatter",
            "hypercube",
            "alltoallv",
        ],
    ),
];

/// Relative difference of a printed ratio of rates from that of a collective: rates are printed with two decimals.
const PRINTED: f64 = 0.02;

impl Collective {
    /// The collective with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase().replace('-', "_");
        NAMES.iter().find(|(_, names)| names.contains(&name.as_str())).map(|(one, _)| *one)
    }

    /// The collective of the program `word`, a path such as `build/all_reduce_perf`.
    pub(super) fn of_program(word: &str) -> Option<Self> {
        let file = word.rsplit('/').next()?;
        let (name, end) = file.split_once("_perf")?;
        matches!(end, "" | "_mpi").then(|| Self::named(name)).flatten()
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(one, _)| *one == self).map_or("", |(_, names)| names[0])
    }

    /// Bus bandwidth over algorithm bandwidth among `ranks` devices: the bytes that pass each device for a byte of the
    /// size that is printed (nccl-tests, doc/PERFORMANCE.md).
    #[must_use]
    pub fn factor(self, ranks: u64) -> f64 {
        let n = plan::number(ranks.max(1));
        match self {
            Self::AllReduce => 2.0 * (n - 1.0) / n,
            Self::AllGather | Self::ReduceScatter | Self::AllToAll => (n - 1.0) / n,
            Self::SendRecv | Self::Other => 1.0,
        }
    }

    /// The only collective that prints this ratio of both bandwidths among `ranks` devices, if there is one; `reduces` says
    /// whether the table names an operation of reduction.
    pub(super) fn of_ratio(ratio: f64, ranks: u64, reduces: bool) -> Option<Self> {
        let is = |one: Self| one.prints(ratio, ranks);
        let others = is(Self::SendRecv) || is(Self::AllGather);
        if is(Self::AllReduce) && !others {
            return Some(Self::AllReduce);
        }
        let is_scatter = is(Self::ReduceScatter) && !is(Self::SendRecv) && !is(Self::AllReduce);
        (is_scatter && reduces).then_some(Self::ReduceScatter)
    }

    /// Whether it prints this ratio of both bandwidths among `ranks` devices.
    pub(super) fn prints(self, ratio: f64, ranks: u64) -> bool {
        let factor = self.factor(ranks);
        (ratio - factor).abs() <= PRINTED * factor.max(0.5)
    }
}

impl Serialize for Collective {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_known_by_their_names() {
        for (word, one) in [
            ("./build/all_reduce_perf", Some(Collective::AllReduce)),
            ("/opt/rccl-tests/build/alltoall_perf", Some(Collective::AllToAll)),
            ("all_gather_perf_mpi", Some(Collective::AllGather)),
            ("reduce_perf", Some(Collective::Other)),
            ("ib_write_perf", None),
            ("all_reduce_perf.cu", None),
        ] {
            assert_eq!(Collective::of_program(word), one, "{word}");
        }
    }

    #[test]
    fn a_ratio_names_a_collective_only_where_no_other_prints_it() {
        let of = Collective::of_ratio;
        assert_eq!(of(1.75, 8, true), Some(Collective::AllReduce));
        assert_eq!(of(0.875, 8, true), Some(Collective::ReduceScatter));
        // All-gather, all-to-all and others without a reduction print the same.
        assert_eq!(of(0.875, 8, false), None);
        // Between two devices an all-reduce prints what a send prints.
        assert_eq!(of(1.0, 2, true), None);
        assert_eq!(of(1.3, 8, true), None);
    }
}
