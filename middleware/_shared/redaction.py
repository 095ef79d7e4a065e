"""Personal data in a text: finding and replacing them.

The built-in patterns look at each character a bounded number of times. An unfinished text can be
redacted only up to a position from which no later character can change a match. A `Detector` knows
the position: for matches without white space, after the last space; for numbers in groups, before
the last run of groups; otherwise the beginning.
"""

from __future__ import annotations

import hmac
import re
import secrets
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib import import_module
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from sys import maxsize
from typing import Any, Literal, NamedTuple, TypedDict, get_args

from agent_factory import TurnError
from agent_factory.errors import require

from .validation import check_choice, check_value

TIME_LIMIT = 1.0
"""Seconds that a user's regular expression may take for one text."""

Span = tuple[int, int]

DetectorLike = str | re.Pattern[str] | Callable[[str], Sequence[Any]]
"""A regular expression, or a function of a text that returns its matches."""


class PIIMatch(TypedDict):
    """Personal data in a text.

    Attributes:
        type: The kind of data, for example "email".
        value: The data.
        start: Index of the first character.
        end: Index of the first character after the data.
    """

    type: str
    value: str
    start: int
    end: int


class Detector(NamedTuple):
    """Detector in a uniform form."""

    # Returns the matches in a text, in order and without overlap.
    find: Callable[[str], list[PIIMatch]]
    # Returns how many leading characters of a text may be cut off, so that both parts have the
    # matches of the whole, however the text continues.
    settled: Callable[[str], int]


# Mail addresses, URLs, IP and MAC addresses

_AT = "@\uff20\ufe6b"
_DOT = ".\uff0e"
_STOP = (
    "\u3002\uff61"  # the full stop of Chinese and Japanese, which input methods also put for a dot
)
_WIDE = "\uff10-\uff19\uff21-\uff3a\uff41-\uff5a"
_TO_ASCII = {code: chr(code - 0xFEE0) for code in range(0xFF10, 0xFF5B) if chr(code).isalnum()}
_DOTS_TO_ASCII = dict.fromkeys(map(ord, _DOT + _STOP), ".")

# Quotation marks, and the punctuation of scripts without a space after it.
_FOREIGN = "\u2018-\u201f\u3001-\u3003\u3008-\u3011\uff01\uff08\uff09\uff0c\uff1a\uff1b\uff1f\uff61"

_LOCAL = rf"[^\s{_AT}<>()\[\],;:\"\\/=?&{{}}|`{_FOREIGN}]"
_LABEL = rf"[^\s{_AT}<>()\[\],;:\"'\\/=?&{{}}|`!#$%*+^~{_DOT}{_FOREIGN}]"
_PLAIN_LABEL = rf"[0-9A-Za-z{_WIDE}-]"
# A full stop ends a sentence, unless the domain has no dot before it and goes on in Latin letters.
_DOMAIN = (
    rf"[{_AT}](?:{_LABEL}++(?:[{_DOT}]{_LABEL}++)++"
    rf"|{_LABEL}++(?:[{_STOP}{_DOT}]{_PLAIN_LABEL}++)++|\[[0-9A-Za-z:.]{{2,64}}\])"
)
# The lookbehind starts a match only at the start of a run of such characters, so that a run
# without an address is read once.
_EMAIL = re.compile(rf'(?:"[^"\s]{{1,64}}"|(?<!{_LOCAL}){_LOCAL}++){_DOMAIN}')
_NEXT_EMAIL = re.compile(rf"{_LOCAL}++{_DOMAIN}")  # an address right after another address
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}\Z")
_AFTER_SCHEME = re.compile("[:\uff1a][/\uff0f]{2}")
_ADDRESS = re.compile(
    rf"(?:{_PLAIN_LABEL}++[{_STOP}](?={_PLAIN_LABEL}))*+[^\s<>\"`|\\^{{}}{_FOREIGN}]++"
)
# A bare URL begins with `www.`, or has a path or a query after a domain with letters at its end.
_BARE = re.compile(
    rf"(?<![\w{_AT}./-])(?:www[{_DOT}{_STOP}](?=\w)"
    rf"|(?:[\w-]++[{_DOT}{_STOP}])++[^\W\d_]{{2,24}}(?::\d{{1,5}})?(?=/|\?[\w.-]{{1,64}}=))",
    re.IGNORECASE,
)
# No digits with a dot on either side: 1.2.3.4.5 is a version.
_IPV4 = re.compile(
    rf"(?<![^\W_])(?<!\d\.)[0-9]{{1,3}}(?:[{_DOT}{_STOP}][0-9]{{1,3}}){{3}}(?![^\W_])(?!\.\d)"
)
_PADDED = re.compile(r"\b(?:00|0(?=[0-9]{2}))(?=[0-9]{1,2}\b)")
# Candidates for addresses; `IPv6Address` decides.
_IPV6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f:.]{2,45}+(?![\w:])")
_ZONE = re.compile(r"%[\w.-]{1,32}")
# Not within a longer row of pairs, such as the fingerprint of a key.
_MAC = re.compile(
    r"(?<![0-9A-Za-z])(?<![0-9A-Fa-f]{2}:)"
    r"(?:[0-9A-Fa-f]{2}([:-])(?:[0-9A-Fa-f]{2}\1){4}(?:[0-9A-Fa-f]{2}\1[0-9A-Fa-f]{2}\1)?"
    r"[0-9A-Fa-f]{2}|[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4})"
    r"(?![0-9A-Za-z])(?!:[0-9A-Fa-f]{2})"
)
_ESCAPED = re.compile(r"u[0-9A-Fa-f]{4}|[nrtbf]")


