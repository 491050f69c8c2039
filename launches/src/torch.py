# Answers for a node with the GPUs of the job.
import os

__version__ = "2.8.0"


class cuda:
    device_count = staticmethod(lambda: int(os.environ.get("DEBUBBLE_GPUS", 8)))
    is_available = staticmethod(lambda: True)
    get_device_capability = staticmethod(lambda *_: (9, 0))
    get_device_name = staticmethod(lambda *_: "NVIDIA H100 80GB HBM3")
