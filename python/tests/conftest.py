"""What the tests share: the command line and a Rust program beside the package."""

from __future__ import annotations

import doors
import pytest


@pytest.fixture(scope="session")
def command() -> doors.Command:
    """The command line; without one the test is skipped."""
    return doors.command()


@pytest.fixture(scope="session")
def example() -> doors.Command:
    """The Rust program that answers questions from its input; without one the test is skipped."""
    return doors.example()
