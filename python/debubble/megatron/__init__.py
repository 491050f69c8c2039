"""Orders of debubble in Megatron-LM: a forward-backward function that runs a schedule file.

```python
import debubble.megatron as dbm

dbm.use("schedule.txt")  # in the training script, before pretrain(..)
```

From then on Megatron's training loop runs that order in place of its own schedules.
`forward_backward_func` gives the function itself, for loops that call it. Stages of Megatron are those
of the order; the chunks of a rank are its virtual pipeline stages. Megatron-core is loaded when it is
needed first: 0.15 or newer.

It was tried on CPUs alone (gloo, float32): gradients and losses equal those of Megatron's own 1F1B.
"""

from ._runner import ForwardBackward, forward_backward_func, use

__all__ = ["ForwardBackward", "forward_backward_func", "use"]
