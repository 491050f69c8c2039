//! What launches ask whose words are those that bash makes.

use std::path::PathBuf;

use super::*;

const SIZES: &str = "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 \
    --max-position-embeddings 2048 --vocab-size 32000 --micro-batch-size 1 --global-batch-size 64 --train-iters 10";

/// The question of the words of `line`, with variables, where some files are.
fn asked(
    line: &str,
    environment: &[(&str, &str)],
    files: &[(&str, &str)],
) -> Result<Asked, String> {
    let files: BTreeMap<PathBuf, Vec<u8>> =
        files.iter().map(|(path, text)| (PathBuf::from(path), text.as_bytes().to_vec())).collect();
    let words: Vec<String> =
        line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let launch = Launched {
        words: &words,
        folder: Path::new("/work/run"),
        environment: &environment.iter().map(own).collect(),
        gpus_per_node: 4,
        nodes: None,
    };
    let asked = of_launch(&Context::new(&files), Path::new("run.sh"), &launch, &Given::default());
    asked.map_err(|wrong| format!("{} {}", wrong.message, wrong.help.unwrap_or_default()))
}

fn plan(line: &str, environment: &[(&str, &str)], files: &[(&str, &str)]) -> Imported {
    match asked(line, environment, files) {
        Ok(Asked::Plan(plan)) => *plan,
        Ok(Asked::Step(_)) => panic!("{line}: a step"),
        Err(wrong) => panic!("{line}: {wrong}"),
    }
}

fn devices(plan: &Imported) -> u64 {
    plan.document.cluster[0].devices.iter().flatten().sum()
}

#[test]
fn devices_are_the_processes_that_a_launch_starts() {
    for (launcher, environment, wanted) in [
        ("torchrun --nproc_per_node=8 --nnodes 1:4", &[][..], 32),
        ("/opt/bin/torchrun --nproc-per-node gpu --node_rank 0", &[], 4),
        ("torchrun", &[("SLURM_NNODES", "4")], 1),
        ("python -u -m torch.distributed.run --nnodes 2 --nproc_per_node 8", &[], 16),
        ("deepspeed --num_nodes 2", &[], 8),
        ("deepspeed --hostfile hosts", &[], 6),
        ("python3", &[("SLURM_NTASKS", "64"), ("SLURM_STEP_ID", "0")], 64),
        ("python3", &[("SLURM_NTASKS", "64")], 1),
        ("python3", &[("OMPI_COMM_WORLD_SIZE", "16")], 16),
        ("python3", &[("WORLD_SIZE", "2")], 2),
    ] {
        let files = [("/work/run/hosts", "a slots=2\nb slots=4\n")];
        let own = plan(&format!("{launcher} pretrain_gpt.py {SIZES}"), environment, &files);
        assert_eq!(devices(&own), wanted, "{launcher}");
        assert!(own.left_out.is_empty(), "{launcher}: {:?}", own.left_out);
    }
    let open = plan(&format!("accelerate launch pretrain_gpt.py {SIZES}"), &[], &[]);
    assert!(!open.has_devices());
    let gone = plan(&format!("deepspeed --hostfile none pretrain_gpt.py {SIZES}"), &[], &[]);
    assert!(gone.notes.iter().any(|note| note.contains("none") && note.contains("--nodes")));
}

#[test]
fn an_argument_without_a_value_is_refused_by_its_name() {
    for (words, name) in [
        ("--tensor-model-parallel-size --bf16", "--tensor-model-parallel-size"),
        ("--pipeline-model-parallel-size", "--pipeline-model-parallel-size"),
        ("--context-parallel-size= --bf16", "--context-parallel-size"),
        ("--num-layers --bf16", "--num-layers"),
    ] {
        let wrong = asked(&format!("torchrun pretrain_gpt.py {SIZES} {words}"), &[], &[]).err();
        let wrong = wrong.unwrap_or_default();
        assert!(
            wrong.contains(&format!("{name} has no value")) && wrong.contains("--env NAME="),
            "{wrong}"
        );
    }
    let own = plan(
        &format!("torchrun pretrain_gpt.py {SIZES} --bf16 --sequence-parallel --save"),
        &[],
        &[],
    );
    assert_eq!(own.document.setup.unwrap().tensor, None);
}

#[test]
fn a_launch_is_followed_to_the_configuration_that_it_names() {
    let job = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 1\nseq_len = 8192\nsteps = 10\n";
    let files = [("/work/run/a/llama.toml", job)];
    let own = plan(
        "torchrun --nnodes 2 --nproc_per_node 8 -m torchtitan.train --job.config_file a/llama.toml \
         --parallelism.tensor_parallel_degree 4 --training.local_batch_size=2 --compile.no-enable",
        &[],
        &files,
    );
    let setup = own.document.setup.as_ref().unwrap();
    assert_eq!((devices(&own), setup.tensor, own.document.batch), (16, Some(4), 8));

    let experiment = "modules:\n  pre_trainer:\n    framework: megatron\n    model: llama3_8B.yaml\n    overrides:\n      \
        micro_batch_size: 1\n      global_batch_size: 64\n      seq_length: 4096\n      train_iters: 10\n      \
        pipeline_model_parallel_size: ${PP:1}\n";
    let files = [("/work/run/exp.yaml", experiment)];
    let line = "torchrun --nnodes 1 --nproc_per_node 8 primus/cli/main.py train pretrain --config exp.yaml";
    let own = plan(&format!("{line} --micro_batch_size 2"), &[("PP", "4")], &files);
    let setup = own.document.setup.as_ref().unwrap();
    assert_eq!((devices(&own), setup.pipeline, setup.microbatch), (8, Some(4), Some(2)));

    let base = "model_name: \"default\"\nper_device_batch_size: 12.0\nmax_target_length: 2048\nici_fsdp_parallelism: -1\n\
        ici_tensor_parallelism: 1\nsteps: 10\n";
    let files = [("/work/run/base.yml", base)];
    let own = plan(
        "python3 -m MaxText.train base.yml model_name=llama2-7b ici_tensor_parallelism=4",
        &[],
        &files,
    );
    assert_eq!(own.document.setup.as_ref().unwrap().tensor, Some(4));

    for (line, says) in [
        ("torchrun train_mine.py --depth 4", "train_mine.py, which is not read"),
        ("torchrun -m torchtitan.train --job.config_file none.toml", "that is not here: none"),
        ("torchrun -m torchtitan.train --module none --config llama3_8b", "that is not here: none"),
    ] {
        let wrong = asked(line, &[], &[]).err().unwrap_or_default();
        assert!(wrong.contains(says), "{line}: {wrong}");
    }
}

#[test]
fn a_launch_of_verl_is_a_step() {
    let line = "python3 -m verl.trainer.main_ppo data.train_batch_size=512 +actor_rollout_ref.actor.use_dynamic_bsz=True \
        actor_rollout_ref.model.path=Qwen/Qwen2-7B-Instruct trainer.nnodes=2 actor_rollout_ref.rollout.n=5";
    let Ok(Asked::Step(step)) = asked(line, &[], &[]) else { panic!("a plan") };
    assert_eq!((step.keys.devices, step.keys.prompts, step.keys.responses), (16, 512, 5));
}
