"""Play a cassette: a chat model that answers as the recorded one did, and to nothing else."""

from __future__ import annotations

import builtins
from pathlib import Path
from threading import Lock
from typing import Any, Self

from langchain_core.messages import AIMessage, BaseMessage
from pydantic import PrivateAttr

from agent_factory.testing.fake_model import SpeakingModel
from agent_factory.testing.recordings.cassette import (
    CassetteError,
    CassetteMismatch,
    Entry,
    Redact,
    Redaction,
    mismatch,
    read_cassette,
    request_of,
)
from agent_factory.testing.responses import Reply, Said


class ReplayedError(RuntimeError):
    """The recorded model raised an error that cannot be made again.

    Attributes:
        kind: The name of the class it had.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


def replay(path: str | Path, *, redact: Redact | None = None) -> ReplayChatModel:
    """A chat model that answers from a cassette.

    Each answer is given once, to the request it was recorded for: the same messages, tools and
    settings, ids aside. Requests that run side by side may come in another order.

    Args:
        path: What `record` wrote.
        redact: The function that was given to `record`, if there was one.

    Raises:
        FileNotFoundError: There is no such file.
        CassetteError: It is no cassette, or was redacted by a function that is not given.
    """
    cassette = read_cassette(path)
    by = cassette.head.get("redacted_by")
    if by and redact is None:
        raise CassetteError(
            f"{path}: was redacted by {by}. Give it here too: replay(path, redact={by})."
        )
    model = ReplayChatModel(path=Path(path), profile=cassette.head.get("profile") or None)
    model._left = list(enumerate(cassette.entries, 1))
    model._redaction = Redaction(cassette.head.get("redacted_keys", ()), redact)
    model._model_name = cassette.head.get("model_name")
    return model


class ReplayChatModel(SpeakingModel):
    """A chat model that plays a cassette. `replay` makes it.

    In a `with` block it insists at the end that all of it was played.
    """

    path: Path
    _left: list[tuple[int, Entry]] = PrivateAttr(default_factory=list)
    _redaction: Redaction = PrivateAttr(default_factory=Redaction)
    _model_name: str | None = PrivateAttr(default=None)
    _mismatch: str = PrivateAttr(default="")
    _lock: Any = PrivateAttr(default_factory=Lock)

    @property
    def _llm_type(self) -> str:
        return "replayed"

    @property
    def model_name(self) -> str | None:
        """The name of the recorded model."""
        return self._model_name

    @property
    def mismatch(self) -> str:
        """What the first request asked that is not on the cassette; empty so far."""
        return self._mismatch

    def assert_done(self) -> None:
        """Fail if answers were never asked for, or something else was.

        Raises:
            CassetteMismatch: So it is.
        """
        if self._mismatch:
            raise self._error(self._mismatch)
        if self._left:
            many, number = len(self._left), self._left[0][0]
            raise self._error(f"{many} answers were never asked for; the next is number {number}.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if kind is None:
            self.assert_done()

    def _say(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> Said:
        request = self._redaction(request_of(messages, stop, kwargs))
        with self._lock:
            return _said(self._found(request).answer)

    def _found(self, request: dict[str, Any]) -> Entry:
        for index, (_, entry) in enumerate(self._left):
            if entry.request == request:
                del self._left[index]
                return entry
        words = self._why_not(request)
        self._mismatch = self._mismatch or words
        raise self._error(words)

    def _why_not(self, request: dict[str, Any]) -> str:
        if not self._left:
            return "it is played to its end, and one more request came."
        number, entry = self._left[0]
        words = mismatch(entry.request, request)
        return f"request {number} differs: {words}."

    def _error(self, words: str) -> CassetteMismatch:
        return CassetteMismatch(f"{self.path}: {words} Record it anew if that is right.")


def _said(answer: dict[str, Any]) -> Said:
    if "error" in answer:
        return Said(AIMessage(""), Reply(error=_error(answer["error"], answer.get("text", ""))))
    return Said(AIMessage(**answer))


def _error(kind: str, text: str) -> Exception:
    known = getattr(builtins, kind, None)
    if isinstance(known, type) and issubclass(known, Exception):
        try:
            return known(text)
        except TypeError:  # one that takes more than a text, as UnicodeDecodeError does
            return ReplayedError(kind, text)
    return ReplayedError(kind, text)
