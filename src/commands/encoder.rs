//! `debubble encoder`: a step with an encoder in front of a language model, by schedule and placement.

use std::io::Write;
use std::path::PathBuf;

use answer::encoder::{encoder, operations};
use clap::Args;
use draw::pictures::encoder as pictures;
use question::Context;
use question::encoder::EncoderKeys;
use question::keys::flags::Flags;

use super::forms::Forms;
use super::{OUTPUT, Verdict, note, note_all};
use crate::error::Error;
use crate::host::Host;
use crate::{files, help};

const EXAMPLES: &str = "\
Examples:
  A vision encoder in front of a language model on 8 stages: which placement and schedule is fastest:
    debubble encoder --stages 8 --microbatches 16 --forward 48ms --backward 96ms --hop 500us \\
      --encoder-forward 67ms --encoder-backward 96ms --encoder-layers 48
  1F1B as in Megatron-LM, with the encoder in its bubbles, and every operation as a file:
    debubble encoder scenarios/encoder/vit-22b.toml --schedule 1f1b --placement first-stage,bubbles \\
      --svg step.svg --operations step.csv
  A frozen encoder, microbatches with 0 to 4 images:
    debubble encoder --stages 4 --microbatches 8 --forward 20ms --encoder-forward 10ms --frozen-encoder \\
      --encoder-work 1,0,4,2,1,0,3,1
  Times by sizes and machine: ViT-22B in front of a model of 70B, tensor parallelism 8:
    debubble encoder --model llama3-70b --machine h100 --tensor 8 --microbatch-size 2 --sequence 2048 \\
      --encoder-hidden 6144 --encoder-layers 48 --encoder-heads 48 --encoder-tokens 2048

first-stage runs the encoder before the first chunk. own-stages gives the encoder stages of its own; the
remaining stages share the language model. spread distributes layers of both over all chunks, so that the
longest chunk is as short as possible; a frozen encoder, which has no backward, is weighted 1 to 4 times,
whichever gives the shortest step. With bubbles every stage has the whole encoder and runs it for some
microbatches between the passes of the language model: an encoder forward ends, and is sent, before the first
chunk begins the microbatch, and its backward begins after the first chunk has ended its own. Encoder work moves
layer by layer; passes keep their order, and are delayed where the encoder is in the way. The search assigns
each microbatch to a stage: the same seed gives the same step on any number of threads. Where no schedule is
named, the row zb-auto has the order of passes searched together with that of the encoder.

The lower bound holds for all placements and orders: all work in equal parts, and the path of the longest
microbatch through encoder and model and back.";

/// Predict a step with an encoder in front of a language model (VLM), by schedule and placement of the encoder
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES), mut_arg("svg", |arg| arg.help("Write a picture of that step")))]
pub struct Encoder {
    /// File of the question, with these keys; flags override it
    #[arg(value_name = "QUESTION.toml")]
    question: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags<EncoderKeys>,
    /// Write when each pass and each run of layers begins and ends in the shortest step with the encoder in bubbles
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.csv")]
    #[arg(value_parser = files::Output)]
    operations: Option<PathBuf>,
    #[command(flatten)]
    forms: Forms,
}

impl Encoder {
    /// Answers on `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<Verdict, Error> {
        let host = Host::listening();
        let context = Context::new(&host);
        let file = self.question.as_ref().map(|path| EncoderKeys::read(&context, path));
        let keys = self.flags.over(file.transpose()?.unwrap_or_default())?;
        let answer = encoder(&context, &keys)?;
        note_all(&context);
        if answer.interrupted.is_some() {
            note("interrupted: the schedules and placements that were done by then, not all");
        }
        if let Some(path) = &self.operations {
            files::write(path, answer::csv(operations(&answer))?)?;
        }
        self.forms.write(out, &answer, pictures::timeline)
    }
}
