"""Redaction rule: one type of personal data, how it is found, and what replaces it."""

from __future__ import annotations

import hmac
import re
import secrets
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from sys import maxsize
from typing import Literal, get_args

from agent_factory import TurnError
from agent_factory.middleware._shared.redaction.detectors import (
    Detector,
    DetectorLike,
    PIIMatch,
    detector_for,
)
from agent_factory.middleware._shared.validation import check_choice

Strategy = Literal["redact", "block", "mask", "hash"]

# Default key of hashes: without it nobody can look a value up, not even with a table of hashes.
_PROCESS_KEY = secrets.token_bytes(32)


class PIIDetectionError(TurnError):
    """Personal data was found where the strategy is to block.

    The message does not show the data, because errors end up in logs and in checkpoints.

    Attributes:
        pii_type: The kind of data.
        matches: The matches, with the data itself.
    """

    code = "AF344"

    def __init__(self, pii_type: str, matches: Sequence[PIIMatch]) -> None:
        count = len(matches)
        super().__init__(
            pii_type,
            f"{count} {'match was' if count == 1 else 'matches were'} found, and the strategy is "
            "'block'.",
            "Leave the data out, or use the strategy 'redact', 'mask' or 'hash'.",
        )
        self.pii_type = pii_type
        self.matches = list(matches)


@dataclass(frozen=True)
class RedactionRule:
    """Replacement of one type of personal data in a text.

    Args:
        pii_type: "email", "credit_card", "ip", "mac_address", "url", "phone", "name", or any other
            name together with a detector.
        strategy: "redact" writes `[REDACTED_EMAIL]` instead of the data; "mask" keeps the part by
            which people recognise it, such as a card's last four digits; "hash" writes
            `<email_hash:9f86d081>`, the same for the same value; "block" raises an error.
        detector: A regular expression, or a function of a text that returns a list of `PIIMatch`,
            of which only `start` and `end` are read. Default: the built-in one of the type.
        hash_key: Secret key for "hash", as bytes or str. Default: a random key of this process, so
            that hashes differ between processes.

    Raises:
        ValueError: The type is unknown and has no detector, the strategy is unknown, or a regular
            expression does not compile.
        TypeError: The detector or the key has the wrong type.
        ImportError: A package that the detector needs is not installed.

    >>> RedactionRule("email").apply("Write to ada@example.com.")
    'Write to [REDACTED_EMAIL].'
    >>> RedactionRule("order", "mask", detector=r"A-[0-9]{8}").apply("A-20251122 is here")
    '****1122 is here'
    """

    pii_type: str
    strategy: Strategy = "redact"
    detector: DetectorLike | None = None
    hash_key: bytes | str | None = field(default=None, repr=False)
    _detector: Detector = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.pii_type, str) or not re.fullmatch(r"[\w .-]+", self.pii_type):
            raise ValueError(
                "pii_type must be a name of letters, digits, '_', '-', '.' or spaces, got "
                f"{self.pii_type!r}."
            )
        check_choice("strategy", self.strategy, get_args(Strategy))
        if not isinstance(self.hash_key, bytes | str | None) or self.hash_key in (b"", ""):
            # The key is not shown: it is a secret.
            raise TypeError(
                f"hash_key must be non-empty bytes or str, got {type(self.hash_key).__name__}."
            )
        object.__setattr__(self, "_detector", detector_for(self.pii_type, self.detector))

    def apply(self, text: str) -> str:
        """Return the text with each match replaced.

        Raises:
            PIIDetectionError: There is a match, and the strategy is "block".
            TurnError: A regular expression took too long.
        """
        matches = self.find(text)
        if not matches:
            return text
        if self.strategy == "block":
            raise PIIDetectionError(self.pii_type, matches)
        mask = _MASKS.get(self.pii_type, _mask_other)
        pieces: list[str] = []
        done = 0
        for match in matches:
            value = match["value"]
            if self.strategy == "redact":
                replacement = f"[REDACTED_{self._label.upper()}]"
            elif self.strategy == "mask":
                replacement = mask(value)
            else:
                key = _PROCESS_KEY if self.hash_key is None else self.hash_key
                key = key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key
                digest = hmac.new(key, value.encode("utf-8", "surrogatepass"), "sha256")
                replacement = f"<{self._label}_hash:{digest.hexdigest()[:8]}>"
            pieces += text[done : match["start"]], replacement
            done = match["end"]
        return "".join([*pieces, text[done:]])

    def find(self, text: str) -> list[PIIMatch]:
        """Return the matches in order and without overlap, except in marks that the rule wrote."""
        found = self._detector.find(text)
        if not found or self._label.lower() not in text.lower():
            return found
        label = re.escape(self._label)
        mark = re.compile(rf"\[REDACTED_{label.upper()}\]|<{label}_hash:[0-9a-f]{{8}}>")
        marks = [written.span() for written in mark.finditer(text)]
        matches = []
        for match in found:
            at = bisect_right(marks, (match["start"], maxsize)) - 1
            if at < 0 or match["end"] > marks[at][1]:
                matches.append(match)
        return matches

    def settled(self, text: str) -> int:
        """Return how many leading characters are redacted alike, however the text continues."""
        return self._detector.settled(text)

    @property
    def _label(self) -> str:
        # Without spaces, so that a stream never splits a mark.
        return self.pii_type.replace(" ", "_")


def _mask_digits(value: str) -> str:
    """Mask all digits but the last four."""
    hidden = [at for at, char in enumerate(value) if char.isdigit()][:-4]
    return "".join("*" if at in hidden else char for at, char in enumerate(value))


def _mask_other(value: str) -> str:
    return f"****{value[-4:]}" if len(value) > 4 else "****"


_MASKS: Mapping[str, Callable[[str], str]] = {
    # The first letter and the top-level domain: not a mail address, so it is not found again.
    "email": lambda value: f"{value[0]}***@****.{value.rpartition('.')[2]}",
    "credit_card": _mask_digits,
    "phone": _mask_digits,
    "ip": lambda value: (
        f"*:*:{value.rpartition(':')[2]}" if ":" in value else f"*.*.*.{value.rpartition('.')[2]}"
    ),
    "mac_address": lambda value: re.sub(r"[0-9A-Fa-f](?=.{2})", "*", value),
    "url": lambda value: "[MASKED_URL]",
    "name": lambda value: " ".join(f"{word[0]}***" for word in value.split()),
}
