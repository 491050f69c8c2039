"""Draws the animation at the top of the README: how the best schedule changes with the memory limit.

hero.py PROGRAM FOLDER writes hero-light.svg and hero-dark.svg there. All figures and timelines are answers of
the program to `scenarios/first.toml`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path
from typing import Any

SCENARIO = Path(__file__).resolve().parents[1] / "scenarios" / "first.toml"
LIMITS = [40, 32, 24, 17]
SEARCHED = "zb-auto"
SCHEDULES = ["1f1b", "zb-h1", "v-half", "v-adaptive", "zb-v", SEARCHED]
SECONDS = 2.5
GIB = 1 << 30

WIDTH, HEIGHT = 880, 604
LEFT, BAR, ROW, TOP = 130, 300, 25, 84
# The largest bubble and memory of the axes.
MOST_BUBBLE, LEAST_MEMORY, MOST_MEMORY = 0.30, 12, 44
TIMELINE = 246

# Colours of the program, and those for them on a dark ground: passes as on the dark page, with dark lines for
# later chunks. The bound is dashed on white on either ground.
DARK = {
    '"#222222"(?! stroke-width="2")': '"#e6edf3"',
    '"#F7F7F7"': '"#30363d"',
    '"#D8D8D8"': '"#3d444d"',
    '"#225F93"': '"#5b9fe0"',
    '"#1A528A"': '"#4a8ccb"',
    '"#AB5D04"': '"#e39245"',
    '"#9F5104"': '"#cf7f33"',
    '"#269979"': '"#45c39b"',
    '"#198D6C"': '"#36ad87"',
    '(?<=<polygon opacity="1" fill=)"#FFFFFF"': '"#101214"',
}
THEMES = {
    "light": {
        "ground": "#ffffff",
        "ink": "#222222",
        "pale": "#6e7781",
        "bar": "#0072b2",
        "best": "#1a7f37",
    },
    "dark": {
        "ground": "#0d1117",
        "ink": "#e6edf3",
        "pale": "#8b949e",
        "bar": "#56b4e9",
        "best": "#3fb950",
    },
}


def asked(program: Path, words: list[str]) -> Any:
    """The answer of the program as JSON."""
    ran = subprocess.run(
        [program, *words, "--json"], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    return json.loads(ran.stdout)


class Frame:
    """The answers under one memory limit."""

    def __init__(self, program: Path, limit: int) -> None:
        question = [str(SCENARIO), "--memory-limit", f"{limit}GiB"]
        simulated = asked(program, ["simulate", *question, "--schedule", ",".join(SCHEDULES)])["results"]
        with tempfile.TemporaryDirectory() as folder:
            picture = Path(folder) / "found.svg"
            drawn = ["--svg", str(picture), "--width", f"{WIDTH}px"]
            self.found = asked(program, ["search", *question, *drawn])["results"][0]
            self.timeline = body(picture.read_text(encoding="utf-8"))
        self.limit = limit
        self.rows = [
            (one["schedule"], one["bubble_rate"], max(one["peak_activation_bytes"]) / GIB, one["fits"])
            for one in simulated
        ]

    def best_published(self) -> str:
        """The published schedule with the least bubble of those that fit."""
        return min((rate, name) for name, rate, _, fits in self.rows[:-1] if fits)[1]


def body(svg: str) -> str:
    """What a picture of the program shows, without its ground and its title."""
    inner = svg[svg.index("</desc>") + len("</desc>") : svg.rindex("</svg>")]
    inner = re.sub(r"<rect[^>]*/>", "", inner, count=1)
    return re.sub(r"<text[^>]*>\n[^<]* stages, [^<]* microbatches\n</text>", "", inner, count=1)


def text(at: tuple[float, float], words: str, theme: dict[str, str], **style: str) -> str:
    """A line of text."""
    style = {"fill": theme["ink"], "font-family": "sans-serif", "font-size": "14", **style}
    attributes = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<text x="{at[0]:g}" y="{at[1]:g}"{attributes}>{escape(words)}</text>\n'


def slider(frame: Frame, theme: dict[str, str]) -> str:
    """The memory limit as a knob on a line."""
    along = (frame.limit - LEAST_MEMORY) / (MOST_MEMORY - LEAST_MEMORY)
    x = LEFT + BAR * along
    return (
        text((20, 62), "memory limit", theme)
        + f'<path d="M{LEFT},57h{BAR}" stroke="{theme["pale"]}" stroke-width="4" stroke-linecap="round"/>\n'
        + f'<circle cx="{x:g}" cy="57" r="8" fill="{theme["ink"]}"/>\n'
        + text((LEFT + BAR + 24, 62), f"{frame.limit} GiB of activations per GPU", theme, font_weight="bold")
    )


def bars(frame: Frame, theme: dict[str, str]) -> str:
    """A bar for the bubble of each schedule, grey where it does not fit."""
    best = frame.best_published()
    drawn = ""
    for number, (name, rate, peak, fits) in enumerate(frame.rows):
        y = TOP + ROW * number
        ink = theme["ink"] if fits else theme["pale"]
        colour = theme["best"] if name in (best, SEARCHED) else theme["bar"]
        weight = "bold" if name in (best, SEARCHED) else "normal"
        width = BAR * min(rate, MOST_BUBBLE) / MOST_BUBBLE
        drawn += text(
            (20, y + 15), "searched" if name == SEARCHED else name, theme, fill=ink, font_weight=weight
        )
        fill = colour if fits else theme["pale"]
        drawn += f'<rect x="{LEFT}" y="{y + 3}" width="{width:.1f}" height="15" fill="{fill}"/>\n'
        said = f"{rate:.2%}, peak {peak:.1f} GiB"
        if name == best:
            said += ", best published"
        elif not fits:
            said += ", does not fit"
        elif name == SEARCHED:
            bound = frame.found["bound_rate"]
            at = LEFT + BAR * bound / MOST_BUBBLE
            dashes = 'stroke-width="2" stroke-dasharray="4 2"'
            drawn += f'<path d="M{at:.1f},{y - 1}v23" stroke="{ink}" {dashes}/>\n'
            is_optimal = frame.found["cost_ns"] == frame.found["bound_ns"]
            said += ", proved: " + ("optimal" if is_optimal else f"none below {bound:.2%}")
        drawn += text((LEFT + BAR + 24, y + 15), said, theme, fill=ink, font_weight=weight)
    return drawn


def timeline(frame: Frame, name: str) -> str:
    """The order that was found, as the program draws it."""
    drawn = frame.timeline
    if name == "dark":
        for light, dark in DARK.items():
            drawn = re.sub(light, dark, drawn)
    return f'<g transform="translate(0,{TIMELINE})">{drawn}</g>\n'


def picture(frames: list[Frame], name: str) -> str:
    """All frames, one after the other, and the second of them where nothing may move."""
    theme = THEMES[name]
    shown = 100 / len(frames)
    style = (
        ".frame{visibility:hidden}.still{visibility:visible}"
        "@media(prefers-reduced-motion:no-preference)"
        f"{{.frame{{animation:turn {SECONDS * len(frames):g}s step-end infinite}}"
        + "".join(f".f{at}{{animation-delay:{(at - len(frames)) * SECONDS:g}s}}" for at in range(len(frames)))
        + f"}}@keyframes turn{{0%{{visibility:visible}}{shown:g}%{{visibility:hidden}}}}"
    )
    said = ", ".join(f"{frame.best_published()} under {frame.limit} GiB" for frame in frames)
    parts = [
        f'<svg role="img" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
        ' xmlns="http://www.w3.org/2000/svg">\n'
        "<title>The best schedule by memory limit</title>\n"
        f"<desc>GPT 6.2B over 8 stages, 24 microbatches. Best published schedule: {said}. Below, the order"
        " that a search finds, with the bound that is proved.</desc>\n"
        f"<style>{style}</style>\n"
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{theme["ground"]}"/>\n',
        text((20, 28), "GPT 6.2B, 8 stages, 24 microbatches: bubble by schedule", theme, font_weight="bold"),
    ]
    for number, frame in enumerate(frames):
        still = " still" if number == 1 else ""
        drawn = slider(frame, theme) + bars(frame, theme) + timeline(frame, name)
        parts.append(f'<g class="frame f{number}{still}">\n{drawn}</g>\n')
    return "".join(parts) + "</svg>\n"


def main() -> None:
    """Asks and draws."""
    program, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    frames = [Frame(program, limit) for limit in LIMITS]
    for name in THEMES:
        (folder / f"hero-{name}.svg").write_text(picture(frames, name), encoding="utf-8")


if __name__ == "__main__":
    main()
