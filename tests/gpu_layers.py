"""Times of a language model's layers on one NVIDIA GPU, measured with torch alone.

python tests/gpu_layers.py [--csv OUT.csv] [--model llama3-8b] [--only training lengths decode]

Of debubble it has nothing.

training  F and the whole backward of a layer where all weights are trained, where all are frozen, and where
          adapters of rank 16 are trained beside frozen weights; op by op, and compiled where torch compiles
lengths   the same of one sequence of 1,024 to 32,768 tokens, all weights trained
encoder   a layer of a vision transformer, all weights trained: full attention, a norm and an MLP with biases
decode    a step of a decoder of 8 layers by a CUDA graph, over batch and context: what an engine that
          generates takes for a layer

Columns: model, experiment, mode, kernels, tokens of a sequence or of a context, sequences, forward_ms and
backward_ms of one layer, each the median of the repetitions, device. Needs torch 2.5 or newer with CUDA. Exit
code 1 where there is none. `--device cpu` is for trying the script.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError:
    sys.exit("there is no torch")

COLUMNS = [
    *("model", "experiment", "mode", "kernels", "tokens", "sequences"),
    *("forward_ms", "backward_ms", "device"),
]
EXPERIMENTS = ["training", "lengths", "encoder", "decode"]
RANK = 16
# A moment: an event of a GPU, or seconds of the host.
Mark = Any


class Sizes(NamedTuple):
    """Sizes of a layer of a Llama model."""

    hidden: int
    heads: int
    kv_heads: int
    ffn: int

    @property
    def head(self) -> int:
        return self.hidden // self.heads


MODELS = {
    "llama3-8b": Sizes(4096, 32, 8, 14336),
    "llama3-70b": Sizes(8192, 64, 8, 28672),
    "tiny": Sizes(64, 4, 2, 128),
}
# Of vision transformers.
ENCODERS = {"vit-l": Sizes(1024, 16, 16, 4096), "vit-22b": Sizes(6144, 48, 48, 24576)}


class Linear(nn.Module):
    """A product with a weight, and an adapter of rank `rank` beside it unless that is 0."""

    def __init__(self, inner: int, outer: int, trained: bool, rank: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outer, inner) * inner**-0.5, requires_grad=trained)
        self.down = nn.Parameter(torch.randn(rank, inner) * inner**-0.5) if rank else None
        self.up = nn.Parameter(torch.zeros(outer, rank)) if rank else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = functional.linear(x, self.weight)
        if self.down is None or self.up is None:
            return out
        return out + 2.0 * functional.linear(functional.linear(x, self.down), self.up)


class Layer(nn.Module):
    """Attention with rotated positions and grouped keys, and a gated MLP, each behind a norm."""

    def __init__(self, sizes: Sizes, trained: bool, rank: int) -> None:
        super().__init__()
        self.sizes = sizes
        kv = sizes.kv_heads * sizes.head
        h = sizes.hidden
        self.query = Linear(h, h, trained, rank)
        self.key = Linear(h, kv, trained, rank)
        self.value = Linear(h, kv, trained, rank)
        self.projection = Linear(h, h, trained, rank)
        self.gate = Linear(h, sizes.ffn, trained, rank)
        self.wide = Linear(h, sizes.ffn, trained, rank)
        self.narrow = Linear(sizes.ffn, h, trained, rank)
        self.norms = nn.ParameterList(nn.Parameter(torch.ones(h), requires_grad=trained) for _ in range(2))

    def normed(self, x: torch.Tensor, at: int) -> torch.Tensor:
        return functional.rms_norm(x, (self.sizes.hidden,), self.norms[at], 1e-5)

    def heads(self, x: torch.Tensor, count: int) -> torch.Tensor:
        return x.unflatten(-1, (count, self.sizes.head)).transpose(1, 2)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        sizes = self.sizes
        inner = self.normed(x, 0)
        query = rotated(self.heads(self.query(inner), sizes.heads), cos, sin)
        key = rotated(self.heads(self.key(inner), sizes.kv_heads), cos, sin)
        value = self.heads(self.value(inner), sizes.kv_heads)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        x = x + self.projection(mixed.transpose(1, 2).flatten(2))
        inner = self.normed(x, 1)
        return x + self.narrow(functional.silu(self.gate(inner)) * self.wide(inner))


class VisionLayer(nn.Module):
    """Attention of all tokens to all, and an MLP of two products, each behind a norm."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        h = sizes.hidden
        self.heads = sizes.heads
        self.norms = nn.ModuleList(nn.LayerNorm(h) for _ in range(2))
        self.inner = nn.Linear(h, 3 * h)
        self.projection = nn.Linear(h, h)
        self.wide = nn.Linear(h, sizes.ffn)
        self.narrow = nn.Linear(sizes.ffn, h)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        inner = self.inner(self.norms[0](x)).unflatten(-1, (3, self.heads, -1))
        query, key, value = inner.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        x = x + self.projection(mixed.transpose(1, 2).flatten(2))
        return x + self.narrow(functional.gelu(self.wide(self.norms[1](x)), approximate="tanh"))


