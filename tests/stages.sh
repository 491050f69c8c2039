# Stages of a long check, for the scripts that source it: what each took, in one table at the end; and those
# that run beside others, whose words are shown when they have ended.

said=$(mktemp -d)
declare -A besides=()
stages=$said/stages.tsv
touch "$stages"

# Ends what still runs, shows the table, and leaves nothing.
end() {
  local status=$? process
  for process in "${besides[@]}"; do kill -- "-$process" 2>/dev/null || true; done
  timings
  rm -rf "$said"
  return $status
}
trap end EXIT

# timings: how long stages took, the longest first.
timings() {
  [ -s "$stages" ] || return 0
  echo
  echo "seconds  stage"
  sort -t $'\t' -k 1,1nr "$stages" | awk -F '\t' '{ printf "%7d  %s\n", $1, $2 }'
  printf '%7d  all, some of them side by side\n' "$SECONDS"
}

# In both, a shell of its own keeps `set -e` alive in functions, which `||` and `if` switch off.

# stage NAME COMMAND..: runs it and notes its time.
stage() {
  local name=$1 since=$SECONDS status strict=$-
  shift
  echo "== $name"
  set +e
  (set -e; "$@")
  status=$?
  case $strict in *e*) set -e ;; esac
  printf '%d\t%s\n' $((SECONDS - since)) "$name" >>"$stages"
  return $status
}

# beside NAME COMMAND..: runs it while others go on, as a group of processes that can be ended together.
beside() {
  local name=$1
  shift
  set -m
  {
    since=$SECONDS
    set +e
    (set -e; "$@")
    status=$?
    printf '%d\t%s\n' $((SECONDS - since)) "$name" >>"$stages"
    exit $status
  } >"$said/$name" 2>&1 </dev/null &
  besides[$name]=$!
  set +m
}

# joined NAME: waits for it, shows what it said, and fails if it has.
joined() {
  local status=0
  wait "${besides[$1]}" || status=$?
  unset "besides[$1]"
  echo "== $1"
  cat "$said/$1"
  return $status
}