def detect_email(content: str) -> list[PIIMatch]:
    r"""Find mail addresses, including internationalised ones.

    >>> [match["value"] for match in detect_email("Write to ada@example.com, please.")]
    ['ada@example.com']
    """
    spans = []
    match = _EMAIL.search(content)
    while match:
        start, end = _skip_escape(content, match.start()), match.end()
        # Signs that an address may hold, and a sentence may put before an address.
        start += len(content[start:end]) - len(content[start:end].lstrip("'.*-_~+"))
        end -= len(match[0]) - len(match[0].rstrip("-_"))
        # Otherwise nothing but such signs stood before the at sign.
        if content[start] not in _AT:
            spans.append((start, end))
        match = _NEXT_EMAIL.match(content, match.end()) or _EMAIL.search(content, match.end())
    return _to_matches("email", content, spans)


def detect_url(content: str) -> list[PIIMatch]:
    """Find URLs with a scheme, and bare URLs with `www.` at the beginning, a path or a query.

    >>> [match["value"] for match in detect_url("(see https://example.com/a?b=c, example.org/d)")]
    ['https://example.com/a?b=c', 'example.org/d']
    """
    # Pairs: the beginning of the URL, and of the part after its scheme.
    # Each sign becomes one sign, so positions hold in the content as well.
    plain = content.translate(_TO_ASCII)
    starts = []
    for bare in _BARE.finditer(plain):
        start = _skip_escape(content, bare.start())
        starts.append((start, start))
    for mark in _AFTER_SCHEME.finditer(content):
        # The longest scheme of `_SCHEME` has 31 characters.
        before = plain[max(0, mark.start() - 31) : mark.start()]
        if scheme := _SCHEME.search(before):
            starts.append((_skip_escape(content, mark.start() - len(scheme[0])), mark.end()))
    spans, offset = [], 0
    for start, address in sorted(starts):
        if start >= offset and (match := _ADDRESS.match(content, address)):
            # Without the punctuation at the end of the sentence; paired brackets belong to the URL.
            url, offset = match[0], match.end()
            open_brackets = {end: url.count(start) - url.count(end) for start, end in ("()", "[]")}
            while offset > address and (last := content[offset - 1]) in ".,;:!?'*_)]":
                if open_brackets.get(last, -1) >= 0:
                    break
                if last in open_brackets:
                    open_brackets[last] += 1
                offset -= 1
            spans.append((start, offset))
    return _to_matches("url", content, spans)


