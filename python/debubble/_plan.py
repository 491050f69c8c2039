"""Plans: a model on machines."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _ask, _debubble, _frames, _lists, _pictures, _values
from ._documents import Source
from ._errors import InputError
from ._frames import Figures
from ._kept import Answer, Compiled, Kept

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keys import PlanKeys


def plan(
    source: Union[Source, Mapping[str, Any], None] = None,
    /,
    *,
    progress: _ask.Progress = None,
    **keys: Unpack[PlanKeys],
) -> Planned:
    """Ranks set-ups for a model, a token budget and machines with prices.

    Args:
        source: A file with the question, or a dictionary of its keys; keywords go over the dictionary.
        progress: See `debubble.Progress`.
        **keys: The keys of the question: `model`, `sequence`, `tokens`, `batch`, `cluster` and so on;
            `debubble.schema("plan")` describes them.

    Raises:
        InputError: If a key is wrong, no set-up fits, or none meets the deadline.
        Interrupted: After a Ctrl-C, with the best of the set-ups that had been looked at.

    >>> import debubble as db
    >>> answer = db.plan(
    ...     model={"layers": 8, "hidden": 1024, "heads": 16, "vocabulary": 32000},
    ...     sequence=1024, tokens=1e9, batch=64, cluster=[{"machine": "a100-80g", "devices": [8]}],
    ...     search={"tensor": [1], "chunks": [1]},
    ... )
    >>> answer.best.devices, answer.best.dollars > 0
    (8, True)
    """
    asked = _asked(source, keys)
    with _ask.watching(progress) as report:
        planned, warned, interrupted = asked.answer(report)
    _ask.note(warned)
    return _ask.whole(planned, interrupted)


def plan_all(
    questions: Iterable[Union[Source, Mapping[str, Any]]],
    *,
    executor: Any = None,
    resume: _lists.Resume = None,
    progress: _ask.Progress = None,
    **keys: Unpack[PlanKeys],
) -> _lists.AnswerList[Planned]:
    """Ranks set-ups for each question of a list, as `plan` does for one.

    Args:
        questions: Files with the questions, or dictionaries of their keys.
        executor: Where to answer, if not here: see `search_all`. The answers of workers are the same, but
            cannot be held `against` others.
        resume: A file of answers through which the list is continued: see `search_all`.
        progress: See `debubble.Progress`; it counts questions.
        **keys: Keys that go over those of every dictionary.

    Returns:
        The answers in the order of the questions; for a question that has none a `Failure` with the error.

    Raises:
        InputError: If the file to resume from is of other questions or another version.
        Interrupted: After a Ctrl-C, with the answers that there were by then.

    >>> import debubble as db
    >>> question = {
    ...     "model": {"layers": 8, "hidden": 1024, "heads": 16, "vocabulary": 32000},
    ...     "sequence": 1024, "tokens": 1e9, "search": {"tensor": [1], "chunks": [1]},
    ...     "cluster": [{"machine": "a100-80g", "devices": [8]}],
    ... }
    >>> plans = db.plan_all([{**question, "batch": batch} for batch in (32, 64)])
    >>> [one.best.devices for one in plans.answers]
    [8, 8]
    """
    asked: list[Union[_Asked, InputError]] = []
    for source in _lists.listed(questions):
        try:
            asked.append(_asked(source, keys))
        except InputError as error:
            asked.append(error)
    return _lists.answered("plan", asked, executor, resume, progress)


def _asked(source: Union[Source, Mapping[str, Any], None], keys: PlanKeys) -> _Asked:
    if source is None or isinstance(source, Mapping):
        document = _values.document("plan", {**(source or {}), **keys})
        return _Asked("", {"": _debubble.toml(document).encode()})
    if keys:
        raise TypeError("a file is a whole question: give keywords, or a file, not both")
    path, content = _values.content(source, "plan.toml")
    return _Asked(path, content or {})


class _Asked(_lists.Asked["Planned"]):
    """A question in a file, on the disk or among those given."""

    def __init__(self, path: str, files: dict[str, bytes]) -> None:
        self._path = path
        self._files = files

    def answer(self, report: Optional[_ask.Report] = None) -> tuple[Planned, list[str], bool]:
        inner = _debubble.plan(self._path, self._files, report)
        return Planned(inner), inner.warnings, inner.interrupted

    def whole(self) -> _Asked:
        return _Asked(self._path, _debubble.plan_files(self._path, self._files))

    def files(self) -> Mapping[str, bytes]:
        return self._files

    def identity(self) -> Any:
        return self._path

    def kept(self, answer: Planned) -> dict[str, Any]:
        return answer._kept().written()

    def read(self, kept: Mapping[str, Any]) -> Planned:
        return Planned(Kept.read(kept))


#: What a pickle holds of plans.
_FIELDS = ("warnings", "interrupted")
_CALLS = (
    ("json",),
    ("csv",),
    ("svg",),
    ("html",),
    ("export",),
    ("table",),
    ("table", True),
)


class Planned(Answer):
    """Plans for a model on machines, by cluster, the fastest first.

    `best` is the plan to take, `plans` are all; `export` writes what runs it in Megatron-LM and torchtitan.
    """

    _list = "plans"

    @property
    def plans(self) -> _frames.Table:
        """All plans."""
        return self.rows

    @property
    def best(self) -> Figures:
        """The plan to take: the cheapest that meets deadline and budget with the odds of `confidence`.

        Of those that predictions do not tell from it, the one that needs least.

        Raises:
            ValueError: If no plan meets both, a Ctrl-C came before any was found, or a given set-up does not
                fit.
        """
        winner = self.to_dict()["winner"]
        if winner is None:
            raise ValueError(
                "there is no plan to take: none meets deadline and budget with the confidence asked for, "
                "the search ended before one was found, or the set-up does not fit"
            )
        return self.plans[int(winner)]

    @property
    def setups(self) -> _frames.Table:
        """Of a question with `setup`: every part of its step (`time`) and of the memory of its stages
        (`memory`) for each cluster, whether it fits (`fits`), and whether it may, since predictions of memory
        err by more than it lacks (`may_fit`). Nothing of a search.
        """
        return _frames.Table(self.to_dict().get("setups", []))

    @property
    def levers(self) -> _frames.Table:
        """Changes of the machines, and what each would be worth to the plan to take."""
        return _frames.Table(self.to_dict()["levers"])

    def to_csv(self) -> str:
        """The plans as CSV, as `debubble plan --csv` writes them."""
        return bytes(self._inner.csv()).decode()

    def to_svg(self, width: Optional[str] = None) -> str:
        """Days against dollars as SVG, with the Pareto front; `width` as in `Answers.front_svg`."""
        return str(self._inner.svg(*_pictures.wide(width)))

    def to_html(self) -> str:
        """All of it as a page for a browser."""
        return str(self._inner.html())

    def against(self, other: Planned) -> Against:
        """This answer held against `other`, part by part, as `debubble plan --against` does: the set-ups that
        both ask for, or the plans to take.

        Raises:
            ValueError: If one of the two was unpickled, or is of a worker or a journal: ask its question
                again.
            InputError: If one of them has no plan.

        >>> import debubble as db
        >>> question = {
        ...     "model": {"layers": 8, "hidden": 1024, "heads": 16, "vocabulary": 32000},
        ...     "sequence": 1024, "tokens": 1e9, "batch": 64,
        ...     "cluster": [{"machine": "a100-80g", "devices": [8]}],
        ... }
        >>> both = db.plan(question, setup={}).against(db.plan(question, setup={"recompute": "full"}))
        >>> both.time.column("name")[0], both.time[0].difference > 0
        ('products', True)
        """
        if isinstance(self._inner, Kept) or isinstance(other._inner, Kept):
            of = "a plan that was unpickled, or is of a worker or a journal"
            raise ValueError(f"{of}, has tables alone: ask its question again")
        return Against(self._inner.against(other._inner))

    def details(self) -> str:
        """The tables of `debubble plan --details`."""
        return str(self._inner.table(True))

    def export(self, folder: Union[str, os.PathLike[str]]) -> list[str]:
        """Writes the plan to take for Megatron-LM, torchtitan and `debubble simulate` into `folder`, which is
        made if its parent is there, and gives the names of the files. Of one set-up the files are written if
        it may fit. A `Note` says each thing that they lack of the plan.

        Raises:
            InputError: If no plan is to be taken, or the set-up does not fit.
        """
        files, notes = self._inner.export()
        into = Path(folder)
        into.mkdir(exist_ok=True)
        _ask.note(notes)
        for name, content in files:
            (into / name).write_text(content, encoding="utf-8")
        return [name for name, _ in files]

    def save(self, path: Union[str, os.PathLike[str]], *, width: Optional[str] = None) -> None:
        """Writes the plans (`.json`, `.csv`), a picture (`.svg`), or all of it as a page (`.html`).

        `width` is that of the picture, as in `Answers.front_svg`.
        """
        forms = {
            ".json": lambda: _pictures.lines(self.to_json()),
            ".csv": self.to_csv,
            ".svg": lambda: self.to_svg(width),
            ".html": self.to_html,
        }
        _pictures.save(path, forms)

    def _repr_html_(self) -> str:
        return _pictures.few({"": self.to_svg()}, _pictures.plain(str(self._inner.table())))

    def _kept(self) -> Kept:
        return Kept.of(self._inner, _FIELDS, _CALLS)

    def __reduce__(self) -> tuple[Any, ...]:
        return Planned, (self._kept(),)


class Against(Compiled):
    """Two plans side by side: what each part takes in both, and by how much the second takes more.

    `time` has the parts of a step in seconds, `memory` those of the fullest device in GiB, and `figures` what
    comes of both; `verdict` says it in words.
    """

    _list = "time"

    @property
    def time(self) -> _frames.Table:
        """Every part of a step: `name`, `unit`, `first`, `second`, `difference` and `relative`."""
        return self.rows

    @property
    def memory(self) -> _frames.Table:
        """Every part of the memory of the fullest device, with the same columns."""
        return _frames.Table(self.to_dict()["memory"])

    @property
    def figures(self) -> _frames.Table:
        """What comes of both: rates, days, GPU-hours and dollars, with the same columns."""
        return _frames.Table(self.to_dict()["figures"])

    @property
    def verdict(self) -> list[str]:
        """Which is faster, which holds more and which costs less, in words: a line each."""
        return list(self.to_dict()["verdict"])

    def _repr_html_(self) -> str:
        return _pictures.plain(str(self._inner.table()))

    def __reduce__(self) -> tuple[Any, ...]:
        return Against, (Kept.of(self._inner, (), (("json",), ("table",))),)
