//! `debubble import`: a question of the planner from the files of a training framework.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use imports::{Given, read};
use question::Context;

use super::OUTPUT;
use super::run_script::{Runs, variable};
use crate::error::Error;
use crate::host::Host;
use crate::{files, help, messages};

const EXAMPLES: &str = "\
Examples:
  A launch script of Megatron-LM, and the plan of its set-up:
    debubble import train_gpt.sh --machine h100 --output gpt.toml
    debubble plan gpt.toml
  A variable of the environment:
    debubble import train_gpt.sh --set NUM_NODES=16 > gpt.toml
  The same script run by bash, with loops, functions and sourced files, its arguments and a variable:
    debubble import train_gpt.sh --run --env NUM_NODES=16 -- --size 7b > gpt.toml
  The log of a run, which begins with its arguments:
    debubble import slurm-1234.out --machine a100-80g
  A job file of torchtitan, an experiment of Primus, a configuration of MaxText:
    debubble import llama3_70b.toml > llama.toml
  One recipe of a file of Megatron-Bridge or NeMo:
    debubble import llama31.py --recipe llama31_405b_pretrain_1024gpu_h100_bf16_config
  A recipe as its framework builds it, with every key:
    python -m debubble.recipe megatron.bridge.recipes.llama:llama3_8b_pretrain_config > llama3.json
    debubble import llama3.json
  A launch script of verl, and its step:
    debubble import run_qwen2-7b.sh --machine h100 --output grpo.toml
    debubble rl grpo.toml
  A strategy of SimuMax and its model:
    debubble import ep4_pp2_dp4_mbs1.json --model mixtral-8x7b.json

The kind of a file follows from its content. Without --run nothing is executed: variables, arithmetic and
branches on known values are followed. Arguments without an equivalent in a plan are listed.";

/// Write the question of a script, log or configuration of a training framework
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES))]
pub struct Import {
    /// Script or log of Megatron-LM, job of torchtitan, experiment of Primus, recipe of Megatron-Bridge or NeMo, JSON of
    /// `python -m debubble.recipe`, configuration of MaxText, JSON of SimuMax or Calculon, or script of verl, whose
    /// question is one for `debubble rl`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    facts: Facts,
    #[command(flatten)]
    runs: Runs,
    /// Write the question to a file
    #[arg(long, short, help_heading = OUTPUT, value_name = "FILE.toml", value_parser = files::Output)]
    output: Option<PathBuf>,
}

/// Facts of a run that its files may lack.
#[derive(Args)]
pub struct Facts {
    /// Machine of the run, one that is built in or a file [default: h100]
    #[arg(long, value_name = "NAME|FILE")]
    machine: Option<String>,
    /// Devices of the run [default: those of the launch]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    devices: Option<u64>,
    /// Tokens to train on [default: those of all steps]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    tokens: Option<f64>,
    /// Size of the vocabulary [default: that of the script or its tokenizer]
    #[arg(long, value_name = "V", allow_negative_numbers = true)]
    vocabulary: Option<u64>,
    /// Recipe of a file that has several
    #[arg(long, value_name = "NAME")]
    recipe: Option<String>,
    /// Model, where the file names none that is known: by its name, or a JSON file of SimuMax or Calculon
    #[arg(long, value_name = "NAME|FILE.json")]
    model: Option<String>,
    /// Value of a variable of the script or the environment, over its own; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    set: Vec<(String, String)>,
}

impl Facts {
    /// The same for the reader of files.
    pub fn given(self) -> Given {
        let Self { machine, devices, tokens, vocabulary, recipe, model, set } = self;
        let variables: BTreeMap<String, String> = set.into_iter().collect();
        Given { machine, devices, tokens, vocabulary, variables, recipe, model }
    }
}

impl Import {
    /// Answers on `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<(), Error> {
        let host = Host::default();
        let Self { file, facts, runs, output } = self;
        let (context, given) = (Context::new(&host), facts.given());
        let asked = match runs.run {
            true => runs.asked(&context, &file, &given)?,
            false => read(&context, &file, &given)?,
        };
        asked.notes().iter().for_each(|text| messages::note(text));
        let text = asked.to_toml().map_err(Error::question)?;
        match output {
            Some(path) => files::write(&path, text)?,
            None => out.write_all(text.as_bytes())?,
        }
        Ok(())
    }
}
