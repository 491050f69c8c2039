"""Lists of questions: each is answered as if it were asked alone, here or on other machines."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Optional, TypeVar, Union, overload

from . import _ask, _executors, _frames, _journal, _pictures
from ._errors import InputError, Interrupted

if TYPE_CHECKING:
    import pandas
    import polars

_Answer = TypeVar("_Answer", bound=_frames.Tabular)

#: Where a list is continued.
Resume = Union[str, "os.PathLike[str]", None]


class Failure:
    """A question of a list that has no answer, and why.

    Attributes:
        index: The number of the question, from 0.
        error: What asking it alone raises.

    >>> import debubble as db
    >>> q = db.Question(stages=4, microbatches=8, forward="1ms", backward_input="1ms", backward_weight="1ms")
    >>> found = db.search_all([q, q.replace(memory_limit="0.1p")])
    >>> found.failures[0].index, found.failures[0].error.key
    (1, 'memory_limit')
    """

    def __init__(self, index: int, error: InputError) -> None:
        self.index: int = index
        self.error: InputError = error

    def to_dict(self) -> dict[str, Any]:
        """The error as JSON of the command line has it, in the words of Python."""
        named = {
            name: getattr(self.error, name) for name in ("message", "help", "key", "file", "line", "column")
        }
        return {"error": {name: value for name, value in named.items() if value is not None}}

    def to_json(self) -> str:
        """The same as JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def __repr__(self) -> str:
        return f"<debubble.Failure of question {self.index}: {self.error.message}>"


class AnswerList(Sequence[Union[_Answer, Failure]], Generic[_Answer]):
    """The answers to a list of questions in their order, with a `Failure` for each that has none.

    >>> import debubble as db
    >>> q = db.Question(stages=4, forward="1ms", backward="2ms")
    >>> answers = db.simulate_all([q.replace(microbatches=count) for count in (4, 16)], "1f1b")
    >>> [round(one[0].bubble_rate, 3) for one in answers.answers]
    [0.429, 0.158]
    >>> answers.rows.column("microbatches")
    [4, 16]
    """

    def __init__(self, answers: Iterable[Union[_Answer, Failure]]) -> None:
        self._all = list(answers)

    @property
    def answers(self) -> list[_Answer]:
        """The answers without the failures."""
        return [one for one in self._all if not isinstance(one, Failure)]

    @property
    def failures(self) -> list[Failure]:
        """The questions that have no answer."""
        return [one for one in self._all if isinstance(one, Failure)]

    def best(self, by: str, *, greatest: bool = False, fitting: bool = True) -> _Answer:
        """The answer with the least `by` in one of its rows, or the `greatest`: see `debubble.Table.best`.

        >>> import debubble as db
        >>> q = db.Question(stages=4, forward="1ms", backward="2ms")
        >>> answers = db.simulate_all([q.replace(microbatches=count) for count in (4, 16)], "1f1b")
        >>> answers.best("bubble_rate")[0].microbatches
        16
        """
        row = self.rows.best(by, greatest=greatest, fitting=fitting)
        found = self._all[int(row.index)]
        if isinstance(found, Failure):
            raise found.error
        return found

    @property
    def rows(self) -> _frames.Table:
        """The rows of all answers, each with the number of its question under `index`; a failure has a row
        with the reason under `error`.
        """
        return _frames.Table([row for index, one in enumerate(self._all) for row in _rows(index, one)])

    def to_json(self) -> str:
        """All of it as a JSON list."""
        return f"[{','.join(one.to_json() for one in self._all)}]"

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a frame of pandas: see `debubble.Table`."""
        return self.rows.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """The rows as a frame of polars: see `debubble.Table`."""
        return self.rows.to_polars()

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the answers (`.json`)."""
        _pictures.save(path, {".json": lambda: _pictures.lines(self.to_json())})

    @overload
    def __getitem__(self, at: int) -> Union[_Answer, Failure]: ...
    @overload
    def __getitem__(self, at: slice) -> list[Union[_Answer, Failure]]: ...
    def __getitem__(self, at: Union[int, slice]) -> Union[_Answer, Failure, list[Union[_Answer, Failure]]]:
        return self._all[at]

    def __len__(self) -> int:
        return len(self._all)

    def __repr__(self) -> str:
        failed = len(self.failures)
        return f"<debubble.AnswerList of {len(self) - failed} answers and {failed} failures>"

    def _repr_html_(self) -> Optional[str]:
        return _frames.html(self.to_pandas)


def _rows(index: int, one: Union[_frames.Tabular, Failure]) -> list[dict[str, Any]]:
    if isinstance(one, Failure):
        return [{"index": index, "error": one.error.message}]
    return [{"index": index, **row} for row in one.rows]


class Asked(Generic[_Answer]):
    """A question with all that was asked of it: enough to ask it on another machine."""

    def answer(self) -> tuple[_Answer, list[str], bool]:
        """The answer, worked out here, what was warned of, and whether a Ctrl-C cut it short."""
        raise NotImplementedError

    def whole(self) -> Asked[_Answer]:
        """The same with the content of every file that it names."""
        raise NotImplementedError

    def files(self) -> Mapping[str, bytes]:
        """The files that it has."""
        raise NotImplementedError

    def identity(self) -> Any:
        """What the answer depends on besides the files, for JSON."""
        raise NotImplementedError

    def kept(self, answer: _Answer) -> dict[str, Any]:
        """What another process needs of an answer that was worked out here, for JSON."""
        raise NotImplementedError

    def read(self, kept: Mapping[str, Any]) -> _Answer:
        """The answer of which so much was kept."""
        raise NotImplementedError


