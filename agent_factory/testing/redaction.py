"""What must not be written to a file: keys, tokens, and whatever else a test is told to keep."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

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
