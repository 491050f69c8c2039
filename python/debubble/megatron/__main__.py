"""`python -m debubble.megatron SCRIPT ARGS.. --debubble-order FILE`: a script in the order of a file."""

import runpy
import sys
from pathlib import Path

from ._runner import use


def main() -> None:
    """Runs the script that is named first, with the rest of the arguments."""
    if len(sys.argv) < 2:
        raise SystemExit("usage: python -m debubble.megatron SCRIPT ARGS.. --debubble-order FILE")
    del sys.argv[0]
    # As the interpreter does for a script.
    sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
    use()
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
