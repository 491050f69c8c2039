"""Files of answers, and what notebooks show of them."""

from __future__ import annotations

import base64
import contextlib
import html
import os
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Optional, Union

import numpy

from ._errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

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


#: The most characters of an answer in a notebook, which keeps every one of them.
_MOST = 90_000
#: The width of a timeline in a notebook, whose cells are about as wide.
_WIDE = "960px"


def shown(draw: Callable[[int, Optional[str]], str], count: int = 1, beside: str = "", most: int = 6) -> str:
    """What stands `beside` and, below, `count` timelines, `most` at most, in few bytes.

    `draw` gives the picture of the first of them in a width, and `None` is the width of its own.
    """
    some = min(count, most)
    while some > 0:
        svg = _in_width(draw, some)
        # Shapes take a twentieth of the bytes at least.
        picture = fitted(svg) if len(svg) < 20 * _MOST else svg
        as_pixels = len(beside) + len(picture) > _MOST
        if as_pixels:
            picture = fitted(svg, as_pixels=True)
        if len(beside) + len(picture) <= _MOST or some == 1:
            break
        some //= 2
    else:
        return beside
    parts = [f"the first {some} of {count} timelines are drawn"] if some < count else []
    parts += ["passes are pixels, since there are many"] if as_pixels else []
    if parts:
        note = "; ".join(parts)
        picture += f"<p>{note[0].upper()}{note[1:]}: <code>to_svg()</code> draws shapes, and all of them.</p>"
    return beside + picture


def few(pictures: Mapping[str, str], beside: str) -> str:
    """What stands `beside` and, below, as many of the `pictures` by name as a notebook keeps in few bytes."""
    parts, room, left = [beside], _MOST - len(beside), []
    for name, picture in pictures.items():
        part = fitted(picture)
        if len(part) > room:
            left.append(f"<code>to_svg({name!r})</code>" if name else "<code>to_svg()</code>")
            continue
        room -= len(part)
        parts.append(part)
    if left:
        parts.append(f"<p>Not drawn in a notebook, since they are large: {', '.join(left)}.</p>")
    return "".join(parts)


def _in_width(draw: Callable[[int, Optional[str]], str], count: int) -> str:
    try:
        return draw(count, _WIDE)
    except InputError:
        # Copies of answers have pictures in their own width alone.
        return draw(count, None)


def fitted(svg: str, as_pixels: bool = False) -> str:
    """A picture as part of a page, in few bytes and no wider than there is room.

    Boxes of a colour are one shape, or all boxes are the pixels of an image; texts of a look are one group.
    """
    begin = svg.index(">") + 1
    canvas = _Canvas(svg[:begin], as_pixels)
    for element in _ELEMENT.findall(svg, begin):
        canvas.add(element)
    head = svg[:begin].replace("<svg ", "<svg style='max-width:100%;height:auto' ", 1)
    return head + canvas.written()


_RECTANGLE = re.compile(
    r'<rect x="(-?\d+)" y="(-?\d+)" width="(\d+)" height="(\d+)" opacity="1" fill="(#\w+)" stroke="none"/>'
)
_POLYGON = re.compile(r'<polygon opacity="1" fill="(#\w+)" points="([-\d, ]+)"/>')
_LETTERS = re.compile(r"<text ([^>]*)>([^<]*)</text>")
_PLACE = re.compile(r'\b([xy])="(-?\d+)" ?')
_SIZE = re.compile(r' (width|height)="(\d+)"')
_ELEMENT = re.compile(r"<text [^>]*>[^<]*</text>|<[^>]+>[^<]*")


#: A box: left, top, right and bottom.
_Box = tuple[int, int, int, int]


