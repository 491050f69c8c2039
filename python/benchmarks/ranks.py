"""The ranks of a pipeline as processes of this machine."""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import socket
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any

import torch


def ranks(
    count: int, work: Callable[..., Any], *args: Any, limit: float = 90.0, backend: str = "gloo"
) -> list[Any]:
    """What `work(rank, *args)` returns in each of `count` processes of one process group: a value, or the
    text of its exception. A process that ends without either leaves `None`; one that still runs after
    `limit` seconds is ended.
    """
    torch.set_num_threads(1)
    # What is imported here need not be imported by each of them.
    fork = multiprocessing.get_context("fork")
    port = _port()
    ends, processes = [], []
    for rank in range(count):
        ours, theirs = fork.Pipe(duplex=False)
        processes.append(fork.Process(target=_run, args=(theirs, rank, count, port, backend, work, args)))
        ends.append(ours)
    for process in processes:
        process.start()
    found = [_told(end, process, limit) for end, process in zip(ends, processes)]
    for process in processes:
        process.join(5)
        if process.is_alive():
            process.kill()
    return found


def _port() -> int:
    with contextlib.closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _told(end: Any, process: Any, limit: float) -> Any:
    """What a process tells before it ends."""
    if not wait([end, process.sentinel], limit):
        process.kill()
        return f"it neither ended nor failed within {limit} s"
    return pickle.loads(end.recv_bytes()) if end.poll() else None


def _run(
    end: Any, rank: int, count: int, port: int, backend: str, work: Callable[..., Any], args: Any
) -> None:
    warnings.simplefilter("ignore")
    torch.distributed.init_process_group(
        backend, init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=count
    )
    try:
        told = work(rank, *args)
    except Exception as error:
        told = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
    # Not as torch would hand over tensors: those are gone with the process.
    end.send_bytes(pickle.dumps(told))
    with contextlib.suppress(Exception):
        torch.distributed.destroy_process_group()
