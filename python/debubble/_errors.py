"""Exceptions and warnings."""

from __future__ import annotations

from typing import Any, Optional


class InputError(ValueError):
    """A question that cannot be answered as it was asked.

    Its text is the fault, the lines of a file around it, and the cure. Keys are named as keywords; those of a
    file as they stand there.

    Attributes:
        message: The fault, on one line.
        help: The cure, if there is one to name.
        key: The key to blame, as a keyword.
        file: The file to blame, if the fault is in one.
        line: The line in it, from 1.
        column: The column in that line, in characters from 1.

    >>> import debubble as db
    >>> try:
    ...     db.Question(stages=4, microbatchs=8)
    ... except db.InputError as error:
    ...     error.message
    'there is no key `microbatchs`: did you mean `microbatches` or `microbatch_size`?'
    """

    def __init__(
        self,
        text: str,
        *,
        message: Optional[str] = None,
        help: Optional[str] = None,
        key: Optional[str] = None,
        file: Optional[str] = None,
        line: Optional[int] = None,
        column: Optional[int] = None,
    ) -> None:
        super().__init__(text)
        self.message: str = text if message is None else message
        self.help: Optional[str] = help
        self.key: Optional[str] = key
        self.file: Optional[str] = file
        self.line: Optional[int] = line
        self.column: Optional[int] = column

    @classmethod
    def with_help(cls, message: str, help: str, key: Optional[str] = None) -> InputError:
        """A fault and its cure, as the command line prints them."""
        return cls(f"{message}\n  help: {help}", message=message, help=help, key=key)

    def _parts(self) -> tuple[str, dict[str, Any]]:
        """Its text, and what it is made of besides."""
        return str(self), {name: getattr(self, name) for name in _FIELDS}

    @classmethod
    def _again(cls, text: str, fields: dict[str, Any]) -> InputError:
        """The error of which these are the parts."""
        return cls(text, **fields)

    def __reduce__(self) -> tuple[Any, ...]:
        return InputError._again, self._parts()


_FIELDS = ("message", "help", "key", "file", "line", "column")


class InternalError(RuntimeError):
    """A mistake of debubble itself, never of a question."""


class LostRank(RuntimeError):
    """A rank of a run on several that has ended, or that did not answer in time."""


class Interrupted(KeyboardInterrupt):
    """A Ctrl-C that came while an answer was worked out.

    Attributes:
        answer: What there was by then, an answer like that of the call that was interrupted.
    """

    def __init__(self, answer: Any) -> None:
        super().__init__("interrupted: what there was by then is in the attribute `answer`")
        self.answer: Any = answer


class Note(UserWarning):
    """Something about an answer that its reader should know, such as a key that had no influence."""