def detect_ip(content: str) -> list[PIIMatch]:
    """Find IPv4 and IPv6 addresses.

    >>> [match["value"] for match in detect_ip("192.168.0.7 and fe80::1, not 300.1.1.1")]
    ['192.168.0.7', 'fe80::1']
    """
    plain = content.translate(_TO_ASCII)
    spans = [f.span() for f in _IPV4.finditer(plain) if _is_address(IPv4Address, f[0])]
    for match in _IPV6.finditer(plain):
        bare = match[0].rstrip(".")
        bare = bare if bare.endswith("::") else bare.rstrip(":")
        # "a::b" is also a name in a program; require a digit or more colons.
        unambiguous = bare.count(":") > 2 or any(map(str.isdigit, bare))
        if bare.count(":") > 1 and unambiguous and _is_address(IPv6Address, bare):
            end = match.start() + len(bare)
            zone = _ZONE.match(content, end)
            spans.append((match.start(), zone.end() if zone else end))
    return _to_matches("ip", content, sorted(spans))


def _is_address(kind: type[IPv4Address] | type[IPv6Address], text: str) -> bool:
    text = text.translate(_DOTS_TO_ASCII)
    if kind is IPv4Address:  # IPv4Address refuses "192.168.001.010", which some devices write
        text = _PADDED.sub("", text)
    try:
        kind(text)
    except AddressValueError:
        return False
    return True


def detect_mac_address(content: str) -> list[PIIMatch]:
    """Find MAC addresses of 48 or 64 bits, in pairs or in the groups of four of routers.

    >>> [match["value"] for match in detect_mac_address("eth0 00:1a:2b:3c:4d:5e")]
    ['00:1a:2b:3c:4d:5e']
    """
    return _to_matches("mac_address", content, (match.span() for match in _MAC.finditer(content)))


# Card and telephone numbers

_SPACES = "\t \xa0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_HYPHENS = "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
_INVISIBLE = "\xad\u180e\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
_CARD_RUN = re.compile(r"(?<![^\W_])\d++(?:[ \xa0\u202f._\-\u2010-\u2015]{1,3}\d++)*+")
_CARD_GROUP = rf"\d++(?:[{_INVISIBLE}]++\d++)*+"
_CARD_GAP = (
    rf"(?:[{_INVISIBLE}]*+[{_SPACES}{_DOT}{_STOP}_{re.escape(_HYPHENS)}]){{1,3}}+[{_INVISIBLE}]*+"
)
_ODD_CARD_RUN = re.compile(rf"(?<![^\W_]){_CARD_GROUP}(?:{_CARD_GAP}{_CARD_GROUP})*+")
_DIGITS = re.compile(_CARD_GROUP)
_CARD_SIZES = range(12, 20)
_SHORTEST_GROUP = 4  # digits of every group but the last: 4-4-4-4, 4-6-5 and similar

_PHONE_RUN = re.compile(
    r"[+\uff0b(\uff08\[]{0,3}\d[\d +\uff0b()\uff08\uff09\[\]./~\-\u2010-\u2015\u2212\u30fc\uff0d"
    r"\xa0\xad\u200b\u2060\u3000\uff0e]*+"
    r"(?:(?:;?ext(?:n|ension)?|[x#])[.:=]{0,2} ?\d{1,7}(?!\d))?",
    re.IGNORECASE,
)
_DATE = re.compile(r"(?<!\d)\d{1,2}/\d{1,2}/\d{2,4}(?!\d)")
_FEWEST_DIGITS = 6


def detect_credit_card(content: str) -> list[PIIMatch]:
    """Find payment card numbers: 13 to 19 digits (ISO/IEC 7812) with a valid check digit.

    Numbers of Maestro may have 12. The digits may be in groups, separated by spaces of any width,
    tabs, hyphens, dots or underscores, and invisible characters may stand between any two digits.

    >>> [match["value"] for match in detect_credit_card("4242 4242 4242 4242, not ...4243")]
    ['4242 4242 4242 4242']
    """
    spans = []
    runs = list(_CARD_RUN.finditer(content))
    if "\t" in content or not content.isascii():
        # In addition, so that the text behind a tab does not hide a number before the tab.
        runs += _ODD_CARD_RUN.finditer(content)
    for run in runs:
        if run.end() - run.start() < _CARD_SIZES.start:
            continue
        groups = list(_DIGITS.finditer(content, *run.span()))
        if content[run.end() : run.end() + 1].isalpha():
            groups.pop()  # the beginning of a word
        index = 0
        while index < len(groups):
            # A group has at least one digit: no more groups than digits can belong to a card.
            count = _count_card_groups(groups[index : index + _CARD_SIZES.stop])
            if count:
                spans.append((groups[index].start(), groups[index + count - 1].end()))
            index += count or 1
    return _to_matches("credit_card", content, sorted(spans))


