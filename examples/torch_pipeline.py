"""Records a pipeline as it trains, searches the best order for what was measured, trains in that order, and
compares the prediction with what happened:

    torchrun --nproc-per-node 4 examples/torch_pipeline.py

Each rank has two stages of the model, as in a V: everything from 1F1B to ZB-V can be asked about.
"""

import pathlib
import sys

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage

import debubble as db
import debubble.torch as dbt

MICROBATCHES, TOKENS, WIDTH = 8, 512, 256


class Layer(torch.nn.Module):
    """A layer with a residual path."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.up = torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.down = torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def stages_for(order):
    """The stages of this rank that run an order, two layers each."""
    ranks = dist.get_world_size()
    one = torch.zeros(TOKENS, WIDTH, requires_grad=True)
    made = []
    for index in dbt.stages_of(order, dist.get_rank()):
        torch.manual_seed(index)
        layers = torch.nn.Sequential(Layer(), Layer())
        made.append(
            PipelineStage(
                layers, index, 2 * ranks, torch.device("cpu"), input_args=(one,), output_args=(one,)
            )
        )
    return made


def train(order, steps):
    """Trains in an order, and returns what was recorded. The first step warms up."""
    stages = stages_for(order)
    schedule = dbt.schedule(stages, order, loss_fn=torch.nn.functional.mse_loss)
    torch.manual_seed(0)
    x = torch.randn(MICROBATCHES * TOKENS, WIDTH)
    first = [x] if any(stage.is_first for stage in stages) else []
    last = {"target": torch.zeros_like(x)} if any(stage.is_last for stage in stages) else {}
    with dbt.record(schedule, warmup=1) as recording:
        # One step warms up, and one has whole backwards, which a split order has not.
        for _ in range(steps + 2):
            schedule.step(*first, **last)
    return recording


def main():
    """Records, searches, trains, compares."""
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    ranks, is_first = dist.get_world_size(), dist.get_rank() == 0

    # An order that runs B and W apart, so that both are measured.
    guess = db.Question(
        stages=ranks, microbatches=MICROBATCHES, forward="1ms", backward_input="1ms", backward_weight="1ms"
    )
    recording = train(db.Schedule.from_text(db.export(guess, "zb-v"), "zb-v"), steps=5)
    profile = recording.profile()

    # Every rank has the same recording: all of them find the same order.
    best = db.search(profile, memory_limit="1.5p")
    if is_first:
        recording.save(folder / "zb-v.json")
        profile.save(folder / "profile.toml")
        print(profile, best, sep="\n\n")

    measured = train(best, steps=5)
    if is_first:
        measured.save(folder / "searched.json")
        print(db.compare(best.predicted, measured.timeline()))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
