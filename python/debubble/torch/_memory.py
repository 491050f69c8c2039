"""How many bytes a microbatch holds in a chunk, from its F to its B, and from there to its W."""

from __future__ import annotations

import contextlib
import statistics
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Optional

from . import _runtime


class Memory:
    """Measures the chunks of one rank. Passes that measure are as exact as others, but a little slower.

    On processors it is what the autograd of PyTorch saves and what the stage keeps, each storage counted
    once, without parameters, buffers and what the user passed in; what a checkpoint keeps for itself is not
    seen. On GPUs it is how the bytes of the allocator change, which has everything.
    """

    def __init__(self, on_gpu: bool) -> None:
        self._on_gpu = on_gpu
        self._held: dict[int, _Saved] = {}
        self._changes: dict[tuple[str, int], list[int]] = {}
        self._found: dict[int, dict[str, int]] = {}
        self._inputs: dict[int, int] = {}

    @contextlib.contextmanager
    def forward(self, stage: Any, microbatch: int, given: Any) -> Iterator[None]:
        """Around the forward of `stage` for `microbatch`, which the user gave `given`."""
        chunk = stage.stage_index
        if self._on_gpu:
            with self._change("F", stage):
                yield
        elif chunk in self._held or chunk in self._found:
            yield
        else:
            saved = _Saved(microbatch, _storages([stage.submod.parameters(), stage.submod.buffers(), given]))
            self._held[chunk] = saved
            with saved.watching():
                yield

    @contextlib.contextmanager
    def loss(self, stage: Any, microbatch: int, given: Any) -> Iterator[None]:
        """Around the loss of `stage` for `microbatch`, which the user gave `given` as target."""
        saved = self._held.get(stage.stage_index)
        if self._on_gpu:
            with self._change("loss", stage):
                yield
        elif saved is None or saved.microbatch != microbatch:
            yield
        else:
            saved.exclude(_storages(given))
            with saved.watching():
                yield

    def made(self, stage: Any, microbatch: int) -> None:
        """After the forward of `microbatch`: what came from another chunk is held, too."""
        chunk = stage.stage_index
        storages = _storages(_runtime.received_by(stage, microbatch))
        self._inputs[chunk] = sum(storages.values())
        saved = self._held.get(chunk)
        if saved is not None and saved.microbatch == microbatch:
            saved.inputs = storages

    @contextlib.contextmanager
    def backward(self, stage: Any, microbatch: int, is_whole: bool) -> Iterator[None]:
        """Around the backward of `stage` for `microbatch`, whole or for the input."""
        chunk = stage.stage_index
        saved = self._held.get(chunk)
        measures = saved is not None and saved.microbatch == microbatch
        if measures and saved is not None:
            outputs = _storages(_runtime.outputs_of(stage, microbatch))
            self._found.setdefault(chunk, {})["until_backward"] = saved.bytes(outputs)
        if not self._on_gpu or is_whole:
            yield
        else:
            with self._change("B", stage):
                yield
        if measures and saved is not None:
            if not is_whole:
                kept = _storages([_runtime.kept_for_weight(stage, microbatch)])
                self._found[chunk]["until_weight"] = saved.bytes(kept)
            del self._held[chunk]

    @contextlib.contextmanager
    def _change(self, kind: str, stage: Any) -> Iterator[None]:
        cuda = _runtime.torch().cuda
        before = cuda.memory_allocated(stage.device)
        yield
        change = cuda.memory_allocated(stage.device) - before
        self._changes.setdefault((kind, stage.stage_index), []).append(change)

    def rows(self) -> list[dict[str, int]]:
        """What was found, a row for each chunk."""
        if self._on_gpu:
            return [row for chunk in sorted(self._inputs) if (row := self._of_changes(chunk)) is not None]
        return [{"chunk": chunk, **found} for chunk, found in sorted(self._found.items())]

    def _of_changes(self, chunk: int) -> Optional[dict[str, int]]:
        """From the changes of the allocator: the median over microbatches, so that what a first pass takes
        for good, such as gradients, does not count.
        """
        of = {kind: self._changes.get((kind, chunk), []) for kind in ("F", "loss", "B")}
        if not of["F"]:
            return None
        middle = {kind: int(statistics.median_low(changes)) if changes else 0 for kind, changes in of.items()}
        until_backward = max(self._inputs[chunk] + middle["F"] + middle["loss"], 0)
        row = {"chunk": chunk, "until_backward": until_backward}
        if of["B"]:
            row["until_weight"] = max(until_backward + middle["B"], 0)
        return row


class _Packed:
    """A tensor that the autograd has saved, for as long as it keeps it."""

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor: Any) -> None:
        # Without its graph: a graph that holds itself is never freed.
        self.tensor = tensor.detach()


class _Saved:
    """What the forward of one microbatch has saved and still holds."""

    def __init__(self, microbatch: int, excluded: Iterable[int]) -> None:
        self.microbatch = microbatch
        self.inputs: dict[int, int] = {}
        self._excluded = set(excluded)
        self._packed: list[weakref.ref[_Packed]] = []

    def exclude(self, storages: Iterable[int]) -> None:
        """Counts those no more."""
        self._excluded.update(storages)

    def watching(self) -> Any:
        """A context in which what is saved is noted."""
        hooks = _runtime.torch().autograd.graph.saved_tensors_hooks
        return hooks(self._pack, lambda packed: packed.tensor)

    def _pack(self, tensor: Any) -> _Packed:
        packed = _Packed(tensor)
        self._packed.append(weakref.ref(packed))
        return packed

    def bytes(self, more: Optional[Mapping[int, int]] = None) -> int:
        """Bytes of what is still held, the input and `more`."""
        alive = [packed.tensor for one in self._packed if (packed := one()) is not None]
        storages = {**_storages([alive]), **self.inputs, **(more or {})}
        return sum(size for at, size in storages.items() if at not in self._excluded)


def _storages(values: Iterable[Any]) -> dict[int, int]:
    """The storages of all tensors in `values`, and of their gradients: address and bytes."""
    is_tensor = _runtime.torch().is_tensor
    found: dict[int, int] = {}
    left = list(values)
    while left:
        value = left.pop()
        if is_tensor(value):
            storage = value.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
            if value.is_leaf and value.grad is not None:
                left.append(value.grad)
        elif isinstance(value, Mapping):
            left.extend(value.values())
        elif isinstance(value, (list, tuple, set, Iterator)):
            left.extend(value)
    return found
