"""Detectors in all their forms, made one thing: what finds, and what may still change.

A text that is still being written can be rewritten only up to where nothing that follows can
change a match. For a detector whose matches hold no white space that is after the last space; for
numbers in groups it is before the last run of groups; for one of which nothing is known it is
nowhere before the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

from agent_factory import TurnError
from agent_factory.middleware._shared.redaction.detectors import (
    PIIMatch,
    detect_credit_card,
    detect_email,
    detect_ip,
    detect_mac_address,
    detect_name,
    detect_phone,
    detect_url,
    needed,
)

TIME_LIMIT = 1.0
"""Seconds that a regular expression of a user may take for one text."""

DetectorLike = str | re.Pattern[str] | Callable[[str], Sequence[Any]]
"""A regular expression, or a function of a text that returns its matches."""


@dataclass(frozen=True)
class Detector:
    """A detector in use.

    Args:
        find: The matches in a text, in order and without overlap.
        settled: How many characters of a text may be cut off at its beginning, so that what is
            found in both parts is what is found in the whole, however the text goes on.
    """

    find: Callable[[str], list[PIIMatch]]
    settled: Callable[[str], int]


def _nowhere(text: str) -> int:
    return 0


def _after_words(text: str) -> int:
    """After the last white space."""
    return _word_start(text, len(text))


def _word_start(text: str, index: int) -> int:
    while index and text[index - 1] not in " \t\n\r":
        index -= 1
    return index


_IN_NUMBERS = (
    "0123456789 \t()[]+./~-#;:=,extnsioEXTNSIO"
    "\xa0\xad\u200b\u202f\u2010\u2011\u2012\u2013\u2014\u2015\u2060\u2212\u3000\u30fc"
    "\uff08\uff09\uff0b\uff0d\uff0e"
)
"""What stands in a number written in groups, or between it and its extension."""

_BEGINS_NUMBER = re.compile(r"[\d+(\[\uff08\uff0b]")


def _before_numbers(text: str) -> int:
    """Before a number in groups that the last word may belong to, and never within a word."""
    cut = _after_words(text)
    while cut and (cut == len(text) or _is_in_number(text[cut])):
        run = cut
        while run and _is_in_number(text[run - 1]):
            run -= 1
        begin = _BEGINS_NUMBER.search(text, run, cut)
        if begin is None:
            break
        cut = _word_start(text, begin.start())
    return cut


def _is_in_number(char: str) -> bool:
    return char in _IN_NUMBERS or char.isdigit()


_BUILT_IN: Mapping[str, tuple[Callable[..., list[PIIMatch]], Callable[[str], int], str]] = {
    "email": (detect_email, _after_words, ""),
    "credit_card": (detect_credit_card, _before_numbers, "stdnum"),
    "ip": (detect_ip, _after_words, ""),
    "mac_address": (detect_mac_address, _after_words, ""),
    "url": (detect_url, _after_words, ""),
    "phone": (detect_phone, _before_numbers, "phonenumbers"),
    "name": (detect_name, _nowhere, "presidio_analyzer"),
}


def detector_for(pii_type: str, detector: DetectorLike | None) -> Detector:
    """A detector in any of its forms as one in use.

    Raises:
        ValueError: The type is unknown and has no detector, or an expression does not compile.
        TypeError: The detector is of no usable kind.
        ImportError: A package that it needs is not installed.
    """
    if detector is None:
        if pii_type not in _BUILT_IN:
            raise ValueError(
                f"{pii_type!r} is none of the known types ({', '.join(_BUILT_IN)}). Give it a "
                "detector: a regular expression or a function."
            )
        return _built_in(*_BUILT_IN[pii_type])
    if isinstance(detector, str | re.Pattern):
        return _by_pattern(pii_type, detector)
    if not callable(detector):
        raise TypeError(
            f"detector must be a regular expression or a function of a text, not {detector!r}."
        )
    return Detector(partial(_by_function, pii_type, detector), _settled_of(detector))


def _built_in(find: Any, settled: Callable[[str], int], package: str) -> Detector:
    if package and find_spec(package) is None:
        needed(package, find.__name__)
    return Detector(find, settled)


def _settled_of(function: Any) -> Callable[[str], int]:
    """A built-in detector with arguments of its own is still known."""
    inner = function.func if isinstance(function, partial) else function
    known = {find: settled for find, settled, _ in _BUILT_IN.values()}
    return known.get(inner, _nowhere)


def _by_function(
    pii_type: str, function: Callable[[str], Sequence[Any]], text: str
) -> list[PIIMatch]:
    found = function(text)
    try:
        spans = sorted((int(match["start"]), int(match["end"])) for match in found)
    except (TypeError, KeyError, ValueError) as error:
        raise TurnError(
            f"the detector of {pii_type}",
            "did not return matches.",
            "Return a list of dicts with 'start' and 'end'.",
        ) from error
    return merged(pii_type, text, spans)


def merged(pii_type: str, text: str, spans: Sequence[tuple[int, int]]) -> list[PIIMatch]:
    """Spans in order as matches; those that overlap become one, and none leaves the text."""
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        start, end = max(start, 0), min(end, len(text))
        if joined and start < joined[-1][1]:
            start, end = joined[-1][0], max(end, joined[-1][1])
            joined.pop()
        if start < end:
            joined.append((start, end))
    return [
        PIIMatch(type=pii_type, value=text[start:end], start=start, end=end)
        for start, end in joined
    ]


_WITHOUT_SPACE = re.compile(
    r"""(?:
        \\[dwSb] | \\[^\w\s]                                  # escapes
      | \[(?!\^)(?:\\[dw] | \\[^\w\s] | [^\\\]\[\x00-\x20])++\]  # sets that name what they hold
      | \(\?(?:[ai]+\)|[ai]*:|P<\w+>|<?[=!]) | \((?!\?)                 # groups, looking around
      | \{\d*,?\d*\}
      | [^\\\[\].^$({}\x00-\x20]
    )*+""",
    re.VERBOSE,
)
"""Regular expressions, or some of them, that match no white space and look across none."""


def _by_pattern(pii_type: str, pattern: str | re.Pattern[str]) -> Detector:
    regex = needed("regex", "A regular expression as a detector")
    source: Any = pattern if isinstance(pattern, str) else pattern.pattern
    if not isinstance(source, str):
        raise ValueError(f"detector of {pii_type!r} is no regular expression for text: {source!r}.")
    try:
        compiled = regex.compile(source, _flags(regex, pattern))
    except (regex.error, TypeError) as error:
        raise ValueError(f"detector of {pii_type!r} is no regular expression: {error}.") from error
    settled = _after_words if _WITHOUT_SPACE.fullmatch(source) else _nowhere
    return Detector(partial(_find_by_pattern, pii_type, compiled), settled)


def _flags(regex: Any, pattern: str | re.Pattern[str]) -> int:
    """The two packages number their flags differently."""
    if isinstance(pattern, str):
        return 0
    names = ("A", "I", "M", "S", "X")
    return sum(getattr(regex, name) for name in names if pattern.flags & getattr(re, name))


def _find_by_pattern(pii_type: str, compiled: Any, text: str) -> list[PIIMatch]:
    try:
        spans = [found.span() for found in compiled.finditer(text, timeout=TIME_LIMIT)]
    except TimeoutError as error:
        raise TurnError(
            f"the detector of {pii_type}",
            f"took more than {TIME_LIMIT:g} s for a text of {len(text)} characters.",
            "Write the regular expression without nested repetition.",
        ) from error
    return merged(pii_type, text, spans)
