"""Schedules side by side."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, SupportsIndex, Union, overload

from . import _ask, _debubble, _frames, _lists, _pictures
from ._kept import Compiled, Kept
from ._profile import Profile
from ._question import Question, Schedules, check, named
from ._schedule import Schedule
from ._timeline import Timeline

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keys import QuestionKeys


def simulate(
    question: Union[Question, Profile],
    schedules: Optional[Schedules] = None,
    *,
    explain: bool = False,
    front: bool = False,
    sort: Optional[str] = None,
    progress: _ask.Progress = None,
    **keys: Unpack[QuestionKeys],
) -> Answers:
    """Simulates schedules side by side: step time, bubble, peak memory.

    Args:
        question: The question, of one or several settings.
        schedules: Names (`debubble.schedules()` lists them), files, schedules of one's own, or `"all"`; in
            place of those that the question names.
        explain: Whether to say why stages wait, for all of them: `why()` says it for one.
        front: Whether to mark the Pareto front of bubble against peak memory.
        sort: The order of the outcomes of a setting: `"bubble"`, `"memory"` or `"step"`, asynchronous ones
            last; else as asked.
        progress: See `debubble.Progress`.
        **keys: Keys over those of the question, as of `Question.replace`.

    Raises:
        InputError: If the question lacks a key, or a schedule cannot do it.
        Interrupted: After a Ctrl-C, with the answers that there were by then.

    >>> import debubble as db
    >>> q = db.Question(stages=4, microbatches=8, forward="1ms", backward_input="1ms", backward_weight="1ms")
    >>> answers = db.simulate(q, ["1f1b", "zb-h1", "zb-h2"])
    >>> [f"{one.schedule} {one.bubble_rate:.3f}" for one in answers]
    ['1f1b 0.273', 'zb-h1 0.111', 'zb-h2 0.000']
    """
    names, files = named(schedules)
    question = check(question, keys)
    options = _Options(question, names, {**question._files, **files}, explain, front, sort)
    inner = options.asked(progress)
    _ask.note(inner.warnings)
    return _ask.whole(Answers(options, inner), inner.interrupted)


def simulate_all(
    questions: Iterable[Union[Question, Profile]],
    schedules: Optional[Schedules] = None,
    *,
    explain: bool = False,
    front: bool = False,
    sort: Optional[str] = None,
    executor: Any = None,
    resume: _lists.Resume = None,
    progress: _ask.Progress = None,
    **keys: Unpack[QuestionKeys],
) -> _lists.AnswerList[Answers]:
    """Simulates schedules side by side for each question of a list, as `simulate` does for one.

    Args:
        questions: The questions.
        schedules: The schedules to compare, in place of those that each question names.
        explain: As of `simulate`.
        front: As of `simulate`.
        sort: As of `simulate`.
        executor: Where to answer, if not here: see `search_all`. Pictures of what workers have answered are
            worked out here when they are asked for.
        resume: A file of answers through which the list is continued: see `search_all`.
        progress: See `debubble.Progress`; it counts questions.
        **keys: Keys over those of every question.

    Returns:
        The answers in the order of the questions; for a question that has none a `Failure` with the error.

    Raises:
        InputError: If the file to resume from is of other questions or another version.
        Interrupted: After a Ctrl-C, with the answers that there were by then.

    >>> import debubble as db
    >>> q = db.Question(stages=4, forward="1ms", backward="2ms")
    >>> answers = db.simulate_all([q.replace(microbatches=count) for count in (4, 16)], ["1f1b", "gpipe"])
    >>> [one["1f1b"].span_ns for one in answers.answers]
    [21000000, 57000000]
    """
    names, files = named(schedules)
    asked = [
        _Options(question, names, {**question._files, **files}, explain, front, sort)
        for question in (check(one, keys) for one in _lists.listed(questions))
    ]
    return _lists.answered("simulate", asked, executor, resume, progress)


class _Options(_lists.Asked["Answers"]):
    """A question with all that was asked of it: enough to ask it again."""

    __slots__ = ("explain", "files_given", "front", "names", "question", "sort")

    def __init__(
        self,
        question: Question,
        names: Optional[list[str]],
        files: dict[str, bytes],
        explain: bool,
        front: bool,
        sort: Optional[str],
    ) -> None:
        self.question: Question = question
        self.names: Optional[list[str]] = names
        self.files_given: dict[str, bytes] = files
        self.explain: bool = explain
        self.front: bool = front
        self.sort: Optional[str] = sort

    def asked(self, progress: _ask.Progress) -> _debubble.Answers:
        with _ask.watching(progress) as report:
            return _debubble.simulate(
                self.question._inner,
                self.names,
                self.files_given,
                self.explain,
                self.front,
                self.sort,
                report,
            )

    def answer(self) -> tuple[Answers, list[str], bool]:
        inner = self.asked(False)
        return Answers(self, inner), inner.warnings, inner.interrupted

    def whole(self) -> _Options:
        files = self.question._inner.files(self.names, self.files_given)
        return _Options(self.question, self.names, files, self.explain, self.front, self.sort)

    def files(self) -> Mapping[str, bytes]:
        return self.files_given

    def identity(self) -> Any:
        return [self.question._inner.json(), self.names, self.explain, self.front, self.sort]

    def kept(self, answer: Answers) -> dict[str, Any]:
        return {"json": answer.to_json()}

    def read(self, kept: Mapping[str, Any]) -> Answers:
        return Answers(self, None, kept["json"])

    def __reduce__(self) -> tuple[Any, ...]:
        return _Options, (
            self.question,
            self.names,
            self.files_given,
            self.explain,
            self.front,
            self.sort,
        )


class Answers(_frames.Tabular, Sequence["Outcome"]):
    """The outcomes of schedules side by side.

    They are found by number, by the name of the schedule (of several settings the first), or by the names
    of schedule and setting: `answers[0]`, `answers["zb-v"]`, `answers["zb-v", "far"]`.

    Pictures, timelines and explanations of answers that come from a pickle are worked out again when they
    are asked for.

    >>> import debubble as db
    >>> q = db.Question(stages=4, microbatches=8, forward="1ms", backward_input="1ms", backward_weight="1ms")
    >>> answers = db.simulate(q, ["1f1b", "zb-h1"])
    >>> len(answers), answers["zb-h1"].span_ns, answers[0].schedule
    (2, 27000000, '1f1b')
    """

    def __init__(
        self, options: _Options, inner: Optional[_debubble.Answers], text: Optional[str] = None
    ) -> None:
        self._options = options
        self._known = inner
        self._text = text

    @property
    def _inner(self) -> _debubble.Answers:
        if self._known is None:
            self._known = self._options.asked(False)
        return self._known

    @functools.cached_property
    def _outcomes(self) -> list[Outcome]:
        count = len(self._known) if self._known is not None else len(self.to_dict()["results"])
        return [Outcome(self, at) for at in range(count)]

    @functools.cached_property
    def _names(self) -> list[tuple[Optional[str], str]]:
        if self._known is not None:
            return self._known.names()
        return [(one.get("setting"), one["schedule"]) for one in self.to_dict()["results"]]

    @property
    def warnings(self) -> list[str]:
        """What was warned of, such as keys that had no influence."""
        return self._inner.warnings

    @property
    def headline(self) -> str:
        """The best schedule that fits, with its figures, in a sentence for each setting.

        >>> import debubble as db
        >>> q = db.Question(stages=4, microbatches=8, forward="1ms", backward="2ms", memory_limit="1p")
        >>> db.simulate(q, ["1f1b", "zb-h1", "zb-h2"]).headline
        'Best that fits, of these 3 schedules: zb-h1, ... 1.22 times as fast as 1f1b.'
        """
        return str(self.to_dict()["headline"])

    @property
    def interrupted(self) -> bool:
        """Whether a Ctrl-C cut the answers short."""
        return bool(self.to_dict().get("interrupted", False))

    @overload
    def __getitem__(self, which: Union[SupportsIndex, str, tuple[str, str]]) -> Outcome: ...
    @overload
    def __getitem__(self, which: slice) -> list[Outcome]: ...
    def __getitem__(
        self, which: Union[SupportsIndex, slice, str, tuple[str, str]]
    ) -> Union[Outcome, list[Outcome]]:
        if isinstance(which, (slice, SupportsIndex)):
            return self._outcomes[which]
        wanted = which if isinstance(which, tuple) else (which,)
        for at, (setting, schedule) in enumerate(self._names):
            if wanted in ((schedule,), (schedule, setting)):
                return self._outcomes[at]
        known = ", ".join(dict.fromkeys(name for _, name in self._names))
        raise KeyError(f"there is no outcome {which!r}: the schedules are {known}")

    def __len__(self) -> int:
        return len(self._outcomes)

    def to_json(self) -> str:
        """All of it as JSON, as `debubble simulate --json` prints it."""
        if self._text is None:
            self._text = self._inner.json()
        return self._text

    def front_svg(self, width: Optional[str] = None) -> str:
        """A picture of bubble rate against peak memory, as SVG; ask with `front=True` to mark the front.

        `width` is one of `84mm`, `1200px`, and `1col` or `2col` for the columns of a paper.
        """
        return self._inner.front_svg(width)

    def explain_svg(self, width: Optional[str] = None) -> str:
        """A picture of what each change would save, as SVG; ask with `explain=True`.

        `width` as in `front_svg`.
        """
        return self._inner.explain_svg(width)

    def to_html(self) -> str:
        """A page that zooms into the timelines, with memory and links, for a browser."""
        return self._inner.html()

    def to_svg(self, width: Optional[str] = None) -> str:
        """The timelines as SVG, on one time axis; `width` as in `front_svg`."""
        return self._inner.svg(list(range(len(self))), width)

    def save(self, path: Union[str, os.PathLike[str]], *, width: Optional[str] = None) -> None:
        """Writes the answers (`.json`), the timelines (`.svg`), or a page that zooms into them (`.html`).

        `width` is that of the picture, as in `front_svg`.
        """
        forms = {
            ".json": lambda: _pictures.lines(self.to_json()),
            ".svg": lambda: self.to_svg(width),
            ".html": self.to_html,
        }
        _pictures.save(path, forms)

    def best(self, by: str = "bubble_rate", *, greatest: bool = False, fitting: bool = True) -> Outcome:
        """The outcome with the least `by`, or the `greatest`: see `debubble.Table.best`.

        >>> import debubble as db
        >>> q = db.Question(stages=4, microbatches=8, forward="1ms", backward="2ms", memory_limit="1p")
        >>> answers = db.simulate(q, ["1f1b", "zb-h1", "zb-h2"])
        >>> answers.best().schedule, answers.best("span_ns", fitting=False).schedule
        ('zb-h1', 'zb-h2')
        """
        return self[_frames.best(_frames.columns(self.rows), by, greatest, fitting)]

    def __repr__(self) -> str:
        return self._inner.table().rstrip("\n")

    def _repr_html_(self) -> str:
        def draw(count: int, width: Optional[str]) -> str:
            return self._inner.svg(list(range(count)), width)

        return _pictures.shown(draw, len(self), self._inner.table_html())

    def __reduce__(self) -> tuple[Any, ...]:
        return Answers, (self._options, None, self.to_json())


class Outcome:
    """One schedule in one setting, simulated.

    `to_dict()` has everything that the command line prints of it; attributes have what is asked for most.

    >>> import debubble as db
    >>> q = db.Question(stages=2, microbatches=4, forward="1ms", backward="2ms")
    >>> one = db.simulate(q, "1f1b")["1f1b"]
    >>> one
    <debubble.Outcome 1f1b: 15.000 ms, bubble 20.000%>
    >>> one.peak_in_flight, one.order.slots(1)[:2]
    ([2, 1], [Pass(kind='F', microbatch=0, chunk=1), Pass(kind='BW', microbatch=0, chunk=1)])
    """

    def __init__(self, answers: Answers, at: int) -> None:
        self._answers = answers
        self._at = at

    @property
    def _inner(self) -> _debubble.Outcome:
        inner = self._answers._inner.outcome(self._at)
        if inner is None:
            raise IndexError(f"there is no outcome {self._at}")
        return inner

    def to_dict(self) -> dict[str, Any]:
        """Everything that the command line prints of it with `--json`."""
        return self._dict

    @functools.cached_property
    def _dict(self) -> dict[str, Any]:
        if self._answers._known is None:
            found: dict[str, Any] = self._answers.to_dict()["results"][self._at]
            return found
        loaded: dict[str, Any] = json.loads(self._inner.json())
        return loaded

    def to_json(self) -> str:
        """The same as JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    @property
    def schedule(self) -> str:
        """The name of the schedule."""
        return self._answers._names[self._at][1]

    @property
    def setting(self) -> Optional[str]:
        """The name of the setting, if it has one."""
        return self._answers._names[self._at][0]

    @property
    def stages(self) -> int:
        """The number of stages, p."""
        return int(self.to_dict()["stages"])

    @property
    def microbatches(self) -> int:
        """The number of microbatches, m."""
        return int(self.to_dict()["microbatches"])

    @property
    def chunks(self) -> int:
        """The number of chunks per stage, v."""
        return int(self.to_dict()["chunks"])

    @property
    def bubble_rate(self) -> float:
        """(span - work) / span: the share of the step in which the average stage waits."""
        return float(self.to_dict()["bubble_rate"])

    @property
    def bubble_rate_makespan(self) -> float:
        """(makespan - work) / makespan."""
        return float(self.to_dict()["bubble_rate_makespan"])

    @property
    def compute_utilisation(self) -> Optional[float]:
        """The share of the span in which the compute stream of an average stage runs; None unless passes are
        chains of segments.
        """
        share: Optional[float] = self.to_dict().get("compute_utilisation")
        return share

    @property
    def communication_hidden(self) -> Optional[float]:
        """The share of the communication of segments beside compute; None where there is none."""
        share: Optional[float] = self.to_dict().get("communication_hidden")
        return share

    @property
    def span_ns(self) -> int:
        """The longest time of a stage from its first to its last pass, in nanoseconds: the step."""
        return int(self.to_dict()["span_ns"])

    @property
    def span_seconds(self) -> float:
        """The same in seconds."""
        return self.span_ns / 1e9

    @property
    def makespan_ns(self) -> int:
        """The end of the last pass of any stage, in nanoseconds."""
        return int(self.to_dict()["makespan_ns"])

    @property
    def makespan_seconds(self) -> float:
        """The same in seconds."""
        return self.makespan_ns / 1e9

    @property
    def work_ns(self) -> int:
        """The busy time of the average stage, in nanoseconds."""
        return int(self.to_dict()["work_ns"])

    @property
    def work_seconds(self) -> float:
        """The same in seconds."""
        return self.work_ns / 1e9

    @property
    def peak_activation_bytes(self) -> Optional[list[int]]:
        """The peak of activations of each stage in bytes; `None` where no sizes were given."""
        peaks: Optional[list[int]] = self.to_dict()["peak_activation_bytes"]
        return peaks

    @property
    def peak_in_flight(self) -> list[int]:
        """The most activations of chunks that each stage holds at once."""
        peaks: list[int] = self.to_dict()["peak_in_flight"]
        return peaks

    @property
    def fits(self) -> Optional[bool]:
        """Whether every stage keeps its memory limit; `None` without one."""
        fits: Optional[bool] = self.to_dict()["fits"]
        return fits

    @functools.cached_property
    def order(self) -> Schedule:
        """The order of passes."""
        return Schedule._of(self._inner.schedule(), self.schedule)

    @functools.cached_property
    def timeline(self) -> Timeline:
        """When every pass runs; under noise, in replica 0."""
        return Timeline(self._inner.timeline())

    def why(self, *, progress: _ask.Progress = None) -> Why:
        """Why the stages wait: idle time by cause, the critical path, and what each change would save.

        >>> import debubble as db
        >>> q = db.Question(stages=2, microbatches=4, forward="1ms", backward="2ms", hop="1ms")
        >>> why = db.simulate(q, "1f1b")["1f1b"].why()
        >>> all(stage.idle_ns == sum(stage[cause] for cause in why.causes) for stage in why.stages)
        True
        """
        with _ask.watching(progress) as report:
            inner = self._inner.why(report)
        return _ask.whole(Why(inner), inner.interrupted)

    def recorded(self) -> bytes:
        """The timeline as a file for `debubble.compare`, as `simulate --timeline` writes it."""
        return self._inner.recorded()

    def to_trace(self) -> bytes:
        """The run as trace events for Perfetto or chrome://tracing, as `simulate --trace` writes it."""
        return self._inner.trace()

    def to_svg(self, width: Optional[str] = None) -> str:
        """The timeline as SVG; `width` as in `Answers.front_svg`."""
        return self._answers._inner.svg([self._at], width)

    def save(self, path: Union[str, os.PathLike[str]], *, width: Optional[str] = None) -> None:
        """Writes the timeline as a picture (`.svg`) of that `width`, as trace events for Perfetto (`.json`),
        or the order in the text form (`.txt`).
        """
        forms: _pictures.Forms = {
            ".svg": lambda: self.to_svg(width),
            ".json": self.to_trace,
            ".txt": self.order.to_text,
        }
        _pictures.save(path, forms)

    def __repr__(self) -> str:
        where = "" if self.setting is None else f", {self.setting}"
        span = self.span_ns / 1e6
        return f"<debubble.Outcome {self.schedule}{where}: {span:.3f} ms, bubble {self.bubble_rate:.3%}>"

    def _repr_html_(self) -> str:
        return _pictures.shown(lambda _, width: self.to_svg(width))

    def __reduce__(self) -> tuple[Any, ...]:
        return Outcome, (self._answers, self._at)


