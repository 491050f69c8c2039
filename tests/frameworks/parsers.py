"""The parsers of Megatron-LM and torchtitan themselves, on what `debubble plan --export` wrote.

    parsers.py record FRAMEWORK SOURCES VERSION > tests/frameworks/FRAMEWORK.csv
    parsers.py check FRAMEWORK SOURCES FOLDER=DEVICES.. > answers.json
    parsers.py layouts megatron SOURCES LAYOUT.. > answers.json

FRAMEWORK is megatron, torchtitan-0.2 or torchtitan-main, SOURCES the folder of its source tree, in a Python
that has what it imports; a FOLDER is one of `plan --export`, for that many devices. No GPU is needed:
Megatron-LM is told of some. `record` prints the options and their kinds, `check` what the parser makes of the
files in each folder, `layouts` how many layers of each kind each chunk has, or null where it is refused.
"""

import contextlib
import dataclasses
import functools
import json
import os
import subprocess
import sys
import types
import typing
from pathlib import Path


def sourced(script: Path, array: str) -> tuple[list[str], str | None]:
    """The array that a script sets, and CUDA_DEVICE_MAX_CONNECTIONS as it leaves it."""
    ask = (
        f'set -eu; source "$1"; printf "%s\\0" "${{CUDA_DEVICE_MAX_CONNECTIONS-unset}}" "${{{array}[@]}}"'
    )
    environment = {**os.environ, "CUDA_DEVICE_MAX_CONNECTIONS": "7"}
    done = subprocess.run(
        ["bash", "-c", ask, "bash", str(script)], check=True, capture_output=True, env=environment
    )
    connections, *arguments = done.stdout.decode().split("\0")[:-1]
    return arguments, None if connections == "unset" else connections


def megatron_parser():
    """Its module of arguments, on a machine that is told to have GPUs."""
    import torch
    import typing_extensions

    typing.override = getattr(typing, "override", typing_extensions.override)
    properties = types.SimpleNamespace(
        major=9, minor=0, multi_processor_count=132, total_memory=80 << 30, name="H100"
    )
    torch.cuda.get_device_properties = lambda *_, **__: properties
    torch.cuda.get_device_capability = lambda *_, **__: (9, 0)
    torch.cuda.is_available = lambda: True
    torch.cuda.device_count = lambda: 8
    torch.cuda.current_device = lambda: 0
    from megatron.training import arguments

    return arguments


def megatron_check(cases: list[tuple[Path, int]]) -> list[dict | None]:
    module = megatron_parser()
    return [megatron_one(module, folder, devices) for folder, devices in cases]


def megatron_one(module, folder: Path, devices: int) -> dict | None:
    if not (folder / "megatron.sh").exists():
        return None
    arguments, connections = sourced(folder / "megatron.sh", "MEGATRON_ARGS")
    os.environ.update(WORLD_SIZE=str(devices), RANK="0", LOCAL_RANK="0")
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    # A script that leaves it alone leaves that of the user: here none.
    if connections not in (None, "7"):
        os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = connections
    sys.argv = ["pretrain_gpt.py", *arguments]
    args = module.validate_args(module.parse_args(), {})
    # Transformer Engine, which has that kernel, needs a GPU to be built.
    args.apply_rope_fusion = False
    config = module.core_transformer_config_from_args(args)
    layout = config.pipeline_model_parallel_layout
    names = [
        *("num_layers", "data_parallel_size", "rotary_base", "microbatch_group_size_per_vp_stage"),
        *("num_query_groups", "add_bias_linear", "normalization", "use_distributed_optimizer"),
        *("use_megatron_fsdp", "data_parallel_sharding_strategy", "sequence_parallel"),
        *("untie_embeddings_and_output_weights", "num_moe_experts", "expert_model_parallel_size"),
    ]
    return {
        "connections": connections,
        "stages": args.pipeline_model_parallel_size,
        "chunks": args.virtual_pipeline_model_parallel_size or 1,
        "microbatches": args.global_batch_size // args.micro_batch_size // args.data_parallel_size,
        "layers": None if layout is None else [chunk["t"] for chunk in chunks_of(layout.layout)],
        **{name: getattr(config, name, getattr(args, name, None)) for name in names},
    }


def chunks_of(layout: list) -> list[dict]:
    """Layers of each kind of each chunk in model order, of a layout by stage and chunk of the stage."""
    order = [stage[chunk] for chunk in range(len(layout[0])) for stage in layout]
    kinds = {"E": "embedding", "t": "decoder", "m": "mtp", "L": "loss"}
    return [
        {symbol: [layer.name for layer in chunk].count(name) for symbol, name in kinds.items()}
        for chunk in order
    ]


def megatron_layouts(layouts: list[str]) -> list[list[dict] | None]:
    megatron_parser()
    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout

    def one(text: str) -> list[dict] | None:
        try:
            layout = PipelineParallelLayerLayout(text, 1)
            chunks = chunks_of(layout.layout)
            # As stages of one chunk each: MTP layers may then be in any of them.
            layout = PipelineParallelLayerLayout(text, len(chunks))
            layout.validate_layer_layout(*(sum(one[kind] for one in chunks) for kind in "tm"))
        except AssertionError:
            return None
        return chunks

    return [one(text) for text in layouts]


