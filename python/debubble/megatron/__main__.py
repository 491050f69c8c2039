"""`python -m debubble.megatron`: a script in the order of a file, or the profile of a script.

    python -m debubble.megatron SCRIPT ARGS.. --debubble-order FILE
    python -m debubble.megatron profile [OPTIONS] SCRIPT ARGS..
"""

import runpy
import sys
from pathlib import Path

from .._errors import InputError
from . import _profile
from ._runner import use

_USAGE = """\
usage: python -m debubble.megatron SCRIPT ARGS.. --debubble-order FILE
       python -m debubble.megatron profile [OPTIONS] SCRIPT ARGS.."""


def main() -> None:
    """Runs the script that is named first, with the rest of the arguments, or makes its profile."""
    if len(sys.argv) < 2:
        raise SystemExit(_USAGE)
    if sys.argv[1] == "profile":
        try:
            _profile.main(sys.argv[2:])
        except InputError as error:
            print(f"error: {error}", file=sys.stderr)
            raise SystemExit(2) from None
        return
    del sys.argv[0]
    # As the interpreter does for a script.
    sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
    use()
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
