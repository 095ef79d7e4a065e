"""The file that keeps a model's answers: JSON lines, one for each request with its answer.

The first line says what the file is. Nothing in it depends on when or where it was written: message
ids are left out, and those of tool calls are numbered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from pydantic import SecretStr

from agent_factory.errors import describe
from agent_factory.testing.comparison import first_difference, plain
from agent_factory.testing.fake_model import tool_name

REDACTED = "[redacted]"

SECRET_KEYS = (
    r"api[-_]?key",
    r"authorization",
    r"cookie",
    r"credential",
    r"passw(or)?d",
    r"private[-_]?key",
    r"secret",
    r"(^|access|auth|bearer|refresh|session)[-_]?token$",
)
"""Patterns of keys whose values are never written, in small and capital letters."""

# Keys as their issuers document them: OpenAI and Anthropic (sk-), Google, GitHub, Slack, AWS.
_SECRET_TEXTS = re.compile(
    r"\b(sk-[\w-]{16,}|AIza[\w-]{30,}|gh[pousr]_\w{20,}|xox[a-z]-[\w-]{10,}|AKIA[0-9A-Z]{16})"
    r"|(?i:\bbearer\s+[\w.~+/-]{8,}=*)"
)

Redact = Callable[[str], str]


class Redaction:
    """Takes secrets out of plain data.

    Args:
        keys: Further patterns of keys.
        redact: Rewrites every text.
        secrets: Texts that must not appear anywhere.
    """

    def __init__(
        self, keys: Sequence[str] = (), redact: Redact | None = None, secrets: Sequence[str] = ()
    ) -> None:
        self.keys = tuple(keys)
        self._keys = re.compile("|".join([*SECRET_KEYS, *keys]), re.IGNORECASE)
        self._redact = redact
        self._secrets = sorted(filter(None, secrets), key=len, reverse=True)

    def __call__(self, value: Any) -> Any:
        """The value without its secrets."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return {k: self._entry(str(k), v) for k, v in value.items()}
        return [self(item) for item in value] if isinstance(value, list) else value

    def _entry(self, key: str, value: Any) -> Any:
        return REDACTED if value and self._keys.search(key) else self(value)

    def _text(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        text = _SECRET_TEXTS.sub(REDACTED, text)
        return text if self._redact is None else self._redact(text)


def secrets_of(model: BaseChatModel) -> Iterator[str]:
    """The secrets that a model holds itself."""
    for value in vars(model).values():
        if isinstance(value, SecretStr):
            yield value.get_secret_value()


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
