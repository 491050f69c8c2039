"""Random questions, as scenario files write them and as keywords of Python."""

from __future__ import annotations

import datetime
import random
import re
from collections.abc import Callable
from typing import Any

#: Families for any shape, those for chunks, and those that a question of this kind may be refused by.
_FAMILIES = [
    "gpipe", "1f1b", "zb-h1", "zb-h2", "zb-heuristic", "zb-1p", "zb-2p", "zb-v", "v-min", "v-half",
    "v-min-timed", "v-half-timed", "v-adaptive", "1f1b-v", "dualpipe-v", "hanayo", "1f1b-i", "gis", "gis-h",
    "seq1f1b", "dualpipe", "chimera", "v-zb", "pipedream-2bw", "po-h", "po-f",
    "1f1b-overlap", "1f1b-i-overlap", "looped-bfs", "stp",
]  # fmt: skip

Keys = dict[str, Any]


def question(draw: random.Random) -> Keys:
    """A question with the keys of a scenario file."""
    stages = draw.choice([1, 2, 3, 4, 4, 6, 8])
    keys: Keys = {
        "schedule": draw.sample(_FAMILIES, draw.choice([1, 2, 3])),
        "stages": stages,
        "microbatches": draw.choice([1, 2, stages, 2 * stages, 3 * stages, 13]),
        **_times(draw, stages),
    }
    for part, probability in _PARTS:
        if draw.random() < probability:
            keys.update(part(draw, stages))
    if "chain" in keys:
        for name in ("forward", "backward", "backward-input", "backward-weight"):
            keys.pop(name, None)
    if {"po-h", "po-f"}.intersection(keys["schedule"]) and draw.random() < 0.9:
        keys["offload-time"] = _time(draw)
    if draw.random() < 0.15:
        shared = {key: keys.pop(key) for key in list(keys) if key not in ("microbatches", "forward")}
        first = {"name": "near", **keys}
        second = {"name": "wéit » 远", "microbatches": keys["microbatches"] + 1, "forward": _time(draw)}
        keys = {**shared, "setting": [first, second]}
    return keys


def _time(draw: random.Random) -> str:
    if draw.random() < 0.5:
        return f"{draw.randint(100, 40_000)}us"
    return f"{draw.randint(1, 40)}.{draw.randint(0, 999):03}ms"


def _size(draw: random.Random) -> str:
    return draw.choice([f"{draw.randint(1, 4096)}MiB", f"{draw.randint(1000, 9_000_000)}B"])


def _per_stage(draw: random.Random, stages: int) -> Any:
    return [_time(draw) for _ in range(stages)] if draw.random() < 0.3 else _time(draw)


def _times(draw: random.Random, stages: int) -> Keys:
    times = {"forward": _per_stage(draw, stages)}
    if draw.random() < 0.4:
        return {**times, "backward": _per_stage(draw, stages)}
    both = {name: _per_stage(draw, stages) for name in ("backward-input", "backward-weight")}
    return {**times, **both}


def _hop(draw: random.Random, _: int) -> Keys:
    return {"hop": _time(draw)}


def _limit(draw: random.Random, stages: int) -> Keys:
    if draw.random() < 0.3:
        return {"memory-limit": [f"{draw.randint(6, 24) / 8}p" for _ in range(stages)]}
    return {"memory-limit": draw.choice(["1p", "1.5p", "2p", "0.75p"])}


def _sizes(draw: random.Random, _: int) -> Keys:
    keys = {"hidden": 256 * draw.randint(1, 16), "heads": draw.choice([8, 16]), "seq": 1024}
    if draw.random() < 0.5:
        keys.update({"layers-per-stage": draw.randint(1, 4), "microbatch-size": draw.randint(1, 4)})
    return keys


def _activation(draw: random.Random, _: int) -> Keys:
    return {"activation": _size(draw), "activation-until-weight": _size(draw)}


def _recompute(draw: random.Random, _: int) -> Keys:
    kept = {"activation-kept": "1MiB", "recompute-time": _time(draw), "recompute-again": _time(draw)}
    return {**_activation(draw, 0), "recompute": "full", **kept}


def _slow(draw: random.Random, stages: int) -> Keys:
    return {"slowdown": [f"stage:{draw.randrange(stages)}={draw.choice(['1.1', '1.5', '0.9'])}"]}


def _noise(draw: random.Random, _: int) -> Keys:
    law = draw.choice(["pass=lognormal:0.05", "pass=normal:0.02", "hop=pareto:2.5"])
    return {"jitter": [law], "seed": draw.randrange(2**40), "replicas": draw.randint(1, 40)}