def _count_card_groups(groups: Sequence[re.Match[str]]) -> int:
    """Count the first groups that form a card number; the largest possible number, or 0."""
    digits, group_count = "", 0
    for count, group in enumerate(groups, 1):
        new = [str(int(char)) for char in group[0] if char not in _INVISIBLE]
        digits += "".join(new)
        if len(digits) >= _CARD_SIZES.stop or (count == 1 and len(new) < _SHORTEST_GROUP):
            break
        # Only Maestro issues numbers of 12 digits, with which many longer numbers begin.
        maestro = count == len(groups) and re.match("50|5[6-9]|6", digits)
        if len(digits) >= _CARD_SIZES.start + (not maestro) and digits[0] != "0":
            # The check digit (Luhn).
            doubles = "".join(str(2 * int(digit)) for digit in digits[-2::-2])
            if sum(map(int, doubles + digits[-1::-2])) % 10 == 0:
                group_count = count
        if len(new) < _SHORTEST_GROUP:
            break
    return group_count


def detect_phone(content: str, region: str | None = "US") -> list[PIIMatch]:
    """Find telephone numbers that exist in a numbering plan.

    Numbers with a country code are found everywhere. Other numbers are read as numbers of
    `region`; for another country pass `detector=functools.partial(detect_phone, region="DE")`.

    Args:
        content: The text to search.
        region: A country as in ISO 3166, or None to find only numbers with a country code.

    Raises:
        MissingExtra: phonenumbers is not installed.
        ValueError: The region does not exist.

    >>> [match["value"] for match in detect_phone("Call +44 20 7031 3000 or (650) 253-0000.")]
    ['+44 20 7031 3000', '(650) 253-0000']
    """
    require("pii", "detect_phone", "phonenumbers")
    phonenumbers = import_module("phonenumbers")
    if region is not None and region not in phonenumbers.SUPPORTED_REGIONS:
        raise ValueError(f"region must be a country code such as 'US' or 'DE', got {region!r}.")
    spans = []
    for run in _PHONE_RUN.finditer(content):
        # A date is not a number, and must not hide an adjacent number.
        dates = (place for date in _DATE.finditer(content, *run.span()) for place in date.span())
        ends = [run.start(), *dates, run.end()]
        for start, end in zip(ends[::2], ends[1::2], strict=True):
            if sum(map(str.isdigit, content[start:end])) < _FEWEST_DIGITS:
                continue
            # The surrounding characters distinguish a number from an amount, a time or part of a
            # word.
            before, text = max(0, start - 1), content[max(0, start - 1) : end + 3]
            # By default, phonenumbers gives up after 65,535 tries, and would pass the rest of a
            # long text.
            for match in phonenumbers.PhoneNumberMatcher(text, region, max_tries=maxsize):
                # "(+1 650 253 0000)" is found without its closing bracket: leave out the opening
                # bracket.
                whole = ")" in match.raw_string or not match.raw_string.startswith("(")
                spans.append((before + match.start + (not whole), before + match.end))
    return _to_matches("phone", content, spans)


# Names

# Pages that presidio reads at once: spaCy takes at most a million characters.
_PAGE = re.compile(r"(?s).{1,100000}(?:\s|\Z)|.{1,100000}")
_SURROGATES = re.compile("[\ud800-\udfff]")


