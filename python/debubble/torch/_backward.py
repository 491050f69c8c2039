"""Backwards in two parts: B, the gradients of the inputs of a stage, and W, those of its weights.

They stand in the place of torch's own, which have wrong gradients without a word where no input of a stage
needs a gradient, or an output depends on a weight alone; and, by version, are wrong or break down where a
weight is used twice, an output is computed from another one, or a node of autograd has several outputs.

A node of autograd is *on the path* if it lies between the outputs and an input that needs a gradient. B runs
those nodes, and notes the gradients that come to those from which an edge leads off the path to a weight. W
begins at them. Weights that share such nodes are one group, and each group is one run of autograd.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Optional

from . import _runtime

#: What W needs of a group: `weights`; `starts`, nodes on the path; `grads`, what came to each of them; and
#: `outputs`, edges off the path at which it begins, too, with `output_grads`.
Group = dict[str, list[Any]]


def backward_input(
    outputs: Sequence[Any],
    output_grads: Optional[Sequence[Any]],
    inputs: Sequence[Any],
    weights: Iterable[Any],
) -> tuple[tuple[Any, ...], list[Group]]:
    """B: the gradient of each of `inputs`, or `None`, and what `backward_weight` needs.

    Args:
        outputs: Tensors, gradient edges of tensors that are gone, or anything without a gradient.
        output_grads: The gradient of each output, or nothing where the output is a loss.
        inputs: What the stage was called with.
        weights: The parameters of the stage.
    """
    torch = _runtime.torch()
    edges, grads = roots(outputs, output_grads)
    wanted = [at for at, one in enumerate(inputs) if torch.is_tensor(one) and one.requires_grad]
    graph = _Graph(edge.node for edge in edges)
    edge_of = torch.autograd.graph.get_gradient_edge
    path = graph.above(edge_of(inputs[at]).node for at in wanted)
    groups = _groups(graph, path, edges, grads, [one for one in weights if one.requires_grad])
    found: list[Any] = [None] * len(inputs)
    # Where no input needs a gradient, all work is that of W.
    on_path = [at for at, edge in enumerate(edges) if edge.node in path]
    if wanted and on_path:
        at_once = _at_once(groups, path)
        groups = [group for group in groups if not any(group is one for one in at_once)]
        handles = [
            node.register_prehook(_noting(group["grads"], at))
            for group in groups
            for at, node in enumerate(group["starts"])
        ]
        try:
            made = _input_gradients(
                [edges[at] for at in on_path] + [edge for group in at_once for edge in group["outputs"]],
                [grads[at] for at in on_path] + [grad for group in at_once for grad in group["output_grads"]],
                [inputs[at] for at in wanted],
                [weight for group in at_once for weight in group["weights"]],
                retain_graph=bool(groups),
            )
        finally:
            for handle in handles:
                handle.remove()
        for at, one in zip(wanted, made):
            found[at] = one
    if output_grads is None and not on_path:
        # Torch takes the outputs of the last stage off the graph behind B, which W of a loss would need.
        backward_weight((), groups)
    _release(outputs, graph)
    return tuple(found), groups


def backward_weight(weights: Iterable[Any], groups: list[Group], retain_graph: bool = False) -> None:
    """W: adds to the gradients of the weights of a stage what B has left to do.

    Args:
        weights: The parameters of the stage, which the groups have, too.
        groups: What `backward_input` made; none is left.
        retain_graph: Whether the graph may be run once more.
    """
    del weights
    # Those that begin at several nodes run through all between them, which the rest would have freed.
    groups.sort(key=lambda group: len(group["starts"]) < 2)
    while groups:
        group = groups.pop(0)
        _run(group, retain_graph or len(group["starts"]) > 1)


def _at_once(groups: list[Group], path: set[Any]) -> list[Group]:
    """The groups whose W would run a node of Python again: such a node makes all its gradients at once, and
    may add that of a weight elsewhere, such as to `main_grad`. Their W is part of B.
    """
    of_python = _runtime.torch().autograd.function.BackwardCFunction
    has_any = any(isinstance(node, of_python) for node in path)
    return [
        group
        for group in groups
        if has_any
        and (len(group["starts"]) > 1 or any(isinstance(node, of_python) for node in group["starts"]))
    ]


def _input_gradients(
    edges: list[Any], grads: list[Any], inputs: list[Any], weights: list[Any], retain_graph: bool
) -> Sequence[Any]:
    """The gradients of `inputs`; those of `weights` are added to them."""
    if not weights:
        found: Sequence[Any] = _runtime.torch().autograd.grad(
            edges, inputs, grads, retain_graph=retain_graph, allow_unused=True
        )
        return found
    held = [one.grad for one in inputs]
    for one in inputs:
        one.grad = None
    _accumulate(edges, grads, [*inputs, *weights], retain_graph)
    made = [one.grad for one in inputs]
    for one, grad in zip(inputs, held):
        one.grad = grad
    return made


def _run(group: Group, retain_graph: bool) -> None:
    """Adds the gradients of a group to its weights."""
    edges, grads = list(group["outputs"]), list(group["output_grads"])
    for node, came in zip(group["starts"], group["grads"]):
        for at, grad in enumerate(came or ()):
            if grad is not None:
                edges.append(_runtime.torch().autograd.graph.GradientEdge(node, at))
                grads.append(grad)
    if not edges:
        return
    several = len(group["starts"]) > 1
    # What one of them hands to the next is in what had come to that already: it counts once.
    handles = [
        node.register_prehook(lambda _, came=came: came)
        for node, came in zip(group["starts"], group["grads"])
        if several and came is not None
    ]
    try:
        _accumulate(edges, grads, group["weights"], retain_graph)
    finally:
        for handle in handles:
            handle.remove()


def _accumulate(edges: list[Any], grads: list[Any], leaves: list[Any], retain_graph: bool) -> None:
    """Adds the gradients of `leaves` to them as autograd does, with all its hooks."""
    fresh = [one for one in leaves if one.grad is None]
    _runtime.torch().autograd.backward(edges, grads, retain_graph=retain_graph, inputs=leaves)
    for one in fresh:
        grad = _own(one.grad, grads)
        if grad is not one.grad:
            one.grad = grad


def _own(grad: Any, came: list[Any]) -> Any:
    """`grad`, to which more can be added: not in the memory of a gradient that came, which may still be on
    its way to another stage.
    """
    memory_of = _runtime.memory_of
    if grad is None or memory_of(grad) not in {memory_of(one) for one in came}:
        return grad
    return grad.clone()


def _noting(grads: list[Any], at: int) -> Any:
    """A hook that notes what comes to a node."""

    def note(came: tuple[Any, ...]) -> None:
        grads[at] = came

    return note


def roots(outputs: Sequence[Any], output_grads: Optional[Sequence[Any]]) -> tuple[list[Any], list[Any]]:
    """The edges at which a backward begins, and the gradients there."""
    torch = _runtime.torch()
    edges, grads = [], []
    for at, output in enumerate(outputs):
        is_tensor = torch.is_tensor(output)
        if is_tensor and not output.requires_grad:
            continue
        if not is_tensor and not isinstance(output, torch.autograd.graph.GradientEdge):
            continue
        grad = torch.ones_like(output) if output_grads is None else output_grads[at]
        if grad is not None:
            edges.append(torch.autograd.graph.get_gradient_edge(output) if is_tensor else output)
            grads.append(grad)
    return edges, grads


class _Graph:
    """The nodes of autograd below some nodes, and which hand gradients to each."""

    def __init__(self, roots: Iterable[Any]) -> None:
        self.parents: dict[Any, list[Any]] = {root: [] for root in roots}
        left = list(self.parents)
        while left:
            node = left.pop()
            for below, _ in node.next_functions:
                if below is None:
                    continue
                if below not in self.parents:
                    self.parents[below] = []
                    left.append(below)
                self.parents[below].append(node)

    def above(self, nodes: Iterable[Any], stops: Optional[set[Any]] = None) -> set[Any]:
        """`nodes` as far as they are here, and all from which a gradient comes to them; without what lies
        above those of `stops`, at which it ends.
        """
        found = {node for node in nodes if node in self.parents}
        left = list(found)
        while left:
            node = left.pop()
            if stops is not None and node in stops:
                continue
            for parent in self.parents[node]:
                if parent not in found:
                    found.add(parent)
                    left.append(parent)
        return found


def _groups(
    graph: _Graph, path: set[Any], edges: list[Any], grads: list[Any], weights: list[Any]
) -> list[Group]:
    """The groups of weights, by where their gradients come from."""
    edge_of = _runtime.torch().autograd.graph.get_gradient_edge
    outside = {edge.node for edge in edges if edge.node not in path}
    if not path:
        reached = [one for one in weights if edge_of(one).node in graph.parents]
        return [_group([], outside, edges, grads, reached)] if reached else []
    # By node at which W begins: which group that is, each a list of weights and the nodes in their order.
    at: dict[Any, tuple[list[Any], dict[Any, None]]] = {}
    for weight in weights:
        above = graph.above([edge_of(weight).node], path)
        starts = {node: None for node in above if node in path or node in outside}
        if not starts:
            continue
        joined: tuple[list[Any], dict[Any, None]] = ([weight], starts)
        for other in {id(at[node]): at[node] for node in starts if node in at}.values():
            joined = ([*other[0], *joined[0]], {**other[1], **joined[1]})
        at.update(dict.fromkeys(joined[1], joined))
    every = {id(one): one for one in at.values()}.values()
    return [
        _group([node for node in starts if node in path], starts, edges, grads, found)
        for found, starts in every
    ]


def _group(
    starts: list[Any], ends: Iterable[Any], edges: list[Any], grads: list[Any], weights: list[Any]
) -> Group:
    off = [at for at, edge in enumerate(edges) if edge.node in ends and edge.node not in starts]
    return {
        "weights": weights,
        "starts": starts,
        "grads": [None] * len(starts),
        "outputs": [edges[at] for at in off],
        "output_grads": [grads[at] for at in off],
    }


def _release(outputs: Sequence[Any], graph: _Graph) -> None:
    """Takes outputs off the graph where W does not need what leads to them: it is freed before W."""
    torch = _runtime.torch()
    for output in outputs:
        if not torch.is_tensor(output) or output.grad_fn is None or _runtime.is_view(output):
            continue
        # One that the stage computes with may be saved, and is not to be changed then.
        if not graph.parents.get(output.grad_fn):
            output.detach_()
