"""The pages of the book, as somebody reads them who types all that they show.

A page is read from its top to its bottom in an empty folder, beside which lie the folders of a clone that
pages speak of. Its blocks, by what stands behind their fence:

- ``console``: behind ``$ `` a command for bash, which goes on while lines end with a backslash, and under it
  what it prints. Variables are kept for later blocks. ``...`` stands for any number of lines, ``[..]`` for
  anything within one; what is said of progress, and of a busy machine, does not count. A command must
  succeed.
- ``{code-block} console`` with ``:class: measured``: the same, whatever the numbers are.
- ``{code-block}`` with ``:caption: name.toml``: a file, which is written, and which commands must read.
- ``python``: is run, and shares its names with later blocks; ``text`` right behind it is what it prints.
- ``sh``: commands for other machines, which are not run. That debubble has the flags, and make the targets,
  is checked.
- ``{play}``: a question, which the program answers.

With DEBUBBLE_BOOK=overwrite what is printed is written into the pages: that is how they are made and renewed.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import warnings
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ["scenarios", "examples", "results", "tests"]

_FENCE = re.compile(
    r"^(?P<fence>`{3,}|:{3,})(?P<kind>\{?[\w-]+\}?)? *(?P<argument>[^\n`]*)\n(?P<body>.*?)^(?P=fence)[ ]*$",
    re.MULTILINE | re.DOTALL,
)
_OPTION = re.compile(r"^:([\w-]+): *(.*)\n", re.MULTILINE)
_NUMBER = re.compile(r"[+-]?\d[\d.,]*(?: ?(?:ns|us|ms|s|%|pp)\b)?")
_END = "\x1e"
# What depends on how fast and how busy the machine is.
_OF_THE_MOMENT = re.compile(r"progress: |note: .*(this machine is too busy|its own verdict is)")


@dataclass
class Block:
    """What stands between two fences: of which kind, with which options, and where its body lies."""

    kind: str
    argument: str
    options: dict[str, str]
    body: str
    begin: int
    end: int


def blocks(text: str) -> list[Block]:
    """The blocks of a page."""
    found = []
    for match in _FENCE.finditer(text):
        kind, body, begin = match["kind"] or "", match["body"], match.start("body")
        options = {}
        if kind.startswith("{"):
            while option := _OPTION.match(body):
                options[option[1]] = option[2]
                body, begin = body[option.end() :], begin + option.end()
            if options and body.startswith("\n"):
                body, begin = body[1:], begin + 1
        found.append(Block(kind, match["argument"].strip(), options, body, begin, match.end("body")))
    return found


def commands(body: str) -> list[tuple[str, str]]:
    """The commands of a console, each with what it is said to print."""
    found: list[tuple[list[str], list[str]]] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append(([line[2:]], []))
        elif found and not found[-1][1] and found[-1][0][-1].endswith("\\"):
            found[-1][0].append(line)
        else:
            assert found, f"a console begins with a command, not with: {line}"
            found[-1][1].append(line)
    return [("\n".join(command), "".join(f"{line}\n" for line in shown)) for command, shown in found]


def matches(printed: str, shown: str, measured: bool = False) -> bool:
    """Whether something was printed as it is shown, with other numbers where they are measured."""
    if measured:
        printed, shown = (re.sub("[ -]+", " ", _NUMBER.sub("#", text)) for text in (printed, shown))
    pattern = ""
    for line in shown.splitlines():
        if line == "...":
            pattern += "(?:.*\n)*?"
        else:
            pattern += ".*?".join(re.escape(part) for part in line.rstrip().split("[..]")) + " *\n"
    return re.fullmatch(pattern, printed) is not None


class Reader:
    """Somebody who types what the pages show, in the folder `folder`, with the program `program`."""

    def __init__(self, page: Path, folder: Path, program: str) -> None:
        self.page, self.folder, self.program = page, folder, program
        self.text = page.read_text(encoding="utf-8")
        self.names: dict[str, object] = {"__name__": "page"}
        self.typed: list[str] = []
        self.written: list[str] = []
        self.failures: list[str] = []
        self.changes: list[tuple[int, int, str]] = []
        for name in FOLDERS:
            (folder / name).symlink_to(ROOT / name)
        (folder / "bin").mkdir()
        (folder / "bin" / "debubble").symlink_to(program)

    def read(self) -> None:
        """Reads the page, and fails where it is not so."""
        found = blocks(self.text)
        for block, behind in zip(found, [*found[1:], None]):
            if block.kind == "console" or (block.kind, block.argument) == ("{code-block}", "console"):
                self.console(block)
            elif block.kind == "{code-block}" and "caption" in block.options:
                (self.folder / block.options["caption"]).write_text(block.body, encoding="utf-8")
                self.written.append(block.options["caption"])
            elif block.kind == "python":
                self.python(block, behind)
            elif block.kind == "sh":
                self.check(block)
            elif block.kind == "{play}":
                self.play(block)
        consoles = "".join(block.body for block in found if "console" in (block.kind, block.argument))
        self.failures += [f"no command reads {name}" for name in self.written if name not in consoles]
        if self.changes and os.environ.get("DEBUBBLE_BOOK") == "overwrite":
            text = self.text
            for begin, end, body in sorted(self.changes, reverse=True):
                text = text[:begin] + body + text[end:]
            self.page.write_text(text, encoding="utf-8")
        assert not self.failures, "\n\n".join(self.failures)

    def shell(self, lines: list[str]) -> list[tuple[str, int]]:
        """What each command prints, and how it ends. Variables of commands before are set."""
        script = "".join(f"{line}\nprintf '{_END}%d{_END}' $?\n" for line in lines)
        path = os.pathsep.join([str(self.folder / "bin"), os.environ["PATH"]])
        settings = {**os.environ, "PATH": path, "LC_ALL": "C.UTF-8"}
        ran = subprocess.run(
            ["bash", "-c", "".join(f"{line}\n" for line in self.typed) + script],
            cwd=self.folder,
            env=settings,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        parts = ran.stdout.decode().split(_END)
        self.typed += [line for line in lines if re.match(r"(export )?[A-Z_]+=", line)]
        return [(parts[at], int(parts[at + 1])) for at in range(0, 2 * len(lines), 2)]

    def console(self, block: Block) -> None:
        """Types the commands of a console."""
        asked = commands(block.body)
        body = ""
        for (command, shown), (printed, status) in zip(asked, self.shell([line for line, _ in asked])):
            kept = [line.rstrip() for line in printed.splitlines() if not _OF_THE_MOMENT.match(line)]
            printed = "".join(f"{line}\n" for line in kept)
            if status != 0:
                self.failures.append(f"$ {command}\nends with exit code {status}:\n{printed}")
            elif not matches(printed, shown, block.options.get("class") == "measured"):
                self.failures.append(f"$ {command}\nprints:\n{printed}\nbut the page shows:\n{shown}")
                shown = printed
            body += f"$ {command}\n{shown}"
        self.change(block, body)

    def python(self, block: Block, behind: Block | None) -> None:
        """Runs a block of Python."""
        shown = None
        if behind is not None and re.fullmatch(r"```\s*```text\n", self.text[block.end : behind.begin]):
            shown = behind
        printed, here = io.StringIO(), Path.cwd()
        os.chdir(self.folder)
        try:
            with contextlib.redirect_stdout(printed), warnings.catch_warnings():
                warnings.simplefilter("error")
                exec(compile(block.body, str(self.page), "exec"), self.names)
        except Exception as error:
            self.failures.append(f"{block.body}\nraises {error!r}")
            return
        finally:
            os.chdir(here)
        if not matches(printed.getvalue(), shown.body if shown else ""):
            self.failures.append(f"{block.body}\nprints:\n{printed.getvalue()}")
            if shown:
                self.change(shown, printed.getvalue())

    def check(self, block: Block) -> None:
        """Looks at commands for other machines: does debubble have these flags, and make these targets?"""
        rules = re.findall(r"^([\w -]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        targets = " ".join(rules).split()
        for line in block.body.replace("\\\n", " ").splitlines():
            words = line.split("#")[0]
            wanted = re.match(r"make ([\w-]+)", words)
            if wanted and wanted[1] not in targets:
                self.failures.append(f"make has no target {wanted[1]}")
            if asked := re.search(r"(?:^|[\s(])debubble ([^|;&>)]*)", words):
                own = asked[1].partition(" -- ")[0]
                [(printed, status)] = self.shell([f"debubble {own} --help"])
                if status != 0:
                    self.failures.append(f"{line}\n{printed}")

    def play(self, block: Block) -> None:
        """Asks the question of a page to play with."""
        if block.argument:
            file = block.argument
        else:
            file = "played.toml"
            (self.folder / file).write_text(block.body, encoding="utf-8")
        command = {"play": "simulate", "search": "search", "plan": "plan"}[block.options.get("view", "play")]
        [(printed, status)] = self.shell([f"debubble {command} {file}"])
        if status != 0:
            self.failures.append(f"{block.body}\n{printed}")

    def change(self, block: Block, body: str) -> None:
        """Notes what should stand in a block."""
        if body != block.body:
            self.changes.append((block.begin, block.end, body))
