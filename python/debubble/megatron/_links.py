"""What collectives within passes take, by measurements of links."""

from __future__ import annotations

import bisect
import collections
import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from .._errors import InputError

#: The columns of a table of measured collectives.
_COLUMNS = ("collective", "ranks", "bytes", "seconds")


class Links:
    """Measured collectives: seconds by name, ranks and bytes.

    Between two sizes times follow a line; below the smallest they are those of the smallest, and above the
    largest its rate goes on.
    """

    def __init__(self, rows: Mapping[tuple[str, int], list[tuple[int, float]]]) -> None:
        self._rows = {key: sorted(of) for key, of in rows.items()}

    def knows(self, name: str, ranks: int) -> bool:
        """Whether the collective was measured over so many ranks."""
        return (name, ranks) in self._rows

    def seconds(self, name: str, ranks: int, size: int) -> float:
        """The time of one collective."""
        of = self._rows[name, ranks]
        at = bisect.bisect_left(of, (size, 0.0))
        if at == 0:
            return of[0][1]
        if at == len(of):
            return of[-1][1] * size / of[-1][0]
        (small, short), (large, long) = of[at - 1], of[at]
        return short + (long - short) * (size - small) / (large - small)

    def time(self, collectives: Iterable[Sequence[Any]]) -> int:
        """Nanoseconds of collectives (name, ranks, bytes and number) as far as they were measured."""
        known = [one for one in collectives if self.knows(one[0], one[1])]
        seconds = sum(int(count) * self.seconds(name, ranks, size) for name, ranks, size, count in known)
        return round(1e9 * seconds)


def read(path: str) -> Links:
    """The table in that file.

    Raises:
        InputError: If it cannot be read, or lacks a column or a number, with the line.
    """
    rows: dict[tuple[str, int], list[tuple[int, float]]] = collections.defaultdict(list)
    line = 1
    try:
        with Path(path).open(newline="") as file:
            table = csv.DictReader(file)
            missing = [name for name in _COLUMNS if name not in (table.fieldnames or ())]
            if missing:
                message = f"{path} has no column {', '.join(missing)}"
                raise InputError.with_help(message, f"its columns are {', '.join(_COLUMNS)}", "links")
            for row in table:
                line = table.line_num
                ranks, size, seconds = int(row["ranks"]), int(row["bytes"]), float(row["seconds"])
                if ranks < 1 or size < 1 or not 0 < seconds < math.inf:
                    raise ValueError("ranks, bytes and seconds are above 0")
                rows[row["collective"], ranks].append((size, seconds))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}", key="links") from error
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}, line {line}: {error}", key="links") from error
    return Links(rows)


def notes(rows: Sequence[Mapping[str, Any]], links: Optional[Links]) -> list[str]:
    """The collectives within the passes of a microbatch, and whether their times are known."""
    counted: collections.Counter[tuple[str, int, int]] = collections.Counter()
    for row in rows:
        for name in ("forward", "whole"):
            for collective, ranks, size, count in row["collectives"].get(name, ()):
                counted[collective, ranks, size] += count
    found = []
    for (name, ranks, size), count in sorted(counted.items()):
        what = f"{count} {name} of {size} bytes over {ranks} ranks in a microbatch"
        if links is None or not links.knows(name, ranks):
            found.append(f"not timed: {what} (--links)")
        else:
            found.append(f"added: {what}, {1e3 * count * links.seconds(name, ranks, size):.3f} ms")
    return found
