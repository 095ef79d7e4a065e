"""Worker process that finds the lines of texts that match a regular expression.

Python's expressions may backtrack forever, and nothing inside a process can stop them; a process
can be killed. It is started as a script, so it imports nothing of this package.

A message is its length in eight bytes, then its content. Input: the pattern, then texts. Output for
the pattern: nothing, or an error message. Output for each text: how many of its lines match, and
the numbers of the first of them, separated by spaces.
"""

import re
import sys
import warnings
from itertools import islice
from typing import IO

MAX_NUMBERS = 1_000  # line numbers for one text; a result never shows more


def receive(stream: IO[bytes]) -> bytes | None:
    """Read the next message; return None at the end of the stream."""
    head = stream.read(8)
    if len(head) < 8:
        return None
    size = int.from_bytes(head, "big")
    body = stream.read(size)
    return body if len(body) == size else None


def send(stream: IO[bytes], body: bytes) -> None:
    """Write a message and flush it."""
    stream.write(len(body).to_bytes(8, "big") + body)
    stream.flush()


def main() -> None:
    """Answer messages until the input ends."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    warnings.simplefilter("ignore")  # about expressions whose meaning will change some day
    try:
        search = re.compile((receive(source) or b"").decode()).search
    except (re.error, RecursionError, OverflowError) as error:
        send(sink, str(error).encode() or b"too large")
        return
    send(sink, b"")
    while (content := receive(source)) is not None:
        # Lines end at newlines only, as for ripgrep.
        lines = content.decode("utf-8", "surrogateescape").split("\n")
        if not lines[-1]:
            lines.pop()
        hits = [number for number, line in enumerate(lines, 1) if search(line)]
        send(sink, " ".join(map(str, [len(hits), *islice(hits, MAX_NUMBERS)])).encode())


if __name__ == "__main__":
    main()
