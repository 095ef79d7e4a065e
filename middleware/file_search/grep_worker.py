"""Runs as a process of its own: which lines of the texts it is given match a pattern.

Python's expressions may backtrack for longer than the universe will last, and nothing inside a
process can stop them; a process can be ended. It is started as a script, so it imports nothing of
this package.

Each message is its length in eight bytes and then the message. In: the pattern, then texts. Out,
for the pattern: nothing, or what is wrong with it; for each text: how many of its lines match, and
the numbers of the first of them, parted by blanks.
"""

import re
import sys
import warnings
from itertools import islice
from typing import IO

MOST_NUMBERS = 1_000  # lines of one text that are named; more are never shown


def receive(stream: IO[bytes]) -> bytes | None:
    """The next message, or None if there is none any more."""
    head = stream.read(8)
    if len(head) < 8:
        return None
    size = int.from_bytes(head, "big")
    body = stream.read(size)
    return body if len(body) == size else None


def send(stream: IO[bytes], body: bytes) -> None:
    """Write one message, now."""
    stream.write(len(body).to_bytes(8, "big") + body)
    stream.flush()


def lines_of(content: bytes) -> list[str]:
    """The lines of a text; they end at newlines only, as ripgrep sees it."""
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    return lines if lines[-1] else lines[:-1]


def main() -> None:
    """Answer until the other side is done."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    warnings.simplefilter("ignore")  # of expressions that will mean something else some day
    try:
        search = re.compile((receive(source) or b"").decode()).search
    except (re.error, RecursionError, OverflowError) as error:
        send(sink, str(error).encode() or b"too large")
        return
    send(sink, b"")
    while (content := receive(source)) is not None:
        hits = [number for number, line in enumerate(lines_of(content), 1) if search(line)]
        send(sink, " ".join(map(str, [len(hits), *islice(hits, MOST_NUMBERS)])).encode())


if __name__ == "__main__":
    main()
