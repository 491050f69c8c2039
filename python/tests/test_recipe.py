"""`python -m debubble.recipe`: each key with the value that a framework, here a stand-in, really has."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).parents[1] / "debubble" / "recipe.py"
FRAMEWORK = '''
import dataclasses, enum
__version__ = "1.2"
class Backend(enum.Enum):
    flash = 2
class Graph(enum.Enum):
    FULL = "full_iteration"
@dataclasses.dataclass
class Model:
    tensor_model_parallel_size: int = 1
    seq_length: int = 4096
    attention_backend: Backend = Backend.flash
    scopes: list = dataclasses.field(default_factory=lambda: [Graph.FULL])
    activation: object = len
    def __post_init__(self):
        self.ffn_hidden_size = 4 * 1024
@dataclasses.dataclass
class Train:
    global_batch_size: int
    micro_batch_size: int = 1
@dataclasses.dataclass
class Container:
    model: Model
    train: Train
class Config:
    """As those of Fiddle."""
    def __init__(self, made, **arguments):
        self.__fn_or_cls__, self.__arguments__ = made, arguments
class Plain:
    def __init__(self):
        self.a, self._hidden, self.table = 1.5, 2, {"b": float("inf"), "x.y": 3, "ring": self}
def recipe(tp=2, batch=64):
    return Container(Model(tensor_model_parallel_size=tp), Train(batch))
def later():
    return Config(Container, model=Config(Model, seq_length=8), train=Config(Train, global_batch_size=3))
def plain():
    return Plain()
def number():
    return 3
'''


@pytest.fixture
def framework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "fakework.py").write_text(FRAMEWORK)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "fakework", raising=False)
    return tmp_path


def written(name: str, **arguments: Any) -> dict[str, Any]:
    """What the file says of a recipe, without the package around it."""
    found: dict[str, Any] = runpy.run_path(str(FILE))["document"](f"fakework:{name}", arguments)
    return json.loads(json.dumps(found))


def test_every_key_has_its_value(framework: Path) -> None:
    found = written("recipe", tp=8)
    header = {"module": "fakework", "function": "recipe", "framework": "fakework 1.2", "arguments": ["tp"]}
    assert found["debubble_recipe"] == header
    assert found["keys"] == {
        "class": "Container",
        "model.class": "Model",
        "model.tensor_model_parallel_size": 8,
        "model.seq_length": 4096,
        "model.attention_backend": "flash",
        "model.scopes": ["full_iteration"],
        "model.activation": "len",
        "model.ffn_hidden_size": 4096,
        "train.class": "Train",
        "train.global_batch_size": 64,
        "train.micro_batch_size": 1,
    }


def test_objects_that_are_made_later_have_their_defaults(framework: Path) -> None:
    keys = written("later")["keys"]
    assert (keys["class"], keys["model.class"]) == ("Container", "Model")
    assert (keys["model.seq_length"], keys["model.tensor_model_parallel_size"]) == (8, 1)
    assert (keys["train.global_batch_size"], keys["train.micro_batch_size"]) == (3, 1)


def test_rings_and_names_that_are_no_keys_are_left_out(framework: Path) -> None:
    assert written("plain")["keys"] == {"class": "Plain", "a": 1.5, "table.b": "inf"}


def test_the_command_writes_json_and_says_what_is_wrong(framework: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(FILE), *words]
        return subprocess.run(command, capture_output=True, text=True, cwd=framework)

    text = run("fakework:recipe", "--set", "tp=4", "--set", "batch=16")
    assert json.loads(text.stdout)["keys"]["train.global_batch_size"] == 16
    for words, says in [
        (["fakework"], "module:function"),
        (["nothere:a"], "nothere"),
        (["fakework:nothere"], "nothere"),
        (["fakework:number"], "no fields"),
        (["fakework:recipe", "--set", "other=1"], "other"),
        (["fakework:recipe", "--set", "tp"], "name=value"),
    ]:
        wrong = run(*words)
        assert wrong.returncode != 0 and says in wrong.stderr, (words, wrong.stderr)
        assert "Traceback" not in wrong.stderr


def test_depth_and_number_are_bounded() -> None:
    module = runpy.run_path(str(FILE))
    deep: dict[str, Any] = {}
    inner = deep
    for _ in range(5000):
        inner["a"] = inner = {}
    writer = module["_Writer"]()
    writer.add("", deep, ())
    assert writer.count < 100
    with pytest.raises(ValueError, match="more than"):
        module["_Writer"]().add("", {"a": list(range(60_000))}, ())
