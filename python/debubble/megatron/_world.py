"""The process groups of a whole job in one process: its collectives move nothing.

PyTorch's `fake` backend leaves tensors as they are. What rank 0 broadcasts to the whole job decides how
scripts go on (whether to train, sizes of data sets): it is written down when rank 0 is visited, and given to
the ranks after it.
"""

from __future__ import annotations

import functools
import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ._modules import load, replace

#: The largest broadcast that is kept, in bytes: decisions, not weights.
_MOST_KEPT = 1 << 16


class World:
    """The job of `size` processes as its rank `rank` sees it.

    Args:
        rank: This process.
        size: The processes of the job.
        kept: The file of what rank 0 broadcasts.
    """

    def __init__(self, rank: int, size: int, kept: Path) -> None:
        self._rank = rank
        self._size = size
        self._kept = kept
        self._sent: list[bytes] = []
        self._left: list[bytes] = []
        if rank > 0 and kept.exists():
            self._left = pickle.loads(kept.read_bytes())

    def enter(self) -> None:
        """Puts the job in the place of the groups that the script makes."""
        dist = load("torch.distributed")
        replace(dist.init_process_group, self._init(dist.init_process_group))
        replace(dist.new_group, _without_backend(dist.new_group))
        replace(dist.broadcast, self._broadcast)
        replace(dist.broadcast_object_list, self._broadcast_objects)

    def save(self) -> None:
        """Writes down what rank 0 has broadcast."""
        if self._rank == 0:
            self._kept.write_bytes(pickle.dumps(self._sent))

    def _init(self, own: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(own)
        def init_process_group(*_: Any, **__: Any) -> None:
            store = load("torch.testing._internal.distributed.fake_pg").FakeStore()
            own("fake", store=store, rank=self._rank, world_size=self._size)

        return init_process_group

    def _given(self, made: Callable[[], Any]) -> Any:
        """What rank 0 broadcasts, as `made` gives it there."""
        if self._rank > 0:
            return pickle.loads(self._left.pop(0)) if self._left else None
        content = pickle.dumps(made())
        self._sent.append(content if len(content) <= _MOST_KEPT else pickle.dumps(None))
        return None

    def _is_global(self, group: Any) -> bool:
        return group is None or int(load("torch.distributed").get_world_size(group)) == self._size

    def _broadcast(
        self, tensor: Any, src: Any = None, group: Any = None, async_op: bool = False, **others: Any
    ) -> Any:
        source = others.get("group_src", src)
        if source == 0 and self._is_global(group):
            given = self._given(lambda: tensor.detach().cpu() if tensor.numel() <= _MOST_KEPT else None)
            if given is not None and given.shape == tensor.shape:
                tensor.copy_(given)
        return _Done() if async_op else None

    def _broadcast_objects(
        self, object_list: list[Any], src: Any = None, group: Any = None, *_: Any, **others: Any
    ) -> None:
        if others.get("group_src", src) in (0, None) and self._is_global(group):
            given = self._given(lambda: list(object_list))
            if given is not None and len(given) == len(object_list):
                object_list[:] = given


class _Done:
    """A collective that is over."""

    def wait(self, *_: Any) -> bool:
        """Nothing to wait for."""
        return True

    def is_completed(self) -> bool:
        """Always."""
        return True


def _without_backend(own: Callable[..., Any]) -> Callable[..., Any]:
    """`new_group` with the backend of the job, whatever is asked for: gloo would look for peers."""
    signature = inspect.signature(own)

    @functools.wraps(own)
    def new_group(*given: Any, **named: Any) -> Any:
        bound = signature.bind(*given, **named)
        for name in ("backend", "pg_options", "device_id"):
            bound.arguments.pop(name, None)
        return own(*bound.args, **bound.kwargs)

    return new_group
