"""Every other answer, and every file of one, is what the command line prints and writes."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import doors
import pytest

import debubble as db
from debubble import _debubble

pytestmark = pytest.mark.filterwarnings("ignore::debubble.Note")

KEYS: dict[str, Any] = {
    "stages": 4,
    "microbatches": 8,
    "forward": "10ms",
    "backward-input": ["11ms", "11ms", "11ms", "14ms"],
    "backward-weight": "7ms",
    "hop": "500us",
}
FLAGS = [f"--{key}={','.join(value) if isinstance(value, list) else value}" for key, value in KEYS.items()]
SIZES: dict[str, Any] = {
    "hidden": 1024,
    "heads": 16,
    "seq": 1024,
    "layers_per_stage": 2,
    "microbatch_size": 1,
}
SIZE_FLAGS = [f"--{key.replace('_', '-')}={value}" for key, value in SIZES.items()]

MODEL = """\
sequence = 1024
tokens = 1e9
batch = 64
model = { layers = 8, hidden = 1024, heads = 16, vocabulary = 32000 }

[[cluster]]
machine = "a100-80g"
devices = [4]

[search]
tensor = [1]
chunks = [1]
"""


def question(**more: Any) -> db.Question:
    return db.Question(**{key.replace("-", "_"): value for key, value in KEYS.items()}, **more)


def printed(answer: Any) -> str:
    """As the command line prints it."""
    return str(answer.to_json()) + "\n"


Saves = list[tuple[str, Callable[[Path], object]]]


def check_files(command: doors.Command, words: list[Any], saves: Saves, tmp_path: Path) -> None:
    """The command line with each flag and `save` write the same bytes."""
    for flag, save in saves:
        suffix = flag.rpartition(" ")[2]
        theirs, ours = tmp_path / f"theirs{suffix}", tmp_path / f"ours{suffix}"
        command.stdout(*words, flag.split()[0], theirs)
        save(ours)
        assert ours.read_bytes() == theirs.read_bytes(), flag


def test_files_of_a_simulation(command: doors.Command, tmp_path: Path) -> None:
    answers = db.simulate(question(**SIZES), ["1f1b", "zb-h1"], explain=True, front=True)
    words = ["simulate", *FLAGS, *SIZE_FLAGS, "--schedule", "1f1b,zb-h1", "--json"]
    write: Saves = [
        ("--svg .svg", answers.save),
        ("--html .html", db.simulate(question(**SIZES), ["1f1b", "zb-h1"]).save),
        ("--pareto -front.svg", lambda path: path.write_text(answers.front_svg(), encoding="utf-8")),
        ("--explain-svg -why.svg", lambda path: path.write_text(answers.explain_svg(), encoding="utf-8")),
    ]
    check_files(command, words, write, tmp_path)


def test_files_of_one_outcome(command: doors.Command, tmp_path: Path) -> None:
    outcome = db.simulate(question(**SIZES), "zb-h1")[0]
    words = ["simulate", *FLAGS, *SIZE_FLAGS, "--schedule", "zb-h1", "--json"]
    write: Saves = [
        ("--svg .svg", outcome.save),
        ("--trace .json", outcome.save),
        ("--timeline -recorded.json", lambda path: path.write_bytes(outcome.recorded())),
    ]
    check_files(command, words, write, tmp_path)
    outcome.save(tmp_path / "order.txt")
    exported = command.stdout("export", *FLAGS, "--schedule", "zb-h1")
    assert (tmp_path / "order.txt").read_text() == exported


AXES = {"memory-limit": ["1p", "1.5p", "2p"], "microbatches": [8, 12, 3], "hop": ["0us", "1ms"]}


def swept(command: doors.Command, folder: Path, text: str) -> bytes:
    (folder / "sweep.toml").write_text(text, encoding="utf-8")
    command.stdout("sweep", folder / "sweep.toml", "--out", folder / "rows.csv")
    return (folder / "rows.csv").read_bytes()


def lines(keys: dict[str, Any]) -> str:
    texts = {key: f'"{value}"' if isinstance(value, str) else value for key, value in keys.items()}
    return "".join(f"{key} = {value}\n" for key, value in texts.items())


def test_rows_of_a_sweep(command: doors.Command, tmp_path: Path) -> None:
    schedules = ["1f1b", "zb-heuristic", "dualpipe-v"]
    rows = db.sweep(question(), AXES, schedules)
    head = {"schedule": schedules, **{key: value for key, value in KEYS.items() if key not in AXES}}
    assert rows.to_csv().encode() == swept(command, tmp_path, lines(head) + "[sweep]\n" + lines(AXES))
    assert any(rows.columns["error"]), "one of them needs more microbatches"
    assert len(rows) == 3 * 18
    rows.save(tmp_path / "ours.csv")
    assert (tmp_path / "ours.csv").read_bytes() == (tmp_path / "rows.csv").read_bytes()


def test_rows_of_a_sweep_under_noise_over_settings(command: doors.Command, tmp_path: Path) -> None:
    noise: dict[str, Any] = {"jitter": ["pass=lognormal:0.1"], "seed": 7, "replicas": 30}
    settings: list[dict[str, Any]] = [{"name": "near", "hop": "1us"}, {"name": 'far, "away"', "hop": "9ms"}]
    axes = {"stages": {"from": 2, "to": 6, "step": 2}, "microbatches": {"from": 4, "to": 16, "factor": 2}}
    times: dict[str, Any] = {"forward": "2ms", "backward": "4ms", "schedule": ["1f1b", "zb-h2"]}
    rows = db.sweep(
        db.Question(**times, **noise, setting=settings),
        {"stages": db.steps(2, 6, 2), "microbatches": db.factors(4, 16, 2)},
    )
    text = lines({**times, **noise}) + "".join(
        f"[[setting]]\nname = '{one['name']}'\nhop = \"{one['hop']}\"\n" for one in settings
    )
    inline = {
        key: "{ " + ", ".join(f"{name} = {value}" for name, value in axis.items()) + " }"
        for key, axis in axes.items()
    }
    text += "[sweep]\n" + "".join(f"{key} = {axis}\n" for key, axis in inline.items())
    assert rows.to_csv().encode() == swept(command, tmp_path, text)
    assert len(rows) == 2 * 2 * 9


def test_a_search(command: doors.Command, tmp_path: Path) -> None:
    found = db.search(question(seed=3), memory_limit="1.5p", effort=1)
    words = ["search", *FLAGS, "--seed=3", "--memory-limit", "1.5p", "--effort", 1, "--json"]
    assert printed(found) == command.stdout(*words)
    saves: Saves = [
        ("--certificate .toml", found.save),
        ("--export .txt", found.save),
        ("--csv .csv", found.save),
        ("--svg .svg", found.save),
        ("--pareto -front.svg", lambda path: path.write_text(found.front_svg(), encoding="utf-8")),
    ]
    check_files(command, words, saves, tmp_path)


def test_searches_under_several_limits(command: doors.Command) -> None:
    found = db.search(question(), memory_limits=["1p", "2p"], objective="makespan", effort=0)
    limits = ["--memory-limits", "1p,2p", "--objective", "makespan", "--effort", 0]
    assert printed(found) == command.stdout("search", *FLAGS, *limits, "--json")
    assert len(found) == 2
    loops = db.search(question(chunks=2), memory_limit="1p", placement="looped", effort=0)
    loop = ["--chunks", 2, "--memory-limit", "1p", "--placement", "looped", "--effort", 0]
    assert printed(loops) == command.stdout("search", *FLAGS, *loop, "--json")


def test_a_checked_certificate(command: doors.Command, tmp_path: Path) -> None:
    certificate = db.search(question(), memory_limit="1p", effort=0).certificate
    file = tmp_path / "best.toml"
    file.write_text(certificate, encoding="utf-8")
    told = command.stdout("verify", file, "--json")
    for source in (certificate, certificate.encode(), file, str(file)):
        verified = db.verify(source)
        assert verified
        assert printed(verified) == told
    file.write_text(certificate.replace("cost-ns = ", "cost-ns = 1", 1), encoding="utf-8")
    wrong = command.run("verify", file, "--json")
    assert wrong.returncode == 1, wrong.stderr
    assert not db.verify(file)
    assert printed(db.verify(file)) == wrong.stdout


def test_an_exported_schedule(command: doors.Command) -> None:
    words = ["export", *FLAGS, "--schedule", "zb-v"]
    assert db.export(question(), "zb-v") == command.stdout(*words)
    assert db.export(question(), "zb-v", format="chrome") == command.stdout(*words, "--format", "chrome")


def test_the_list_of_schedules(command: doors.Command) -> None:
    assert printed(db.schedules()) == command.stdout("schedules", "--json")


@pytest.mark.parametrize(
    "name",
    ["scenario", "sweep", "plan", "fsdp", "rl", "encoder", "search", "failures", "replay", "reproduce"],
)
def test_schemas(command: doors.Command, name: str) -> None:
    assert db.schema(name) == json.loads(command.stdout("schema", name))


def test_a_comparison(command: doors.Command, tmp_path: Path) -> None:
    fast = db.simulate(question(), "zb-h1")[0]
    slow = db.simulate(question().replace(hop="2ms", slowdown=["stage:2=1.3"]), "zb-h1")[0]
    files = [tmp_path / "predicted.json", tmp_path / "measured.json"]
    for file, outcome in zip(files, (fast, slow)):
        file.write_bytes(outcome.recorded())
    told = command.stdout("compare", *files, "--json")
    assert printed(db.compare(fast, slow)) == told
    assert printed(db.compare(*files)) == told
    assert printed(db.compare(fast, files[1].read_bytes())) == told
    with files[0].open() as text, files[1].open("rb") as binary:
        assert printed(db.compare(text, binary)) == told
    check_files(
        command, ["compare", *files, "--json"], [("--svg .svg", db.compare(fast, slow).save)], tmp_path
    )


def test_a_replayed_trace(command: doors.Command, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    trace = db.simulate(question(slowdown=["stage:1=1.4"]), "1f1b")[0].to_trace()
    file.write_bytes(trace)
    changes = ["no-stragglers", "balanced", "free-links"]
    words = ["replay", file, "--what-if", ",".join(changes), "--schedule", "1f1b,zb-h1", "--json"]
    told = command.stdout(*words)
    asked: dict[str, Any] = {"what_if": changes, "schedule": ["1f1b", "zb-h1"]}
    assert printed(db.replay(file, **asked)) == told
    assert db.replay(trace, **asked).to_dict()["what_if"] == db.replay(file, **asked).to_dict()["what_if"]
    delays = command.stdout("replay", file, "--launch-delays", "--json")
    assert printed(db.replay(file, launch_delays=True)) == delays


def test_traces_of_all_ranks(command: doors.Command) -> None:
    folder = Path(__file__).resolve().parents[2] / "tests" / "traces"
    files = [folder / f"ScheduleZBVZeroBubble.{rank}.json" for rank in (0, 1)]
    told = command.stdout("replay", *files, "--warmup-steps=1", "--json")
    assert printed(db.replay(files, warmup_steps=1)) == told
    ranks = db.replay([file.read_bytes() for file in files], warmup_steps=1)
    assert printed(ranks) == told
    assert ranks.to_dict()["hops"]["measured"] is False
    with pytest.raises(db.InputError, match="none of rank 1"):
        db.replay(files[0])


def test_packing(command: doors.Command, tmp_path: Path) -> None:
    packed = db.fsdp(
        devices=4, minibatch_size=[1, 4], packing_ratio=1, minibatches=6, parameters="1GB", bandwidth="50GB/s"
    )
    words = ["fsdp", "--devices=4", "--minibatch-size=1,4", "--packing-ratio=1", "--minibatches=6"]
    words += ["--parameters=1GB", "--bandwidth=50GB/s", "--json"]
    assert printed(packed) == command.stdout(*words)
    saves: Saves = [("--csv .csv", packed.save), ("--svg .svg", packed.save)]
    check_files(command, words, saves, tmp_path)


def test_a_step_of_reinforcement_learning(command: doors.Command, tmp_path: Path) -> None:
    step = db.rl(model="qwen2.5-1.5b", machine="a100-80g", prompts=16, steps=1, mini_batch=4)
    words = ["rl", "--model=qwen2.5-1.5b", "--machine=a100-80g", "--prompts=16", "--steps=1"]
    words += ["--mini-batch=4", "--json"]
    assert printed(step) == command.stdout(*words)
    assert step.step_ns >= max(phase.time_ns for phase in step.rows)
    assert {lever.lever for lever in step.levers} >= {"on-demand communication", "partial rollouts"}
    assert 0 <= step.update["idle_rate"] < 1 and step.rollout["engines"] == 8 and step.tokens_per_second > 0
    saves: Saves = [("--csv .csv", step.save), ("--svg .svg", step.save)]
    check_files(command, words, saves, tmp_path)


def test_a_step_that_trains_on_pipelines(command: doors.Command) -> None:
    keys: dict[str, Any] = {"model": "qwen2.5-1.5b", "machine": "a100-80g", "prompts": 16, "steps": 1}
    step = db.rl(**keys, strategy="megatron", pipeline=2, train_tensor=2, schedule="zb-h1", lora_rank=16)
    words = ["rl", "--model=qwen2.5-1.5b", "--machine=a100-80g", "--prompts=16", "--steps=1", "--json"]
    words += ["--strategy=megatron", "--pipeline=2", "--train-tensor=2", "--schedule=zb-h1", "--lora-rank=16"]
    assert printed(step) == command.stdout(*words)
    assert step.pipelines is not None
    assert (step.pipelines["replicas"], step.pipelines["schedule"]) == (2, "zb-h1")
    assert db.rl(**keys).pipelines is None
    with pytest.raises(db.InputError, match="strategy"):
        db.rl(**keys, pipeline=2)


def test_dead_workers(command: doors.Command, tmp_path: Path) -> None:
    q = db.Question(stages=4, microbatches=8, forward="5ms", backward_input="6ms", backward_weight="4ms")
    schedules = ["1f1b", "zb-h1"]
    dead = ["0.1", "2.3"]
    answer = db.failures(q, schedules, data_parallel=3, dead=dead, mtbf="7200s", draws=2, most_dead=2)
    words = ["failures", "--schedule=1f1b,zb-h1", "--stages=4", "--microbatches=8", "--forward=5ms"]
    words += ["--backward-input=6ms", "--backward-weight=4ms", "--data-parallel=3", "--dead=0.1,2.3"]
    words += ["--mtbf=7200s", "--draws=2", "--most-dead=2", "--json"]
    assert printed(answer) == command.stdout(*words)
    found = [(row.schedule, row.backward) for row in answer.rows]
    assert found == [("1f1b", "whole"), ("1f1b", "split"), ("zb-h1", "split")]
    assert all(row.rerouted["bound_ns"] <= row.rerouted["step_ns"] for row in answer.rows)
    assert [row.dead for row in answer.borne] == [1, 2] * 3
    assert not answer.timeline
    timed = db.failures(q, "zb-h1", data_parallel=3, dead=dead, most_dead=0, timeline=True)
    assert len(timed.timeline) == 3 * 4 * 8 * 3
    assert {row.worker for row in timed.timeline}.isdisjoint(dead)
    policies = {row.policy for row in answer.policies}
    assert policies == {"reroute", "drop-pipeline", "wait-for-spare"} and answer.assumed
    saves: Saves = [("--csv .csv", answer.save)]
    check_files(command, words, saves, tmp_path)


def test_an_encoder_in_front_of_a_language_model(command: doors.Command, tmp_path: Path) -> None:
    steps = db.encoder(
        schedule=["1f1b", "zb-h1"],
        stages=4,
        microbatches=8,
        forward="10ms",
        hop="100us",
        encoder_forward="9ms",
        encoder_layers=9,
        encoder_work=[1, 0, 2, 1, 1, 0.5, 1, 1],
    )
    words = ["encoder", "--schedule=1f1b,zb-h1", "--stages=4", "--microbatches=8", "--forward=10ms"]
    words += ["--hop=100us", "--encoder-forward=9ms", "--encoder-layers=9"]
    words += ["--encoder-work=1,0,2,1,1,0.5,1,1", "--json"]
    assert printed(steps) == command.stdout(*words)
    bubbles, first = steps.placed("bubbles"), steps.placed("first-stage")
    assert bubbles is not None and first is not None
    assert steps.bound_ns <= steps.step_ns == min(row.step_ns for row in steps.rows)
    assert bubbles["step_ns"] < first["step_ns"] and sum(bubbles["microbatches_by_stage"]) == 8
    assert steps.placed("nowhere") is None
    saves: Saves = [("--csv .csv", steps.save), ("--svg .svg", steps.save)]
    check_files(command, words, saves, tmp_path)
    with pytest.raises(db.InputError, match="encoder_work"):
        db.encoder(forward="10ms", encoder_forward="9ms", encoder_work=[1])


def test_a_plan(command: doors.Command, tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(MODEL, encoding="utf-8")
    written = [f"--{form}={tmp_path / 'theirs'}.{form}" for form in ("csv", "svg", "html")]
    told = command.stdout("plan", file, "--json", *written, "--export", tmp_path / "theirs")
    planned = db.plan(file)
    assert printed(planned) == told
    keywords = db.plan(
        sequence=1024,
        tokens=1e9,
        batch=64,
        model={"layers": 8, "hidden": 1024, "heads": 16, "vocabulary": 32000},
        cluster=[{"machine": "a100-80g", "devices": [4]}],
        search={"tensor": [1], "chunks": [1]},
    )
    assert printed(keywords) == told
    for form in ("csv", "svg", "html"):
        planned.save(tmp_path / f"ours.{form}")
        ours, theirs = (tmp_path / f"{name}.{form}" for name in ("ours", "theirs"))
        assert ours.read_bytes() == theirs.read_bytes(), form
    names = planned.export(tmp_path / "ours")
    assert sorted(names) == sorted(one.name for one in (tmp_path / "theirs").iterdir())
    for name in names:
        assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes()
    assert planned.details() in command.stdout("plan", file, "--details")


def test_a_plan_with_adapters(command: doors.Command, tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    training = '[training]\nlora-rank = 8\nlora-modules = ["q_proj", "v_proj"]\nfrozen = ["layers:0-1"]\n'
    file.write_text(MODEL + training, encoding="utf-8")
    told = command.stdout("plan", file, "--json")
    keywords = db.plan(
        sequence=1024,
        tokens=1e9,
        batch=64,
        model={"layers": 8, "hidden": 1024, "heads": 16, "vocabulary": 32000},
        cluster=[{"machine": "a100-80g", "devices": [4]}],
        search={"tensor": [1], "chunks": [1]},
        training={"lora_rank": 8, "lora_modules": ["q_proj", "v_proj"], "frozen": ["layers:0-1"]},
    )
    assert printed(keywords) == told
    # r (K + N) of two products of h x h in six of eight layers.
    assert json.loads(told)["parameters_trained"] == 6 * 8 * 2 * (1024 + 1024)
    file.write_text(MODEL + training.replace("8", "2000", 1), encoding="utf-8")
    with pytest.raises(ValueError, match="from 1 to the hidden size, 1024"):
        db.plan(file)


def test_a_plan_against_another(command: doors.Command, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("plan.toml", "other.toml")]
    files[0].write_text(MODEL, encoding="utf-8")
    files[1].write_text(MODEL.replace("batch = 64", "batch = 128"), encoding="utf-8")
    assert files[0].read_text() != files[1].read_text()
    told = command.stdout("plan", files[0], "--against", files[1], "--json")
    first, second = map(db.plan, files)
    both = first.against(second)
    assert printed(both) == told
    assert repr(both) + "\n" == command.stdout("plan", files[0], "--against", files[1])
    step = both.time[-1]
    assert (step.name, step.unit, step.second) == ("all", "s", second.best.step_ns / 1e9)
    assert step.difference == step.second - step.first
    assert [row.name for row in both.figures][-1] == "dollars"
    assert both.memory[-1].first > 0
    # Lines of the table are no longer than a terminal is wide.
    assert " ".join(both.verdict) in " ".join(repr(both).split())
    again = pickle.loads(pickle.dumps(both))
    assert (repr(again), again.to_json()) == (repr(both), both.to_json())
    with pytest.raises(ValueError, match="unpickled"):
        pickle.loads(pickle.dumps(first)).against(second)


def test_plans_side_by_side_as_a_frame(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    file = tmp_path / "plan.toml"
    file.write_text(MODEL, encoding="utf-8")
    planned = db.plan(file)
    assert planned.against(planned).to_pandas()["difference"].iloc[-1] == 0


def test_published_tables(command: doors.Command, tmp_path: Path) -> None:
    names = ("table2", "table5", "post-validation")
    made = db.reproduce(*names)
    told = command.stdout("reproduce", *names, "--json", "--out", tmp_path)
    assert printed(made) == told
    assert made.holds
    parts = [(tmp_path / f"{name}.csv").read_text() for name in names]
    assert made.to_csv() == "\n".join(parts)


def test_published_tables_with_better_orders(command: doors.Command) -> None:
    made = db.reproduce("table5", beyond=True, effort=0)
    told = command.stdout("reproduce", "table5", "--beyond", "--effort", 0, "--json", "--no-files")
    assert printed(made) == told


def test_the_same_question_has_the_same_bytes_on_any_number_of_threads(tmp_path: Path) -> None:
    program = """