class Cached(nn.Module):
    """A layer whose tokens attend to keys and values of a cache: one token of each sequence."""

    def __init__(self, sizes: Sizes, sequences: int, context: int) -> None:
        super().__init__()
        self.inner = Layer(sizes, False, 0)
        shape = (sequences, sizes.kv_heads, context, sizes.head)
        self.register_buffer("keys", torch.randn(shape))
        self.register_buffer("values", torch.randn(shape))

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        layer, sizes = self.inner, self.inner.sizes
        inner = layer.normed(x, 0)
        query = rotated(layer.heads(layer.query(inner), sizes.heads), cos, sin)
        # The new token takes the last place of the cache.
        self.keys[:, :, -1:] = rotated(layer.heads(layer.key(inner), sizes.kv_heads), cos, sin)
        self.values[:, :, -1:] = layer.heads(layer.value(inner), sizes.kv_heads)
        # Queries that share keys are rows of one product.
        shared = query.unflatten(1, (sizes.kv_heads, -1)).flatten(2, 3)
        mixed = functional.scaled_dot_product_attention(shared, self.keys, self.values)
        x = x + layer.projection(mixed.reshape(x.shape[0], 1, -1))
        inner = layer.normed(x, 1)
        return x + layer.narrow(functional.silu(layer.gate(inner)) * layer.wide(inner))


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-right, left), dim=-1) * sin


def angles(tokens: int, head: int) -> tuple[torch.Tensor, torch.Tensor]:
    steps = torch.arange(0, head, 2, dtype=torch.float32) / head
    places = torch.arange(tokens, dtype=torch.float32)
    turned = torch.outer(places, 500000.0**-steps).repeat(1, 2)
    return turned.cos().bfloat16(), turned.sin().bfloat16()


class Bench:
    """Layers on a device, timed by its events."""

    def __init__(self, model: str, layers: int, repeats: int, device: str) -> None:
        self.model, self.sizes = model, MODELS[model]
        self.layers, self.repeats, self.device = layers, repeats, device

    def timed(self, parts: Sequence[Callable[[], None]], behind: Callable[[], None]) -> list[float]:
        """Median milliseconds of a layer in each of `parts`, one after another, and `behind` after them."""
        found: list[list[float]] = [[] for _ in parts]
        for step in range(3 + self.repeats):
            marks = [self.mark()]
            for part in parts:
                part()
                marks.append(self.mark())
            behind()
            if step >= 3:
                for times, first, second in zip(found, marks, marks[1:]):
                    times.append(between(first, second) / self.layers)
        return [statistics.median(times) for times in found]

    def mark(self) -> Mark:
        """This moment on the device."""
        if self.device == "cpu":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def training(self, mode: str, tokens: int, sequences: int, compiled: bool) -> tuple[float, float]:
        """Milliseconds of F and of the whole backward of a layer."""
        trained, rank = mode != "frozen" and mode != "adapters", RANK if mode == "adapters" else 0
        stack: list[Callable[..., torch.Tensor]] = []
        parameters: list[nn.Parameter] = []
        for _ in range(self.layers):
            vision = ENCODERS.get(mode)
            layer = VisionLayer(vision) if vision else Layer(self.sizes, trained, rank)
            parameters += [one for one in layer.parameters() if one.requires_grad]
            stack.append(torch.compile(layer) if compiled else layer)
        cos, sin = angles(tokens, self.sizes.head)
        shape = (sequences, tokens, ENCODERS.get(mode, self.sizes).hidden)
        x = torch.randn(shape, requires_grad=True)
        gradient = torch.randn(shape)
        made: list[torch.Tensor] = []

        def forward() -> None:
            out = x
            for layer_of in stack:
                out = layer_of(out, cos, sin)
            made.append(out)

        def backward() -> None:
            made.pop().backward(gradient)

        def behind() -> None:
            # Gradients of weights are added to, as in all microbatches of a step but the first.
            x.grad = None

        forward_ms, backward_ms = self.timed([forward, backward], behind)
        assert all(one.grad is not None for one in parameters)
        return forward_ms, backward_ms

    @torch.no_grad()
    def decode(self, sequences: int, context: int) -> float:
        """Milliseconds of a layer for one token of each sequence."""
        stack = [Cached(self.sizes, sequences, context) for _ in range(self.layers)]
        cos, sin = (one[-1:] for one in angles(context, self.sizes.head))
        x = torch.randn((sequences, 1, self.sizes.hidden))

        def run() -> None:
            out = x
            for layer in stack:
                out = layer(out, cos, sin)

        [took] = self.timed([run if self.device == "cpu" else graph_of(run)], lambda: None)
        return took


