"""Questions about pipeline schedules."""

from __future__ import annotations

import copy
import difflib
import html
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import IO, TYPE_CHECKING, Any, Optional, Union

from . import _debubble, _pictures, _values
from ._keys import QuestionValues
from ._profile import Profile
from ._schedule import Schedule

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keys import QuestionKeys

#: Names of schedules, files of schedules, or schedules of one's own.
Schedules = Union[str, os.PathLike[str], Schedule, Iterable[Union[str, os.PathLike[str], Schedule]]]


class Question(QuestionValues, Mapping[str, Any]):
    """A question about pipeline schedules: the keys of a scenario file as keywords.

    Times are text with a unit, `datetime.timedelta`, or numbers of seconds; sizes are text with a unit or
    numbers of bytes; a memory limit may also be a multiple of the activations of p microbatches, as in
    `"1.5p"`. Lists give one value per stage or chunk. `setting` takes a list of dictionaries, each a
    question of its own over the shared keys. `debubble.schema("scenario")` describes every key.

    A question is a mapping of the keys that are given: `q["stages"]`, `dict(q)`, `"hop" in q`, and
    `Question(**q)` is the same question. Every key is an attribute, too: `None` where it is not given, since
    its default may depend on others. Times and sizes are text with their unit; what takes one value per
    stage is a list. Of several settings these are the keys that all share; `setting` has the rest of each.

    Raises:
        InputError: At an unknown key or a value that is none of its key.

    >>> import debubble as db
    >>> q = db.Question(stages=4, microbatches=8, forward="10ms", backward_input=0.01, backward_weight="8ms")
    >>> q.stages, q["backward_input"], q.hop, "hop" in q
    (4, ['10ms'], None, False)
    >>> q.replace(microbatches=16).microbatches
    16
    """

    __slots__ = ("_files", "_inner", "_shown")

    _inner: _debubble.Question
    _files: dict[str, bytes]
    _shown: Optional[dict[str, Any]]

    def __init__(self, **keys: Unpack[QuestionKeys]) -> None:
        document, files = _document(keys)
        self._inner = _debubble.Question.of(document)
        self._files = files
        self._shown = None

    @classmethod
    def _of(cls, inner: _debubble.Question, files: dict[str, bytes]) -> Question:
        question = cls.__new__(cls)
        question._inner = inner
        question._files = files
        question._shown = None
        return question

    @classmethod
    def from_file(cls, source: Union[str, os.PathLike[str], IO[str], IO[bytes], bytes]) -> Question:
        """The question in a scenario file: a path, an open file, or its content as bytes.

        Files that it names are looked for beside it.

        Raises:
            InputError: If it cannot be read or understood, with the line.
        """
        path, files = _values.content(source, "scenario.toml")
        content = None if files is None else files[path]
        return cls._of(_debubble.Question.read(path, content), {})

    @classmethod
    def from_toml(cls, text: str) -> Question:
        r"""The question in `text`, the content of a scenario file.

        >>> import debubble as db
        >>> q = db.Question.from_toml('stages = 4\n[[setting]]\nname = "a"\n[[setting]]\nname = "b"\n')
        >>> q.stages, q.setting, len(q.settings)
        (4, [{'name': 'a'}, {'name': 'b'}], 2)
        """
        if not isinstance(text, str):
            raise TypeError(f"the text of a file is needed, not a {type(text).__name__}")
        return cls._of(_debubble.Question.read("scenario.toml", text.encode()), {})

    def replace(self, **keys: Unpack[QuestionKeys]) -> Question:
        """This question with other keys in every setting.

        Keys that exclude each other replace each other: `backward` takes the place of `backward_input` and
        `backward_weight`.
        """
        document, files = _document(keys)
        return self._of(self._inner.replace(document), {**self._files, **files})

    @property
    def settings(self) -> list[Question]:
        """A question for each setting; of a single one this question."""
        document = self._document
        each = document.get("setting")
        if each is None:
            return [self]
        rest = {key: value for key, value in document.items() if key != "setting"}
        return [_again(json.dumps({**rest, "setting": [one]}), self._files) for one in each]

    def to_toml(self) -> str:
        """The content of a scenario file that asks this question."""
        return self._inner.toml()

    @property
    def _document(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self._inner.json())
        return loaded

    @property
    def _keys(self) -> dict[str, Any]:
        if self._shown is None:
            self._shown = _shown(self._document, self._files)
        return self._shown

    def __getitem__(self, key: str) -> Any:
        # Lists are copied: nobody changes a question.
        return copy.deepcopy(self._keys[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        """The number of keys that are given."""
        return len(self._keys)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Question)
            and self._inner.json() == other._inner.json()
            and self._files == other._files
        )

    def __hash__(self) -> int:
        return hash(self._inner.json())

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_values.names("scenario")})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        near = difflib.get_close_matches(name, _values.names("scenario"), 1)
        meant = f": did you mean `{near[0]}`?" if near else ""
        raise AttributeError(f"a question has no key `{name}`{meant}")

    def __repr__(self) -> str:
        if "setting" in self:
            return f"<debubble.Question of {len(self.settings)} settings>"
        given = self._document.items()
        return f"Question({', '.join(f'{_name(key)}={value!r}' for key, value in given)})"

    def _repr_html_(self) -> str:
        settings = [{**one.get("setting", [{}])[0], **one} for one in self.settings]
        names = [name for name in dict.fromkeys(key for one in settings for key in one) if name != "setting"]
        rows = [[f"<code>{name}</code>", *(_cell(one.get(name)) for one in settings)] for name in names]
        return _pictures.table([], rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._inner.json(), self._files)


