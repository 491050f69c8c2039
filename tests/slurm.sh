#!/bin/bash
# Hands a sweep in shards to SLURM, and compares what comes back with the whole.
#   tests/slurm.sh target/release/debubble
# Takes the SLURM that answers here, or starts one of its own on this machine, and ends it again.
# Says "skipped" and succeeds where neither can be.
set -eu
program=$(realpath "${1:-target/release/debubble}")
scenario=$(realpath "$(dirname "$0")/../scenarios/paper/fig9-sweep.toml")

skip() {
  echo "skipped: $1"
  exit 0
}

# What runs on every node of a SLURM must lie where every node sees it.
folder=$(mktemp -d "$PWD/slurm-test-XXXXXX")
started=()
clean() {
  for ((i = ${#started[@]} - 1; i >= 0; i--)); do
    kill "${started[i]}" 2>/dev/null || true
    wait "${started[i]}" 2>/dev/null || true
  done
  rm -rf "$folder" $munge
}
munge=
trap clean EXIT

# A SLURM of one node, all of whose files lie in $folder.
start() {
  local host own=$folder/slurm
  for daemon in munged slurmctld slurmd; do
    command -v "$daemon" >/dev/null || PATH=$PATH:/usr/sbin:/usr/local/sbin
    command -v "$daemon" >/dev/null || skip "no SLURM answers here, and there is no $daemon"
  done
  [ "$(id -u)" = 0 ] || skip "no SLURM answers here, and only root can start one"
  host=$(hostname -s)
  mkdir -p "$own/state" "$own/spool"
  # Munge trusts no folder that others may write, so its files lie apart.
  munge=$(mktemp -d /run/slurm-test-XXXXXX) || skip "munge has no place for its socket"
  chmod 711 "$munge"
  head -c 1024 /dev/urandom >"$munge/key"
  chmod 400 "$munge/key"
  munged --foreground --force --socket="$munge/socket" --key-file="$munge/key" \
    --pid-file="$munge/pid" --log-file="$munge/log" --seed-file="$munge/seed" >"$own/munged.log" 2>&1 &
  started+=($!)
  # Ports by the number of this process, so that two tests do not meet.
  local port=$((20000 + $$ % 20000))
  cat >"$own/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$munge/socket
StateSaveLocation=$own/state
SlurmdSpoolDir=$own/spool
SlurmctldPidFile=$own/slurmctld.pid
SlurmdPidFile=$own/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
ReturnToService=2
SchedulerParameters=sched_interval=1
MinJobAge=60
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
  # Jobs are not confined. Before 23.02 the control groups of the machine are taken in any case.
  case $(slurmd -V) in
    *" 2"[0-2].*) echo "IgnoreSystemd=yes" ;;
    *) echo "CgroupPlugin=disabled" ;;
  esac >"$own/cgroup.conf"
  export SLURM_CONF=$own/slurm.conf
  slurmctld -D -i -f "$SLURM_CONF" >"$own/slurmctld.log" 2>&1 &
  started+=($!)
  slurmd -D -f "$SLURM_CONF" >"$own/slurmd.log" 2>&1 &
  started+=($!)
  for _ in $(seq 60); do
    sinfo --noheader --format=%T 2>/dev/null | grep -q idle && return
    sleep 0.5
  done
  tail -n 5 "$own"/*.log
  skip "a SLURM was started, but no node became idle"
}

if ! command -v sbatch >/dev/null; then
  skip "there is no SLURM here"
fi
timeout 5 sinfo >/dev/null 2>&1 || start

cd "$folder"
"$program" sweep "$scenario" --out whole.csv
"$program" sweep "$scenario" --out whole.parquet
for form in csv parquet; do
  "$program" sweep "$scenario" --out "merged.$form" --slurm 4 >"grid-$form.sh"
  sbatch --cpus-per-task=1 "grid-$form.sh"
done
for _ in $(seq 120); do
  [ -e merged.csv ] && [ -e merged.parquet ] && break
  sleep 1
done
cmp whole.csv merged.csv || { tail -n 5 ./*.log; exit 1; }
cmp whole.parquet merged.parquet
echo "passed: 4 jobs and a merge made the same bytes, as CSV and as Parquet"
