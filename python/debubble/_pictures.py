"""Files of answers, and what notebooks show of them."""

from __future__ import annotations

import contextlib
import html
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
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


def plain(text: str) -> str:
    """A text of a terminal as part of a page."""
    return f'<pre style="font-family:monospace">{html.escape(text)}</pre>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML."""
    above = f"<thead><tr>{''.join(f'<th>{cell}</th>' for cell in head)}</tr></thead>" if head else ""
    below = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table>{above}<tbody>{below}</tbody></table>"


#: The most characters of the pictures of an answer in a notebook, which keeps every one of them.
_MOST = 60_000
#: The width of a timeline in a notebook, whose cells are about as wide.
_WIDE = "960px"


def shown(draw: Callable[[int, Optional[str]], str], count: int, whole: str, most: int = 6) -> str:
    """As many of `count` timelines, `most` at most, as a notebook keeps in few bytes; `whole` gives all.

    `draw` gives the picture of the first of them in a width, and `None` is the width of its own.
    """
    some = min(count, most)
    while some > 0:
        picture = fitted(_in_width(draw, some))
        if len(picture) <= _MOST:
            break
        some //= 2
    else:
        picture = ""
    if some == count:
        return picture
    drawn = f"the first {some} of {count} timelines are" if some else "a timeline this large is not"
    return f"{picture}<p>In a notebook {drawn} drawn: <code>{html.escape(whole)}</code> draws all.</p>"


def few(pictures: Mapping[str, str]) -> str:
    """The first of the `pictures` by name, as many as a notebook keeps in few bytes."""
    parts, room, left = [], _MOST, []
    for name, picture in pictures.items():
        part = fitted(picture)
        room -= len(part)
        if room >= 0:
            parts.append(part)
        else:
            left.append(f"<code>to_svg({name!r})</code>" if name else "<code>to_svg()</code>")
    if left:
        parts.append(f"<p>Not drawn in a notebook, since it is large: {', '.join(left)}.</p>")
    return "".join(parts)


def _in_width(draw: Callable[[int, Optional[str]], str], count: int) -> str:
    try:
        return draw(count, _WIDE)
    except InputError:
        # Copies of answers have pictures in their own width alone.
        return draw(count, None)


def fitted(svg: str) -> str:
    """A picture as part of a page, in few bytes and no wider than there is room."""
    return _compact(svg).replace("<svg ", "<svg style='max-width:100%;height:auto' ", 1)


_RECTANGLE = re.compile(
    r'<rect x="(-?\d+)" y="(-?\d+)" width="(\d+)" height="(\d+)" opacity="1" fill="(#\w+)" stroke="none"/>'
)
_POLYGON = re.compile(r'<polygon opacity="1" fill="(#\w+)" points="([-\d, ]+)"/>')
_LETTERS = re.compile(r"<text ([^>]*)>([^<]*)</text>")
_PLACE = re.compile(r'([xy])="(-?\d+)" ?')
_ELEMENT = re.compile(r"<text [^>]*>[^<]*</text>|<[^>]+>[^<]*")


def _compact(svg: str) -> str:
    """`svg` with boxes of a colour as one shape, and texts of a look as one group."""
    begin = svg.index(">") + 1
    canvas = _Canvas()
    for element in _ELEMENT.findall(svg, begin):
        canvas.add(element)
    return svg[:begin].replace("\n", "") + canvas.written()


class _Canvas:
    """Elements of a picture, in groups that hide nothing that they did not hide before."""

    def __init__(self) -> None:
        self._done: list[str] = []
        #: The boxes within which the last one lies, the largest first.
        self._around: list[tuple[int, int, int, int]] = []
        #: Boxes by how many lie around them, and by colour.
        self._boxes: dict[tuple[int, str], list[str]] = {}
        self._texts: dict[str, list[str]] = {}
        self._ends: tuple[int, int] = (0, 0)

    def add(self, element: str) -> None:
        """Draws the next element."""
        if found := _RECTANGLE.match(element):
            left, top, wide, tall = (int(found[at]) for at in (1, 2, 3, 4))
            self._box(left, top, left + wide, top + tall, found[5])
        elif found := _LETTERS.match(element):
            look = " ".join(_PLACE.sub("", found[1]).replace('opacity="1" ', "").split())
            place = " ".join(f"{name}={at}" for name, at in _PLACE.findall(found[1]))
            place = re.sub(r"(-?\d+)", r"'\1'", place)
            self._texts.setdefault(look, []).append(f"<text {place}>{found[2].strip()}</text>")
        else:
            self._flush()
            self._done.append(_shape(element))

    def _box(self, left: int, top: int, right: int, bottom: int, colour: str) -> None:
        around = self._around
        while around and not (
            around[-1][0] <= left
            and around[-1][1] <= top
            and right <= around[-1][2]
            and bottom <= around[-1][3]
        ):
            around.pop()
        # What lies right in the picture may lie over anything that is drawn by now.
        if len(around) <= 1 and top < self._ends[1] and left < self._ends[0]:
            self._flush()
        if around:
            self._ends = max(self._ends[0], right), max(self._ends[1], bottom)
        path = f"M{left} {top}h{right - left}v{bottom - top}h{left - right}z"
        self._boxes.setdefault((len(around), colour), []).append(path)
        around.append((left, top, right, bottom))

    def _flush(self) -> None:
        for (_, colour), paths in sorted(self._boxes.items(), key=lambda one: one[0][0]):
            self._done.append(f"<path fill='{colour}' d='{''.join(paths)}'/>")
        for look, texts in self._texts.items():
            self._done.append(f"<g {look}>{''.join(texts)}</g>")
        self._boxes, self._texts, self._ends = {}, {}, (0, 0)

    def written(self) -> str:
        """All that was drawn."""
        self._flush()
        return "".join(self._done)


def _shape(element: str) -> str:
    """An element in few bytes: of shapes from corner to corner, how far each is from the last."""
    found = _POLYGON.match(element)
    if found is None:
        return element.replace("\n", " ").strip() if element.startswith("<desc") else element.strip()
    corners = [tuple(map(int, corner.split(","))) for corner in found[2].split()]
    path = [f"M{corners[0][0]} {corners[0][1]}"]
    for (x, y), (to_x, to_y) in zip(corners, corners[1:]):
        if x == to_x:
            path.append(f"v{to_y - y}")
        elif y == to_y:
            path.append(f"h{to_x - x}")
        else:
            path.append(f"L{to_x} {to_y}")
    return f"<path fill='{found[1]}' d='{''.join(path)}z'/>"
