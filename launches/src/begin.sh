# Sourced by each bash in the copy: what this machine does not have stops no script.
command_not_found_handle() { debubble-missing "$@"; }
cd() {
  builtin cd "$@" 2> /dev/null && return
  (($#)) && debubble-missing cd "$@" && command mkdir -p -- "${@: -1}" 2> /dev/null && builtin cd "$@"
}
ulimit() { builtin ulimit "$@" 2> /dev/null || :; }
if [[ ${DEBUBBLE_GO_ON-} ]]; then set -T; trap 'set +e +o pipefail' DEBUG; fi
