"""Searched orders, their bounds and certificates."""

from __future__ import annotations

import functools
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union, cast, overload

from . import _ask, _debubble, _frames, _lists, _pictures, _values
from ._answers import Answers, Outcome, simulate
from ._documents import Verified, verify
from ._errors import InputError, Note
from ._kept import Answer, Kept
from ._profile import Profile
from ._question import Question, check
from ._schedule import Schedule

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keys import QuestionKeys, SearchKeys


def search(
    question: Union[Question, Profile],
    *,
    progress: _ask.Progress = None,
    on_improvement: Callable[[_ask.Improvement], object] | None = None,
    **keys: Unpack[SearchKeys],
) -> Found:
    """Searches the best order of passes under a memory limit, and says how far any other can be from it.

    A Ctrl-C ends the search with the best by then. The same question, effort and seed give the same order
    on any number of threads; under `time_limit` only where the clock did not cut the search short.

    Args:
        question: The question; a `seed` in it is that of the search. Of a profile, orders of the chunks
            that were recorded, where they lay.
        progress: See `debubble.Progress`.
        on_improvement: Is called with a `debubble.Improvement` each time that the best cost falls. The search
            ends with the best by then if it returns `False`, and with the exception if it raises one.
        **keys: Keys over those of the question, such as `memory_limit`; `memory_limits` searches one after
            the other; `placement` is `"looped"` or `"v"`; `objective` is `"span"` or `"makespan"`, on a
            cluster or over several steps also `"step"`, under the noise of the question `"mean"`, `"p95"` or
            `"p99"`; `effort` is a multiple of the default; `ilp` solves the integer program of what was
            found, which may prove it optimal; `time_limit` stops each search; `vary` names what is searched
            together with the order: `"layers"`, `"chunks"`, `"placement"`, `"recompute"`, `"offload"`,
            `"pairs"`, or `"all"`, those for which the question has the keys.
            `debubble.schema("search")` describes them.

    Raises:
        InputError: If the question lacks a key, or no order keeps the limit.

    >>> import debubble as db
    >>> q = db.Question(stages=4, microbatches=8, forward="1ms", backward_input="1ms", backward_weight="1ms")
    >>> best = db.search(q, memory_limit="2p")
    >>> best.gap, round(best.bubble_rate, 6)
    (0.0, 0.0)
    """
    asked = _asked(question, keys)
    with _ask.watching(progress) as report:
        found = asked.found(report, on_improvement)
    _ask.note(found.warnings)
    if found.interrupted and not asked.ended:
        warnings.warn("interrupted: this is the best by then", Note, stacklevel=2)
    return found


def search_all(
    questions: Iterable[Union[Question, Profile]],
    *,
    executor: Any = None,
    resume: _lists.Resume = None,
    progress: _ask.Progress = None,
    **keys: Unpack[SearchKeys],
) -> _lists.AnswerList[Found]:
    """Searches the best order for each question of a list, as `search` does for one.

    Args:
        questions: The questions.
        executor: Where to answer, if not here: what `sweep` takes. Workers need this package, but none of the
            files that the questions name. What a worker that dies leaves is answered here. The answers are
            the same as here, but hold no integer program, and pictures in their own width alone.
        resume: A file to which each answer is added as soon as it is there, and from which those that it has
            are taken. An interrupted list is continued by the same call.
        progress: See `debubble.Progress`; it counts questions.
        **keys: As of `search`.

    Returns:
        The answers in the order of the questions; for a question that has none a `Failure` with the error.

    Raises:
        InputError: If a key is wrong, or the file is of other questions, keys or another version.
        Interrupted: After a Ctrl-C, with the answers that there were by then.

    >>> import debubble as db
    >>> q = db.Question(stages=4, microbatches=8, forward="1ms", backward_input="1ms", backward_weight="1ms")
    >>> found = db.search_all([q.replace(hop=hop) for hop in ("0ms", "1ms")], memory_limit="2p")
    >>> [one.gap for one in found.answers]
    [0.0, 0.0]
    """
    asked = [_asked(question, keys) for question in _lists.listed(questions)]
    _debubble.check_search(_values.document("search", _values.parted(keys)[0]))
    return _lists.answered("search", asked, executor, resume, progress)


