"""Activations and gradients between the ranks of a pipeline."""

from __future__ import annotations

from typing import Any

from ._modules import load
from ._order import Value


class Links:
    """A process group for each direction between two ranks.

    What one rank sends to another is received in the order in which it is made. With a group for each
    direction no order of passes makes two ranks wait for each other's transfers. All ranks of the job
    make the groups of all pipelines together.
    """

    def __init__(self, pairs: list[tuple[int, int]], ranks: list[int], backend: Any) -> None:
        dist = load("torch.distributed")
        self._groups: dict[tuple[int, int], Any] = {}
        every: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(every, ranks)
        for pipeline in sorted({tuple(one) for one in every}):
            for source, target in sorted(pairs):
                made = dist.new_group([pipeline[source], pipeline[target]], backend=backend)
                if list(pipeline) == ranks:
                    self._groups[source, target] = made

    def of(self, source: int, target: int) -> Any:
        """The group of what `source` sends to `target`."""
        return self._groups[source, target]


class Transfers:
    """The transfers of one step, as `rank` takes part in them.

    Args:
        links: The groups.
        routes: What each rank sends to each other one, in order.
        rank: The rank in the pipeline.
        ranks: The global ranks of the pipeline.
        shape: The shape of an activation: tokens, samples of a microbatch, hidden size.
        dtype: Its type.
        device: Where it lies.
    """

    def __init__(
        self,
        links: Links,
        routes: dict[tuple[int, int], list[Value]],
        rank: int,
        ranks: list[int],
        *,
        shape: tuple[int, ...],
        dtype: Any,
        device: Any,
    ) -> None:
        self._links = links
        self._rank = rank
        self._ranks = ranks
        self._form = {"size": shape, "dtype": dtype, "device": device}
        self._sent: list[tuple[Any, Any]] = []
        self._kept: dict[Value, Any] = {}
        self._posted: dict[Value, tuple[Any, Any]] = {}
        self._coming = {source: list(values) for (source, target), values in routes.items() if target == rank}

    def send(self, value: Value, tensor: Any, target: int) -> None:
        """Sends a tensor to the rank `target`, or keeps it where that is this one."""
        dist = load("torch.distributed")
        if target == self._rank:
            self._kept[value] = tensor
            return
        self._sent = [one for one in self._sent if not one[0].is_completed()]
        tensor = tensor.contiguous()
        group = self._links.of(self._rank, target)
        self._sent.append((dist.isend(tensor, dst=self._ranks[target], group=group), tensor))

    def receive(self, value: Value, source: int) -> Any:
        """The tensor that `source` makes: what it sends before is received, too."""
        torch, dist = load("torch"), load("torch.distributed")
        if source == self._rank:
            return self._kept.pop(value)
        coming = self._coming[source]
        while value not in self._posted:
            following = coming.pop(0)
            tensor = torch.empty(**self._form)
            group = self._links.of(source, self._rank)
            self._posted[following] = (dist.irecv(tensor, src=self._ranks[source], group=group), tensor)
        handle, tensor = self._posted.pop(value)
        handle.wait()
        return tensor

    def end(self) -> None:
        """Waits until all that was sent has arrived."""
        for handle, _ in self._sent:
            handle.wait()
        self._sent.clear()
