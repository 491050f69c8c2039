//! Launches of a script are those of plain bash, and what a script does reaches nothing.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::print_stderr, clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Parts of scripts that set `TP`, each before a launch with its value.
const PARTS: &[&str] = &[
    "for t in 1 2 4; do TP=$t; done",
    "for ((i = 1; i < 9; i *= 2)); do TP=$i; done",
    "TP=1; while (( TP < 8 )); do (( TP *= 2 )); done",
    "TP=1; until [ $TP -ge 8 ]; do TP=$((TP * 2)); done",
    "f() { TP=$1; }; f 8",
    "f() { local TP=4; }; TP=8; f",
    "f() { echo $(($1 * 2)); }; TP=$(f 4)",
    "echo TP=8 > env.sh; source env.sh",
    "echo 'TP=8' > env.sh; . ./env.sh",
    "f() { echo 'declare TP=8' > e.sh; source e.sh; }; TP=2; f",
    "cat > x.env <<EOF\nTP=8\nEOF\n. ./x.env",
    "cat <<'EOF' > x.env\nTP=$((2 * 4))\nEOF\nsource x.env",
    "N=8.sh; TP=${N%.sh}",
    "N=gpt-8; TP=${N#*-}",
    "N=a/b; TP=${N/b/8}",
    "N=1:8:2; TP=${N:2:1}",
    "A=(2 4 8); TP=${A[2]}",
    "A=(2 4 8); TP=${#A[@]}",
    "declare -A M=([a]=2 [b]=8); TP=${M[b]}",
    "X=1; TP=${X:+8}",
    "TP=${NOT_SET:-8}",
    ": ${TP:=8}",
    "V=TP; eval \"$V=8\"",
    "V=8; W=V; TP=${!W}",
    "read -r TP REST <<< '8 9'",
    "read -r A TP < <(echo 1 8)",
    "printf -v TP '%d' 8",
    "let TP=2*4",
    "(( TP = 8 ))",
    "declare -i TP; TP=2+6",
    "mapfile -t L < <(seq 3 8); TP=${L[-1]}",
    "case x-8 in x-*) TP=8;; *) TP=1;; esac",
    "case 8 in [0-9]) TP=8;;& 8) TP=9;; esac",
    "trap 'TP=8' USR1; kill -USR1 $$",
    "TP=1; if [ -f /etc/passwd ]; then TP=8; else TP=4; fi",
    "TP=1; [ -d /etc ] && TP=8",
    "TP=8; [ -d /nowhere ] || TP=4",
    "TP=1; (TP=8); { TP=4; }",
    "TP=2; echo 8 | while read -r x; do TP=$x; done",
    "shopt -s lastpipe; echo 8 | read -r TP",
    "TP=4; TP=8 true",
    "TP=2\n# TP=8 \\\nTP=4",
    "TP=$(echo 8 | sed 's/8/4/')",
    "TP=$(awk 'BEGIN { print 2 ^ 3 }')",
    "TP=`expr 2 \\* 4`",
    "select_tp() { case $1 in 7b) TP=2;; 70b) TP=8;; esac; }; select_tp 70b",
    "set -- 1 2 8; shift 2; TP=$1",
    "while getopts 't:' o -t 8; do TP=$OPTARG; done",
    "set -euo pipefail; TP=8; (exit 3) || TP=4",
    "set -euo pipefail; false | true || TP=2; TP=${TP:-8}",
    "exec 3> t.txt; echo 8 >&3; exec 3>&-; TP=$(< t.txt)",
    "TP=8 & TP=4; wait",
    "(echo 8 > w.txt) & wait $!; TP=$(cat w.txt)",
    "TP=$(bash -c 'echo $((1 << 3))')",
    "printf '%s\\n' '#!/bin/sh' 'echo 8' > h.sh; chmod +x h.sh; TP=$(./h.sh)",
    "mkdir -p a/b; cd a/b; TP=${PWD##*/}; cd - > /dev/null; TP=$TP$(basename \"$PWD\" | wc -l)",
    "TP=$(date +%Y > /dev/null; echo 8); RANDOM=1",
    "TP=8; unset -v NONE; export TP; TP=$(env | grep ^TP= | cut -d= -f2)",
];

