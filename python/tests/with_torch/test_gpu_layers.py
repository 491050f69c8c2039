"""tests/gpu_layers.py on a CPU: the layers are those of a model, and every experiment has its rows."""

import csv
import subprocess
import sys

import doors
import pytest
import torch

PROGRAM = doors.ROOT / "tests/gpu_layers.py"


@pytest.fixture(scope="module")
def layers():
    return doors.module(PROGRAM)


def inputs(layers, tokens):
    torch.manual_seed(1)
    sizes = layers.MODELS["tiny"]
    cos, sin = (one.float() for one in layers.angles(tokens, sizes.head))
    return sizes, torch.randn(2, tokens, sizes.hidden, requires_grad=True), cos, sin


def test_a_layer_is_causal_and_turns_positions(layers):
    sizes, x, cos, sin = inputs(layers, 8)
    layer = layers.Layer(sizes, True, 0)
    whole, first = layer(x, cos, sin), layer(x[:, :5], cos[:5], sin[:5])
    torch.testing.assert_close(whole[:, :5], first, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(whole, layer(x, cos.flip(0), sin.flip(0)), atol=1e-3)


def test_adapters_begin_as_nothing_and_alone_are_trained(layers):
    sizes, x, cos, sin = inputs(layers, 8)
    frozen, adapted = layers.Layer(sizes, False, 0), layers.Layer(sizes, False, 4)
    adapted.load_state_dict(frozen.state_dict(), strict=False)
    torch.testing.assert_close(frozen(x, cos, sin), adapted(x, cos, sin))
    adapted(x, cos, sin).sum().backward()
    trained = {name.split(".")[-1] for name, one in adapted.named_parameters() if one.grad is not None}
    assert trained == {"down", "up"} and x.grad is not None
    assert sum(one.numel() for one in adapted.parameters() if one.requires_grad) == 4 * sum(
        sum(one.weight.shape) for one in adapted.modules() if isinstance(one, layers.Linear)
    )


@torch.no_grad()
def test_a_cached_token_is_the_last_of_its_sequence(layers):
    sizes, x, cos, sin = inputs(layers, 8)
    layer, cached = layers.Layer(sizes, False, 0), layers.Cached(sizes, 2, 8)
    cached.inner.load_state_dict(layer.state_dict())
    inner = layer.normed(x, 0)
    cached.keys.copy_(layers.rotated(layer.heads(layer.key(inner), sizes.kv_heads), cos, sin))
    cached.values.copy_(layer.heads(layer.value(inner), sizes.kv_heads))
    cached.keys[:, :, -1] = cached.values[:, :, -1] = 7.0
    last = cached(x[:, -1:], cos[-1:], sin[-1:])
    torch.testing.assert_close(last, layer(x, cos, sin)[:, -1:], atol=1e-5, rtol=1e-5)


@pytest.mark.slow
def test_every_experiment_has_its_rows(layers, tmp_path):
    table = tmp_path / "layers.csv"
    flags = "--device cpu --model tiny --layers 1 --repeats 1 --scale 512 --no-compile --csv"
    line = [sys.executable, str(PROGRAM), *flags.split(), str(table)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["experiment"] for row in rows} == set(layers.EXPERIMENTS)
    assert all(float(row["forward_ms"]) > 0 for row in rows)
    assert all((float(row["backward_ms"]) > 0) == (row["experiment"] != "decode") for row in rows)
