"""Where the benchmark of PyTorch runs; what it measures needs torch."""

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


def test_the_device_is_said_with_its_reason_and_never_another_than_asked(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from device import choose

    assert choose(None, 0) == ("cpu", "torch sees no GPU, 2 are needed")
    assert choose(None, 1) == ("cpu", "torch sees 1 GPU, 2 are needed")
    assert choose(None, 8) == ("cuda", "torch sees 8 GPUs")
    assert choose("cpu", 8) == ("cpu", "asked for by --device")
    assert choose("cuda", 2) == ("cuda", "torch sees 2 GPUs")
    with pytest.raises(ValueError, match="--device cuda: torch sees 1 GPU, 2 are needed"):
        choose("cuda", 1)