/// Launches, each after a part.
const LAUNCHES: [&str; 6] = [
    "torchrun --nproc_per_node 8 train.py --tp $TP 'a b' \"\" ${NONE-} \"$@\"",
    "ARGS=(--tp \"$TP\" --name 'x  y'); torchrun train.py \"${ARGS[@]}\" \"$@\"",
    "CMD=\"torchrun train.py --tp $TP\"; $CMD \"$@\" 2>&1 | tee log.txt",
    "nohup env A=1 torchrun train.py --tp $TP \"$@\" > out.txt 2>&1 &\nwait",
    "for i in 1 2; do torchrun train.py --tp $TP --rank $i \"$@\"; done",
    "run() { torchrun train.py --tp \"$TP\" \"$@\"; }; if run \"$@\"; then bash -c 'torchrun \"$@\"' x end.py; fi",
];

/// The program that records, next to this one.
fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().and_then(Path::parent).unwrap().join("examples/record")
}

/// Records `script` in `folder`; `None` without namespaces.
fn recorded(folder: &Path, script: &str, variables: &[(&str, &str)]) -> Option<Output> {
    fs::write(folder.join("run.sh"), script).unwrap();
    let mut command = Command::new(program());
    command.arg("run.sh").args(["one", "two words"]).envs(variables.iter().copied());
    command.current_dir(folder);
    let output = command.output().unwrap();
    if output.status.code() == Some(3) {
        eprintln!("skipped: {}", String::from_utf8_lossy(&output.stderr).trim());
        return None;
    }
    assert!(output.status.success(), "{output:?}");
    Some(output)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The launches of `script` by plain bash, in `folder`, with a `torchrun` that writes its words down.
fn launched(folder: &Path, script: &str) -> String {
    let bin = folder.join("bin");
    fs::create_dir(&bin).unwrap();
    let log = folder.join("launches");
    let stand_in = format!(
        "#!/bin/bash\nprintf -v line '%s\\x01' torchrun \"$@\"\nprintf '%s\\n' \"$line\" >> {}\n",
        log.display()
    );
    fs::write(bin.join("torchrun"), stand_in).unwrap();
    Command::new("chmod").arg("+x").arg(bin.join("torchrun")).status().unwrap();
    fs::write(folder.join("run.sh"), script).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.arg(folder.join("run.sh")).args(["one", "two words"]).env_clear().env("PATH", path);
    bash.current_dir(folder).output().unwrap();
    let lines = fs::read_to_string(log).unwrap_or_default();
    let words = |line: &str| {
        let words: Vec<&str> = line.strip_suffix('\x01').unwrap().split('\x01').collect();
        format!("{words:?}\n")
    };
    lines.lines().map(words).collect()
}

#[test]
fn launches_are_those_of_bash() {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let check = || loop {
        let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let Some(part) = PARTS.get(at) else { break };
        let script = format!("#!/bin/bash\n{part}\n{}\n", LAUNCHES[at % LAUNCHES.len()]);
        let [own, plain] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let Some(output) = recorded(own.path(), &script, &[]) else { break };
        let expected = launched(plain.path(), &script);
        assert!(!expected.is_empty(), "{script}");
        assert_eq!(text(&output.stdout), expected, "{script}\n{}", text(&output.stderr));
    };
    std::thread::scope(|scope| drop([(); 3].map(|()| scope.spawn(check))));
}

#[test]
fn jobs_wrappers_and_missing_parts_launch() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().display().to_string();
    for (script, expected) in [
        (
            "#!/bin/bash\n#SBATCH --nodes=4 --gres=gpu:a100:4\nset -eu\nsource /nowhere/env.sh\nmodule load cuda\n\
             export N=$SLURM_NNODES H=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)\n\
             srun -J test --ntasks-per-node 1 bash -c 'torchrun --nnodes $N --node_rank $SLURM_PROCID \
             --nproc_per_node $SLURM_GPUS_ON_NODE --master $H train.py'",
            "torchrun --nnodes 4 --node_rank 0 --nproc_per_node 4 --master node0 train.py",
        ),
        (
            "cat > job.sh <<'EOF'\n#SBATCH -N 2\npython train.py --n $SLURM_NNODES --tp $TP \"$@\"\nsbatch $0\nEOF\n\
             ID=$(sbatch --parsable -N 8 --export=ALL,TP=4 job.sh a); echo $ID > id; python other.py $(cat id)",
            "python train.py --n 8 --tp 4 a;python other.py 1001",
        ),
        (
            "cd /lustre/project && /opt/env/bin/torchrun a.py > logs/a.txt; no_such_command || exit 1\n\
             mpirun -np 16 -x A=1 --hostfile hosts python b.py; ssh -p 22 node1 \"cd /tmp && deepspeed c.py\"",
            "torchrun a.py;python b.py;deepspeed c.py",
        ),
        (
            "N=$(nvidia-smi --query-gpu=index --format=csv,noheader | wc -l)\n\
             docker run --gpus all -v /a:/b image:1 bash -c \"torchrun --n $N a.py\"\n\
             sudo -u user numactl -N 0 /usr/bin/env python3 -m torch.distributed.run b.py",
            "torchrun --n 8 a.py;python3 -m torch.distributed.run b.py",
        ),
        ("set -e\ncat hostfile | wc -l\nfalse\ntorchrun a.py $BASE", "torchrun a.py"),
    ] {
        let Some(output) = recorded(folder.path(), script, &[]) else { return };
        let lines =
            text(&output.stdout).replace("[\"", "").replace("\"]", "").replace("\", \"", " ");
        assert_eq!(lines.trim().replace('\n', ";"), expected, "{script}\n{}", text(&output.stderr));
        assert!(fs::read_dir(&own).unwrap().count() == 1, "{script}");
    }
}