#: The most characters of a value that a notebook shows.
_MOST_SHOWN = 80


def _cell(value: Any) -> str:
    values = value if isinstance(value, list) else [] if value is None else [value]
    text = ", ".join(map(str, values))
    return html.escape(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…")


def _shown(document: Mapping[str, Any], files: Mapping[str, bytes]) -> dict[str, Any]:
    """The keys of `document` as keywords, with what is the same in all settings above them."""
    shared = dict(document)
    settings = shared.pop("setting", [])
    if settings:
        first = settings[0]
        same = {key for key in first if all(one.get(key) == first[key] for one in settings)} - {"name"}
        shared.update((key, first[key]) for key in first if key in same)
        if len(settings) > 1 or "name" in first:
            own = [{key: value for key, value in one.items() if key not in same} for one in settings]
            shared["setting"] = [_with_files(one, files) for one in own]
    return _with_files(shared, files)


def _with_files(keys: Mapping[str, Any], files: Mapping[str, bytes]) -> dict[str, Any]:
    """`keys` as keywords, with the schedules and the profile that are in memory."""
    shown = {_name(key): value for key, value in keys.items()}
    if "schedule" in shown:
        shown["schedule"] = [_own(one, files) for one in shown["schedule"]]
    if shown.get("profile") in files:
        shown["profile"] = Profile.from_file(files[shown["profile"]])
    return shown


def _own(schedule: str, files: Mapping[str, bytes]) -> Union[str, Schedule]:
    """The schedule of that name, if its file is in memory."""
    if schedule not in files:
        return schedule
    return Schedule.from_text(files[schedule].decode(), schedule.rpartition("/")[2].removesuffix(".txt"))


def _again(document: str, files: dict[str, bytes]) -> Question:
    return Question._of(_debubble.Question.of(document), files)


def _name(key: str) -> str:
    return key.replace("-", "_")


def _document(keys: Mapping[str, Any]) -> tuple[str, dict[str, bytes]]:
    """The keywords as JSON, and the schedules of one's own as files."""
    given = dict(keys)
    names, files = named(given.get("schedule"))
    if names is not None:
        given["schedule"] = names
    profile = given.get("profile")
    if isinstance(profile, Profile):
        path, content = profile._file()
        given["profile"], files = path, {**files, path: content}
    return _values.document("scenario", given), files


def named(schedules: Optional[Schedules]) -> tuple[Optional[list[str]], dict[str, bytes]]:
    """The names of `schedules`, and those of one's own as files in memory."""
    if schedules is None:
        return None, {}
    if isinstance(schedules, (str, os.PathLike, Schedule)):
        schedules = [schedules]
    if not isinstance(schedules, Iterable) or isinstance(schedules, (bytes, bytearray, Set)):
        raise TypeError(
            f"schedules are a name, a file, a Schedule or a list, not a {type(schedules).__name__}"
        )
    names, files = [], {}
    for one in schedules:
        if isinstance(one, Schedule):
            path = one._path()
            files[path] = str(one).encode()
            names.append(path)
        elif isinstance(one, (str, os.PathLike)):
            names.append(os.fsdecode(one))
        else:
            raise TypeError(f"a schedule is a name, a file or a Schedule, not a {type(one).__name__}")
    return names, files


def check(question: Union[Question, Profile], keys: Optional[QuestionKeys] = None) -> Question:
    """The question, or that of a profile: its stages and microbatches; with `keys` over its own.

    Raises:
        TypeError: If it is something else.
    """
    if isinstance(question, Profile):
        question = Question(profile=question, stages=question.stages, microbatches=question.microbatches)
    if not isinstance(question, Question):
        raise TypeError(f"a debubble.Question is needed, not a {type(question).__name__}")
    return question.replace(**keys) if keys else question


class Steps(Mapping[str, Any]):
    """A range of values of an axis of a sweep."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        start, stop, step = self._values.values()
        name = "factors" if "factor" in self._values else "steps"
        return f"{name}({start!r}, {stop!r}, {step!r})"


def steps(start: Any, stop: Any, step: Any) -> Steps:
    """The values from `start` to `stop`, which belongs to them, `step` apart: exact, not floats.

    >>> import debubble as db
    >>> q = db.Question(stages=4, microbatches=8, forward="1ms", backward="2ms", schedule="zb-heuristic")
    >>> rows = db.sweep(q, {"memory_limit": db.steps("1p", "2p", "0.5p")})
    >>> rows.columns["memory_limit"].tolist()
    [1.0, 1.5, 2.0]
    """
    return Steps({"from": start, "to": stop, "step": step})


def factors(start: Any, stop: Any, factor: Any) -> Steps:
    """The values from `start` to `stop`, which may belong to them, each `factor` times the one before.

    >>> import debubble as db
    >>> q = db.Question(stages=4, forward="1ms", backward="2ms", schedule="1f1b")
    >>> rows = db.sweep(q, {"microbatches": db.factors(4, 32, 2)})
    >>> rows.columns["microbatches"].tolist()
    [4, 8, 16, 32]
    """
    return Steps({"from": start, "to": stop, "factor": factor})
