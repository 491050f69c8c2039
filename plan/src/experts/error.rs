//! Why tokens cannot choose experts in the given way.

use thiserror::Error;

/// Why tokens cannot choose experts in the given way.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum RoutingError {
    /// No exponent, or no standard deviation.
    #[error("the spread of popularity is {0}: from 0, all experts alike, to 10")]
    Spread(f64),
    /// No counts at all, or only zeros.
    #[error("no token was counted")]
    Nothing,
    /// Another number of counts than of experts.
    #[error("list {} has {counts} counts, but a layer has {experts} experts", .at + 1)]
    Length {
        /// Which list, from 0.
        at: usize,
        /// How many counts it has.
        counts: usize,
        /// How many experts there are.
        experts: u64,
    },
    /// No count of tokens.
    #[error("list {} has a count of {count}: from 0 to 1e15", .at + 1)]
    Count {
        /// Which list, from 0.
        at: usize,
        count: f64,
    },
    /// An expert that more tokens chose than there can have been.
    #[error(
        "expert {expert} of list {} has more than one in {top_k} of all choices, but a token \
         visits {top_k} different experts", .at + 1
    )]
    Visits {
        /// Which list, from 0.
        at: usize,
        /// Which expert, from 0.
        expert: usize,
        /// The experts that a token visits.
        top_k: u64,
    },
    /// No capacity.
    #[error(
        "{given}: it must be more than 0, and at most {most}, where an expert has room for every token"
    )]
    Capacity {
        /// The given capacity factor.
        given: f64,
        /// Experts over those that a token visits.
        most: f64,
    },
}
