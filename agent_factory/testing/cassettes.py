"""The file that keeps a model's answers: JSON lines, one for each request with its answer.

The first line says what the file is. Nothing in it depends on when or where it was written: message
ids are left out, and those of tool calls are numbered.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage

from agent_factory.errors import describe
from agent_factory.testing.plain import first_difference, plain
from agent_factory.testing.redaction import Redaction
from agent_factory.testing.speaking import tool_name

FORMAT = "agent_factory.cassette"
VERSION = 1
"""Of the format. It grows when an older reader would misread a file."""

_REMEDY = "Record it anew with record(model, path)."


class CassetteError(ValueError):
    """A file is no cassette that this version can read."""


class CassetteMismatch(AssertionError):
    """A model was asked what is not on its cassette, or not all that is."""


@dataclass(frozen=True)
class Entry:
    """One request with its answer, as plain data.

    Args:
        request: Messages, tools and settings.
        answer: The message's fields, or the error.
    """

    request: dict[str, Any]
    answer: dict[str, Any]


@dataclass(frozen=True)
class Cassette:
    """What a file holds.

    Args:
        head: What the file is, and of which model.
        entries: The requests with their answers, in order.
    """

    head: dict[str, Any]
    entries: list[Entry]


def head_of(model: str, redaction: Redaction, *, by: str, facts: dict[str, Any]) -> dict[str, Any]:
    """The first line of a cassette."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": model,
        "redacted_keys": list(redaction.keys),
        "redacted_by": by,
        **facts,
    }


def line_of(data: dict[str, Any]) -> str:
    """A line of the file."""
    return json.dumps(data, sort_keys=True, ensure_ascii=False, default=_shown) + "\n"


def _shown(value: Any) -> str:
    # An address in memory would differ from run to run.
    return f"<{type(value).__name__}>"


def request_of(
    messages: Sequence[BaseMessage], stop: Sequence[str] | None, kwargs: dict[str, Any]
) -> dict[str, Any]:
    """A request as plain data; of each tool its name, and a digest of what a model is told."""
    settings = {key: value for key, value in kwargs.items() if key != "tools"}
    settings |= {"stop": list(stop)} if stop else {}
    found = {
        "messages": list(messages),
        "tools": {tool_name(tool): _digest(tool) for tool in kwargs.get("tools", ())},
        "settings": settings,
    }
    request = plain({key: value for key, value in found.items() if value})
    return dict(json.loads(line_of(request)))


def _digest(tool: Any) -> str:
    return sha256(line_of(tool).encode()).hexdigest()[:8]


def read_cassette(path: str | Path) -> Cassette:
    """What a file holds.

    Raises:
        FileNotFoundError: There is no such file.
        CassetteError: It is no cassette, or of a newer version.
    """
    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(f"{file}: there is no such cassette. {_REMEDY}")
    lines = [_parsed(file, n, line) for n, line in enumerate(_lines(file), 1) if line.strip()]
    if not lines or lines[0].get("format") != FORMAT:
        raise CassetteError(f"{file}: is no cassette of agent_factory. {_REMEDY}")
    version = lines[0].get("version")
    if not isinstance(version, int) or version > VERSION:
        raise CassetteError(
            f"{file}: has version {version} of the format, and this agent_factory reads up to "
            f"{VERSION}. Upgrade agent-factory, or record it anew."
        )
    return Cassette(lines[0], [_entry(file, n, line) for n, line in enumerate(lines[1:], 2)])


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CassetteError(f"{file}: cannot be read: {error}. {_REMEDY}") from None


def _parsed(file: Path, number: int, line: str) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except ValueError as error:
        raise CassetteError(f"{file}:{number}: is no JSON: {error}. {_REMEDY}") from None
    if not isinstance(data, dict):
        raise CassetteError(f"{file}:{number}: is {describe(data)}. {_REMEDY}")
    return data


def _entry(file: Path, number: int, line: dict[str, Any]) -> Entry:
    request, answer = line.get("request"), line.get("answer")
    if not isinstance(request, dict) or not isinstance(answer, dict):
        raise CassetteError(f"{file}:{number}: lacks a request or its answer. {_REMEDY}")
    return Entry(request, answer)


def mismatch(recorded: dict[str, Any], asked: dict[str, Any]) -> str:
    """In words, where a request differs from the recorded one."""
    found = first_difference(recorded, asked)
    return found.words("was recorded", "is asked now") if found else ""
