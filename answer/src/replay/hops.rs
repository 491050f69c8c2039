//! How the hops of a run were estimated whose transfers are not in the trace.

use measured::accuracy;
use pipeline::Nanos;
use question::sheet::Sheet;
use question::{format, table};
use serde::Serialize;
use traces::{Direction, LinkHops, Run, Sends, Times};

/// How the estimate is made.
const METHOD: &str = "the median time, on each link, from when both ends were ready to when a rank \
                      went on that waited for nothing else; less where the same value of other steps \
                      took less";

/// Estimated hops, not measured.
#[derive(Serialize)]
pub struct Hops {
    /// Whether transfers were measured: never, where there is an estimate.
    pub measured: bool,
    /// How the estimate is made.
    pub method: &'static str,
    /// `paired` if sends hold up their rank until the other end is ready, else `free`.
    pub sends: &'static str,
    /// Mean over the steps of |predicted - measured| / measured, if the hops of each step are
    /// estimated from other steps: of even ones from odd ones and the other way round. Null for one
    /// step.
    pub held_out_mean_abs_error: Option<f64>,
    pub links: Vec<Link>,
}

/// The hops over one link.
#[derive(Serialize)]
pub struct Link {
    /// The stage that sends.
    pub from: u16,
    /// The stage that receives.
    pub to: u16,
    /// `forward` or `backward`.
    pub direction: &'static str,
    /// Values that crossed it.
    pub crossings: usize,
    /// Those that a rank waited for, with nothing else to wait for: the samples.
    pub samples: usize,
    /// A tenth of the samples took no more; 0 without samples.
    pub low_ns: u64,
    /// The median of the samples.
    pub median_ns: u64,
    /// Nine tenths of the samples took no more.
    pub high_ns: u64,
}

impl From<&LinkHops> for Link {
    fn from(link: &LinkHops) -> Self {
        let &LinkHops { from, to, direction, crossings, samples, low, median, high } = link;
        let direction = match direction {
            Direction::Forward => "forward",
            Direction::Backward => "backward",
        };
        let [low_ns, median_ns, high_ns] = [low, median, high].map(|time| time.0);
        Self { from, to, direction, crossings, samples, low_ns, median_ns, high_ns }
    }
}

impl Hops {
    /// The estimates of `run`, none if it has all transfers.
    pub(super) fn of(run: &Run, times: &Times) -> Option<Self> {
        let links: Vec<Link> = run.links().iter().map(Link::from).collect();
        let held_out = run.predict_held_out(times).map(|predicted| {
            let errors = run
                .steps()
                .iter()
                .zip(predicted)
                .map(|(step, predicted)| super::error(predicted.0, step.measured().0));
            accuracy::mean_absolute(&errors.collect::<Vec<f64>>())
        });
        let sends = match run.sends() {
            Sends::Free => "free",
            Sends::Paired => "paired",
        };
        (!links.is_empty()).then_some(Self {
            measured: false,
            method: METHOD,
            sends,
            held_out_mean_abs_error: held_out,
            links,
        })
    }

    /// The estimates for people.
    pub(super) fn sheet(&self) -> Sheet {
        let time = |link: &Link, time| (link.samples > 0).then_some(Nanos(time));
        let table = table!(
            link = &self.links,
            "hop" = format!("{} to {}", link.from, link.to),
            "of" = link.direction,
            "values" = link.crossings,
            "samples" = link.samples,
            "10 %" = time(link, link.low_ns),
            "median" = time(link, link.median_ns),
            "90 %" = time(link, link.high_ns),
        );
        let sends = match self.sends {
            "paired" => "a rank is held up by its sends until the other end is ready",
            _ => "a rank is not held up by its sends",
        };
        let held_out = match self.held_out_mean_abs_error {
            Some(error) => {
                let error = format::percent(error);
                format!("mean absolute error {error} if each step's hops are those of other steps")
            }
            None => "one step: its hops are estimated from itself".to_owned(),
        };
        table.and_text(format!(
            "\nhops are estimates, no measurement: {METHOD}\n{sends}; {held_out}\n"
        ))
    }
}
