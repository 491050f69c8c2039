"""A Megatron script is profiled on one device, and its run is as the profile says."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import debubble as db
from debubble._orders import chunk_of, passes_of
from debubble.megatron import _profile

pytest.importorskip("megatron.core")

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "tutorial" / "megatron.md"
EXAMPLE = ROOT / "examples" / "megatron_gpt.py"
SLEEPERS = Path(__file__).with_name("megatron_sleepers.py")


def ran(command: list[str], folder: Path, timeout: float = 300) -> str:
    """What a command prints, which ends well."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def python(word: str) -> list[str]:
    """A word of a command line as this environment runs it."""
    programs = {
        "python": [sys.executable],
        "torchrun": [sys.executable, "-m", "torch.distributed.run", "--standalone"],
        "debubble": [os.environ["DEBUBBLE"]],
    }
    return programs.get(word, [word.replace("examples/", f"{ROOT}/examples/")])


def losses(printed: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"loss ([\d.]+)", printed)]


def page(folder: Path, first: int = 0, last: int = 4) -> list[str]:
    """The output of the page's commands from number `first` to before `last`."""
    commands = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(commands) == 4
    words = [command.replace("\\\n", " ").split() for command in commands[first:last]]
    return [ran([part for word in line for part in python(word)], folder) for line in words]


def check_profile(folder: Path, table: str, searched: str) -> None:
    profile = db.Profile.from_file(folder / "profile.toml")
    assert (profile.stages, profile.microbatches, len(profile.chunks)) == (4, 8, 8)
    assert (profile.placement, profile.schedule) == ("looped", "1f1b-i")
    assert all(row.activation_bytes > 0 and row.backward_seconds > 0 for row in profile.chunks)
    assert "unknown" not in table
    assert "the trainer runs 1f1b-i" in searched
    order = db.Schedule.from_file(folder / "best.txt")
    assert (order.stages, order.chunks, order.placement) == (4, 2, "looped")


@pytest.mark.slow
def test_the_profile_of_the_page_is_searched(tmp_path: Path) -> None:
    check_profile(tmp_path, *page(tmp_path, 1, 3))


@pytest.mark.slow
def test_the_commands_of_the_page(tmp_path: Path) -> None:
    own, table, searched, found = page(tmp_path)
    # A W that waits past a whole backward adds the same terms in another order: 1e-8 of a gradient.
    assert len(losses(own)) == 4 and losses(found) == pytest.approx(losses(own), abs=2e-6)
    check_profile(tmp_path, table, searched)


def test_scripts_that_are_no_run_of_megatron(tmp_path: Path) -> None:
    def refused(*arguments: str) -> str:
        with pytest.raises(db.InputError) as error:
            _profile.main(["--output", str(tmp_path / "profile.toml"), *arguments])
        return str(error.value)

    script = tmp_path / "script.py"
    script.write_text("print('it ends here')\n")
    said = refused(str(script))
    assert "never asked Megatron-core" in said and "it ends here" in said
    script.write_text("raise ValueError('no such data')\n")
    assert "ValueError: no such data" in refused(str(script))
    assert "there is no script" in refused("nowhere.py")
    links = tmp_path / "links.csv"
    links.write_text("collective,ranks,bytes,seconds\nall-reduce,2,many,1e-3\n")
    assert "links.csv, line 2" in refused("--links", str(links), str(script))
    assert "a multiple of 2" in refused("--world-size", "3", str(EXAMPLE), "--stages", "2")
    assert not (tmp_path / "profile.toml").exists()


def witnessed(tmp_path: Path, order: str) -> list[dict[str, Any]]:
    """What eight processes of the sleeping script find: in its own schedule, or in an order."""
    folder = tmp_path / f"run-{Path(order).stem}"
    folder.mkdir()
    script = [str(SLEEPERS), str(folder)]
    if order:
        script = ["-m", "debubble.megatron", *script, "--debubble-order", order]
    ran([*python("torchrun"), "--nproc-per-node", "8", *script], tmp_path)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(8)]


def is_in_turn(schedule: db.Schedule, rank: int, chunk: int) -> bool:
    """Whether the gradients of a chunk are summed microbatch by microbatch, as Megatron sums them."""
    made = [
        one.microbatch
        for one in passes_of(schedule, rank)
        if one.kind in ("W", "BW") and chunk_of(one) == chunk
    ]
    return made == sorted(made)


@pytest.mark.slow
def test_eight_processes_are_as_one_predicts(tmp_path: Path) -> None:
    profiler = [sys.executable, "-m", "debubble.megatron", "profile", "--world-size", "8"]
    ran([*profiler, "--json", "found.json", str(SLEEPERS), "."], tmp_path)
    profile = db.Profile.from_file(tmp_path / "profile.toml")
    best = db.search(profile, memory="4MiB")
    best.save(tmp_path / "best.txt")
    own = db.simulate(profile, "1f1b-i", chunks=2)[0]
    assert best[0].memory_limit == "4MiB"
    runs = {"own": (witnessed(tmp_path, ""), own), "best": (witnessed(tmp_path, "best.txt"), best.predicted)}
    for name, (ranks, predicted) in runs.items():
        steps = [max(rank["seconds"][at] for rank in ranks) for at in range(1, 6)]
        step = statistics.median(steps)
        # Transfers, and what processes do between passes, are in no profile of one device.
        assert -0.07 < predicted.makespan_seconds / step - 1 < 0.01, (name, steps)
    table = json.loads((tmp_path / "found.json").read_text())
    for rank, one in enumerate(runs["own"][0]):
        # The optimizer of the script makes no step.
        stage = table["stages"][rank // 2]
        assert stage["peak"] - stage["optimizer"] == pytest.approx(one["held"], rel=0.03), rank
    equal = 0
    for rank, (mine, theirs) in enumerate(zip(runs["own"][0], runs["best"][0])):
        for name, digest in mine["gradients"].items():
            chunk = 4 * int(name.split()[0]) + rank // 2
            if is_in_turn(best.schedule, rank // 2, chunk):
                assert theirs["gradients"][name] == digest, (rank, name)
                equal += 1
            else:
                assert theirs["sums"][name] == pytest.approx(mine["sums"][name], rel=1e-4), (rank, name)
    assert equal > 50