def listed(questions: Iterable[Any]) -> list[Any]:
    """The questions as a list.

    Raises:
        TypeError: If they are none, such as a single one.
    """
    if isinstance(questions, (str, bytes, Mapping, os.PathLike)) or not isinstance(questions, Iterable):
        raise TypeError(f"a list of questions is needed, not a {type(questions).__name__}")
    return list(questions)


def answered(
    kind: str,
    questions: Sequence[Union[Asked[_Answer], InputError]],
    executor: Any,
    resume: Resume,
    progress: _ask.Progress,
) -> AnswerList[_Answer]:
    """The answers to `questions` of the command `kind`, some of which may be known to have none."""
    taking = _Taking(questions)
    whole = {} if executor is None and resume is None else _whole(taking.asked)
    digests = {} if resume is None else {at: _digest(kind, one) for at, one in whole.items()}
    losses: list[BaseException] = []
    sent: dict[int, Asked[_Answer]] = {}
    try:
        with (
            _journal.opened(resume, kind, set(digests.values())) as journal,
            _ask.watching(progress) as report,
        ):
            for at, digest in digests.items():
                if journal is not None and digest in journal.known:
                    taking.read(at, journal.known[digest])
            left = [at for at in taking.asked if at not in taking.answers]
            if executor is not None:
                sent = {at: whole[at] for at in left if at in whole}
            with contextlib.closing(_results(left, sent, executor, losses)) as results:
                for at, result in results:
                    kept = taking.here(at) if result is None else taking.sent(at, result)
                    if journal is not None and at in digests and kept is not None:
                        journal.add(digests[at], kept())
                    if report is not None:
                        report("questions", len(taking.answers), len(questions))
            if journal is not None:
                taking.notes += journal.notes
    except KeyboardInterrupt:
        raise Interrupted(taking.list()) from None
    _ask.note(list(dict.fromkeys(taking.notes)), 3)
    _executors.tell(losses, f"{len(sent)} questions", 4)
    return taking.list()


class _Taking(Generic[_Answer]):
    """The answers by the number of their question, as they come."""

    def __init__(self, questions: Sequence[Union[Asked[_Answer], InputError]]) -> None:
        self._count = len(questions)
        self.answers: dict[int, Union[_Answer, Failure]] = {}
        self.asked: dict[int, Asked[_Answer]] = {}
        self.notes: list[str] = []
        for at, one in enumerate(questions):
            if isinstance(one, InputError):
                self.answers[at] = Failure(at, one)
            else:
                self.asked[at] = one

    def read(self, at: int, kept: Mapping[str, Any]) -> None:
        """Takes the answer of which so much was kept."""
        self.answers[at] = self.asked[at].read(kept)
        self.notes += kept["warnings"]

    def sent(self, at: int, result: bytes) -> Optional[Callable[[], bytes]]:
        """Takes what a worker has sent; gives it again if it is an answer."""
        loaded = json.loads(result)
        if "error" in loaded:
            self.answers[at] = Failure(at, InputError._again(*loaded["error"]))
            return None
        self.read(at, loaded["answer"])
        return lambda: result

    def here(self, at: int) -> Optional[Callable[[], bytes]]:
        """Answers a question here; gives what a worker would have sent if there is an answer."""
        one = self.asked[at]
        try:
            answer, warned, interrupted = one.answer()
        except InputError as error:
            self.answers[at] = Failure(at, error)
            return None
        self.answers[at] = answer
        self.notes += warned
        if interrupted:
            raise KeyboardInterrupt
        return lambda: _sent(one, answer, warned)

    def list(self) -> AnswerList[_Answer]:
        """All of them; those that a Ctrl-C came before as failures."""
        missing = InputError("not answered: a Ctrl-C came before")
        return AnswerList(self.answers.get(at, Failure(at, missing)) for at in range(self._count))


def _whole(asked: Mapping[int, Asked[_Answer]]) -> dict[int, Asked[_Answer]]:
    """The questions with their files, but for those whose files cannot be read: these fail here."""
    whole = {}
    for at, one in asked.items():
        with contextlib.suppress(InputError):
            whole[at] = one.whole()
    return whole


def _digest(kind: str, one: Asked[Any]) -> str:
    """What tells a question from all others, with its keys and the content of its files."""
    files = sorted((name, hashlib.sha256(content).hexdigest()) for name, content in one.files().items())
    return hashlib.sha256(json.dumps([kind, one.identity(), files]).encode()).hexdigest()


def _results(
    left: Iterable[int], sent: Mapping[int, Asked[Any]], executor: Any, losses: list[BaseException]
) -> Generator[tuple[int, Optional[bytes]], None, None]:
    """The numbers of what is `left`, each with what a worker has sent; `None` if it is answered here."""
    if sent:
        numbers = list(sent)
        work = [(one, os.getpid()) for one in sent.values()]
        with contextlib.closing(_executors.handed(executor, answer, work, losses, in_order=False)) as handed:
            for at, result in handed:
                yield numbers[at], result
    for at in left:
        if at not in sent:
            yield at, None


def answer(work: tuple[Asked[Any], int]) -> bytes:
    """The answer to a question of the process of that number, on a worker."""
    asked, asking = work
    with _executors.working_for(asking):
        try:
            found, warned, interrupted = asked.answer()
        except InputError as error:
            return json.dumps({"error": error._parts()}).encode()
        if interrupted:
            raise KeyboardInterrupt
    return _sent(asked, found, warned)


def _sent(asked: Asked[_Answer], found: _Answer, warned: list[str]) -> bytes:
    return json.dumps({"answer": {**asked.kept(found), "warnings": warned}}).encode()
