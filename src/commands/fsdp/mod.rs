//! `debubble fsdp`: packing and communication in data-parallel post-training, side by side.

mod execute;

use std::io::Write;
use std::path::PathBuf;

use answer::fsdp::fsdp;
use clap::Args;
use draw::pictures::fsdp as pictures;
use question::Context;
use question::fsdp::FsdpKeys;
use question::keys::flags::Flags;

use super::forms::Forms;
use super::{OUTPUT, Verdict, note};
use crate::error::Error;
use crate::host::Host;
use crate::{files, help};

const EXAMPLES: &str = "\
Examples:
  Packing and communication over the minibatch size, for ODC's fit of a 1.5B model:
    debubble fsdp --devices 8 --minibatch-size 1,2,4,8 --packing-ratio 1
  A model on a machine, instead of fitted costs:
    debubble fsdp --model qwen2.5-7b --machine h100 --devices 8 --minibatch-size 4
  A question in a file, with one packing method:
    debubble fsdp scenarios/fsdp/nodes.toml --method lb-mini
  Lengths of a data set of your own, more devices, a picture and a table for machines:
    debubble fsdp --lengths file:lengths.txt --devices 8,32 --svg bubble.svg --csv rows.csv
  Link speeds, with all parameters on eight devices:
    debubble fsdp --devices 32 --parameters 3GB --bandwidth 12.5GB/s --latency 10us --owners 8
  Four nodes of eight over RoCE, HSDP: parameters divided within nodes, gradients summed over them:
    debubble fsdp --devices 32 --parameters 3GB --bandwidth 300GB/s --devices-per-node 8 \
      --node-bandwidth 800Gbit/s --sharding hybrid
  A node of MI300X, where a pull uses one link of seven: on-demand is slower on short samples:
    debubble fsdp --lengths uniform:2000-2000 --cost quadratic:0.473,0.623 --minibatch-size 4 \
      --parameters 3.08GB --bandwidth 448GB/s --pull-bandwidth 64GB/s --latency 10us
  A slow device and jitter on every layer:
    debubble fsdp --slowdown device:3=1.2 --jitter pass=lognormal:0.05 --seed 1 --json
  A measured run on this machine, one process per device, next to the simulation:
    debubble fsdp --execute --devices 2 --minibatch-size 4 --minibatches 4 --layers 2 \
      --lengths longtail:32-512:1
  A timeline of one minibatch:
    debubble fsdp --devices 4 --minibatch-size 4 --layers 1 --timeline minibatch.svg

Every device computes its own samples and owns a share of the parameters. With collectives all devices
synchronise at every layer of every microbatch: the step is the sum over microbatches and layers of the slowest
device's time. With on-demand communication (ODC, arXiv 2601.19362) devices pull parameters and push gradients
point to point and synchronise once a minibatch: the step is the longest sum of one device. lb-mini gives
devices unequal numbers of microbatches, with which collectives would deadlock.

idle is the mean waiting time of a device, bubble its share of the step, speed-up is relative to lb-micro with
collectives; all are over --minibatches minibatches, and every method gets the same samples. Without
--parameters transfers take no time. If on-demand communication is predicted to be slower than collectives, the
answer says why: pulls get less than rings from links of pairs (--pull-bandwidth), from few owners and from
links between nodes. The default lengths follow a formula from 8K to 64K tokens, like LongAlign: give a file for
the lengths of a data set.

Under --sharding hybrid nodes sum their gradients with an all-reduce: with collectives for every layer of every
microbatch, on-demand once a minibatch.

With --execute a GPT is trained on samples of these lengths over TCP, with one process per device that owns its
part of the parameters: with collectives all processes synchronise at every layer of every microbatch; on-demand
they pull and push from device to device and synchronise once a minibatch. Gradients are sent as integer
multiples of 2^-40, so the order of summation does not matter: the final weights must equal those of a serial
run bit for bit, or the exit code is 1. The predicted step, from the time of each sample in the serial run and
without transfers, is printed next to the measured one.";

/// Pack samples for FSDP, with collectives or on-demand communication: step time, idle time, speed-up
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES), mut_arg("svg", |arg| arg.help("Write a picture of the bubble over the minibatch size")))]
pub struct Fsdp {
    /// File of the question, with these keys; flags override it
    #[arg(value_name = "QUESTION.toml")]
    question: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags<FsdpKeys>,
    /// Write a picture of the first minibatch, layer by layer; one setting only
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.svg")]
    #[arg(value_parser = files::Output)]
    timeline: Option<PathBuf>,
    #[command(flatten)]
    forms: Forms,
    #[command(flatten)]
    execution: execute::Flags,
}

impl Fsdp {
    /// Answers on `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<Verdict, Error> {
        let host = Host::listening();
        let context = Context::new(&host);
        let file = self.question.as_ref().map(|path| FsdpKeys::read(&context, path)).transpose()?;
        let keys = self.flags.over(file.unwrap_or_default())?;
        if self.execution.is_asked() {
            let files =
                [("csv", &self.forms.csv), ("svg", &self.forms.svg), ("timeline", &self.timeline)];
            if let Some((flag, _)) = files.into_iter().find(|(_, path)| path.is_some()) {
                return Err(Error::question(format!("--{flag} is not for --execute")));
            }
            return execute::run(&keys, &self.execution, self.forms.json, out);
        }
        if let Some(path) = &self.timeline {
            let keys = planning::samples::of_keys(&context, &keys)?;
            let settings = keys.settings(&context)?;
            let [setting] = &settings[..] else {
                let count = settings.len();
                let message = format!("--timeline takes one setting, but there are {count}");
                let cure = "name one of --devices, --minibatch-size and --packing-ratio each";
                return Err(Error::question(message).with_help(cure));
            };
            let (ways, layers) = (keys.ways(), keys.layers());
            let picture = pictures::timelines(setting, &ways, layers, self.forms.drawn.width)?;
            files::write(path, picture)?;
        }
        let answer = fsdp(&context, &keys)?;
        if answer.interrupted.is_some() {
            note("interrupted: over the minibatches that were done by then, not over all");
        }
        self.forms.write(out, &answer, |answer, width| pictures::bubbles(&answer.results, width))
    }
}
