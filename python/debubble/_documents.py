"""Answers that are looked at as a whole: packing, traces, comparisons, certificates, published tables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any, NoReturn, Optional, Union, cast

from . import _ask, _debubble, _frames, _pictures, _values
from ._answers import Outcome
from ._errors import InputError
from ._kept import Answer, Kept
from ._profile import Profile
from ._question import Question, Schedules, check, named

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keys import EncoderKeys, FailureKeys, FsdpKeys, QuestionKeys, ReplayKeys, RlKeys

#: A file: a path, an open file, or its content.
Source = Union[str, os.PathLike[str], IO[str], IO[bytes], bytes]


#: What a pickle holds of a document.
_FIELDS = ("warnings", "interrupted", "holds")
_CALLS = (("json",), ("table",), ("table_html",), ("csv",), ("svg",))


class Document(Answer):
    """An answer as JSON, as tables, and as pictures."""

    def to_csv(self) -> str:
        """The rows as CSV, where the command line writes them; of several tables one after the other."""
        return "\n".join(bytes(rows).decode() for _, rows in self._inner.csv())

    def to_svg(self, name: Optional[str] = None, *, width: Optional[str] = None) -> str:
        """The picture as SVG; of several the one called `name`. `width` as in `Answers.front_svg`."""
        pictures = dict(self._inner.svg(*_pictures.wide(width)))
        if name is None and len(pictures) == 1:
            name = next(iter(pictures))
        if name not in pictures:
            known = ", ".join(pictures) or "none"
            raise InputError(f"there is no picture {name!r} of this answer: there are {known}")
        return str(pictures[name])

    def save(self, path: Union[str, os.PathLike[str]], *, width: Optional[str] = None) -> None:
        """Writes the answer (`.json`), its rows (`.csv`), its tables (`.txt`), or its picture (`.svg`).

        `width` is that of the picture, as in `Answers.front_svg`.
        """
        forms = {
            ".json": lambda: _pictures.lines(self.to_json()),
            ".csv": self.to_csv,
            ".txt": lambda: str(self._inner.table()),
            ".svg": lambda: self.to_svg(width=width),
        }
        _pictures.save(path, forms)

    def best(self, by: str, *, greatest: bool = False, fitting: bool = True) -> _frames.Figures:
        """The row with the least `by`, or the `greatest`: see `debubble.Table.best`."""
        return self.rows.best(by, greatest=greatest, fitting=fitting)

    def _repr_html_(self) -> str:
        return _pictures.few(dict(self._inner.svg()), str(self._inner.table_html()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (Kept.of(self._inner, _FIELDS, _CALLS),)


class Packed(Document):
    """Ways to pack samples and to communicate, side by side."""


def fsdp(*, progress: _ask.Progress = None, **keys: Unpack[FsdpKeys]) -> Packed:
    """Packs samples for FSDP, with collectives or on-demand communication (ODC, arXiv 2601.19362).

    Args:
        progress: See `debubble.Progress`.
        **keys: The flags of `debubble fsdp` with underscores; `debubble.schema("fsdp")` describes them.

    Raises:
        InputError: If a key is wrong, a file cannot be read, or samples cannot be packed.
        Interrupted: After a Ctrl-C, with the rows over the minibatches that were done by then.

    >>> import debubble as db
    >>> answer = db.fsdp(devices=4, minibatch_size=[1, 4], packing_ratio=1, minibatches=4)
    >>> len(answer.rows) > 0 and all(0 <= row.bubble_rate < 1 for row in answer.rows)
    True
    """
    document = _values.document("fsdp", keys)
    with _ask.watching(progress) as report:
        inner = _debubble.fsdp(document, None, report)
    _ask.note(inner.warnings)
    return _ask.whole(Packed(inner), inner.interrupted)


class Reinforced(Document):
    """A step of reinforcement learning, phase by phase."""

    _list = "phases"

    @property
    def step_ns(self) -> int:
        """The mean step, in nanoseconds."""
        return int(self.to_dict()["step_ns"])

    @property
    def tokens_per_second(self) -> float:
        """Tokens of prompts and responses that are trained on, per second."""
        return float(self.to_dict()["tokens_per_second"])

    @property
    def rollout(self) -> dict[str, Any]:
        """How engines generate: their rate, the tail, sequences at a time."""
        rollout: dict[str, Any] = self.to_dict()["rollout"]
        return rollout

    @property
    def update(self) -> dict[str, Any]:
        """How the policy is updated: updates, microbatches, idle devices."""
        update: dict[str, Any] = self.to_dict()["update"]
        return update

    @property
    def pipelines(self) -> Optional[dict[str, Any]]:
        """The pipelines that train, with strategy megatron: replicas, stages, schedule, exchange."""
        pipelines: Optional[dict[str, Any]] = self.to_dict().get("pipelines")
        return pipelines

    @property
    def levers(self) -> _frames.Table:
        """What changes would save, each by itself."""
        return _frames.Table(self.to_dict()["levers"])


def rl(*, progress: _ask.Progress = None, **keys: Unpack[RlKeys]) -> Reinforced:
    """Predicts a step of reinforcement learning (GRPO, PPO): rollout, log-probabilities, updates.

    Args:
        progress: See `debubble.Progress`.
        **keys: The flags of `debubble rl` with underscores; `debubble.schema("rl")` describes them.

    Raises:
        InputError: If a key is wrong, a file cannot be read, or responses do not fit engines or microbatches.
        Interrupted: After a Ctrl-C, with the steps and levers that were done by then.

    >>> import debubble as db
    >>> step = db.rl(model="qwen2.5-7b", machine="h100", devices=8, prompts=32, steps=1)
    >>> [phase.phase for phase in step.rows]
    ['rollout', 'old log-probabilities', 'update', 'weights to engines']
    >>> 0 < step.rollout["tail_share"] < 1
    True
    """
    document = _values.document("rl", keys)
    with _ask.watching(progress) as report:
        inner = _debubble.rl(document, None, report)
    _ask.note(inner.warnings)
    return _ask.whole(Reinforced(inner), inner.interrupted)


class Rerouted(Document):
    """Steps with dead workers whose passes peers run, and policies against failures."""

    @property
    def borne(self) -> _frames.Table:
        """Steps with each number of dead workers, a row for each schedule and number."""
        return _frames.Table(self._each("borne"))

    @property
    def policies(self) -> _frames.Table:
        """Policies in the long run, the best of each schedule first; empty without `mtbf`."""
        return _frames.Table(self._each("policies"))

    @property
    def timeline(self) -> _frames.Table:
        """The passes of all live workers, of each schedule; empty without `timeline=True`."""
        return _frames.Table(self._each("timeline"))

    @property
    def assumed(self) -> list[str]:
        """What was assumed, a sentence each."""
        return list(self.to_dict()["assumed"])

    def _each(self, name: str) -> list[dict[str, Any]]:
        keys = ("setting", "schedule", "backward")
        return [
            {**{key: row[key] for key in keys if key in row}, **one}
            for row in self.to_dict()["results"]
            for one in row.get(name, [])
        ]


def failures(
    question: Union[Question, Profile],
    schedules: Optional[Schedules] = None,
    *,
    progress: _ask.Progress = None,
    **keys: Unpack[FailureKeys],
) -> Rerouted:
    """Predicts the step with dead workers whose passes data-parallel peers run (ReCycle, arXiv 2405.14009).

    Args:
        question: The question.
        schedules: Names, files, schedules of one's own; in place of those that the question names.
        progress: See `debubble.Progress`.
        **keys: `data_parallel` is the number of pipelines, `dead` names workers as `"PIPELINE.STAGE"`, `mtbf`
            compares policies; and keys over those of the question. `debubble.schema("failures")` describes
            them.

    Raises:
        InputError: If a key is missing or wrong, a stage has no worker left, or memory does not suffice.
        Interrupted: After a Ctrl-C, with the rows that were done by then.

    >>> import debubble as db
    >>> q = db.Question(stages=4, microbatches=6, forward="1ms", backward_input="1ms", backward_weight="1ms")
    >>> answer = db.failures(q, "zb-h1", data_parallel=3, dead="0.3")
    >>> [(row.healthy["step_ns"], row.rerouted["step_ns"], row.rerouted["bound_ns"]) for row in answer.rows]
    [(21000000, 30000000, 30000000)]
    """
    own, rest = _values.parted(keys)
    document = _values.document("failures", own)
    names, files = named(schedules)
    question = check(question, cast("QuestionKeys", rest))
    with _ask.watching(progress) as report:
        inner = _debubble.failures(question._inner, document, names, {**question._files, **files}, report)
    _ask.note(inner.warnings)
    return _ask.whole(Rerouted(inner), inner.interrupted)


class Encoded(Document):
    """Steps with an encoder in front of a language model, by schedule and placement, the shortest first."""

    _list = "results"

    @property
    def bound_ns(self) -> int:
        """No step is shorter, with any placement and order on these stages, in nanoseconds."""
        return int(self.to_dict()["bound_ns"])

    @property
    def step_ns(self) -> int:
        """The shortest step, in nanoseconds."""
        return int(self.to_dict()["results"][0]["step_ns"])

    def placed(self, placement: str) -> Optional[dict[str, Any]]:
        """The shortest step with the encoder at `placement`, such as `"bubbles"`; `None` if there is none."""
        rows: list[dict[str, Any]] = self.to_dict()["results"]
        return next((row for row in rows if row["placement"] == placement), None)


def encoder(*, progress: _ask.Progress = None, **keys: Unpack[EncoderKeys]) -> Encoded:
    """Predicts steps with an encoder in front of a language model, by schedule and placement of the encoder.

    Args:
        progress: See `debubble.Progress`.
        **keys: The flags of `debubble encoder` with underscores; `debubble.schema("encoder")` describes them.

    Raises:
        InputError: If a key is wrong, a file cannot be read, or no schedule can do any of the placements.
        Interrupted: After a Ctrl-C, with the schedules and placements that were done by then.

    >>> import debubble as db
    >>> steps = db.encoder(
    ...     schedule="1f1b", stages=4, microbatches=8, forward="10ms", encoder_forward="9ms", encoder_layers=9
    ... )
    >>> [row.placement for row in steps.rows]
    ['bubbles', 'spread', 'own-stages', 'first-stage']
    >>> steps.bound_ns <= steps.step_ns
    True
    """
    document = _values.document("encoder", keys)
    with _ask.watching(progress) as report:
        inner = _debubble.encoder(document, None, report)
    _ask.note(inner.warnings)
    return _ask.whole(Encoded(inner), inner.interrupted)


class Replayed(Document):
    """Predicted and measured steps of a run, and what they would have been."""

    _list = "steps"

    @property
    def what_if(self) -> _frames.Table:
        """The changes that were asked for, and the mean step with each."""
        return _frames.Table(self.to_dict()["what_if"])

    @property
    def stragglers(self) -> _frames.Table:
        """Who costs most among its like."""
        return _frames.Table(self.to_dict()["stragglers"])


def replay(
    trace: Source | Sequence[Source],
    *,
    launch_delays: bool = False,
    progress: _ask.Progress = None,
    **keys: Unpack[ReplayKeys],
) -> Replayed:
    """Predicts the steps of a real run from its durations, and what they would have been.

    Args:
        trace: The trace: Parquet in the form of the StragglerAnalysis data set, trace events in JSON,
            spans of OpenTelemetry, lines of Nsight Systems, or a timeline; or a list of the traces of all
            ranks, as `torch.profiler` writes them.
        launch_delays: Whether to let pass between two operations of a rank what always does.
        progress: See `debubble.Progress`.
        **keys: `what_if` and `schedule` name changes of the run; `debubble.schema("replay")` describes all.

    Raises:
        InputError: If the trace cannot be read or makes no sense.
        Interrupted: After a Ctrl-C, with the changes that were tried by then.

    >>> import debubble as db
    >>> q = db.Question(stages=2, microbatches=4, forward="1ms", backward="2ms")
    >>> trace = db.simulate(q, "1f1b")["1f1b"].to_trace()
    >>> db.replay(trace, what_if="balanced").rows[0].predicted_ns
    15000000
    """
    sources = trace if isinstance(trace, (list, tuple)) else [trace]
    paths: list[str] = []
    files: dict[str, bytes] = {}
    for at, source in enumerate(sources):
        path, content = _values.content(source, f"trace-{at}.json" if len(sources) > 1 else "trace.json")
        paths.append(path)
        files.update(content or {})
    given: dict[str, Any] = dict(keys)
    names, own = named(given.get("schedule"))
    if names is not None:
        given["schedule"] = names
    document = _values.document("replay", given)
    with _ask.watching(progress) as report:
        inner = _debubble.replay(paths, document, launch_delays, {**files, **own}, report)
    _ask.note(inner.warnings)
    return _ask.whole(Replayed(inner), inner.interrupted)


class Comparison(Document):
    """A predicted and a measured timeline side by side."""

    _list = "passes"

    @property
    def error(self) -> float:
        """How far the predicted span and makespan lie from the measured ones, the larger of both."""
        return float(self.to_dict()["error"])

    @property
    def difference(self) -> _frames.Table:
        """The difference part by part; the parts add up to the last row, all of it."""
        return _frames.Table(self.to_dict()["difference"])

    @property
    def waits(self) -> _frames.Table:
        """The waits that differ most."""
        return _frames.Table(self.to_dict()["waits"])


def compare(
    predicted: Union[Source, Outcome], measured: Union[Source, Outcome], **keys: NoReturn
) -> Comparison:
    """Compares a predicted and a measured timeline: where the difference comes from.

    Args:
        predicted: An outcome of `debubble.simulate`, or a file that `simulate --timeline` wrote.
        measured: A file that `execute --timeline` wrote, or another outcome.
        **keys: None: keys are those of the question of `debubble.simulate`.

    Raises:
        InputError: If a file cannot be read, or they are not of the same passes.

    >>> import debubble as db
    >>> q = db.Question(stages=2, microbatches=4, forward="1ms", backward="2ms")
    >>> slow = q.replace(forward="1.1ms")
    >>> result = db.compare(*(db.simulate(one, "1f1b")["1f1b"] for one in (q, slow)))
    >>> [part.part for part in result.difference][:2], f"{result.error:.4f}"
    (['order', 'kernels'], '0.0323')
    """
    _values.refuse("compare", keys)
    paths, files = [], {}
    for source, name in ((predicted, "predicted.json"), (measured, "measured.json")):
        whole = source.recorded() if isinstance(source, Outcome) else source
        path, own = _values.content(whole, name)
        paths.append(path)
        files.update(own or {})
    return Comparison(_debubble.compare(paths[0], paths[1], files))


class Verified(Document):
    """The result of checking a certificate: true where all of it holds."""

    @property
    def holds(self) -> bool:
        """Whether all of the certificate holds."""
        return bool(self._inner.holds)

    @property
    def refused(self) -> Optional[str]:
        """Why it does not, if it does not."""
        refused: Optional[str] = self.to_dict().get("refused")
        return refused

    @property
    def rows(self) -> _frames.Table:
        """What was found, in one row."""
        return _frames.Table([self.to_dict()])

    def __bool__(self) -> bool:
        return self.holds


def verify(certificate: Source, **keys: NoReturn) -> Verified:
    """Checks a certificate from scratch: the order, its memory, its cost, and the bound.

    Args:
        certificate: The text of a certificate, such as `search(..).certificate`, or a file of one.
        **keys: None: a certificate has its question.

    Raises:
        InputError: If it is not a certificate.

    >>> import debubble as db
    >>> q = db.Question(stages=2, microbatches=4, forward="1ms", backward_input="1ms", backward_weight="1ms")
    >>> bool(db.verify(db.search(q, memory_limit="1p").certificate))
    True
    """
    _values.refuse("verify", keys)
    if isinstance(certificate, str) and "\n" in certificate:
        certificate = certificate.encode()
    path, files = _values.content(certificate, "certificate.toml")
    return Verified(_debubble.verify(path, files))


class Reproduced(Document):
    """Published tables beside ours, cell by cell."""

    _list = "cells"

    @property
    def holds(self) -> bool:
        """Whether every cell that was checked matches its published figure."""
        return bool(self._inner.holds)


def reproduce(
    *tables: str,
    beyond: bool = False,
    effort: int = 1,
    paper: Optional[Union[str, os.PathLike[str]]] = None,
    progress: _ask.Progress = None,
    **keys: NoReturn,
) -> Reproduced:
    """Makes published tables and figures again; without a name all of them.

    Args:
        tables: Names such as `"table5"`, `"fig9"`, `"throughput"`, `"post-validation"`.
        beyond: Whether to search better orders than the published ones, in the tables where that can be done.
        effort: The effort of each search, in multiples of the default.
        paper: A folder with settings and figures; those that are built in unless it is given.
        progress: See `debubble.Progress`.
        **keys: None: tables have their questions.

    Raises:
        InputError: If there is no table of that name.
        Interrupted: After a Ctrl-C, with the tables that were done by then.

    >>> import debubble as db
    >>> db.reproduce("table2").holds
    True
    """
    _values.refuse("reproduce", keys)
    own = {"tables": list(tables) or None, "beyond": beyond, "effort": effort, "paper": paper}
    document = _values.document("reproduce", own)
    with _ask.watching(progress) as report:
        inner = _debubble.reproduce(document, report)
    _ask.note(inner.warnings)
    return _ask.whole(Reproduced(inner), inner.interrupted)


class ScheduleList(Document):
    """All schedules that have a name, and published ones that are not offered."""

    _list = "schedules"


def schedules() -> ScheduleList:
    """The schedules that have a name: source, needs, bubble, memory, and what runs them.

    >>> import debubble as db
    >>> "zb-v" in db.schedules().rows.column("name")
    True
    """
    return ScheduleList(_debubble.schedules())


def export(
    question: Union[Question, Profile],
    schedules: Optional[Schedules] = None,
    /,
    format: str = "text",
    **keys: Unpack[QuestionKeys],
) -> str:
    """One schedule for other tools.

    Args:
        question: A question of one setting. Times are needed only where the order depends on them.
        schedules: The schedule, in place of the one that the question names.
        format: `"text"`, the order with one line per stage; `"torch-csv"`, the order as
            `torch.distributed.pipelining` loads it; or `"chrome"`, the simulated timeline as trace events for
            Perfetto or chrome://tracing.
        **keys: Keys over those of the question.

    Raises:
        InputError: If the question has several settings or schedules, the schedule cannot do it, or torch
            cannot run it.

    >>> import debubble as db
    >>> print(db.export(db.Question(stages=2, microbatches=2), "1f1b"), end="")
    F0.0 F0.1 BW0.0 BW0.1
    F1.0 BW1.0 F1.1 BW1.1
    >>> print(db.export(db.Question(stages=2, microbatches=2), "1f1b", format="torch-csv"), end="")
    0F0,0F1,0B0,0B1
    1F0,1B0,1F1,1B1
    """
    names, files = named(schedules)
    question = check(question, keys)
    text, warnings = _debubble.export(question._inner, format, names, {**question._files, **files})
    _ask.note(warnings)
    return text


def schema(name: str = "scenario") -> dict[str, Any]:
    """The JSON schema of a question: its keys, their meaning and form.

    Args:
        name: `"scenario"`, `"sweep"`, `"plan"`, `"fsdp"`, `"rl"`, `"encoder"`, `"search"`, `"failures"`,
            `"replay"` or `"reproduce"`.

    >>> import debubble as db
    >>> db.schema("search")["properties"]["time-limit"]["description"]
    'Stop each search after that time, with the best so far'
    """
    return _values.schema(name)