def detect_name(content: str, analyzer: Any = None) -> list[PIIMatch]:
    """Find names of people with presidio.

    Presidio needs a language model of spaCy, which you choose and install; nothing is downloaded.
    Without an analyzer, presidio's default English model is used:
    `python -m spacy download en_core_web_lg`. For another model, pass
    `detector=functools.partial(detect_name, analyzer=my_engine)`.

    Args:
        content: The text to search.
        analyzer: A `presidio_analyzer.AnalyzerEngine`; its first language is used.

    Raises:
        ImportError: presidio-analyzer or its language model is not installed.
    """
    engine = _default_analyzer() if analyzer is None else analyzer
    language = engine.supported_languages[0]
    spans: list[Span] = []
    # Half of a surrogate pair cannot be encoded for spaCy. Its replacement has the same length.
    for page in _PAGE.finditer(_SURROGATES.sub("\ufffd", content)):
        names = engine.analyze(text=page[0], language=language, entities=["PERSON"])
        spans += sorted((page.start() + name.start, page.start() + name.end) for name in names)
    return _to_matches("name", content, spans)


# The language model takes seconds to load.
@lru_cache(maxsize=1)
def _default_analyzer() -> Any:
    require("pii", "detect_name", "presidio_analyzer")
    presidio = import_module("presidio_analyzer")
    import spacy

    if not spacy.util.is_package("en_core_web_lg"):
        raise ImportError(
            "detect_name needs a language model. Install the default one, python -m spacy download "
            "en_core_web_lg, or pass your own AnalyzerEngine: "
            "detector=functools.partial(detect_name, analyzer=engine)."
        )
    return presidio.AnalyzerEngine()


def _to_matches(kind: str, text: str, spans: Iterable[Span]) -> list[PIIMatch]:
    """The spans as matches; overlapping spans are joined, and all are clipped to the text."""
    merged_spans: list[Span] = []
    for start, end in spans:
        start, end = max(start, 0), min(end, len(text))
        if merged_spans and start < merged_spans[-1][1]:
            start, last = merged_spans.pop()
            end = max(end, last)
        if start < end:
            merged_spans.append((start, end))
    return [PIIMatch(type=kind, value=text[a:b], start=a, end=b) for a, b in merged_spans]


def _skip_escape(text: str, start: int) -> int:
    """Move the start of a match behind an escape of JSON, such as \\n, that precedes it."""
    if start and text[start - 1] == "\\" and (escape := _ESCAPED.match(text, start)):
        return escape.end()
    return start


# How much of a text is settled

# Characters within a number in groups, or between the number and its extension.
_IN_NUMBERS = (
    "0123456789()[]+/~#;:=,extnsioEXTNSIO\u30fc\uff08\uff09\uff0b"
    f"{_SPACES}{_HYPHENS}{_DOT}{_STOP}{_INVISIBLE}"
)
_NUMBER_START = re.compile(r"[\d+(\[\uff08\uff0b]")


def _settled_nowhere(text: str) -> int:
    return 0


def _settled_words(text: str, end: int | None = None) -> int:
    """After the last white space before `end`."""
    cut = len(text) if end is None else end
    while cut and text[cut - 1] not in " \t\n\r":
        cut -= 1
    return cut


def _settled_numbers(text: str) -> int:
    """Position before a number in groups with the last word, and never within a word."""
    cut = _settled_words(text)
    while cut and (cut == len(text) or _is_in_number(text[cut])):
        run = cut
        while run and _is_in_number(text[run - 1]):
            run -= 1
        begin = _NUMBER_START.search(text, run, cut)
        if begin is None:
            break
        cut = _settled_words(text, begin.start())
    return cut


def _is_in_number(char: str) -> bool:
    return char in _IN_NUMBERS or char.isdigit()


# Detectors in a uniform form

_BUILT_IN: Mapping[str, tuple[Callable[..., list[PIIMatch]], Callable[[str], int], str]] = {
    "email": (detect_email, _settled_words, ""),
    "credit_card": (detect_credit_card, _settled_numbers, ""),
    "ip": (detect_ip, _settled_words, ""),
    "mac_address": (detect_mac_address, _settled_words, ""),
    "url": (detect_url, _settled_words, ""),
    "phone": (detect_phone, _settled_numbers, "phonenumbers"),
    "name": (detect_name, _settled_nowhere, "presidio_analyzer"),
}

