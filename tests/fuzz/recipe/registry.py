from . import model_registry
from torchtitan.trainer import Trainer


def llama3_70b() -> Trainer.Config:
    return Trainer.Config(
        model_spec=model_registry("70B", converters=[Float8LinearConverter.Config(filter_fqns=["lm_head"])]),
        training=TrainingConfig(num_tokens_per_microbatch_per_dp_rank=8 * 8192, max_context_length=8192, steps=1000),
        parallelism=ParallelismConfig(tensor_parallel_degree=8),
        activation_checkpoint=FullAC.Config(),
        compile=CompileConfig(enable=True, components=["model"]),
    )