def _asked(question: Union[Question, Profile], keys: SearchKeys) -> _Asked:
    if isinstance(question, Profile):
        question = _as_recorded(question)
    if keys.get("memory_limit") is not None and keys.get("memory_limits") is not None:
        raise InputError("memory_limit and memory_limits exclude each other", key="memory_limits")
    own, rest = _values.parted(keys)
    return _Asked(check(question, cast("QuestionKeys", rest)), _values.document("search", own))


class _Asked(_lists.Asked["Found"]):
    """A question with the keys of its search."""

    def __init__(self, question: Question, document: str) -> None:
        self._question = question
        self._document = document
        #: Whether the caller ended the search.
        self.ended: bool = False

    def found(
        self, report: Optional[_ask.Report], on_improvement: Optional[Callable[[_ask.Improvement], object]]
    ) -> Found:
        """What the search finds."""
        question, told = self._question, on_improvement
        seen: list[_ask.Improvement] = []

        def improved(at: int, cost: int, bound: Optional[int], steps: int, elapsed: int) -> bool:
            seen.append(_ask.Improvement(cost, bound, steps, at, elapsed))
            self.ended = self.ended or (told is not None and told(seen[-1]) is False)
            return not self.ended

        begun = time.monotonic_ns()
        inner = _debubble.search(question._inner, self._document, question._files, report, improved)
        return Found(question, inner, _elapsed(seen, time.monotonic_ns() - begun))

    def answer(self) -> tuple[Found, list[str], bool]:
        found = self.found(None, None)
        return found, found.warnings, found.interrupted

    def whole(self) -> _Asked:
        question = self._question
        return _Asked(
            Question._of(question._inner, question._inner.files(None, question._files)), self._document
        )

    def files(self) -> Mapping[str, bytes]:
        return self._question._files

    def identity(self) -> Any:
        return [self._question._inner.json(), self._document]

    def kept(self, answer: Found) -> dict[str, Any]:
        return answer._kept().written()

    def read(self, kept: Mapping[str, Any]) -> Found:
        return Found(self._question, Kept.read(kept))


#: The nanoseconds since a search began by the number of its result, the steps and the cost by then.
_Times = Mapping[tuple[int, int, int], int]


def _elapsed(seen: Sequence[_ask.Improvement], whole: int) -> _Times:
    """When there was what a search has `seen`, and when each of its results was there, under no cost."""
    times = {(one.at, one.steps, one.cost_ns): one.elapsed_ns for one in seen}
    # A result is there when the next one begins.
    ends = {(one.at - 1, -1, -1): one.elapsed_ns for one in reversed(seen) if one.at > 0}
    last = max((one.at for one in seen), default=0)
    return {**times, **ends, (last, -1, -1): whole}


def _as_recorded(profile: Profile) -> Question:
    """The question of `profile` with its chunks."""
    question, chunks = check(profile), len(profile.chunks) // profile.stages
    return question if chunks == 1 else question.replace(chunks=chunks)


