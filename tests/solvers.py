"""Solves programs in LP and MPS files with HiGHS and CBC: the optimum of each file, a line each.

python tests/solvers.py FILE..

Says "skipped" where neither can be imported: `pip install highspy pulp`.
"""

from __future__ import annotations

import subprocess
import sys


def highs(file: str) -> float:
    """The optimum that HiGHS finds."""
    import highspy

    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("mip_rel_gap", 0.0)
    if solver.readModel(file) != highspy.HighsStatus.kOk:
        sys.exit(f"HiGHS cannot read {file}")
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        sys.exit(f"HiGHS has no optimum of {file}: {solver.getModelStatus()}")
    return float(solver.getInfo().objective_function_value)


def cbc(file: str) -> float:
    """The optimum that CBC finds."""
    import pulp

    command = [pulp.PULP_CBC_CMD().path, file, "ratio", "0", "solve", "quit"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Result - Optimal solution found" not in said:
        sys.exit(f"CBC has no optimum of {file}: {said}")
    found = [line.split(":")[1] for line in said.splitlines() if line.startswith("Objective value:")]
    return float(found[-1])


def main() -> None:
    solved = 0
    for name, solve in (("highs", highs), ("cbc", cbc)):
        try:
            optima = [(file, solve(file)) for file in sys.argv[1:]]
        except ImportError:
            continue
        solved += 1
        for file, optimum in optima:
            print(name, file, optimum)
    if solved == 0:
        print("skipped: neither highspy nor pulp can be imported")


if __name__ == "__main__":
    main()