# A subset of the regular expressions that neither match white space nor look across white space.
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


def detector_for(pii_type: str, detector: DetectorLike | None) -> Detector:
    """Return a detector of any form in the uniform form."""
    if detector is None:
        expected = f"one of {', '.join(_BUILT_IN)}, or come with a detector"
        hint = "Pass detector=, a regular expression or a function."
        check_value("pii_type", pii_type, pii_type in _BUILT_IN, expected, hint)
        find, settle, package = _BUILT_IN[pii_type]
        if package:  # not imported yet: some imports take seconds
            require("pii", f"The detector of {pii_type!r}", package)
        return Detector(find, settle)
    if isinstance(detector, str | re.Pattern):
        require("pii", "A regular expression as a detector", "regex")
        regex = import_module("regex")
        source: object = detector if isinstance(detector, str) else detector.pattern
        if not isinstance(source, str):
            raise ValueError(f"detector of {pii_type!r} must match strings, got {source!r}.")
        # The two packages number their flags differently.
        flag_bits = 0 if isinstance(detector, str) else detector.flags
        flags = sum(getattr(regex, name) for name in "AIMSX" if flag_bits & getattr(re, name))
        try:
            expression = regex.compile(source, flags)
        except (regex.error, TypeError) as error:
            raise ValueError(
                f"detector of {pii_type!r} must be a regular expression: {error}."
            ) from error
        settle = _settled_words if _WITHOUT_SPACE.fullmatch(source) else _settled_nowhere
        return Detector(partial(_find_by_pattern, pii_type, expression), settle)
    expected = "a regular expression or a function of a text"
    check_value("detector", detector, callable(detector), expected, error=TypeError)
    # A partial of a built-in detector, with other arguments, settles as the built-in detector.
    function = detector.func if isinstance(detector, partial) else detector
    built_in = (settle for find, settle, _ in _BUILT_IN.values() if find == function)
    settle = next(built_in, _settled_nowhere)
    return Detector(partial(_find_by_function, pii_type, detector), settle)


def _find_by_pattern(pii_type: str, expression: Any, text: str) -> list[PIIMatch]:
    try:
        spans = [match.span() for match in expression.finditer(text, timeout=TIME_LIMIT)]
    except TimeoutError as error:
        raise TurnError(
            f"the detector of {pii_type}",
            f"took more than {TIME_LIMIT:g} s for a text of {len(text)} characters.",
            "Write the regular expression without nested repetition.",
        ) from error
    return _to_matches(pii_type, text, spans)


def _find_by_function(
    pii_type: str, function: Callable[[str], Sequence[Any]], text: str
) -> list[PIIMatch]:
    matches = function(text)
    try:
        spans = sorted((int(match["start"]), int(match["end"])) for match in matches)
    except (TypeError, KeyError, ValueError) as error:
        raise TurnError(
            f"the detector of {pii_type}",
            "did not return matches.",
            "Return a list of dicts with 'start' and 'end'.",
        ) from error
    return _to_matches(pii_type, text, spans)


# Rules

Strategy = Literal["redact", "block", "mask", "hash"]

# Default key of hashes: without the key nobody can look a value up, even with a table of hashes.
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
        self.pii_type, self.matches = pii_type, list(matches)


