"""Activations and gradients between the ranks of a pipeline."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .._errors import InputError, LostRank
from ._agreement import Agreement
from ._modules import load
from ._order import Value


class Links:
    """A process group for each direction between two ranks.

    What one rank sends to another is received in the order in which it is made. With a group for each
    direction no order of passes makes two ranks wait for each other's transfers. All ranks of the job
    make the groups of all pipelines together.
    """

    def __init__(self, agreement: Agreement, backend: Any) -> None:
        dist = load("torch.distributed")
        self.agreement: Agreement = agreement
        self._groups: dict[tuple[int, int], Any] = {}
        self._sent: list[tuple[Any, Any]] = []
        self._posted: dict[Value, tuple[Any, Any]] = {}
        for pipeline, pairs in agreement.pipelines:
            for source, target in pairs:
                made = dist.new_group([pipeline[source], pipeline[target]], backend=backend)
                if pipeline == agreement.ranks:
                    self._groups[source, target] = made

    def send(self, tensor: Any, source: int, target: int) -> None:
        """Begins to send a tensor."""
        dist = load("torch.distributed")
        self._sent = [one for one in self._sent if not one[0].is_completed()]
        to = self.agreement.ranks[target]
        with _peers():
            self._sent.append((dist.isend(tensor, dst=to, group=self._groups[source, target]), tensor))

    def post(self, value: Value, tensor: Any, source: int, target: int) -> None:
        """Begins to receive a value into a tensor."""
        dist = load("torch.distributed")
        by = self.agreement.ranks[source]
        with _peers():
            self._posted[value] = (
                dist.irecv(tensor, src=by, group=self._groups[source, target]),
                tensor,
            )

    def has(self, value: Value) -> bool:
        """Whether a value is being received."""
        return value in self._posted

    def taken(self, value: Value) -> Any:
        """The tensor of a value that is being received, once it is there."""
        handle, tensor = self._posted.pop(value)
        with _peers():
            handle.wait()
        return tensor

    def end(self) -> None:
        """Waits until all that was sent has arrived."""
        with _peers():
            for handle, _ in self._sent:
                handle.wait()
        self._sent.clear()

    def close(self) -> None:
        """Ends all transfers: those of the peers fail."""
        dist = load("torch.distributed")
        # A connection is closed once nothing holds its group.
        self._sent.clear()
        self._posted.clear()
        while self._groups:
            _, group = self._groups.popitem()
            if group is not dist.GroupMember.NON_GROUP_MEMBER:
                dist.distributed_c10d._abort_process_group(group)


@contextlib.contextmanager
def _peers() -> Iterator[None]:
    """Names the error of a transfer whose other end is gone."""
    try:
        yield
    except RuntimeError as error:
        raise LostRank("a rank of the pipeline has left the step: its own error says why") from error


class Transfers:
    """The transfers of one step, as `rank` takes part in them.

    Args:
        links: The groups.
        routes: What each rank sends to each other one, in order.
        rank: The rank in the pipeline.
        form: The shape, type and device of an activation.
    """

    def __init__(
        self, links: Links, routes: dict[tuple[int, int], list[Value]], rank: int, form: dict[str, Any]
    ) -> None:
        self._links = links
        self._rank = rank
        self._form = form
        self._kept: dict[Value, Any] = {}
        self._coming = {source: list(values) for (source, target), values in routes.items() if target == rank}

    def send(self, value: Value, tensor: Any, target: int) -> None:
        """Sends a tensor to the rank `target`, or keeps it where that is this one.

        Raises:
            InputError: If it is not of the form of an activation: its other end would read something else.
        """
        shape, dtype = tuple(tensor.shape), tensor.dtype
        if (shape, dtype) != (self._form["size"], self._form["dtype"]):
            message = (
                f"chunk {value.chunk} gets {dtype} of shape {shape}, "
                f"and the step is called for {self._form['dtype']} of {self._form['size']}"
            )
            cure = "all microbatches have the shape of seq_length and micro_batch_size, and pipeline_dtype"
            raise InputError.with_help(message, cure)
        if target == self._rank:
            self._kept[value] = tensor
            return
        self._links.send(tensor.contiguous(), self._rank, target)

    def receive(self, value: Value, source: int) -> Any:
        """The tensor that `source` makes: what it sends before is received, too."""
        if source == self._rank:
            return self._kept.pop(value)
        coming = self._coming[source]
        while not self._links.has(value):
            tensor = load("torch").empty(**self._form)
            self._links.post(coming.pop(0), tensor, source, self._rank)
        return self._links.taken(value)
