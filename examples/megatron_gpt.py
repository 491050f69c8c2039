"""A small GPT on Megatron-core, trained over a pipeline: a script that knows nothing of debubble.

    torchrun --nproc-per-node 4 examples/megatron_gpt.py --stages 4 --chunks 2

docs/tutorial/megatron.md profiles it on one device, searches the best order of its passes, and runs that. It runs on
GPUs, and for trials on CPUs, where Megatron-core is given a CPU wherever it names CUDA.
"""

from __future__ import annotations

import argparse
import contextlib
import time
import warnings
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import (
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel import schedules
from megatron.core.transformer.transformer_config import TransformerConfig
from torch.overrides import TorchFunctionMode


class OnCpu(TorchFunctionMode):
    """Tensors that are asked for on a GPU are made on the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.cuda:
            return args[0]
        kwargs = dict(kwargs or {})
        device = kwargs.get("device")
        if device is not None and not isinstance(device, int) and torch.device(device).type == "cuda":
            kwargs["device"] = "cpu"
        return func(*args, **kwargs)


@contextlib.contextmanager
def on_device() -> Any:
    """On a machine without a GPU, the CPU wherever Megatron-core names CUDA."""
    if torch.cuda.is_available():
        yield torch.device("cuda", torch.cuda.current_device())
        return
    torch.set_num_threads(1)
    torch.cuda.current_device = lambda: "cpu"  # type: ignore[assignment,return-value]
    torch.cuda.synchronize = lambda *_: None  # type: ignore[assignment]
    # Its states are those of GPUs; nothing here drops anything at random.
    tensor_parallel.random.get_cuda_rng_tracker().fork = lambda *_, **__: contextlib.nullcontext()
    with OnCpu():
        yield torch.device("cpu")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    sizes = {"stages": 4, "chunks": 2, "microbatches": 8, "layers": 8, "hidden": 128, "heads": 4}
    for name, default in {**sizes, "tokens": 128, "vocabulary": 2048, "steps": 4}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()


def chunk_of_model(asked: argparse.Namespace, config: Any, place: int) -> Any:
    """Chunk `place` of this rank: every stage has one in each lap through the model."""
    chunk = place * asked.stages + parallel_state.get_pipeline_model_parallel_rank()
    return GPTModel(
        config,
        get_gpt_layer_local_spec(),
        vocab_size=asked.vocabulary,
        max_sequence_length=asked.tokens,
        pre_process=chunk == 0,
        post_process=chunk == asked.stages * asked.chunks - 1,
        share_embeddings_and_output_weights=False,
        vp_stage=place if asked.chunks > 1 else None,
    )


def config_of(asked: argparse.Namespace) -> Any:
    return TransformerConfig(
        num_layers=asked.layers,
        hidden_size=asked.hidden,
        num_attention_heads=asked.heads,
        use_cpu_initialization=True,
        pipeline_model_parallel_size=asked.stages,
        virtual_pipeline_model_parallel_size=asked.chunks if asked.chunks > 1 else None,
        pipeline_dtype=torch.float32,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        bias_dropout_fusion=False,
        masked_softmax_fusion=False,
        persist_layer_norm=False,
        gradient_accumulation_fusion=False,
        deallocate_pipeline_outputs=True,
    )


def wrapped(config: Any, models: list[Any]) -> list[Any]:
    """The chunks with Megatron's data parallelism, whose functions its schedules call."""
    settings = DistributedDataParallelConfig(grad_reduce_in_fp32=True, overlap_grad_reduce=True)
    made = [DistributedDataParallel(config, settings, one) for one in models]
    config.no_sync_func = [one.no_sync for one in made] if len(made) > 1 else made[0].no_sync
    config.finalize_model_grads_func = finalize_model_grads
    return made


def forward_step(iterator: Any, model: Any) -> Any:
    """F of a microbatch of a chunk, and the function of its loss, as Megatron's schedules call them."""
    tokens = next(iterator)
    samples, length = tokens.shape
    positions = torch.arange(length, device=tokens.device).expand(samples, length)
    mask = torch.triu(torch.ones(1, 1, length, length, dtype=torch.bool, device=tokens.device), 1)
    output = model(tokens, positions, mask, labels=tokens)
    return output, lambda loss: (loss.mean(), {"loss": loss.mean().detach()})


def step(asked: argparse.Namespace, models: list[Any], data: Any) -> list[Any]:
    """Forwards and backwards of a step: the losses of its microbatches, on the last stage."""
    for model in models:
        model.zero_grad_buffer()
    losses: list[Any] = schedules.get_forward_backward_func()(
        forward_step_func=forward_step,
        data_iterator=[iter(data) for _ in models] if len(models) > 1 else iter(data),
        model=models if len(models) > 1 else models[0],
        num_microbatches=asked.microbatches,
        seq_length=asked.tokens,
        micro_batch_size=1,
        forward_only=False,
    )
    return losses


def model_of(asked: argparse.Namespace, device: Any) -> tuple[list[Any], Any]:
    """The chunks of this rank, and their optimizer."""
    config = config_of(asked)
    torch.manual_seed(1 + parallel_state.get_pipeline_model_parallel_rank())
    models = wrapped(config, [chunk_of_model(asked, config, at).to(device) for at in range(asked.chunks)])
    settings = OptimizerConfig(optimizer="adam", lr=1e-3, clip_grad=0.0)
    return models, get_megatron_optimizer(settings, models)


def train(asked: argparse.Namespace, device: Any) -> None:
    models, optimizer = model_of(asked, device)
    # The same data on all ranks.
    generator = torch.Generator().manual_seed(0)
    for number in range(asked.steps):
        shape = (asked.microbatches, 1, asked.tokens)
        data = torch.randint(0, asked.vocabulary, shape, generator=generator).to(device)
        optimizer.zero_grad()
        start = time.perf_counter()
        losses = step(asked, models, data)
        dist.barrier()
        took = time.perf_counter() - start
        optimizer.step()
        if parallel_state.is_pipeline_last_stage(ignore_virtual=True):
            loss = sum(float(one["loss"]) for one in losses) / len(losses)
            print(f"step {number}: loss {loss:.6f}, {1e3 * took:.0f} ms", flush=True)


def main() -> None:
    warnings.filterwarnings("ignore")
    asked = arguments()
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    with on_device() as device:
        parallel_state.initialize_model_parallel(1, asked.stages, asked.chunks if asked.chunks > 1 else None)
        train(asked, device)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
