"""The command line, run in the process of a test."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from agent_factory.cli.app import app


def run(*words: str) -> Result:
    """The result of a command."""
    return CliRunner().invoke(app, list(words))
