"""Bytes that passes take and hold, and the collectives within them."""

from __future__ import annotations

import collections
import weakref
from collections.abc import Iterable
from typing import Any, NamedTuple

from ._modules import load


class Collective(NamedTuple):
    """A collective: its name, the ranks that take part, and the bytes of its largest tensor on each."""

    name: str
    ranks: int
    bytes: int


#: Operators of `torch.distributed` by the names of their collectives.
_NAMES = {
    "allreduce_": "all-reduce",
    "allreduce_coalesced_": "all-reduce",
    "allgather_": "all-gather",
    "_allgather_base_": "all-gather",
    "allgather_into_tensor_coalesced_": "all-gather",
    "reduce_scatter_": "reduce-scatter",
    "_reduce_scatter_base_": "reduce-scatter",
    "reduce_scatter_tensor_coalesced_": "reduce-scatter",
    "alltoall_": "all-to-all",
    "alltoall_base_": "all-to-all",
    "broadcast_": "broadcast",
}


class Watch:
    """Follows passes: the bytes of storages that are alive, and the collectives.

    On a GPU the allocator counts. On a processor the results of operators do, each storage once: what a kernel takes
    within itself is not seen there. Passes take longer under it, so they are not timed.
    """

    def __init__(self, on_gpu: bool) -> None:
        watch = self
        self._on_gpu = on_gpu
        self._now = 0
        self._peak = 0
        self._known: dict[int, Any] = {}
        self.collectives: collections.Counter[Collective] = collections.Counter()
        modes = load("torch.utils._python_dispatch")

        class Mode(modes.TorchDispatchMode):  # type: ignore[misc,name-defined]
            """Sees every operator."""

            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                found = func(*args, **(kwargs or {}))
                if func.namespace == "c10d":
                    watch._count(func, args)
                elif not on_gpu:
                    load("torch").utils._pytree.tree_map_only(load("torch").Tensor, watch.see, found)
                return found

        self.mode: Any = Mode()

    def see(self, tensor: Any) -> Any:
        """Counts the storage of a tensor for as long as it lives."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._known:
            size = storage.nbytes()
            self._now += size
            self._peak = max(self._peak, self._now)
            self._known[key] = weakref.ref(storage, lambda _: self._gone(key, size))
        return tensor

    def _gone(self, key: int, size: int) -> None:
        self._now -= size
        self._known.pop(key, None)

    def held(self) -> int:
        """Bytes that are alive."""
        return int(load("torch").cuda.memory_allocated()) if self._on_gpu else self._now

    def peak(self) -> int:
        """The most that was alive since the last call, or the first."""
        cuda = load("torch").cuda
        if self._on_gpu:
            found = int(cuda.max_memory_allocated())
            cuda.reset_peak_memory_stats()
            return found
        found, self._peak = self._peak, self._now
        return found

    def _count(self, func: Any, args: Any) -> None:
        name = _NAMES.get(func._opname)
        torch = load("torch")
        groups = [one for one in args if isinstance(one, torch.ScriptObject)]
        if name is None or not groups:
            return
        group = torch.distributed.ProcessGroup.unbox(groups[0])
        size = max((bytes_of([one]) for one in _tensors(args)), default=0)
        if group.size() > 1:
            self.collectives[Collective(name, group.size(), size)] += 1


def _tensors(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if load("torch").is_tensor(value):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def bytes_of(tensors: Iterable[Any]) -> int:
    """The bytes of the elements of tensors."""
    return sum(int(one.numel()) * int(one.element_size()) for one in tensors)