#: What stands beside the causes in the row of a stage.
_NO_CAUSES = (
    "stage", "busy_ns", "optimizer_ns", "idle_ns", "computing_ns", "stretched_ns", "communicating_ns",
    "exposed_ns", "compute_utilisation", "communication_hidden",
)  # fmt: skip


class Why(Compiled):
    """Why the stages of a schedule wait; its frames have the levers.

    Attributes:
        cost_ns: The step, in nanoseconds.
        cost_seconds: The same in seconds.
        causes: The names of the causes of idle time.
        stages: For each stage its busy and idle time, and the part of the idle time that each cause takes;
            the causes add up to the idle time, and with passes as chains of segments to that and to
            `exposed_ns`, in which only the communication stream runs.
        critical_path: The chain of passes and transfers that makes the step as long as it is.
        levers: Changes, and the step with each: the most worth while first.
        notes: What the levers leave out.
    """

    _list = "levers"

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        figures = self.to_dict()
        self.cost_ns: int = figures["cost_ns"]
        self.cost_seconds: float = self.cost_ns / 1e9
        self.stages: _frames.Table = _frames.Table(figures["stages"])
        self.causes: list[str] = [key for key in self.stages[0] if key not in _NO_CAUSES]
        self.critical_path: _frames.Table = _frames.Table(figures["critical_path"])
        self.levers: _frames.Table = self.rows
        self.notes: list[str] = figures["notes"]

    def _repr_html_(self) -> str:
        return str(self._inner.table_html())

    def __reduce__(self) -> tuple[Any, ...]:
        calls = (("json",), ("table",), ("table_html",))
        return Why, (Kept.of(self._inner, ("interrupted",), calls),)
