"""The backward of a chunk in two passes: B, the gradient of its input, and W, those of its weights."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, Optional

from ._modules import load


class Join(list[Any]):
    """Gradients that reach a node from which both the input and some weights are reached."""

    def __init__(self, node: Any, weights: list[Any]) -> None:
        super().__init__()
        self.node = node
        self.weights = weights


class Backward:
    """The backward of one microbatch of a chunk.

    Args:
        output: What the chunk made, or its loss.
        input: What it took: a leaf whose gradient is wanted; `None` for the first chunk.
    """

    def __init__(self, output: Any, input: Optional[Any]) -> None:  # As torch calls it.
        # The node is enough: what the chunk has made is free once it is sent. Behind what needs no gradient,
        # such as the output of a frozen chunk, there is none.
        graph = load("torch.autograd.graph")
        self._edge: Any = graph.get_gradient_edge(output) if output.requires_grad else None
        self._input = input
        self._gradient: Any = None
        self._joins: Optional[list[Join]] = None

    @functools.cached_property
    def is_split(self) -> bool:
        """Whether W is a pass of its own: where a weight is used twice, B is the whole backward."""
        if self._edge is not None and self._input is not None:
            self._joins = joins(self._edge.node, self._input)
            return self._joins is not None
        return True

    def whole(self, gradient: Optional[Any]) -> Optional[Any]:
        """Both passes at once: the gradient of the input."""
        torch = load("torch")
        if self._edge is not None:
            torch.autograd.backward([self._edge], [self._one(gradient)])
        return self._taken()

    def input(self, gradient: Optional[Any]) -> Optional[Any]:
        """B: the gradient of the input. The gradients that weights need are kept."""
        torch = load("torch")
        if self._edge is None or not self.is_split:
            return self.whole(gradient)
        self._gradient = self._one(gradient)
        if self._input is None:
            # Nothing waits for it: W does all of it.
            return None
        hooks = [join.node.register_prehook(_keeper(join)) for join in self._joins or []]
        torch.autograd.backward([self._edge], [self._gradient], inputs=[self._input], retain_graph=True)
        for hook in hooks:
            hook.remove()
        is_reached, found = self._input.grad is not None, self._taken()
        if not is_reached:
            # The output does not depend on it.
            self._input = None
        return found

    def weight(self) -> None:
        """W: the gradients of the weights."""
        torch = load("torch")
        edge = torch.autograd.graph.GradientEdge
        if self._edge is not None and self._input is None:
            torch.autograd.backward([self._edge], [self._gradient])
        for join in self._joins or []:
            given = [(at, gradient) for at, gradient in enumerate(join) if gradient is not None]
            if given:
                edges = [edge(join.node, at) for at, _ in given]
                gradients = [gradient for _, gradient in given]
                torch.autograd.backward(edges, gradients, inputs=join.weights)
            join.clear()
        self._joins = None

    def _one(self, gradient: Optional[Any]) -> Any:
        """The gradient of the output; of a loss it is 1."""
        torch = load("torch")
        if gradient is not None:
            return gradient
        metadata = self._edge.node._input_metadata[self._edge.output_nr]
        return torch.ones(metadata.shape, dtype=metadata.dtype, device=metadata.device)

    def _taken(self) -> Optional[Any]:
        if self._input is None:
            return None
        gradient, self._input.grad = self._input.grad, None
        return load("torch").zeros_like(self._input) if gradient is None else gradient


def _keeper(join: Join) -> Any:
    def keep(gradients: Iterable[Any]) -> None:
        join[:] = gradients

    return keep


def joins(root: Any, leaf: Any) -> Optional[list[Join]]:
    """The nodes from `root` on, each once, that lead to `leaf` on one edge and to weights alone on another.

    None where a weight is behind two of them: its gradient would be counted twice.
    """
    leads: dict[Any, bool] = {}
    behind: dict[Any, set[Any]] = {}
    order = _topological(root)
    for node in reversed(order):
        variable = getattr(node, "variable", None)
        following = [one for one, _ in node.next_functions if one is not None]
        leads[node] = variable is leaf or any(leads[one] for one in following)
        own = {variable} if variable is not None and variable is not leaf else set()
        behind[node] = own.union(*(behind[one] for one in following if not leads[one]))
    found = [Join(node, list(behind[node])) for node in order if leads[node] and behind[node]]
    weights = [id(weight) for join in found for weight in join.weights]
    return found if len(weights) == len(set(weights)) else None


def _topological(root: Any) -> list[Any]:
    """The nodes behind `root`, each before all that it leads to."""
    done: set[Any] = set()
    order: list[Any] = []
    stack: list[tuple[Any, bool]] = [(root, False)]
    while stack:
        node, is_left = stack.pop()
        if is_left:
            order.append(node)
        elif node not in done:
            done.add(node)
            stack.append((node, True))
            stack.extend(
                (one, False) for one, _ in node.next_functions if one is not None and one not in done
            )
    order.reverse()
    return order
