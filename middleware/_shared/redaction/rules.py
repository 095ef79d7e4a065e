"""One rule about personal data: what it is, how it is found, and what becomes of it."""

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
from agent_factory.middleware._shared.redaction.detection import (
    Detector,
    DetectorLike,
    detector_for,
)
from agent_factory.middleware._shared.redaction.detectors import PIIMatch
from agent_factory.middleware._shared.validation import check_choice

Strategy = Literal["redact", "block", "mask", "hash"]

_OF_THIS_PROCESS = secrets.token_bytes(32)
"""Keys hashes where no key is given: nobody can look a value up, not even with its hash."""


class PIIDetectionError(TurnError):
    """Personal data was found where the strategy is to block.

    The message does not show the data, since errors end in logs and in checkpoints.

    Attributes:
        pii_type: What kind of data.
        matches: Where it was found, with the data itself.
    """

    code = "AF344"

    def __init__(self, pii_type: str, matches: Sequence[PIIMatch]) -> None:
        count = len(matches)
        super().__init__(
            pii_type,
            f"{count} {'match was' if count == 1 else 'matches were'} found, and the strategy is "
            "to block.",
            "Leave it out, or let the strategy be 'redact', 'mask' or 'hash'.",
        )
        self.pii_type = pii_type
        self.matches = list(matches)


@dataclass(frozen=True)
class RedactionRule:
    """What to do with one type of personal data in a text.

    Args:
        pii_type: "email", "credit_card", "ip", "mac_address", "url", "phone", "name", or a name
            of your own that comes with a detector.
        strategy: "redact" puts `[REDACTED_EMAIL]` in its place; "mask" keeps the little by which
            people recognise it, such as a card's last four digits; "hash" puts
            `<email_hash:9f86d081>`, the same for the same value; "block" raises.
        detector: A regular expression, or a function of a text that returns a list of `PIIMatch`;
            of each only `start` and `end` are read. Default: the one of the type.
        hash_key: What "hash" is keyed with. Default: a random key of this process, so that tokens
            differ from process to process.

    Raises:
        ValueError: An unknown type without detector, an unknown strategy, or a regular expression
            that does not compile.
        TypeError: A detector or a key of an unusable type.
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
                "pii_type must be a name of letters, digits, '_', '-', '.' or spaces, not "
                f"{self.pii_type!r}."
            )
        check_choice("strategy", self.strategy, get_args(Strategy))
        if not isinstance(self.hash_key, bytes | str | None) or self.hash_key in (b"", ""):
            raise TypeError("hash_key must be a secret: bytes or text that is not empty.")
        object.__setattr__(self, "_detector", detector_for(self.pii_type, self.detector))

    def apply(self, text: str) -> str:
        """The text with what the rule makes of each match.

        Raises:
            PIIDetectionError: There is a match and the strategy is to block.
            TurnError: A regular expression took too long.
        """
        matches = self.find(text)
        if not matches:
            return text
        if self.strategy == "block":
            raise PIIDetectionError(self.pii_type, matches)
        pieces: list[str] = []
        done = 0
        for match in matches:
            pieces += text[done : match["start"]], self._replacement(match["value"])
            done = match["end"]
        return "".join([*pieces, text[done:]])

    def find(self, text: str) -> list[PIIMatch]:
        """The matches in a text, in order and without overlap; the rule's own marks are none."""
        found = self._detector.find(text)
        if not found or self._label.lower() not in text.lower():
            return found
        marks = [mark.span() for mark in self._marks().finditer(text)]
        return [match for match in found if not _lies_in(match, marks)]

    def settled(self, text: str) -> int:
        """How much of a text, which may go on, can be rewritten without knowing the rest.

        Up to there the result is the same, whatever follows.
        """
        return self._detector.settled(text)

    @property
    def _label(self) -> str:
        """The type in marks: without spaces, so that no mark is ever cut in two."""
        return self.pii_type.replace(" ", "_")

    def _marks(self) -> re.Pattern[str]:
        label = re.escape(self._label)
        return re.compile(rf"\[REDACTED_{label.upper()}\]|<{label}_hash:[0-9a-f]{{8}}>")

    def _replacement(self, value: str) -> str:
        if self.strategy == "redact":
            return f"[REDACTED_{self._label.upper()}]"
        if self.strategy == "mask":
            return _MASKS.get(self.pii_type, _mask_other)(value)
        return f"<{self._label}_hash:{self._digest(value)}>"

    def _digest(self, value: str) -> str:
        key = _OF_THIS_PROCESS if self.hash_key is None else self.hash_key
        key = key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key
        text = value.encode("utf-8", "surrogatepass")
        return hmac.new(key, text, "sha256").hexdigest()[:8]


def _lies_in(match: PIIMatch, spans: Sequence[tuple[int, int]]) -> bool:
    at = bisect_right(spans, (match["start"], maxsize)) - 1
    return at >= 0 and match["end"] <= spans[at][1]


def _mask_email(value: str) -> str:
    """The first letter and the last label; no mail address any more, so that none is found."""
    return f"{value[0]}***@****.{value.rpartition('.')[2]}"


def _mask_digits(value: str) -> str:
    """All digits but the last four."""
    left = sum(map(str.isdigit, value)) - 4
    hidden = iter(range(max(left, 0)))
    return "".join(
        "*" if char.isdigit() and next(hidden, None) is not None else char for char in value
    )


def _mask_ip(value: str) -> str:
    return (
        f"*:*:{value.rpartition(':')[2]}" if ":" in value else f"*.*.*.{value.rpartition('.')[2]}"
    )


def _mask_mac(value: str) -> str:
    return re.sub(r"[0-9A-Fa-f](?=.{2})", "*", value)


def _mask_name(value: str) -> str:
    return " ".join(f"{word[0]}***" for word in value.split())


def _mask_url(value: str) -> str:
    return "[MASKED_URL]"


def _mask_other(value: str) -> str:
    return f"****{value[-4:]}" if len(value) > 4 else "****"


_MASKS: Mapping[str, Callable[[str], str]] = {
    "email": _mask_email,
    "credit_card": _mask_digits,
    "phone": _mask_digits,
    "ip": _mask_ip,
    "mac_address": _mask_mac,
    "url": _mask_url,
    "name": _mask_name,
}
