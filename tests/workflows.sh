#!/bin/bash
# The workflows and the action of GitHub: by actionlint where it is installed, else by their JSON schemas where
# check-jsonschema is (`pipx install check-jsonschema`), else not at all, which is said.
set -euo pipefail
cd "$(dirname "$0")/.."
if command -v actionlint >/dev/null; then
  actionlint .github/workflows/*.yml examples/ci/*.yml
elif command -v check-jsonschema >/dev/null; then
  check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml examples/ci/*.yml
else
  echo "skipped: there is neither actionlint nor check-jsonschema to check workflows with"
  exit 0
fi
if command -v check-jsonschema >/dev/null; then
  check-jsonschema --quiet --builtin-schema vendor.github-actions action.yml
  check-jsonschema --quiet --builtin-schema vendor.dependabot .github/dependabot.yml
fi
