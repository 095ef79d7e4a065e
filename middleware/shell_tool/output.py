"""Output of a command: bounded while it is read, and truncated for the model."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Sequence

KEPT_BYTES = 128 * 1024  # kept of each end of an output, unless a policy asks for more

# Characters next to a gap that are hidden if there are redaction rules: the gap may have cut a
# secret in two, and no rule recognises a half. Card numbers, addresses and tokens are shorter.
EDGE = 4096

Redact = Callable[[str], str]


class Output:
    """Buffer for the output of a command: the first and last `keep` bytes, and the size."""

    def __init__(self, keep: int = KEPT_BYTES) -> None:
        self._keep = keep
        self._head = bytearray()
        self._tail = bytearray()
        self._newlines = 0
        self.size = 0

    def add(self, data: bytes) -> None:
        """Append more output."""
        self.size += len(data)
        self._newlines += data.count(b"\n")
        room = self._keep - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        # Trimming at twice the size keeps appending linear in time.
        if len(self._tail) > 2 * self._keep:
            del self._tail[: -self._keep]

    @property
    def lines(self) -> int:
        """Number of lines; a last line without a newline counts."""
        return self._newlines + (self.size > 0 and not (self._tail or self._head).endswith(b"\n"))

    def ends(self) -> tuple[bytes, bytes | None]:
        """Return the whole output and None, or the beginning and the end if bytes were dropped."""
        if self.size <= 2 * self._keep:
            return bytes(self._head + self._tail), None
        return bytes(self._head), bytes(self._tail[-self._keep :])


def truncate_output(
    output: Output, max_lines: int, max_bytes: int | None, redact: Sequence[Redact] = ()
) -> tuple[str, bool]:
    """Return the part of an output for the model, and whether the output is longer.

    Redaction comes before truncation, so that no cut hides half of a secret from its rule. The
    middle is left out: the beginning shows the kind of output, the end the outcome. With
    `max_bytes=None` only the buffer limits the size.
    """
    first, last = output.ends()
    # Where bytes were dropped, `first` may end and `last` may begin within a character.
    head = _redacted(decode(first, final=last is None), redact)
    if last is None:
        fits_lines = head.removesuffix("\n").count("\n") < max_lines
        if fits_lines and (max_bytes is None or len(head.encode()) <= max_bytes):
            return head, False
        tail = head
    else:
        last = re.sub(rb"\A[\x80-\xbf]{1,3}(?=[^\x80-\xbf])", b"", last)
        tail = _redacted(decode(last), redact)
        if redact:
            head, tail = head[:-EDGE], tail[EDGE:]

    lines = head.split("\n", (max_lines + 1) // 2)
    if len(lines) > (max_lines + 1) // 2:
        head = head[: len(head) - len(lines[-1])]
    lines = tail.removesuffix("\n").rsplit("\n", max_lines // 2)
    if len(lines) > max_lines // 2:
        tail = tail[len(lines[0]) + 1 :]
    if max_bytes is not None:
        head = head.encode()[: (max_bytes + 1) // 2].decode("utf-8", "ignore")
        # Not [-n:], which is everything for n = 0.
        data = tail.encode()
        tail = data[max(0, len(data) - max_bytes // 2) :].decode("utf-8", "ignore")

    hidden = max(0, output.size - len(head.encode()) - len(tail.encode()))
    newline = "" if head.endswith("\n") or not head else "\n"
    notice = (
        f"{newline}[... {hidden:,} of {output.size:,} bytes are left out here; "
        f"the output has {output.lines:,} lines ...]\n"
    )
    return head + notice + tail, True


def decode(data: bytes, *, final: bool = True) -> str:
    """Decode UTF-8; replace invalid bytes, and NUL, which databases reject."""
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(data, final)
    return text.replace("\0", "�")


def _redacted(text: str, redact: Sequence[Redact]) -> str:
    for apply in redact:
        text = apply(text)
    return text
