"""The types of keys are what the schemas say."""

from __future__ import annotations

import runpy
import typing
from pathlib import Path

import pytest

import debubble as db

TOOL = Path(__file__).resolve().parents[1] / "tools" / "keys.py"


@pytest.mark.skipif(not TOOL.exists(), reason="the tool that writes the types is not here")
def test_the_types_of_keys_are_what_the_tool_writes() -> None:
    tool = runpy.run_path(str(TOOL))
    assert tool["FILE"].read_text(encoding="utf-8") == tool["text"]()


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        ("scenario", "QuestionKeys"),
        ("search", "SearchKeys"),
        ("failures", "FailureKeys"),
        ("replay", "ReplayKeys"),
        ("fsdp", "FsdpKeys"),
        ("rl", "RlKeys"),
        ("encoder", "EncoderKeys"),
        ("plan", "PlanKeys"),
    ],
)
def test_every_key_of_a_schema_has_a_type(schema: str, name: str) -> None:
    from debubble import _keys

    typed: set[str] = set()
    for base in getattr(_keys, name).__mro__:
        typed |= set(getattr(base, "__annotations__", {}))
    # These take keys of their question, too.
    schemas = [schema, "scenario"] if schema in ("search", "failures") else [schema]
    assert typed == {key.replace("-", "_") for one in schemas for key in db.schema(one)["properties"]}


def test_no_key_is_also_another_keyword() -> None:
    from debubble import _keys

    for function, keys in [
        (db.search, _keys.SearchKeys),
        (db.failures, _keys.FailureKeys),
        (db.replay, _keys.ReplayKeys),
        (db.fsdp, _keys.FsdpKeys),
        (db.rl, _keys.RlKeys),
        (db.encoder, _keys.EncoderKeys),
        (db.plan, _keys.PlanKeys),
    ]:
        own = set(function.__annotations__) - {"return", "keys"}
        assert not own & set(typing.cast("typing.Any", keys).__annotations__)
