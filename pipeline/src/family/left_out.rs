//! Schedules that people will look for, and why they are not offered.

/// A published schedule that is not a [`Family`](super::Family).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeftOut {
    /// The name that it would have.
    pub name: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// Why it is not offered, and what to ask instead.
    pub why: &'static str,
}

impl LeftOut {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Self; 2] = [
        Self {
            name: "bpipe",
            source: "BPipe (Kim et al. 2023)",
            why: "it is the order of 1f1b with activations moved between stage r and stage p-1-r, so that none \
                  holds more than ceil((p+2)/2) M_B; activations here stay on their stage, or go to the host \
                  (--offload)",
        },
        Self {
            name: "slimpipe",
            source: "SlimPipe (Li et al. 2025, arXiv 2504.14519)",
            why: "stages exchange the attention of slices so that all slices take equal times, and no code says \
                  in which order and by how many bytes; seq1f1b is 1f1b of slices that take equal times without \
                  that exchange",
        },
    ];

    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name == name)
    }
}
