"""Schedules of debubble in PyTorch, and steps of PyTorch in debubble: record, search, run, compare.

```python
import debubble as db, debubble.torch as dbt

with dbt.record(schedule) as rec:  # any schedule of torch.distributed.pipelining
    for _ in range(5):
        schedule.step(x, target=y)
best = db.search(rec.profile(), memory_limit="1p")
schedule = dbt.schedule(stages, best, n_microbatches=m, loss_fn=loss)
with dbt.record(schedule) as rec:
    schedule.step(x, target=y)
print(db.compare(best.predicted, rec.timeline()))
```

`dbt.profile(modules, x, loss_fn=loss, target=y)` has the profile of all chunks from one device, before there
is a pipeline.

PyTorch is loaded when it is needed first: 2.8 or newer.
"""

from ._chunks import profile
from ._orders import schedule, stages_of
from ._record import Recording, record

__all__ = ["Recording", "profile", "record", "schedule", "stages_of"]