class _Canvas:
    """Elements of a picture, in groups that hide nothing that they did not hide before."""

    def __init__(self, head: str, as_pixels: bool) -> None:
        self._as_pixels = as_pixels
        self._done: list[str] = []
        sizes = {name: int(size) for name, size in _SIZE.findall(head)}
        #: By pixel, how many boxes lie one over the other.
        self._levels: NDArray[numpy.int16] = numpy.zeros((sizes["height"], sizes["width"]), dtype=numpy.int16)
        #: Boxes by the boxes below them, and by colour: those of a level do not touch each other.
        self._boxes: dict[tuple[int, str], list[_Box]] = {}
        self._texts: dict[str, list[str]] = {}

    def add(self, element: str) -> None:
        """Draws the next element."""
        if found := _RECTANGLE.match(element):
            left, top, wide, tall = (int(found[at]) for at in (1, 2, 3, 4))
            self._box((left, top, left + wide, top + tall), found[5])
        elif found := _LETTERS.match(element):
            look = " ".join(_PLACE.sub("", found[1]).replace('opacity="1" ', "").split())
            place = " ".join(f"{name}='{at}'" for name, at in _PLACE.findall(found[1]))
            self._texts.setdefault(look, []).append(f"<text {place}>{found[2].strip()}</text>")
        elif (found := _POLYGON.match(element)) and (boxes := _boxes(found[2])):
            for box in boxes:
                self._box(box, found[1])
        else:
            self._flush()
            self._done.append(element.strip())

    def _box(self, box: _Box, colour: str) -> None:
        left, top, right, bottom = (max(one, 0) for one in box)
        below = self._levels[top:bottom, left:right]
        level = int(below.max(initial=0)) + 1
        below[:] = level
        self._boxes.setdefault((level, colour), []).append(box)

    def _flush(self) -> None:
        layers = [
            (colour, boxes) for (_, colour), boxes in sorted(self._boxes.items(), key=lambda one: one[0][0])
        ]
        if self._as_pixels and sum(len(boxes) for _, boxes in layers) > _MANY:
            self._done.append(_image(layers))
        else:
            self._done += [f"<path fill='{colour}' d='{_path(boxes)}'/>" for colour, boxes in layers]
        self._done += [f"<g {look}>{''.join(texts)}</g>" for look, texts in self._texts.items()]
        self._boxes, self._texts = {}, {}

    def written(self) -> str:
        """All that was drawn."""
        self._flush()
        return "".join(self._done)


#: From so many boxes on, their image takes fewer bytes.
_MANY = 40


def _boxes(points: str) -> list[_Box]:
    """The boxes of a shape that stand side by side on its lower edge; none if it is another shape."""
    corners = [int(one) for point in points.split() for one in point.split(",")]
    boxes = []
    for at in range(0, len(corners), 8):
        one = corners[at : at + 8]
        if len(one) < 8 or one != [one[0], one[1], one[0], one[3], one[4], one[3], one[4], one[1]]:
            return []
        boxes.append((one[0], one[3], one[4], one[1]))
    return boxes


def _path(boxes: Iterable[_Box]) -> str:
    return "".join(
        f"M{left} {top}h{right - left}v{bottom - top}h{left - right}z" for left, top, right, bottom in boxes
    )


def _image(layers: Sequence[tuple[str, Sequence[_Box]]]) -> str:
    """Boxes of colours, the lowest first, as an image of one pixel for one of the picture."""
    every = numpy.array([box for _, boxes in layers for box in boxes])
    (left, top), (right, bottom) = every[:, :2].min(axis=0), every[:, 2:].max(axis=0)
    pixels = numpy.zeros((bottom - top, right - left), dtype=numpy.uint8)
    colours = list(dict.fromkeys(colour for colour, _ in layers))
    for colour, boxes in layers:
        number = colours.index(colour) + 1
        for box in boxes:
            pixels[box[1] - top : box[3] - top, box[0] - left : box[2] - left] = number
    data = base64.b64encode(_png(pixels, colours)).decode()
    tall, wide = pixels.shape
    return (
        f"<image x='{left}' y='{top}' width='{wide}' height='{tall}' style='image-rendering:pixelated' "
        f"href='data:image/png;base64,{data}'/>"
    )


def _png(pixels: NDArray[numpy.uint8], colours: Sequence[str]) -> bytes:
    """An image (PNG, ISO/IEC 15948) of the numbers of colours, from 1; 0 is transparent."""
    tall, wide = pixels.shape
    rows = numpy.concatenate([numpy.zeros((tall, 1), dtype=numpy.uint8), pixels], axis=1)
    palette = bytes(3) + b"".join(bytes.fromhex(colour[1:]) for colour in colours)
    chunks = {
        b"IHDR": struct.pack(">IIBBBBB", wide, tall, 8, 3, 0, 0, 0),
        b"PLTE": palette,
        b"tRNS": b"\0",
        b"IDAT": zlib.compress(rows.tobytes(), 9),
        b"IEND": b"",
    }
    parts = [
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks.items()
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)