def megatron_record() -> list[list[str]]:
    import argparse

    module = megatron_parser()
    parser = argparse.ArgumentParser(allow_abbrev=False)
    module.add_megatron_arguments(parser)
    rows = []
    for action in parser._actions:
        for option in action.option_strings:
            if option.startswith("--"):
                rows.append([option, argparse_kind(action), choices_of(action)])
    return rows


def argparse_kind(action) -> str:
    if action.nargs == 0:
        return "flag"
    if action.nargs in ("+", "*") or isinstance(action.nargs, int):
        return "list"
    return {int: "int", float: "float"}.get(action.type, "text")


def choices_of(action) -> str:
    choices = action.choices or []
    return " ".join(str(getattr(choice, "name", choice)) for choice in choices if choice is not None)


def titan_manager():
    from torchtitan.config.manager import ConfigManager

    return ConfigManager()


def titan_answer(config) -> dict:
    parallelism = config.parallelism
    training = config.training
    checkpoint = config.activation_checkpoint
    names = [
        *("data_parallel_replicate_degree", "data_parallel_shard_degree", "tensor_parallel_degree"),
        *("context_parallel_degree", "expert_parallel_degree", "pipeline_parallel_degree"),
        *("pipeline_parallel_schedule", "pipeline_parallel_schedule_csv", "fsdp_reshard_after_forward"),
        *("module_fqns_per_model_part", "num_pp_microbatches", "pipeline_parallel_microbatch_size"),
        "enable_sequence_parallel",
    ]
    answer = {name: getattr(parallelism, name, None) for name in names}
    for name in (
        *("local_batch_size", "global_batch_size", "seq_len", "max_context_length"),
        *("num_tokens_per_microbatch_per_dp_rank", "num_tokens_per_train_step", "disable_cuda_graphs"),
    ):
        answer[name] = getattr(training, name, None)
    kind = type(checkpoint).__qualname__.split(".")[0]
    answer["checkpoint"] = getattr(checkpoint, "mode", kind)
    model = getattr(config, "model", None)
    answer["converters"] = getattr(model, "converters", None)
    return answer


def titan_02_check(cases: list[tuple[Path, int]]) -> list[dict]:
    def one(folder: Path) -> dict:
        manager = titan_manager()
        return titan_answer(manager.parse_args(["--job.config_file", str(folder / "torchtitan.toml")]))

    return [one(folder) for folder, _ in cases]


def titan_main_check(cases: list[tuple[Path, int]]) -> list[dict]:
    def one(folder: Path) -> dict:
        arguments, _ = sourced(folder / "torchtitan.sh", "TORCHTITAN_ARGS")
        model = ["--module", "llama3", "--config", "llama3_debugmodel"]
        return titan_answer(titan_manager().parse_args([*model, *arguments]))

    return [one(folder) for folder, _ in cases]


def titan_record(config, tables: list[str]) -> list[list[str]]:
    rows = []
    for table in tables:
        section = functools.reduce(getattr, table.split("."), config)
        hints = typing.get_type_hints(type(section))
        for field in dataclasses.fields(section):
            kind, choices = dataclass_kind(hints[field.name])
            rows.append([f"{table}.{field.name}", kind, choices])
    return rows


def dataclass_kind(hint) -> tuple[str, str]:
    options = [one for one in typing.get_args(hint) if one is not type(None)]
    if typing.get_origin(hint) is typing.Literal:
        return "text", " ".join(map(str, options))
    if typing.get_origin(hint) in (typing.Union, types.UnionType) and len(options) == 1:
        return dataclass_kind(options[0])
    if typing.get_origin(hint) is list:
        return ("lists" if typing.get_origin(options[0]) is list else "list"), ""
    return {bool: "flag", int: "int", float: "float"}.get(hint, "text"), ""


def titan_02_record() -> list[list[str]]:
    from torchtitan.config.job_config import JobConfig

    formats = [f"quantize.{of}.{kind}" for of in ("linear", "grouped_mm") for kind in ("float8", "mx")]
    return titan_record(JobConfig(), ["training", "parallelism", "activation_checkpoint", "model", *formats])


def titan_main_record() -> list[list[str]]:
    from torchtitan.distributed import activation_checkpoint

    model = ["--module", "llama3", "--config", "llama3_debugmodel"]
    rows = titan_record(titan_manager().parse_args(model), ["training", "parallelism"])
    policies = typing.get_args(activation_checkpoint.ActivationCheckpointingConfig)
    names = [typing.get_args(one)[1].name for one in policies]
    return [*rows, ["activation_checkpoint", "subcommand", " ".join(names)]]


FRAMEWORKS = {
    "megatron": (megatron_record, megatron_check),
    "torchtitan-0.2": (titan_02_record, titan_02_check),
    "torchtitan-main": (titan_main_record, titan_main_check),
}


def main() -> None:
    what, framework, sources, *rest = sys.argv[1:]
    sys.path.insert(0, sources)
    record, check = FRAMEWORKS[framework]
    # What the frameworks print is not a part of the answer.
    with contextlib.redirect_stdout(sys.stderr):
        if what == "record":
            answer = record()
        elif what == "layouts":
            answer = megatron_layouts(rest)
        else:
            cases = [case.rsplit("=", 1) for case in rest]
            answer = check([(Path(folder), int(devices)) for folder, devices in cases])
    if what == "record":
        print(f"# {rest[0]}")
        print("option,kind,choices")
        for row in sorted(answer):
            print(",".join(row))
    else:
        print(json.dumps(answer))


main()
