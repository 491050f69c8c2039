#!/bin/bash
# Checks that a long check fails where any command of a stage or of a lane has failed, and goes no further.
set -uo pipefail
cd "$(dirname "$0")/.."

# fails WHAT SCRIPT: that SCRIPT, which ends with "reached", ends before that and not with 0.
fails() {
  local said code=0
  said=$(bash -c "set -euo pipefail; source tests/stages.sh; $2; echo reached" 2>&1) || code=$?
  if [ "$code" = 0 ] || [[ $said == *reached* ]]; then
    echo "$1: ends with $code: $said"
    exit 1
  fi
}

fails "a stage that fails" 'stage one false'
fails "a function whose first command fails" 'both() { false; true; }; stage one both'
fails "a lane whose first stage fails" 'lane() { stage one false; stage two true; }; beside lane lane; joined lane'
bash -c 'set -euo pipefail; source tests/stages.sh; lane() { stage one true; }; beside lane lane; stage two true; joined lane' \
  >/dev/null 2>&1 || { echo "stages that pass end with $?"; exit 1; }
