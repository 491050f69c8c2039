"""Profiles of trainers: made of a recording, saved, asked about."""

import json
import os
import pickle
import subprocess
from pathlib import Path

import pytest

import debubble as db

BINARY = os.environ.get("DEBUBBLE", "debubble")


def recording(**recording):
    """A measured run of two steps: F 10 ms, B 9 ms, W 8 ms; hops of 0.5 ms."""
    question = db.Question(
        stages=4, microbatches=8, forward="10ms", backward_input="9ms", backward_weight="8ms", hop="500us"
    )
    run = json.loads(db.simulate(question, "zb-h1")["zb-h1"].recorded())
    run["source"] = "measured"
    run["steps"] *= 2
    if recording:
        run["recording"] = {"program": "a test", **recording}
    return json.dumps(run).encode()


@pytest.fixture(scope="module")
def profile():
    memory = [{"until_backward_bytes": 1000 + at, "until_weight_bytes": 500} for at in range(4)]
    return db.Profile.of_recording(recording(memory=memory, message_bytes=64, cores=2))


def test_figures(profile):
    assert (profile.stages, profile.microbatches, profile.schedule) == (4, 8, "zb-h1")
    assert profile.chunks[3].forward_seconds == pytest.approx(0.01)
    assert profile.chunks.column("backward_weight_seconds") == pytest.approx([0.008] * 4)
    assert profile.chunks[3].activation_bytes == 1003
    assert profile.hop == pytest.approx(0.0005)
    assert profile.overhead == 0
    assert "zb-h1" in repr(profile)
    assert "<table" in profile._repr_html_()


def test_stands_for_its_question(profile):
    best = db.search(profile, memory_limit="1p")
    (zb_h1,) = db.simulate(profile, "zb-h1")
    assert best.cost_ns <= zb_h1.timeline.end_ns.max()
    assert [one.schedule for one in db.simulate(profile, best.schedule)] == ["zb-auto"]
    assert best.predicted.timeline.stage.max() == 3
    asked = db.Question(profile=profile, stages=2, microbatches=6, schedule=["1f1b", "zb-h1"])
    assert [one.schedule for one in db.simulate(asked)] == ["1f1b", "zb-h1"]
    rows = db.sweep(profile, {"microbatches": [8, 12]}, schedules=["1f1b", "zb-2p"])
    assert len(rows) == 4
    assert pickle.loads(pickle.dumps(asked)) == asked


def test_search_keeps_the_chunks_where_they_lay():
    times = {"forward": "10ms", "backward_input": "9ms", "backward_weight": "8ms", "hop": "500us"}
    run = db.simulate(db.Question(stages=3, microbatches=6, **times), "zb-v")["zb-v"].recorded()
    profile = db.Profile.of_recording(run.replace(b'"simulated"', b'"measured"', 1))
    assert (profile.placement, len(profile.chunks)) == ("v", 6)
    assert db.search(profile).schedule.placement == "v"
    looped = db.search(profile, placement="looped").schedule
    assert (looped.placement, looped.chunks) == ("looped", 2)


def test_saved_and_read_by_all_doors(profile, tmp_path):
    path = tmp_path / "run.toml"
    profile.save(path)
    assert db.Profile.from_file(path) == profile == pickle.loads(pickle.dumps(profile))
    asked = ["--profile", str(path), "--stages", "4", "--microbatches", "8", "--schedule", "zb-2p", "--json"]
    told = subprocess.run([BINARY, "simulate", *asked], capture_output=True, check=True).stdout
    (here,) = db.simulate(profile, "zb-2p")
    assert json.loads(told)["results"][0]["span_ns"] == here.to_dict()["span_ns"]
    run = tmp_path / "run.json"
    run.write_bytes(recording())
    made = subprocess.run(
        [BINARY, "profile", str(run), "--json", "--output", str(tmp_path / "again.toml")],
        capture_output=True,
        check=True,
    )
    again = db.Profile.from_file(tmp_path / "again.toml")
    assert json.loads(made.stdout) == json.loads(again.to_json())
    assert again.chunks[0].activation_bytes is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"memory": [{"until_backward_bytes": 1, "until_weight_bytes": 1}]}, "the sizes of 1 chunks"),
        ({"memory": [{"until_backward_bytes": -1, "until_weight_bytes": 1}] * 4}, "invalid value"),
        ({"message_bytes": 2**63}, "a size is at most"),
        ({"cores": 2**63}, "cores"),
        ({"os": "x" * 2000}, "a text of 2000 bytes"),
        ({"speed": 1}, "unknown field"),
    ],
)
def test_recordings_that_cannot_be(change, message):
    with pytest.raises(db.InputError, match=message):
        db.Profile.of_recording(recording(**change))


def test_refusals(profile):
    with pytest.raises(db.InputError, match="cannot be put together to 8"):
        db.simulate(profile, "zb-v")
    with pytest.raises(db.InputError, match="layers are for the profile of a machine"):
        db.simulate(db.Question(profile=profile, stages=4, microbatches=8, layers=8), "1f1b")
    with pytest.raises(db.InputError, match="is a profile"):
        db.Profile.of_recording(profile.to_toml().encode())
    with pytest.raises(TypeError, match=r"debubble\.Question is needed"):
        db.simulate(3, "1f1b")


def test_a_log_of_megatron_is_a_profile() -> None:
    log = Path(__file__).parents[2] / "tests/traces/megatron-timers.log"
    with pytest.warns(db.Note, match="do not know hops, memory"):
        profile = db.Profile.of_recording(log)
    assert (profile.schedule, profile.stages, profile.microbatches) == ("1f1b", 2, 8)
    assert (profile.hop, profile.overhead) == (None, None)
    # F of 10 and 14 ms, the whole backward of 20 and 27, within 2 %.
    for row, forward, backward in zip(profile.chunks, (0.010, 0.014), (0.020, 0.027)):
        assert row.forward_seconds == pytest.approx(forward, rel=0.02)
        assert row.backward_seconds == pytest.approx(backward, rel=0.02)
        assert row.backward_input_seconds is None
    with pytest.warns(db.Note, match="too few samples"):
        answers = db.simulate(profile, "1f1b", hop="1ms")
    assert answers[0].span_ns > 8 * 41e6
    with pytest.raises(db.InputError, match="does not know B and W apart"):
        db.simulate(profile, "zb-h1")
    two = log.read_bytes().replace(b"size ............ None", b"size ............ 2")
    with pytest.warns(db.Note, match="alike"):
        assert len(db.Profile.of_recording(two).chunks) == 4
    with pytest.raises(db.InputError, match="these timers do not say") as raised:
        db.Profile.of_recording(log.read_bytes().replace(b"times across", b"max time across"))
    assert "--timing-log-option all" in str(raised.value)
