"""Print text that arrives in pieces."""

from __future__ import annotations

import re

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text


class Typewriter:
    """Prints text piece by piece, and breaks lines between words.

    Args:
        console: Where to print.
        speaker: The name before the first word.
    """

    def __init__(self, console: Console, speaker: Text) -> None:
        self._console = console
        self._speaker = speaker
        self._line = ""
        self._word = ""
        self._speaks = False

    def write(self, text: str) -> None:
        """Print a piece; a word appears when it is complete."""
        *words, self._word = re.split(r"(?<=\s)", self._word + text)
        for word in words:
            self._put(word)

    def end(self) -> None:
        """Print the rest, and end the line."""
        self._put(self._word)
        if self._speaks:
            self._console.print()
        self._line, self._word, self._speaks = "", "", False

    def _put(self, word: str) -> None:
        if word and not self._speaks:
            self._console.print(self._speaker, end="")
            self._line, self._speaks = self._speaker.plain, True
        if cell_len(self._line + word.rstrip()) > self._console.width:
            self._console.print()
            self._line = ""
        self._console.print(Text(word), end="", soft_wrap=True)
        self._line = (self._line + word).rpartition("\n")[2]
