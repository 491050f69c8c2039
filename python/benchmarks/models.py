"""What the pipelines of the benchmark train: stages that sleep, and a small GPT."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Sleep(torch.autograd.Function):
    """Its input, after a sleep; its gradient, after another. Both in seconds."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, forward: float, backward: float) -> torch.Tensor:
        ctx.seconds = backward
        time.sleep(forward)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        time.sleep(ctx.seconds)
        return gradients[0], None, None


class Sleepy(torch.nn.Module):
    """A chunk whose F, I and W take exactly as long as they are told to, without a processor.

    The gradient of its input comes through the first branch alone, that of its weight through the second:
    so each pass sleeps its own time. The input of the first chunk needs no gradient, as in every model with
    an embedding: there all of the backward is for weights.
    """

    def __init__(self, seconds: tuple[float, float, float], width: int, is_first: bool) -> None:
        super().__init__()
        self.seconds = seconds
        self.weight = torch.nn.Parameter(torch.ones(width))
        self.embedding = torch.nn.Parameter(torch.ones(width)) if is_first else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        forward, backward, weight = self.seconds
        if self.embedding is not None:
            x = x * self.embedding
        return Sleep.apply(x, forward, backward) + Sleep.apply(self.weight, 0.0, weight)


class Block(torch.nn.Module):
    """A layer of a transformer."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first = torch.nn.LayerNorm(hidden)
        self.qkv = torch.nn.Linear(hidden, 3 * hidden)
        self.out = torch.nn.Linear(hidden, hidden)
        self.second = torch.nn.LayerNorm(hidden)
        self.up = torch.nn.Linear(hidden, 4 * hidden)
        self.down = torch.nn.Linear(4 * hidden, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, hidden = x.shape
        parts = self.qkv(self.first(x)).view(batch, length, 3, self.heads, hidden // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, hidden))
        return x + self.down(functional.gelu(self.up(self.second(x))))


class Checkpointed(Block):
    """A layer that holds its input alone and computes the rest again for its backward: of a split one for B
    and once more for W.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(super().forward, x, use_reentrant=False)


class Embedding(torch.nn.Module):
    """Tokens and their places."""

    def __init__(self, vocabulary: int, length: int, hidden: int) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(vocabulary, hidden)
        self.places = torch.nn.Parameter(torch.zeros(length, hidden))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.tokens(tokens) + self.places


class Head(torch.nn.Module):
    """From the last layer to the logits."""

    def __init__(self, vocabulary: int, hidden: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(hidden)
        self.logits = torch.nn.Linear(hidden, vocabulary, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.logits(self.norm(x))


class Gpt(NamedTuple):
    """A small GPT."""

    layers: int = 4
    hidden: int = 256
    heads: int = 4
    length: int = 128
    vocabulary: int = 1024
    batch: int = 2
    dtype: torch.dtype = torch.float32
    checkpointed: bool = False

    def chunk(self, chunk: int, chunks: int) -> torch.nn.Module:
        """Chunk number `chunk` of `chunks`, the same on every rank that makes it."""
        share = self.layers // chunks
        parts: list[torch.nn.Module] = []
        for layer in range(chunk * share, (chunk + 1) * share):
            torch.manual_seed(layer)
            block = Checkpointed if self.checkpointed else Block
            parts.append(block(self.hidden, self.heads))
        torch.manual_seed(self.layers)
        if chunk == 0:
            parts.insert(0, Embedding(self.vocabulary, self.length, self.hidden))
        if chunk == chunks - 1:
            parts.append(Head(self.vocabulary, self.hidden))
        return torch.nn.Sequential(*parts).to(self.dtype)

    def data(self, microbatches: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets of a step."""
        torch.manual_seed(1)
        shape = (self.batch * microbatches, self.length)
        return torch.randint(self.vocabulary, shape), torch.randint(self.vocabulary, shape)

    @staticmethod
    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Cross-entropy of one microbatch."""
        return functional.cross_entropy(output.flatten(0, 1), target.flatten())


class Sleepers(NamedTuple):
    """A model that sleeps: F, I and W of each layer in milliseconds."""

    times: Sequence[tuple[float, float, float]]
    width: int = 64
    batch: int = 1

    def chunk(self, chunk: int, chunks: int) -> torch.nn.Module:
        """Chunk number `chunk` of `chunks`, which sleeps as long as all of its layers."""
        share = len(self.times) // chunks
        layers = self.times[chunk * share : (chunk + 1) * share]
        forward, backward, weight = (sum(one) / 1000 for one in zip(*layers))
        return Sleepy((forward, backward, weight), self.width, chunk == 0)

    def data(self, microbatches: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets of a step."""
        shape = (self.batch * microbatches, self.width)
        return torch.ones(shape), torch.zeros(shape)

    @staticmethod
    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Something with a gradient."""
        return functional.mse_loss(output, target)