@dataclass(frozen=True)
class RedactionRule:
    """Replacement of one type of personal data in a text.

    Args:
        pii_type: As in `PIIMiddleware`.
        strategy: As in `PIIMiddleware`.
        detector: As in `PIIMiddleware`.
        hash_key: As in `PIIMiddleware`.

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
        is_name = isinstance(self.pii_type, str) and re.fullmatch(r"[\w .-]+", self.pii_type)
        expected = "a name of letters, digits, '_', '-', '.' or spaces"
        check_value("pii_type", self.pii_type, is_name, expected)
        check_choice("strategy", self.strategy, get_args(Strategy))
        if not isinstance(self.hash_key, bytes | str | None) or self.hash_key in (b"", ""):
            # The key is a secret, and not shown.
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
        return self._replace(text, self.find(text))

    def resolve(self) -> ResolvedRedactionRule:
        """Return the rule in the form that also returns its matches."""
        return ResolvedRedactionRule(self)

    def _replace(self, text: str, matches: Sequence[PIIMatch]) -> str:
        if matches and self.strategy == "block":
            raise PIIDetectionError(self.pii_type, matches)
        mask = _MASKS.get(self.pii_type)
        pieces: list[str] = []
        offset = 0
        for match in matches:
            value = match["value"]
            if self.strategy == "redact":
                replacement = f"[REDACTED_{self._label.upper()}]"
            elif self.strategy == "mask":
                last_characters = value[-4:] if len(value) > 4 else ""
                replacement = mask(value) if mask else f"****{last_characters}"
            else:
                key = _PROCESS_KEY if self.hash_key is None else self.hash_key
                # A text may hold half of a surrogate pair, which strict UTF-8 refuses.
                key = key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key
                digest = hmac.new(key, value.encode("utf-8", "surrogatepass"), "sha256")
                replacement = f"<{self._label}_hash:{digest.hexdigest()[:8]}>"
            pieces += text[offset : match["start"]], replacement
            offset = match["end"]
        return "".join([*pieces, text[offset:]])

    def find(self, text: str) -> list[PIIMatch]:
        """Return the matches in order and without overlap, except in marks of the rule."""
        result = self._detector.find(text)
        if self.strategy == "mask" and self.pii_type not in _MASKS:
            # The last characters of a masked value may look like another value.
            result = [
                m
                for m in result
                if m["end"] - m["start"] != 4 or not text.endswith("****", 0, m["start"])
            ]
        if not result or self._label.lower() not in text.lower():
            return result
        label = re.escape(self._label)
        mark = re.compile(rf"\[REDACTED_{label.upper()}\]|<{label}_hash:[0-9a-f]{{8}}>")
        marks = [occurrence.span() for occurrence in mark.finditer(text)]
        matches = []
        for match in result:
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


@dataclass(frozen=True)
class ResolvedRedactionRule:
    """Redaction rule that returns the matches along with the text, like LangChain's rules.

    Args:
        rule: The rule to apply.

    Attributes:
        pii_type: The kind of data.
        strategy: The kind of replacement.

    >>> RedactionRule("email").resolve().apply("Nobody wrote.")
    ('Nobody wrote.', [])
    """

    rule: RedactionRule

    @property
    def pii_type(self) -> str:
        return self.rule.pii_type

    @property
    def strategy(self) -> Strategy:
        return self.rule.strategy

    def detector(self, text: str) -> list[PIIMatch]:
        """Return the matches in order and without overlap, except in marks of the rule."""
        return self.rule.find(text)

    def apply(self, text: str) -> tuple[str, list[PIIMatch]]:
        """Return the text with each match replaced, and the matches.

        Raises:
            PIIDetectionError: There is a match, and the strategy is "block".
            TurnError: A regular expression took too long.
        """
        matches = self.rule.find(text)
        return self.rule._replace(text, matches), matches


def _mask_digits(value: str) -> str:
    hidden = [at for at, char in enumerate(value) if char.isdigit()][:-4]
    return "".join("*" if at in hidden else char for at, char in enumerate(value))


def _after_last_dot(value: str) -> str:
    return value.translate(_DOTS_TO_ASCII).rpartition(".")[2]


_MASKS: Mapping[str, Callable[[str], str]] = {
    # The first letter and the top-level domain: not a mail address, so it is not found again.
    "email": lambda value: f"{value[0]}***@****.{_after_last_dot(value)}",
    "credit_card": _mask_digits,
    "phone": _mask_digits,
    "ip": lambda value: (
        f"*:*:{value.rpartition(':')[2]}" if ":" in value else f"*.*.*.{_after_last_dot(value)}"
    ),
    "mac_address": lambda value: re.sub(r"[0-9A-Fa-f](?=.{2})", "*", value),
    "url": lambda value: "[MASKED_URL]",
    "name": lambda value: " ".join(f"{word[0]}***" for word in value.split()),
}
