//! What launch scripts ask, whose values and launches stand in unusual places.

use std::path::PathBuf;

use super::tests::{imported, refused};
use super::*;

const SIZES: &str = "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 \
    --max-position-embeddings 2048 --vocab-size 32000 --micro-batch-size 1 --global-batch-size 64 --train-iters 10";

/// A script that ends in a launch with the value `TP`, behind the lines `before`.
fn launch(before: &str) -> String {
    format!(
        "{before}\ntorchrun --nproc-per-node 8 pretrain_gpt.py {SIZES} --tensor-model-parallel-size $TP --bf16\n"
    )
}

fn devices(text: &str) -> u64 {
    imported(text).document.cluster[0].devices.iter().flatten().sum()
}

fn tensor(text: &str) -> Option<u64> {
    imported(text).document.setup.unwrap().tensor
}

#[test]
fn a_value_is_read_or_named_as_unknown() {
    for (before, tensor_is) in [
        ("TP=2\n# TP=8 \\\nTP=4", 4),
        ("TP=2\nf() {\n  TP=$1\n}\nf 4", 4),
        ("declare -a L=(2 4 8)\nTP=${L[1]}", 4),
        ("NAME=gpt-4.sh\nTP=${NAME#gpt-}\nTP=${TP%.*}", 4),
        ("TP=4\n[ -z \"$KEY\" ] && TP=4\n[ -n \"$KEY\" ] && TP=8", 4),
        ("TP=4\nif [ -f a ]; then X=3; fi", 4),
        ("TP=4\nif [ -z \"$DATA\" ]; then\n  echo usage\n  exit 1\nfi", 4),
        ("TP=4\ngrep -q a b || exit 1", 4),
        ("TP=4\nTP=8 | cat\n(TP=8)\nTP=8 env > /dev/null", 4),
        ("TP=4\nwhile [ $# -gt 0 ]; do TP=$1; shift; done", 4),
    ] {
        assert_eq!(tensor(&launch(before)), Some(tensor_is), "{before}");
    }
    for before in [
        "TP=2\nif [ -f a ]; then TP=4; fi",
        "TP=2\nwhile read -r line; do TP=4; done < a",
        "TP=2\nread -r TP < a",
        "TP=2\nsource a.sh",
        "TP=2\neval \"$(cat a)\"",
        "TP=2\nfor f in *.txt; do TP=$((TP + 2)); done",
        "TP=2\nnproc && TP=4",
        "TP=$(nproc)",
        "TP=2\ncase $(uname) in Linux) TP=4;; esac",
        "TP=2\nfor i in 1 2; do TP=$((TP + 1)); done",
        "TP=2\nf() {\n  local X=$1\n  TP=4\n}\nf",
        "TP=2\ng() { TP=4; }\nif [ -f a ]; then { true; g; }; fi",
        "TP=2\nif [ -f a ]; then : ${X:=$((TP = 4))}; fi",
    ] {
        let wrong = refused(&launch(before));
        assert!(
            wrong.contains("--tensor-model-parallel-size: only a run of the script knows TP"),
            "{before}: {wrong}"
        );
        assert!(wrong.contains("--set TP=VALUE"), "{before}: {wrong}");
    }
}

/// The question of `text` in `jobs/run.sh`, and of `files`.
fn beside(text: &str, files: &[(&str, &str)]) -> Result<Option<u64>, String> {
    let all = files.iter().map(|(path, text)| (PathBuf::from(path), text.as_bytes().to_vec()));
    let files: BTreeMap<_, _> = all.collect();
    let read = of_text(&Context::new(&files), Path::new("jobs/run.sh"), text, &Given::default());
    let tensor = |own: Imported| own.document.setup.unwrap().tensor;
    read.map(tensor).map_err(|wrong| format!("{} {:?}", wrong.message, wrong.help))
}