class Found(Answer, Sequence["FoundOrder"]):
    """The results of a search: one for each setting under each limit.

    What belongs to a single result can be read here if there is only one: `found.schedule`, `found.gap`,
    `found.certificate` and so on.

    >>> import debubble as db
    >>> q = db.Question(stages=2, microbatches=4, forward="1ms", backward_input="1ms", backward_weight="1ms")
    >>> found = db.search(q, memory_limits=["0.5p", "1p"])
    >>> [(one.memory_limit, one.cost_ns) for one in found]
    [('0.5p', 20000000), ('1p', 13000000)]
    """

    def __init__(self, question: Question, inner: Any, times: Optional[_Times] = None) -> None:
        super().__init__(inner)
        self._question = question
        self._times: _Times = {} if times is None else times

    @functools.cached_property
    def _orders(self) -> list[FoundOrder]:
        results = self.to_dict()["results"]
        return [FoundOrder(self, at, row) for at, row in enumerate(results)]

    @property
    def interrupted(self) -> bool:
        """Whether a Ctrl-C or `on_improvement` ended the search: the results are the best by then."""
        return bool(self._inner.interrupted)

    @overload
    def __getitem__(self, at: int) -> FoundOrder: ...
    @overload
    def __getitem__(self, at: slice) -> list[FoundOrder]: ...
    def __getitem__(self, at: Union[int, slice]) -> Union[FoundOrder, list[FoundOrder]]:
        return self._orders[at]

    def __len__(self) -> int:
        return len(self._orders)

    @property
    def _only(self) -> FoundOrder:
        if len(self) != 1:
            raise ValueError(f"there are {len(self)} results: take one of them, such as found[0]")
        return self[0]

    @property
    def schedule(self) -> Schedule:
        """The order of the only result."""
        return self._only.schedule

    @property
    def certificate(self) -> Certificate:
        """The certificate of the only result, for `debubble.verify`."""
        return self._only.certificate

    def to_lp(self) -> str:
        """The order of the only result as an integer program, in CPLEX LP format."""
        return self._only.to_lp()

    def to_mps(self) -> str:
        """The order of the only result as an integer program, in free MPS format."""
        return self._only.to_mps()

    @property
    def solution(self) -> _frames.Figures:
        """The only result as a solver reports it: see `FoundOrder.solution`."""
        return self._only.solution

    @property
    def history(self) -> _frames.Table:
        """How the cost of the only result fell: see `FoundOrder.history`."""
        return self._only.history

    @property
    def gap(self) -> float:
        """By how much the cost of the only result exceeds its bound, as a share of the cost; 0 is optimal."""
        return self._only.gap

    @property
    def cost_ns(self) -> int:
        """The cost of the only result, in nanoseconds."""
        return self._only.cost_ns

    @property
    def cost_seconds(self) -> float:
        """The same in seconds."""
        return self._only.cost_seconds

    @property
    def bound_ns(self) -> int:
        """The lower bound on the cost of any order, in nanoseconds, of the only result."""
        return self._only.bound_ns

    @property
    def bound_seconds(self) -> float:
        """The same in seconds."""
        return self._only.bound_seconds

    @property
    def bubble_rate(self) -> float:
        """The bubble rate of the only result."""
        return self._only.bubble_rate

    @property
    def predicted(self) -> Outcome:
        """The only result, simulated."""
        return self._only.predicted

    def best(self, by: str = "cost_ns", *, greatest: bool = False, fitting: bool = True) -> FoundOrder:
        """The result with the least `by`, or the `greatest`: see `debubble.Table.best`."""
        return self[_frames.best(_frames.columns(self.rows), by, greatest, fitting)]

    def to_csv(self) -> str:
        """The results as CSV, as `debubble search --csv` writes them."""
        return bytes(self._inner.csv()).decode()

    def to_svg(self, width: Optional[str] = None) -> str:
        """The timelines of all results as SVG, on one time axis, with the bound that is proved.

        `width` is one of `84mm`, `1200px`, and `1col` or `2col` for the columns of a paper.
        """
        return str(self._inner.svg(list(range(len(self))), *_pictures.wide(width)))

    def front_svg(self, width: Optional[str] = None) -> str:
        """A picture of bubble rate against peak memory as SVG: found, published, and bounds."""
        return str(self._inner.front_svg(*_pictures.wide(width)))

    def save(self, path: Union[str, os.PathLike[str]], *, width: Optional[str] = None) -> None:
        """Writes the results (`.json`, `.csv`) or their timelines (`.svg`) in a picture of that `width`; of a
        single one also the order in the text form (`.txt`), the certificate (`.toml`) and the integer program
        (`.lp`, `.mps`).
        """
        forms = {
            ".json": lambda: _pictures.lines(self.to_json()),
            ".csv": self.to_csv,
            ".svg": lambda: self.to_svg(width),
            ".txt": lambda: self.schedule.to_text(),
            ".toml": lambda: self.certificate,
            ".lp": self.to_lp,
            ".mps": self.to_mps,
        }
        _pictures.save(path, forms)

    def _repr_html_(self) -> str:
        def draw(count: int, width: Optional[str]) -> str:
            return str(self._inner.svg(list(range(count)), *_pictures.wide(width)))

        return _pictures.shown(draw, len(self), str(self._inner.table_html()))

    def _kept(self) -> Kept:
        every = list(range(len(self)))
        calls = [("json",), ("csv",), ("table",), ("table_html",), ("front_svg",), ("svg", every)]
        of_each = [(name, at) for at in every for name in ("order", "certificate", "history")]
        pictures = [("svg", [at]) for at in every]
        return Kept.of(self._inner, ("warnings", "interrupted"), [*calls, *of_each, *pictures])

    def __reduce__(self) -> tuple[Any, ...]:
        return Found, (self._question, self._kept(), self._times)


