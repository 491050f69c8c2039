"""What the tests share: the command line and a Rust program beside the package."""

from __future__ import annotations

import signal

import doors
import pytest

# Shells start jobs in the background with Ctrl-C ignored: a test that presses it would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def command() -> doors.Command:
    """The command line; without one the test is skipped."""
    return doors.command()


@pytest.fixture(scope="session")
def example() -> doors.Command:
    """The Rust program that answers questions from its input; without one the test is skipped."""
    return doors.example()
