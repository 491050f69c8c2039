//! `two-streams`: pairs of passes that share the streams of their device, segment by segment.

use pipeline::Family;
use pipeline::overlap::Contention;
use plan::Transformer;
use question::diagnostic::Diagnostic;
use question::source::SEARCHED;
use question::values::segments::ContentionKey;

use crate::document::SetupDocument;
use crate::reader::Reader;

/// Families whose passes meet in pairs of a forward and a backward.
const PAIRED: [Family; 5] = [
    Family::DualPipe,
    Family::DualPipeV,
    Family::Stp,
    Family::OneFOneBOverlap,
    Family::InterleavedOverlap,
];

/// Contention in thousandths where communication kernels have multiprocessors of their own: DeepSeek-V3 gave 20 of
/// the 132 of an H800 to communication (arXiv 2412.19437, section 3.2.2).
const OWN_MULTIPROCESSORS: [u64; 2] = [152, 1000];

impl Reader<'_> {
    /// The contention of the two streams that the passes of a pair share, if they do.
    pub(crate) fn streams(&self, model: &Transformer) -> Result<Option<Contention>, Diagnostic> {
        let training = &self.document.training;
        let fail = |key: &str, message: &str, cure: &str| {
            Err(self.wrong(&format!("training.{key}"), message.to_owned()).with_help(cure))
        };
        if !training.two_streams.unwrap_or(false) {
            if training.contention.is_some() {
                let message = "contention is between two streams, and there is one";
                return fail(
                    "contention",
                    message,
                    "write two-streams = true, or take contention out",
                );
            }
            return Ok(None);
        }
        if model.experts.is_none() {
            let message = "two-streams hides all-to-alls of experts, and the model has none";
            return fail("two-streams", message, "take two-streams out");
        }
        if training.overlap_experts == Some(true) {
            let message =
                "two-streams and overlap-experts both say what of the all-to-alls is hidden";
            return fail("overlap-experts", message, "take one of the two out");
        }
        self.check_paired(self.document.setup.as_ref())?;
        let given = training.contention.map(ContentionKey::contention);
        let own = || {
            let [hold, slow] = OWN_MULTIPROCESSORS;
            Contention::new(hold, slow).unwrap_or(Contention::NONE)
        };
        Ok(Some(match (given, self.dispatcher()?.1) {
            (Some(given), _) => given,
            (None, true) => own(),
            (None, false) => ContentionKey::MegatronHopper.contention(),
        }))
    }

    /// Checks that the schedule of `setup` has pairs.
    fn check_paired(&self, setup: Option<&SetupDocument>) -> Result<(), Diagnostic> {
        let Some(setup) = setup else { return Ok(()) };
        let named = setup.schedule.as_deref();
        let has_pairs = |name: &str| match Family::named(name) {
            Some(family) => PAIRED.contains(&family),
            None => name != SEARCHED,
        };
        if named.is_some_and(has_pairs) {
            return Ok(());
        }
        let name = named.unwrap_or("the schedule that is taken by default");
        let names: Vec<&str> = PAIRED.into_iter().map(Family::name).collect();
        let message =
            format!("{name} never overlaps a forward with a backward: its passes share no streams");
        let cure = format!("write schedule = one of {}, or take two-streams out", names.join(", "));
        Err(self.wrong("training.two-streams", message).with_help(cure))
    }
}
