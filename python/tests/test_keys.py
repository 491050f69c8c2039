"""The types of keys are what the schemas say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import debubble as db

TOOL = Path(__file__).resolve().parents[1] / "tools" / "keys.py"


@pytest.mark.skipif(not TOOL.exists(), reason="the tool that writes the types is not here")
def test_the_types_of_keys_are_what_the_tool_writes() -> None:
    tool = runpy.run_path(str(TOOL))
    assert tool["FILE"].read_text(encoding="utf-8") == tool["text"]()


@pytest.mark.skipif(not TOOL.exists(), reason="the tool that finds the kinds of questions is not here")
def test_every_key_of_a_schema_has_a_type_and_is_no_other_keyword() -> None:
    from debubble import _keys

    kinds = runpy.run_path(str(TOOL))["kinds"]()
    assert {"search", "failures", "replay", "fsdp", "rl", "encoder", "plan"} <= set(kinds)
    for schema, (name, base) in {"scenario": ("QuestionKeys", ""), **kinds}.items():
        typed: set[str] = set()
        for one in getattr(_keys, name).__mro__:
            typed |= set(getattr(one, "__annotations__", {}))
        schemas = [schema, "scenario"] if base == "QuestionKeys" else [schema]
        assert typed == {key.replace("-", "_") for one in schemas for key in db.schema(one)["properties"]}
        function = getattr(db, schema, None)
        if function is not None:
            assert not (set(function.__annotations__) - {"return", "keys"}) & typed
