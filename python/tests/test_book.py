"""What the READMEs and the pages of the book show is so: commands, files and Python, page by page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import book
import doors
import pytest

ROOT = book.ROOT
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for page in [ROOT / "README.md", ROOT / "python" / "README.md", *ROOT.glob("docs/**/*.md")]
    if page != ROOT / "docs" / "rules.md"
)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_works_as_it_is_typed(page: str, tmp_path: Path, command: doors.Command) -> None:
    if "```python" in (ROOT / page).read_text(encoding="utf-8"):
        pytest.importorskip("pandas", reason="there is no pandas here")
    book.Reader(ROOT / page, tmp_path, command.path).read()


# Words that read as translated. Blocks and code are left out, and so is what the program generates.
WORDS = re.compile(
    r"\b(?:told|anew|borne|lies|whoever|dealt|undercuts?|hangs on|comes to|in place of|so many)\b",
    re.IGNORECASE,
)
# The same of help and messages, which are texts of the sources: those of more than one word.
IN_MESSAGES = re.compile(
    r"\b(?:told|anew|borne|whoever|nobody|beneath|at hand|foretold|lies?\b(?= in| on| between)|"
    r"(?<!there )(?:is|are) no (?:number|time|multiple|name|file|table|trace|record|schedule)|"
    r"hangs on|comes to|in place of|undercuts?|dealt)\b",
    re.IGNORECASE,
)
LITERALS = re.compile(r'//[^\n]*|b?"((?:[^"\\]|\\.)*)"|\'(?:\\.|[^\'\\])\'', re.DOTALL)
LEFT_OUT = re.compile(
    r"<!-- generated: .*?<!-- end of generated -->|^(`{3,}|:{3,}).*?^\1 *$|`[^`\n]*`",
    re.DOTALL | re.MULTILINE,
)


def translated(text: str) -> list[str]:
    """The words of `text` that read as translated."""
    return WORDS.findall(" ".join(LEFT_OUT.sub(" ", text).split()))


def test_pages_use_the_words_of_the_field() -> None:
    assert translated("It lies there.\n```text\nlies\n```\nTold `anew`, in\nplace of x") == [
        "lies",
        "Told",
        "in place of",
    ]
    found = {page: translated((ROOT / page).read_text(encoding="utf-8")) for page in PAGES}
    assert not {page: words for page, words in found.items() if words}


def messages(source: str) -> list[str]:
    """The texts of more than one word in a file of Rust, up to its tests."""
    source = source.partition("#[cfg(test)]\nmod tests {")[0]
    texts = [re.sub(r"\\\n\s*", "", text) for text in LITERALS.findall(source)]
    return [text for text in texts if " " in text]


def test_messages_use_the_words_of_the_field() -> None:
    assert messages('// "not this"\nlet a = "so";\nlet b = "it is \\\n    told";') == ["it is told"]
    words = [
        IN_MESSAGES.findall(text)
        for text in ("it is no number", "there is no file", "sizes in place of times")
    ]
    assert [bool(found) for found in words] == [True, False, True]
    tests = re.compile(r"(^|/)(tests|benches|fuzzer)(/|\.rs$)|_tests?\.rs$")
    sources = [path for path in ROOT.glob("*/**/*.rs") if not tests.search(path.relative_to(ROOT).as_posix())]
    found = {
        path.relative_to(ROOT).as_posix(): words
        for path in sources
        if "target" not in path.relative_to(ROOT).parts
        for text in messages(path.read_text(encoding="utf-8"))
        if (words := IN_MESSAGES.findall(text))
    }
    assert len(sources) > 500
    assert not found


def test_readers_see_what_differs(tmp_path: Path, command: doors.Command) -> None:
    page = tmp_path / "page.md"
    fence = "```"
    page.write_text(
        f"{fence}{{code-block}} toml\n:caption: one.toml\n\nstages = 2\n{fence}\n"
        f"{fence}{{code-block}} toml\n:caption: two.toml\n\nstages = 2\n{fence}\n"
        f"{fence}console\n$ cat one.toml\nstages = 3\n$ WORD=so\n{fence}\n"
        f"{fence}console\n$ echo $WORD; echo and; echo on\n...\non\n$ false\n"
        f"$ debubble schedules \\\n    --wrong\n{fence}\n"
        f"{fence}python\nprint(1)\n{fence}\n\n{fence}text\n2\n{fence}\n"
        f"{fence}sh\nmake nothing\ndebubble simulate --no-such-flag\n"
        f"srun debubble simulate --stages 4\n{fence}\n",
        encoding="utf-8",
    )
    folder = tmp_path / "typed"
    folder.mkdir()
    reader = book.Reader(page, folder, command.path)
    with pytest.raises(AssertionError):
        reader.read()
    said = [failure.partition("\n")[0] for failure in reader.failures]
    assert said == [
        "$ cat one.toml",
        "$ false",
        "$ debubble schedules \\",
        "print(1)",
        "make has no target nothing",
        "debubble simulate --no-such-flag",
        "no command reads two.toml",
    ]


def test_what_is_left_out_may_be_anything() -> None:
    assert book.matches("a\nb\nc\n", "a\n...\nc\n")
    assert book.matches("took 5 s  \n", "took [..] s\n")
    assert not book.matches("took 5 ms\n", "took [..] s\n")
    assert not book.matches("a\nb\n", "a\n")
    assert not book.matches("", "a\n")


def test_measured_numbers_may_be_others() -> None:
    assert book.matches("step   509.0 ms  -1.57 %\n", "step  17.135 s  +0.1 %\n", measured=True)
    assert not book.matches("step   509.0 ms  -1.57 %\n", "span  509.0 ms  -1.57 %\n", measured=True)


def test_the_readme_is_short() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count("\n") < 200
    # A table of links has words of its own.
    words = re.sub(r"\]\([^)]*\)|<!--.*?-->|<[^>]*>", " ", text).split()
    assert len(words) < 1000
    links = [*re.findall(r"\]\(([^)#]+)", text), *re.findall(r'(?:src|srcset)="([^"]+)"', text)]
    missing = [link for link in links if not link.startswith("https://") and not (ROOT / link).exists()]
    assert links and not missing


def test_the_animation_is_what_the_program_answers(tmp_path: Path, command: doors.Command) -> None:
    subprocess.run([sys.executable, ROOT / "tests" / "hero.py", command.path, tmp_path], check=True)
    for name in ("hero-light.svg", "hero-dark.svg"):
        drawn = (tmp_path / name).read_text(encoding="utf-8")
        assert drawn == (ROOT / "results" / name).read_text(encoding="utf-8"), f"{name}: run make hero"
        # A frame for each limit, one of them where nothing may move.
        assert drawn.count('class="frame ') == 4
        assert drawn.count(" still") == 1
        ElementTree.fromstring(drawn)