#[test]
fn files_beside_the_script_are_followed() {
    let here = "DIR=\"$(cd -- \"$(dirname -- \"${BASH_SOURCE[0]}\")\" &>/dev/null && pwd)\"\n";
    let files = [("jobs/env.sh", "TP=4"), ("jobs/sub/a.sh", ". env.sh"), ("env.sh", "TP=8")];
    for source in [
        "source env.sh",
        ". ./env.sh",
        "source sub/a.sh",
        "source $DIR/env.sh",
        "cd /\n. $DIR/env.sh",
    ] {
        let text = launch(&format!("{here}TP=2\n{source}"));
        assert_eq!(beside(&text, &files), Ok(Some(4)), "{source}");
    }
    for source in [
        "source ../env.sh",
        "source /jobs/env.sh",
        "source none.sh",
        "source $X",
        "source env.sh 1",
        "cd /\n. env.sh",
    ] {
        let wrong = beside(&launch(&format!("{here}TP=2\n{source}")), &files).unwrap_err();
        assert!(wrong.contains("only a run of the script knows TP"), "{source}: {wrong}");
    }
    let secret = "root:secret";
    for own in [secret, "TP=secret", "TP=$secret", "TP=4 secret=\"${secret\""] {
        let text = launch("TP=2\nsource env.sh");
        if let Err(wrong) = beside(&text, &[("jobs/env.sh", own)]) {
            assert!(wrong.contains("env.sh") && !wrong.contains("secret"), "{own}: {wrong}");
        }
    }
    assert!(beside(&launch("source env.sh"), &[("jobs/env.sh", "source env.sh")]).is_err());
}

#[test]
fn words_that_do_not_matter_stop_nothing() {
    let text = launch("TP=4\nHERE=`pwd`\nLOG=$(date).log");
    for (from, to) in [
        ("pretrain_gpt.py", "${HERE}/pretrain_gpt.py"),
        ("pretrain_gpt.py", "$(pwd)/pretrain_gpt.py"),
        ("--bf16", "--bf16 2>&1 | tee $LOG"),
        ("--bf16", "--bf16 > $HERE/$LOG 2> $(date)"),
        ("--bf16", "--save $HERE --bf16 \"$@\""),
    ] {
        assert_eq!(tensor(&text.replace(from, to)), Some(4), "{to}");
    }
    let wrong = refused(&text.replace("--bf16", "--bf16 $EXTRA"));
    assert!(wrong.contains("knows EXTRA, which may have arguments"), "{wrong}");
    let wrong = refused(&text.replace("--bf16", "--bf16 $(cat flags)"));
    assert!(wrong.contains("the output of a command") && !wrong.contains("--set"), "{wrong}");
    let more = launch("TP=4\nX=(--save)\nif [ -f a ]; then X+=(--fp16); fi");
    assert!(refused(&more.replace("--bf16", "--bf16 ${X[@]}")).contains("knows X, which may have"));
}

#[test]
fn launches_that_are_not_certain_are_refused_by_their_part() {
    let text = launch("TP=4");
    let within = |open: &str, close: &str| {
        refused(
            &text
                .replace("torchrun", &format!("{open} torchrun"))
                .replace("--bf16", &format!("--bf16{close}")),
        )
    };
    for (open, close, part) in [
        ("for seed in 1 2; do", "; done", "a `for` loop"),
        ("while true; do", "; done", "a `while` loop"),
        ("until", "; do sleep 1; done", "an `until` loop"),
        ("if [ -f a ]; then", "; fi", "an `if`"),
        (
            "if [ $RANK = 0 ]; then",
            "; fi",
            "an `if` on RANK, which only a run knows (--set RANK=VALUE",
        ),
        ("nproc &&", "", "a list of commands"),
        ("cat > run.sh <<EOF\n", "\nEOF", "a here-document"),
        ("exit 0;", "", "none of its launches is reached"),
        ("if false; then", "; fi", "none of its launches is reached"),
    ] {
        let wrong = within(open, close);
        assert!(wrong.contains(part), "{open}: {wrong}");
    }
    let second = format!("{text}exit\n{}", text.replace("TP=4", "TP=8"));
    assert_eq!(tensor(&second), Some(4));
    assert_eq!(tensor(&second.replace("exit\n", "")), Some(8));
    let quoted = format!(
        "RUN=\"torchrun --nproc-per-node 8 --nnodes 2\"\nCMD=\" pretrain_gpt.py {SIZES}\"\necho $CMD\nsrun bash -c '$RUN $CMD'\n"
    );
    assert_eq!(devices(&quoted), 16);
}