def between(first: Mark, second: Mark) -> float:
    """Milliseconds between two moments."""
    if isinstance(first, float):
        return 1e3 * (float(second) - float(first))
    second.synchronize()
    return float(first.elapsed_time(second))


def graph_of(run: Callable[[], None]) -> Callable[[], None]:
    """Launches the kernels of `run` at once."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def rows(bench: Bench, only: list[str], scale: int, kernels: Sequence[bool]) -> Iterator[list[Any]]:
    """The rows of all experiments, one after another; `kernels`: whether layers are compiled."""
    if "training" in only:
        for compiled in kernels:
            how = "compiled" if compiled else "op by op"
            for mode in ("trained", "frozen", "adapters"):
                for tokens, sequences in ((4096, 1), (4096, 2), (8192, 1)):
                    tokens //= scale
                    if compiled and (tokens, sequences) != (4096 // scale, 2):
                        continue
                    times = bench.training(mode, tokens, sequences, compiled)
                    yield [bench.model, "training", mode, how, tokens, sequences, *times]
    if "lengths" in only:
        for power in range(10, 16):
            tokens = (1 << power) // scale
            times = bench.training("trained", tokens, 1, False)
            yield [bench.model, "lengths", "trained", "op by op", tokens, 1, *times]
    if "encoder" in only:
        for mode, tokens, sequences in (
            ("vit-l", 576, 4),
            ("vit-l", 576, 32),
            ("vit-22b", 1024, 2),
            ("vit-22b", 1024, 4),
        ):
            if scale > 1 and mode == "vit-22b":
                continue
            for compiled in kernels:
                how = "compiled" if compiled else "op by op"
                times = bench.training(mode, tokens // scale, sequences, compiled)
                yield [mode, "encoder", "trained", how, tokens // scale, sequences, *times]
    if "decode" in only:
        for context in (1024, 4096, 16384):
            for sequences in (1, 8, 32, 64, 128, 256):
                if context * sequences > 1 << 20:
                    continue
                took = bench.decode(sequences, context // scale)
                yield [bench.model, "decode", "frozen", "graph", context // scale, sequences, took, 0.0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--csv", type=Path, help="file to write")
    parser.add_argument("--model", choices=MODELS, default="llama3-8b", help="sizes of a layer")
    parser.add_argument("--layers", type=int, default=4, help="layers of which the mean is taken")
    parser.add_argument("--repeats", type=int, default=10, help="repetitions after a warm-up of 3")
    parser.add_argument("--scale", type=int, default=1, help="divisor of all lengths")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--no-compile", action="store_true", help="leave out what torch compiles")
    parser.add_argument("--only", nargs="+", choices=EXPERIMENTS, default=EXPERIMENTS)
    given = parser.parse_args()
    on_gpu = given.device == "cuda"
    if on_gpu and not torch.cuda.is_available():
        print("gpu_layers: torch has no GPU", file=sys.stderr)
        return 1
    torch.manual_seed(0)
    # Layers are made where they run: random numbers of a CPU would take most of the time.
    torch.set_default_device(given.device)
    torch.set_default_dtype(torch.bfloat16)
    name = torch.cuda.get_device_name() if on_gpu else "CPU"
    bench = Bench(given.model, given.layers, given.repeats, given.device)
    kernels = [False] if given.no_compile else [False, True]
    done: list[list[Any]] = []
    for row in rows(bench, given.only, given.scale, kernels):
        done.append([*row[:6], *(f"{time:.4f}" for time in row[6:]), name])
        print(*done[-1], sep=", ", flush=True)
        if on_gpu:
            torch.cuda.empty_cache()
        if given.csv:
            with given.csv.open("w", newline="") as file:
                csv.writer(file).writerows([COLUMNS, *done])
    return 0


if __name__ == "__main__":
    sys.exit(main())