#[test]
fn what_the_machine_does_not_have_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let script = "source env.sh\n. /nowhere/more.sh\nno_such_command a\ntorchrun a.py";
    let Some(output) = recorded(folder.path(), script, &[]) else { return };
    for name in ["\"env.sh\"", "\"/nowhere/more.sh\"", "\"no_such_command a\""] {
        assert!(text(&output.stderr).contains(name), "{}", text(&output.stderr));
    }
}

#[test]
fn nothing_that_a_script_does_reaches_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().display();
    let outside = tempfile::tempdir().unwrap();
    let kept = outside.path().join("kept");
    fs::write(&kept, "kept").unwrap();
    let hosts = fs::read("/etc/hosts").ok();
    let kept_at = kept.display();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let socket = outside.path().join("socket");
    let _listens = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let binary = program();
    let size = fs::metadata(&binary).unwrap().len();
    for (at, attack) in [
        format!("rm -rf {}; rm -f {kept_at}; [ -e {kept_at} ] || echo gone", outside.path().display()),
        format!("echo mine > {kept_at}; ln -sf /etc/passwd {kept_at}; cat {kept_at} | head -n1"),
        "echo '6.6.6.6 localhost' > /etc/hosts; tail -n1 /etc/hosts".to_owned(),
        "kill -9 1; kill -9 -1; sleep 0".to_owned(),
        format!("kill -9 {} $(seq 2 400)", std::process::id()),
        "head -c 2000000000 /dev/zero > /var/tmp/large; ls -s /var/tmp/large".to_owned(),
        format!("(exec 3<> /dev/tcp/127.0.0.1/{port}) && echo REACHED"),
        format!("command -v python3 && python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"{}\"); print(\"REACHED\")'", socket.display()),
        "/.debubble/real/mount -t tmpfs none /mnt && echo REACHED".to_owned(),
        "unshare -Urm true && echo REACHED".to_owned(),
        "echo 1 > /proc/sys/kernel/sysrq && echo REACHED; echo core > /proc/sys/kernel/core_pattern && echo REACHED"
            .to_owned(),
        "ls /proc/1/root/ /proc/1/fd && echo REACHED".to_owned(),
        format!("echo x > {0}; echo x > /proc/1/exe && echo REACHED; rm -f {0}", binary.display()),
        "echo x > /.debubble/stand-in && echo REACHED; rm -rf /.debubble/* ; ln -s / /.debubble/x && echo REACHED".to_owned(),
        "mknod /tmp/disk b 254 0 && cat /tmp/disk && echo REACHED".to_owned(),
        "[ -z \"$(ls -A /run; ls -A /sys)\" ] || echo REACHED; ls ~/.ssh/* && echo REACHED; [ -z \"$CARGO_PKG_NAME\" ] || echo REACHED".to_owned(),
        format!("(setsid sleep 0; while :; do echo x >> {own}/tick; done) & disown"),
        "chroot / true && echo REACHED; chmod u+s /bin/bash".to_owned(),
    ]
    .into_iter()
    .enumerate()
    {
        let script = format!("{attack}\n: # {at}\ntorchrun after.py\n");
        let Some(output) = recorded(folder.path(), &script, &[]) else { return };
        let said = text(&output.stderr);
        assert!(!said.contains("REACHED\n"), "{attack}\n{said}");
        // One ends itself.
        assert_eq!(text(&output.stdout).contains("after.py"), at != 4, "{attack}\n{said}");
        assert_eq!(fs::read_to_string(&kept).unwrap(), "kept", "{attack}");
        assert_eq!(fs::read("/etc/hosts").ok(), hosts, "{attack}");
        assert_eq!(fs::metadata(&binary).unwrap().len(), size, "{attack}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{attack}");
    }
    assert!(!Path::new("/var/tmp/large").exists());
    fs::write(
        folder.path().join("run.sh"),
        "ls /proc/self/fd; echo x >&9; echo mine > /proc/self/fd/8/kept",
    )
    .unwrap();
    let leak = format!(
        "exec 9>> {kept_at} 8< {}; exec {} {own}/run.sh",
        outside.path().display(),
        binary.display()
    );
    let output = Command::new("bash").arg("-c").arg(leak).output().unwrap();
    assert!(text(&output.stderr).contains("9: Bad file descriptor"), "{output:?}");
    assert_eq!(fs::read_to_string(&kept).unwrap(), "kept");
}

#[test]
fn a_script_without_end_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let silent = "torchrun a.py; sleep 0; command -v python3 || while :; do :; done; python3 -c \"import socket, time\nfor _ in range(9):\n \
        s = socket.socket(socket.AF_UNIX); s.connect('/.debubble/socket'); s.sendall(b'ended\\0x\\0')\ns = [socket.socket(socket.AF_UNIX) \
        for _ in range(9)]; [x.connect('/.debubble/socket') for x in s]; time.sleep(9)\"";
    for (script, why) in [
        (silent, "it took more than 3 s"),
        ("torchrun a.py; while :; do :; done", "it took more than 3 s"),
        ("torchrun a.py; cat < <(tail -f /etc/passwd)", "it took more than 3 s"),
        ("torchrun a.py; f() { f | f & }; f; while :; do :; done", "it "),
        ("for ((;;)); do torchrun a.py; done", "more than 3 s"),
    ] {
        let Some(output) = recorded(folder.path(), script, &[("LIMIT", "3")]) else { return };
        let said = text(&output.stderr);
        assert!(text(&output.stdout).contains("a.py"), "{script}\n{said}");
        assert!(said.contains("ended Err") && said.contains(why), "{script}\n{said}");
    }
}