#[test]
fn devices_are_those_of_the_launch_or_the_scheduler() {
    let script = |head: &str, launcher: &str| {
        format!("#!/bin/bash\n{head}\n{launcher} pretrain_gpt.py {SIZES}\n")
    };
    for (head, launcher, wanted) in [
        ("#SBATCH --nodes=4\n#SBATCH --gres=gpu:a100:4", "srun python", 16),
        ("#SBATCH -N 4\n#SBATCH --gpus-per-node 4", "srun python", 16),
        ("#SBATCH --nodes=4 --ntasks-per-node=8", "srun python", 32),
        ("#SBATCH --nodes=4", "srun torchrun --nproc-per-node 8 --nnodes $SLURM_NNODES", 32),
        ("", "deepspeed --num_gpus 4 --num_nodes 2", 8),
        ("", "mpirun -np 16 python", 16),
        ("", "srun -N 2 --ntasks-per-node 8 python", 16),
    ] {
        assert_eq!(devices(&script(head, launcher)), wanted, "{head} {launcher}");
    }
    let both = imported(&script(
        "#SBATCH --nodes=4\n#SBATCH --gres=gpu:4",
        "torchrun --nproc-per-node 8 --nnodes 4",
    ));
    assert_eq!(both.document.cluster[0].devices, Some(vec![32]));
    assert!(both.notes.iter().any(|note| note.contains("#SBATCH asks for 16")), "{:?}", both.notes);
}

#[test]
fn deep_and_endless_scripts_are_refused() {
    let deep = |open: &str, inner: &str, close: &str| {
        let text = format!("{}{inner}{}", open.repeat(50_000), close.repeat(50_000));
        let given = Given::default();
        let files = BTreeMap::new();
        let text = launch(&format!("TP=4\n{text}"));
        let _ = of_text(&Context::new(&files), Path::new("run.sh"), &text, &given);
    };
    for (open, inner, close) in [
        ("case x in x) ", "true", ";; esac"),
        ("case x in ", "x) ", ""),
        ("! ", "true", ""),
        ("[ 1 = 1 ] && ", "true", ""),
        ("(", "true", ")"),
        ("X=$(", "true", ")"),
        ("X=${X:-", "", "}"),
        ("((X=(", "1", "))"),
        ("((X=-", "1", "))"),
        ("[[ ( ", "a", " ) ]]"),
        ("if true; then ", "true", "; fi"),
        ("f() { ", "f", "; }\nf"),
        ("\"$(", "", ")\""),
        ("while [ -f a ]; do ", "X=$X$TP", "; done"),
        ("if false; then X=1; el", "if true; then X=2; fi", ""),
        ("f() { :; }; f; ", "", ""),
        ("[ 1 = 2 -o 1 = 3 ", "", " ]"),
        ("X=$X$(( 1 + ", "1", " ))"),
        ("if [ -f a ]; then f() { ", "X=1", "; }; f; fi"),
        ("[[ a && ", "b", " ]]"),
        ("true | ", "true", ""),
        ("X=(", "1", ")"),
        ("<(", "1", ")"),
    ] {
        deep(open, inner, close);
    }
    for endless in ["f() { f; f; }; f", "A='eval \"$A\"'; eval \"$A\""] {
        assert!(!refused(&launch(&format!("TP=4\n{endless}"))).is_empty());
    }
}
