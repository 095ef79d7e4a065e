"""The output of a command: kept within bounds while it is read, and cut to what a model may see."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence

KEPT_BYTES = 128 * 1024
"""Bytes that are kept of each end of an output, unless a policy asks for more."""

EDGE = 4096
"""Characters next to a gap that are not shown where something must be redacted.

What was dropped while it was read may have cut a secret in two, and half of it is not recognised.
Cards, addresses and tokens are shorter than this.
"""

Redact = Callable[[str], str]


class Output:
    """What a command prints: its beginning, its end, and how much it was.

    Args:
        keep: Bytes to keep of each end; what lies between is counted and dropped.

    >>> output = Output(keep=2)
    >>> for part in (b"abc", b"def"):
    ...     output.add(part)
    >>> output.ends(), output.size
    ((b'ab', b'ef'), 6)
    """

    def __init__(self, keep: int = KEPT_BYTES) -> None:
        self._keep = keep
        self._head = bytearray()
        self._tail = bytearray()
        self._newlines = 0
        self._last = b"\n"
        self.size = 0

    def add(self, data: bytes) -> None:
        """Take more of it."""
        if not data:
            return
        self.size += len(data)
        self._newlines += data.count(b"\n")
        self._last = data[-1:]
        room = self._keep - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._keep:
            del self._tail[: -self._keep]

    @property
    def lines(self) -> int:
        """How many lines it has; a last one without a newline counts."""
        return self._newlines + (self._last != b"\n")

    def ends(self) -> tuple[bytes, bytes | None]:
        """All of it and None; or, where something was dropped, its beginning and its end."""
        if self.size <= 2 * self._keep:
            return bytes(self._head + self._tail), None
        return bytes(self._head), bytes(self._tail[-self._keep :])


def shown(
    output: Output, max_lines: int, max_bytes: int | None, redact: Sequence[Redact] = ()
) -> tuple[str, bool]:
    """What a model is shown of an output, and whether that is less than all of it.

    It is redacted before it is cut, so that no cut can hide half of a secret from its rule. What
    is left out is left out of the middle: the end tells how it went, the beginning what it was.

    Args:
        output: What the command printed.
        max_lines: Lines to show.
        max_bytes: Bytes to show; None for all that was kept.
        redact: Applied in turn to the text.
    """
    first, last = output.ends()
    head, tail = _texts(first, last, redact)
    if tail is None and _fits(head, max_lines, max_bytes):
        return head, False
    whole = head if tail is None else tail
    head = _cut(head, (max_lines + 1) // 2, max_bytes and (max_bytes + 1) // 2)
    tail = _cut(whole, max_lines // 2, max_bytes and max_bytes // 2, from_end=True)
    return head + _notice(head, tail, output) + tail, True


def _texts(first: bytes, last: bytes | None, redact: Sequence[Redact]) -> tuple[str, str | None]:
    if last is None:
        return _redacted(readable(first), redact), None
    whole_first = codecs.getincrementaldecoder("utf-8")("replace").decode(first)
    head = _redacted(_without_nul(whole_first), redact)
    tail = _redacted(readable(_from_character(last)), redact)
    return (head[:-EDGE], tail[EDGE:]) if redact else (head, tail)


def readable(data: bytes) -> str:
    """Bytes as text; what is no UTF-8, and NUL, which databases refuse, is replaced.

    >>> readable(bytes([65, 255, 0]))
    'A��'
    """
    return _without_nul(data.decode("utf-8", "replace"))


def _without_nul(text: str) -> str:
    return text.replace("\0", "�")


def _redacted(text: str, redact: Sequence[Redact]) -> str:
    for apply in redact:
        text = apply(text)
    return text


def _from_character(data: bytes) -> bytes:
    """The bytes from the first that begins a character: at most three others may come before."""
    start = next((i for i in range(min(4, len(data))) if data[i] & 0xC0 != 0x80), 0)
    return data[start:]


def _fits(text: str, max_lines: int, max_bytes: int | None) -> bool:
    few = text.removesuffix("\n").count("\n") < max_lines
    return few and (max_bytes is None or len(text.encode()) <= max_bytes)


def _cut(text: str, lines: int, size: int | None, *, from_end: bool = False) -> str:
    """The first lines and bytes of a text, or the last."""
    text = _last_lines(text, lines) if from_end else _first_lines(text, lines)
    data = text.encode()
    if size is None or len(data) <= size:
        return text
    some = _from_character(data[len(data) - size :]) if from_end else data[:size]
    return some.decode("utf-8", "ignore")


def _first_lines(text: str, count: int) -> str:
    parts = text.split("\n", count)
    return text[: len(text) - len(parts[count])] if len(parts) > count else text


def _last_lines(text: str, count: int) -> str:
    parts = text.removesuffix("\n").rsplit("\n", count)
    return text[len(parts[0]) + 1 :] if len(parts) > count else text


def _notice(head: str, tail: str, output: Output) -> str:
    left = max(0, output.size - len(head.encode()) - len(tail.encode()))
    before = "" if head.endswith("\n") or not head else "\n"
    return (
        f"{before}[... {left:,} of {output.size:,} bytes are left out here; "
        f"the output has {output.lines:,} lines ...]\n"
    )
