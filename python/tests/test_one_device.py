"""The file of a profile that was taken on one device."""

from __future__ import annotations

import pytest

import debubble as db
from debubble import _one_device

SPLIT = _one_device.Chunk([3000, 1000, 2000], [4000], [1500], [2500], 100, 120)
WHOLE = _one_device.Chunk([1000], [4000], [], [], 50, 50)


def profile(*chunks: _one_device.Chunk, message: int | None = 640) -> db.Profile:
    text = _one_device.text(
        chunks,
        program='torch "2"\\x é',
        stages=2,
        placement="v",
        microbatches=8,
        message=message,
        device="cpu",
    )
    return db.Profile.from_file(text.encode())


def test_times_and_sizes_are_those_given() -> None:
    made = profile(SPLIT, SPLIT, SPLIT, WHOLE)
    assert (made.schedule, made.stages, made.placement, made.microbatches) == ("one-device", 2, "v", 8)
    assert "message = 640" in made.to_toml()
    rows = made.chunks
    assert rows.column("forward_seconds") == pytest.approx([2e-6, 2e-6, 2e-6, 1e-6])
    assert rows.column("backward_seconds") == pytest.approx([4e-6] * 4)
    assert rows.column("backward_input_seconds") == pytest.approx([1.5e-6] * 3 + [None])
    assert db.simulate(made, "1f1b-v")[0].order.stages == 2


def test_names_come_back_as_they_were() -> None:
    assert 'torch "2"\\x é' in profile(WHOLE, WHOLE).to_toml().replace('\\"', '"').replace("\\\\", "\\")


def test_a_pipeline_of_one_stage_has_no_message() -> None:
    assert "message" not in profile(WHOLE, WHOLE, message=None).to_toml()
