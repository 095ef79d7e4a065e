"""How commands are handed to a shell, and how the end of their output is known.

A shell reads its commands from a pipe. Each is one quoted word for `eval`, so that a syntax error
is an answer and not a wait for more, and is followed by a mark: a control character, a random word
and the exit code, printed on a descriptor that the command does not have. The mark ends the output
wherever that ends, with a newline or without. All of it is POSIX, so other shells than bash do too.
"""

from __future__ import annotations

import secrets
import shlex

_CONTROL = b"\x1e"  # the record separator: what a shell echoes of its input spells it differently

OPENING = b"exec 9>&1 2>&1\n"
"""What a shell is told first: errors belong to the output, and where the marks go."""


def new_token() -> str:
    """A word that no output holds by chance and no command can know: 128 random bits."""
    return secrets.token_hex(16)


def request(command: str, token: str, status: int = 0) -> bytes:
    """What a shell is sent so that it runs a command and then prints the mark.

    Args:
        command: One or more lines.
        token: The word of the mark.
        status: What `$?` is to the command: the exit code of the one before.

    Raises:
        ValueError: The command has a character that no shell can be sent: NUL, or half of a pair
            of surrogates.
    """
    if "\0" in command:
        raise ValueError("the command holds a NUL character, which no shell can read")
    # The space keeps `eval` from taking a command that starts with "-" for an option.
    word = shlex.quote(f" {command}")
    mark = f"""command printf '\\036%s:%d\\036' {token} "$?" >&9"""
    try:
        # One line: after a syntax error bash reads what begins the next one wrongly.
        line = f"eval {word} </dev/null 9>&-; {{ {mark}; }} 2>/dev/null\n"
        return (f"(exit {status}) 2>/dev/null; {line}" if status else line).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the command cannot be written as UTF-8: {error.reason}") from None


def split(data: bytes, token: str) -> tuple[bytes, bytes, int | None]:
    """Look for the mark in what was read.

    Returns:
        What is output for certain; the rest, which may be the beginning of the mark or lies behind
        it; and the exit code, once the mark is there.

    >>> split(b"hello", "t")
    (b'hello', b'', None)
    >>> split(b"hello\\x1et:", "t")
    (b'hello', b'\\x1et:', None)
    >>> split(b"hello\\x1et:3\\x1eafter", "t")
    (b'hello', b'after', 3)
    """
    opening = _CONTROL + token.encode() + b":"
    start = data.find(opening)
    if start < 0:
        start = _beginning(data, opening)
        return data[:start], data[start:], None
    end = data.find(_CONTROL, start + len(opening))
    if end < 0:
        return data[:start], data[start:], None
    return data[:start], data[end + 1 :], int(data[start + len(opening) : end])


def _beginning(data: bytes, opening: bytes) -> int:
    """Where at the end of the data a mark may have begun."""
    start = data.rfind(_CONTROL, max(0, len(data) - len(opening)))
    return start if start >= 0 and opening.startswith(data[start:]) else len(data)