import debubble as db
plain = db.Question(stages=4, microbatches=12, forward="3ms", backward="5ms", hop="1ms", seed=11)
q = plain.replace(jitter=["pass=lognormal:0.1"], replicas=64)
answers = db.simulate(q, ["1f1b", "zb-h1", "zb-v"], explain=True)
rows = db.sweep(q, {"microbatches": [8, 12, 16], "hop": ["0s", "1ms"]}, ["1f1b", "zb-h2"])
found = db.search(plain, memory_limit="1.25p", effort=1)
print(answers.to_json(), rows.to_csv(), found.to_json(), found.certificate)
"""
    outputs = []
    for threads in ("1", "2", "5", "2"):
        environment = {**os.environ, "RAYON_NUM_THREADS": threads, "PYTHONWARNINGS": "ignore"}
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, env=environment, timeout=600
        )
        assert done.returncode == 0, done.stderr.decode()
        outputs.append(done.stdout)
    assert len(outputs[0]) > 10_000
    assert outputs == outputs[:1] * 4


def test_notes_are_those_of_the_command_line(command: doors.Command) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answers = db.simulate(question(chunks=2), ["1f1b", "zb-v"])
    told = doors.notes(command.run("simulate", *FLAGS, "--chunks=2", "--schedule=1f1b,zb-v", "--json"))
    assert told
    worded = [_debubble.said(text) for text in told]
    assert worded != told and answers.warnings == worded
    assert [str(one.message) for one in caught] == worded
    assert all(one.category is db.Note and one.filename == __file__ for one in caught)
