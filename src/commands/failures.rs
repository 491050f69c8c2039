//! `debubble failures`: the step that remains when workers are dead, and which policy bears failures best.

use std::io::Write;
use std::path::PathBuf;

use answer::failures::failures;
use clap::Args;
use draw::pictures;
use question::Context;
use question::failures::FailureKeys;
use question::keys::flags::Flags;

use super::forms::Forms;
use super::{Asked, Verdict, note, note_all};
use crate::error::Error;
use crate::help;
use crate::host::Host;

const EXAMPLES: &str = "\
Examples:
  One of 4 x 8 workers is dead, at the worst stage: the step time under each schedule:
    debubble failures --schedule 1f1b,zb-h1,zb-2p --stages 8 --microbatches 16 --data-parallel 4 \\
      --forward 10ms --backward-input 10ms --backward-weight 10ms --hop 500us
  Two of them, with slower links between pipelines, and an all-reduce and optimizer of 40 ms:
    debubble failures --schedule zb-h1 --stages 8 --microbatches 16 --data-parallel 4 --dead 0.2,3.5 \\
      --forward 10ms --backward-input 10ms --backward-weight 10ms --hop 500us --peer-hop 2ms --update 40ms
  Policies where a worker fails every two hours and is repaired in one:
    debubble failures scenarios/failures.toml --data-parallel 4 --mtbf 7200s --repair 3600s --staggered --json
  Keys of this command in a file of their own:
    debubble failures scenarios/failures.toml --failures scenarios/failures/two-dead.toml

Each stage has a peer with the same weights in every data-parallel pipeline. The microbatches of a dead worker
are rerouted to the live workers of its stage, which run these passes in addition to their own; activations and
gradients travel to other pipelines, weights do not (ReCycle, arXiv 2405.14009). Orders of all live workers are
made by list scheduling under several rules and a local search, within the memory of a worker: --memory-limit,
or else the largest peak of a stage while no worker is dead. `bound` is a lower bound for every order. A
schedule with whole backwards has a second row with B and W split. With a staggered optimizer each stage begins
its next step when its own optimizer is done on all of its workers; the time is that of a step in the long run.

Steps with several dead workers are means over random sets of them, by list scheduling alone unless --effort is
2 or more. --mtbf compares policies: reroute; drop-pipeline, in which pipelines with a dead worker wait for its
repair and the remaining pipelines run their microbatches; wait-for-spare, in which all workers stop until a
spare is ready and resume from a checkpoint.";

/// Predict the step with dead workers, rerouted to data-parallel peers, and compare policies against failures
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES), mut_arg("svg", |arg| arg.help("Write a picture of the steps, healthy, rerouted and with the pipeline dropped")))]
pub struct Failures {
    #[command(flatten)]
    asked: Asked,
    /// File with the keys of dead workers and of failures; flags override it
    #[arg(long, value_name = "FAILURES.toml", help_heading = "Dead workers")]
    failures: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags<FailureKeys>,
    #[command(flatten)]
    forms: Forms,
}

impl Failures {
    /// Answers on `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<Verdict, Error> {
        let host = Host::listening();
        let context = Context::new(&host);
        let scenario = self.asked.read(&context)?;
        let file = self.failures.as_ref().map(|path| FailureKeys::read(&context, path));
        let keys = self.flags.over(file.transpose()?.unwrap_or_default())?;
        let answer = failures(&context, &scenario, &keys)?;
        note_all(&context);
        if answer.interrupted.is_some() {
            note(
                "interrupted: orders are searched as far as by then, and schedules may be missing",
            );
        }
        self.forms.write(out, &answer, pictures::failures::steps)
    }
}
