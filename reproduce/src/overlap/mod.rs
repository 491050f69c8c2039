//! Two streams in a device: the pair that DeepSeek published, segment by segment; whole steps of such
//! pairs; and published gains from hiding the all-to-all of experts.
//!
//! [`profile`] reads the pair, [`pair`] composes it; [`model`] counts the work of a model, [`run`] makes a
//! pipeline of segments from it, and [`gains`] holds its steps against measured ones. [`combined`] asks the same of
//! schedules beside tensor, context and expert parallelism.

mod combined;
mod gains;
mod layer;
mod model;
mod pair;
#[cfg(test)]
mod planned;
mod profile;
mod run;

use question::Diagnostic;

use super::sources::Sources;
use super::table::{Contents, Table};

pub(super) use self::combined::{CLAIMS, SETTINGS, cells as combined, picture as combined_picture};
pub(super) use self::gains::GAINS;
pub(super) use self::model::MODELS;
pub(super) use self::pair::FIGURES;
pub(super) use self::profile::SEGMENTS;
pub(super) use self::run::RUNS;

const TITLE: &str = "Two streams in a device: a published pair of DualPipe, segment by segment; whole steps of \
such pairs; gains by overlap that others measured";

const OF_PAIRS: &str = "\
The pair is measured once, on one rank. W of its experts runs on two compute streams at once: `added` is
the sum of both, `where alone` the time in which either runs. 32.6 of its 114.5 ms of communication are
notify kernels, which mostly wait for other ranks. They are kept: a measured segment holds its stream, and
its multiprocessors, while it waits. With handshakes alone (0.75 ms each), or without them, compute bounds
this pair and they hardly matter; where communication bounds a pair they matter in full. Ranks of an expert
group that are apart are noise, not a cost. The longest stream is a lower bound. The order
in which this pair was published is as good as the best to 0.7 %.
Times were taken while both streams ran, and the matrix kernels leave 20 of 132 multiprocessors to
communication at all times: nothing is slowed down here. For the same reason `one after the other` is longer
than a run without overlap would be: that had all multiprocessors, and fewer waits.";

const OF_GAINS: &str = "\
Gains are those of megatron-hopper: during communication compute runs at 1 - 0.35 of its speed, and
communication takes 1.31 times as long. These constants are fitted to exactly the four steps that say
`fitted to`, and a fit of two constants to four figures proves little: 1.31 is read off a profile, and 0.35 is more
than the multiprocessors that are held (0.12 to 0.24), since it includes host synchronisation, gaps between
launches and memory bandwidth. Only 1 - 0.35 x 1.31 = 0.54 follows from steps. Use them for Megatron-LM on
Hopper and no further. Ideal overlap, and the multiprocessors alone, predict more than the
measured gains; they are listed and not checked. The models are from FLOPs and bytes (overlap-models.csv,
overlap-runs.csv); for alltoall they know the wires to the other node only, so that its step is shorter than the measured one.";

/// All cells: the pair and its steps, and the gains.
pub(super) fn cells(table: &Table, sources: &Sources<'_>) -> Result<Contents, Diagnostic> {
    let pairs = sources.expecting(table.name, pair::cells(sources)?)?;
    let (gains, reasons) = gains::cells(sources)?;
    let gains = sources.expecting(table.name, gains)?;
    let sheet = pair::sheet(&pairs)
        .and_text(format!("\n{OF_PAIRS}\n\n"))
        .and(gains::sheet(&gains))
        .and_text(format!("\n{OF_GAINS}\n\nNot predicted:\n{reasons}"));
    Ok(Contents { title: TITLE.to_owned(), cells: [pairs, gains].concat(), sheet })
}
