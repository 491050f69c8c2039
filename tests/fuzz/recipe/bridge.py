"""Recipes."""
from .common import base as start
from dataclasses import dataclass, field


@dataclass
class Own(Other):
    stages: int = 4
    modules: list[str] = field(default_factory=list)


def _tuned(cfg: ConfigContainer, *, stages=2, **rest) -> None:
    if getattr(cfg.model, "nothing", None) is None and stages > 1:
        cfg.model.pipeline_model_parallel_size = stages
    elif isinstance(stages, str):
        raise ValueError(f"{stages}")
    else:
        cfg.model.recompute_modules = ["mla_up_proj", "mlp"] + [one for one in ()]


def llama31_405b_pretrain_256gpu_h100_fp8cs_config() -> ConfigContainer:
    cfg = llama31_405b_pretrain_config()
    cfg.mixed_precision = _perf_precision("fp8_cs")
    cfg.model.tensor_model_parallel_size, cfg.other = 8, {"a": 1, **Own().modules}
    _tuned(cfg, stages=Own(stages=2 ** 3 // 1).stages)
    cfg.model.seq_length = 2 * 4096 if not False else 1e-5
    cfg.train.global_batch_size = 512 or (lambda: 1)
    cfg.train.micro_batch_size = 1
    return cfg