class Certificate(str):
    """The text of a certificate: an order, a bound, and what proves both.

    >>> import debubble as db
    >>> q = db.Question(stages=2, microbatches=4, forward="1ms", backward="2ms")
    >>> certificate = db.search(q, memory_limit="1p").certificate
    >>> certificate, certificate.verify().holds
    (<debubble.Certificate of 20 lines>, True)
    """

    __slots__ = ()

    def verify(self) -> Verified:
        """Checks it from scratch, as `debubble.verify` does."""
        return verify(self)

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes it (`.toml`), for `debubble verify`."""
        _pictures.save(path, {".toml": lambda: str(self)})

    def __repr__(self) -> str:
        return f"<debubble.Certificate of {len(self.splitlines())} lines>"

    def _repr_html_(self) -> str:
        lines = self.splitlines()
        shown = [
            line if len(line) <= _MOST_SHOWN else f"{line[:_MOST_SHOWN]}…" for line in lines[:_MOST_LINES]
        ]
        more = len(lines) - len(shown)
        return _pictures.plain("\n".join(shown + ([f"… and {more} lines more: print it"] if more else [])))

    def __reduce__(self) -> tuple[Any, ...]:
        return Certificate, (str(self),)


#: The most lines of a certificate, and characters of each, that a notebook shows.
_MOST_LINES = 40
_MOST_SHOWN = 160


class FoundOrder:
    """The best order that was found for one setting under one limit, and a bound below which none gets."""

    def __init__(self, found: Found, at: int, figures: dict[str, Any]) -> None:
        self._found = found
        self._question = found._question
        self._inner = found._inner
        self._at = at
        self._figures = figures

    def to_dict(self) -> dict[str, Any]:
        """Everything that the command line prints of it with `--json`."""
        return dict(self._figures)

    @functools.cached_property
    def schedule(self) -> Schedule:
        """The order."""
        return Schedule.from_text(str(self._inner.order(self._at)), "zb-auto")

    @property
    def certificate(self) -> Certificate:
        """What proves order and bound to a third party, for `debubble.verify`."""
        return Certificate(self._inner.certificate(self._at))

    @property
    def solution(self) -> _frames.Figures:
        """The result as a solver reports it: `objective`, `cost_ns`, `bound_ns` (`None` where none is
        proved), `gap` (0 is optimal `among` the orders searched), `argument` of the bound, `fits`, `steps`
        of the search, `history`, and `elapsed_ns`, `None` for answers of workers and journals.

        `cost_ns` is that of the objective that was asked for, such as `"p95"`, where `FoundOrder.cost_ns` is
        that without noise.

        >>> import debubble as db
        >>> q = db.Question(stages=4, microbatches=8, forward="1ms", backward="2ms")
        >>> solution = db.search(q, memory_limit="1p").solution
        >>> solution.objective, solution.gap, solution.fits
        ('span', 0.0, True)
        """
        history = self.history
        elapsed = history[-1].elapsed_ns if len(history) else None
        return _frames.Figures({**self._figures["solution"], "elapsed_ns": elapsed})

    @property
    def history(self) -> _frames.Table:
        """How the cost fell: a row at the beginning, at every improvement and at the end, with the `steps` of
        the search, `elapsed_ns` since it began, `cost_ns`, and `bound_ns` where one was known.

        A step is a pass placed or timed, of a joint search a choice tried. Where the objective is one of
        simulations, as under noise or on a cluster, the cost is that, as the search estimated it. Answers of
        workers and journals have no times.

        >>> import debubble as db
        >>> q = db.Question(stages=4, microbatches=8, forward="1ms", backward="2ms")
        >>> best = db.search(q, memory_limit="1p")
        >>> best.history[-1].cost_ns == best.cost_ns
        True
        """
        times, at = self._found._times, self._at
        rows = [
            {"steps": steps, "elapsed_ns": times.get((at, steps, cost)), "cost_ns": cost, "bound_ns": bound}
            for steps, cost, bound in self._inner.history(at)
        ]
        if rows and rows[-1]["elapsed_ns"] is None:
            rows[-1]["elapsed_ns"] = times.get((at, -1, -1))
        return _frames.Table(rows)

    def to_lp(self) -> str:
        """The order as an integer program for any solver, in CPLEX LP format: a binary for each pair of
        passes of a stage whose order is open. No more may be paid than this order costs.
        """
        return str(self._program().lp(self._at))

    def to_mps(self) -> str:
        """The same in free MPS format."""
        return str(self._program().mps(self._at))

    def _program(self) -> Any:
        if isinstance(self._inner, Kept):
            of = "an answer that was pickled, or is of a worker or a journal"
            raise ValueError(f"{of}, does not hold the integer program: search again")
        return self._inner

    @property
    def cost_ns(self) -> int:
        """The span or makespan of the order, whichever was to be small, in nanoseconds."""
        return int(self._figures["cost_ns"])

    @property
    def cost_seconds(self) -> float:
        """The same in seconds."""
        return self.cost_ns / 1e9

    @property
    def bound_ns(self) -> int:
        """The lower bound on the cost of any order under the limit, in nanoseconds."""
        return int(self._figures["bound_ns"])

    @property
    def bound_seconds(self) -> float:
        """The same in seconds."""
        return self.bound_ns / 1e9

    @property
    def gap(self) -> float:
        """By how much the cost exceeds the bound, as a share of the cost; 0 is optimal."""
        return float(self._figures["gap_ns"] / max(self.cost_ns, 1))

    @property
    def bubble_rate(self) -> float:
        """The share of the cost in which the average stage waits."""
        return float(self._figures["bubble_rate"])

    @property
    def bound_rate(self) -> float:
        """The same at the bound."""
        return float(self._figures["bound_rate"])

    @property
    def memory_limit(self) -> Optional[str]:
        """The memory limit, if there is one."""
        limit: Optional[str] = self._figures["memory_limit"]
        return limit

    @functools.cached_property
    def question(self) -> Question:
        """The question that the order answers; where `vary` was given, with what was chosen."""
        joint = self._figures.get("joint")
        if joint is not None:
            chosen = {key.replace("-", "_"): value for key, value in joint["scenario"].items()}
            return Question._of(Question(**chosen)._inner, self._question._files)
        keys = self._question._document
        name = self._figures["setting"]
        keys["setting"] = [one for one in keys.get("setting", []) if one.get("name") == name][:1] or None
        asked = Question._of(Question(**keys)._inner, self._question._files)
        of_device = {**keys, **(keys["setting"] or [{}])[0]}.get("memory")
        if self.memory_limit is not None and of_device is None:
            asked = asked.replace(memory_limit=self.memory_limit.split(","))
        return asked

    @functools.cached_property
    def _answers(self) -> Answers:
        return simulate(self.question, self.schedule)

    @property
    def predicted(self) -> Outcome:
        """The order, simulated: its timeline, why stages wait, memory."""
        return self._answers[0]

    def to_svg(self, width: Optional[str] = None) -> str:
        """The timeline as SVG, with the bound that is proved; `width` as in `Found.to_svg`."""
        return str(self._inner.svg([self._at], *_pictures.wide(width)))

    def __repr__(self) -> str:
        limit = "" if self.memory_limit is None else f" under {self.memory_limit}"
        span = self.cost_ns / 1e6
        return (
            f"<debubble.FoundOrder{limit}: {span:.3f} ms, bubble {self.bubble_rate:.3%}, gap {self.gap:.3%}>"
        )

    def _repr_html_(self) -> str:
        return _pictures.shown(lambda _, width: self.to_svg(width))

    def __reduce__(self) -> tuple[Any, ...]:
        return _order, (self._found, self._at)


def _order(found: Found, at: int) -> FoundOrder:
    return found[at]