def _stall(draw: random.Random, _: int) -> Keys:
    return {"stall": "0.01:5ms", "seed": draw.randrange(100)}


def _cluster(draw: random.Random, _: int) -> Keys:
    keys: Keys = {"cluster": draw.choice(["dgx-a100", "dgx-h100", "a100-pcie"]), "message": _size(draw)}
    if draw.random() < 0.5:
        keys.update({"steps": 2, "optimizer": _time(draw), "exchange": "1ms"})
    if draw.random() < 0.3:
        keys.update({"sharing": "queue", "communication": "blocking"})
    return keys


def _chain(draw: random.Random, _: int) -> Keys:
    times = [f"{_time(draw)}/{_time(draw)}" for _ in range(4)]
    names = ["attention", "dispatch", "experts", "combine"]
    weights = [f"/{_time(draw)}", "", f"/{_time(draw)}", ""]
    chain = [f"{name}={both}{w}" for name, both, w in zip(names, times, weights)]
    return {"chain": chain, "layers": draw.randint(8, 40)}


def _sharding(draw: random.Random, _: int) -> Keys:
    keys: Keys = {"sharding": draw.choice(["none", "optimizer", "gradients", "fsdp"])}
    keys.update({"gather": _time(draw), "reduce": _time(draw)})
    if keys["sharding"] == "fsdp":
        keys.update({"prefetch": draw.randint(0, 3), "reshard": draw.choice(["never", "after-use"])})
    return keys


def _chunks(draw: random.Random, _: int) -> Keys:
    return {"chunks": draw.choice([2, 3])}


_PARTS = [
    (_hop, 0.6), (_limit, 0.3), (_sizes, 0.3), (_slow, 0.25), (_noise, 0.25), (_stall, 0.1),
    (_cluster, 0.2), (_chunks, 0.2), (_activation, 0.1), (_recompute, 0.1), (_chain, 0.15),
    (_sharding, 0.15),
]  # fmt: skip

_TIME_KEYS = (
    "forward", "backward", "backward-input", "backward-weight", "hop", "optimizer", "exchange",
    "offload-time", "recompute-time", "recompute-again",
)  # fmt: skip
_UNITS = {"us": 1_000, "ms": 1_000_000}


def keywords(keys: Keys, draw: random.Random) -> Keys:
    """The same as keywords of Python, values in one of the forms that those may have."""
    return {
        key.replace("-", "_"): [keywords(one, draw) for one in value]
        if key == "setting"
        else _form(key, value, draw)
        for key, value in keys.items()
    }


def _form(key: str, value: Any, draw: random.Random) -> Any:
    forms: list[Callable[[Any], Any]] = [str]
    if isinstance(value, list):
        values = [_form(key, one, draw) for one in value]
        return values if draw.random() < 0.5 else tuple(values)
    if key in _TIME_KEYS:
        forms += [_seconds, _timedelta]
    if key in ("activation", "activation-until-weight", "activation-kept", "message"):
        forms += [_bytes]
    return draw.choice(forms)(value) if len(forms) > 1 else value


def nanoseconds(time: str) -> int:
    """The whole nanoseconds of `time`."""
    number, unit = _parts(time)
    whole, _, rest = number.partition(".")
    return int(whole + rest) * _UNITS[unit] // int(10 ** len(rest))


def _parts(text: str) -> tuple[str, str]:
    found = re.fullmatch(r"([\d.]+)(\w+)", text)
    assert found is not None, text
    return found[1], found[2]


def _seconds(time: str) -> float:
    return nanoseconds(time) / 1e9


def _timedelta(time: str) -> datetime.timedelta:
    return datetime.timedelta(microseconds=nanoseconds(time) // 1000)


def _bytes(size: str) -> int:
    number, unit = _parts(size)
    return int(number) * {"B": 1, "MiB": 1 << 20}[unit]


def flags(keys: Keys) -> list[str]:
    """The same as flags of the command line, of a question of one setting."""
    return [f"--{key}={_listed(value)}" for key, value in keys.items()]


def _listed(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def toml(keys: Keys) -> str:
    """The same as a scenario file."""
    settings = keys.get("setting", [])
    lines = [f"{key} = {_value(value)}" for key, value in keys.items() if key != "setting"]
    for setting in settings:
        lines += ["[[setting]]", *(f"{key} = {_value(value)}" for key, value in setting.items())]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)
