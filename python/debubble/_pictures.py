"""Files of answers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Optional, Union

from ._errors import InputError

#: The forms of an answer by the end of the name of its file.
Forms = Mapping[str, Callable[[], Union[str, bytes]]]


def save(path: Union[str, os.PathLike[str]], forms: Forms) -> None:
    """Writes the form of an answer that the end of `path` names."""
    file = Path(path)
    form = forms.get(file.suffix.lower())
    if form is None:
        known = ", ".join(sorted(forms))
        message = f"{file}: there is no such form of this answer"
        raise InputError(f"{message}\n  help: the name of the file ends in one of {known}", message=message)
    content = form()
    data = content.encode() if isinstance(content, str) else content
    partial = file.with_name(file.name + ".partial")
    try:
        partial.write_bytes(data)
        partial.replace(file)
    except BaseException as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is not None:
            error.filename = str(file)
        raise


def wide(width: Optional[str]) -> tuple[str, ...]:
    """The argument for a width, if there is one: copies of answers have pictures in their own width alone."""
    return () if width is None else (width,)


def lines(text: str) -> str:
    """`text` as a file of lines has it."""
    return text if text.endswith("\n") else text + "\n"


def fitted(svg: str) -> str:
    """A picture as part of a page, no wider than there is room."""
    return svg.replace("<svg ", '<svg style="max-width:100%;height:auto" ', 1)
