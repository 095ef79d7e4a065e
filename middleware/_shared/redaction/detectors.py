"""What finds personal data in text: patterns that take time in proportion to the text, no more.

A pattern looks at each character a bounded number of times. What it finds is then judged by those
who know: the standard library's `ipaddress`, python-stdnum, phonenumbers, presidio.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from sys import maxsize
from typing import Any, TypedDict


class PIIMatch(TypedDict):
    """A place in a text where personal data stands.

    Attributes:
        type: What kind of data, "email" for example.
        value: The data itself.
        start: Where it begins, in characters.
        end: Where it ends: the first character after it.
    """

    type: str
    value: str
    start: int
    end: int


Span = tuple[int, int]

_FOREIGN = "\u2018-\u201f\u3001-\u3003\u3008-\u3011\uff01\uff08\uff09\uff0c\uff1a\uff1b\uff1f"
"""Quotation marks, and the punctuation of scripts that put no space after it."""

_LOCAL = rf"[^\s@\uff20<>()\[\],;:\"\\/=?&{{}}|`{_FOREIGN}]"
_LABEL = rf"[^\s@\uff20<>()\[\],;:\"'\\/=?&{{}}|`!#$%*+^~.{_FOREIGN}]"
_DOMAIN = rf"[@\uff20](?:{_LABEL}++(?:\.{_LABEL}++)++|\[[0-9A-Za-z:.]{{2,64}}\])"
# Begun only where a run begins: a run without an address is read once.
_EMAIL = re.compile(rf'(?:"[^"\s]{{1,64}}"|(?<!{_LOCAL}){_LOCAL}++){_DOMAIN}')
_NEXT_EMAIL = re.compile(rf"{_LOCAL}++{_DOMAIN}")
"""One that begins where another has ended."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}\Z")
_ADDRESS = re.compile(rf"[^\s<>\"`|\\^{{}}{_FOREIGN}]++")
_WWW = re.compile(r"(?<![\w.-])www\.(?=\w)", re.IGNORECASE)
_IPV4 = re.compile(r"(?<![^\W_])(?<!\d\.)[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![^\W_])(?!\.\d)")
_IPV6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f:.]{2,45}+(?![\w:])")
_ZONE = re.compile(r"%[\w.-]{1,32}")
_MAC = re.compile(
    r"(?<![0-9A-Za-z])(?<![0-9A-Fa-f]{2}:)"
    r"(?:[0-9A-Fa-f]{2}([:-])(?:[0-9A-Fa-f]{2}\1){4}(?:[0-9A-Fa-f]{2}\1[0-9A-Fa-f]{2}\1)?"
    r"[0-9A-Fa-f]{2}|[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4})"
    r"(?![0-9A-Za-z])(?!:[0-9A-Fa-f]{2})"
)
_ESCAPED = re.compile(r"u[0-9A-Fa-f]{4}|[nrtbf]")


def detect_email(text: str) -> list[PIIMatch]:
    r"""Mail addresses, internationalised ones too.

    >>> [match["value"] for match in detect_email("Write to ada@example.com, please.")]
    ['ada@example.com']
    """
    return _matches("email", text, _emails(text))


def detect_credit_card(text: str) -> list[PIIMatch]:
    """Payment card numbers: 13 to 19 digits (ISO/IEC 7812) whose check digit is right.

    The digits may stand in groups, parted by spaces, hyphens or dots.

    Raises:
        ImportError: python-stdnum is not installed.

    >>> [match["value"] for match in detect_credit_card("4242 4242 4242 4242, not ...4243")]
    ['4242 4242 4242 4242']
    """
    return _matches("credit_card", text, _cards(text))


def detect_ip(text: str) -> list[PIIMatch]:
    """IPv4 and IPv6 addresses.

    >>> [match["value"] for match in detect_ip("192.168.0.7 and fe80::1, not 300.1.1.1")]
    ['192.168.0.7', 'fe80::1']
    """
    return _matches("ip", text, sorted([*_ipv4s(text), *_ipv6s(text)]))


def detect_mac_address(text: str) -> list[PIIMatch]:
    """MAC addresses of 48 or 64 bits, in pairs or in the groups of four that routers print.

    >>> [match["value"] for match in detect_mac_address("eth0 00:1a:2b:3c:4d:5e")]
    ['00:1a:2b:3c:4d:5e']
    """
    return _matches("mac_address", text, (found.span() for found in _MAC.finditer(text)))


def detect_url(text: str) -> list[PIIMatch]:
    """Addresses with a scheme, and bare ones that begin with `www.`.

    >>> [match["value"] for match in detect_url("(see https://example.com/a?b=c, www.example.org)")]
    ['https://example.com/a?b=c', 'www.example.org']
    """
    return _matches("url", text, _urls(text))


def detect_phone(text: str, region: str | None = "US") -> list[PIIMatch]:
    """Telephone numbers that exist in some numbering plan.

    Numbers with a country code are found everywhere. Those without are read as numbers of
    `region`; for another country give `detector=functools.partial(detect_phone, region="DE")`.

    Args:
        text: Where to look.
        region: A country as in ISO 3166, or None to find only numbers with a country code.

    Raises:
        ImportError: phonenumbers is not installed.
        ValueError: There is no such region.

    >>> [match["value"] for match in detect_phone("Call +44 20 7031 3000 or (650) 253-0000.")]
    ['+44 20 7031 3000', '(650) 253-0000']
    """
    return _matches("phone", text, _phones(text, region))


def detect_name(text: str, analyzer: Any = None) -> list[PIIMatch]:
    """Names of people, found by presidio.

    It finds names with a language model of spaCy, which is yours to choose and to install; none is
    ever downloaded. Without an analyzer, the English one that presidio takes by default is used:
    `python -m spacy download en_core_web_lg`. For another one, give
    `detector=functools.partial(detect_name, analyzer=my_engine)`.

    Args:
        text: Where to look.
        analyzer: A `presidio_analyzer.AnalyzerEngine`; it is asked in its first language.

    Raises:
        ImportError: presidio-analyzer or its language model is not installed.
    """
    engine = _default_analyzer() if analyzer is None else analyzer
    return _matches("name", text, _names(text, engine))


def needed(package: str, what: str) -> Any:
    """A package of the extra `pii`.

    Raises:
        ImportError: It is not installed; the message says how to install it.
    """
    try:
        return import_module(package)
    except ImportError as error:
        raise ImportError(
            f"{what} needs the package {package.partition('.')[0]}. "
            "Install it: pip install 'agent-factory[pii]'."
        ) from error


def _matches(kind: str, text: str, spans: Iterable[Span]) -> list[PIIMatch]:
    """The spans as matches; of two that overlap, the second is shortened or left out."""
    found: list[PIIMatch] = []
    done = 0
    for start, end in spans:
        start = max(start, done)
        if start < end:
            found.append(PIIMatch(type=kind, value=text[start:end], start=start, end=end))
            done = end
    return found


def _unescaped(text: str, start: int) -> int:
    """Where a match begins that an escape of JSON, such as \\n, stands glued to."""
    if start and text[start - 1] == "\\" and (escape := _ESCAPED.match(text, start)):
        return escape.end()
    return start


def _emails(text: str) -> Iterator[Span]:
    for found in _mailboxes(text):
        start, end = _unescaped(text, found.start()), found.end()
        start += len(text[start:end]) - len(text[start:end].lstrip("'.*-_~+"))
        end -= len(found[0]) - len(found[0].rstrip("-_"))
        if text[start] not in "@\uff20":
            yield start, end


def _mailboxes(text: str) -> Iterator[re.Match[str]]:
    found = _EMAIL.search(text)
    while found:
        yield found
        found = _NEXT_EMAIL.match(text, found.end()) or _EMAIL.search(text, found.end())


def _urls(text: str) -> Iterator[Span]:
    done = 0
    for start, address in sorted([*_with_scheme(text), *_with_www(text)]):
        if start >= done and (found := _ADDRESS.match(text, address)):
            done = found.start() + _without_punctuation(found[0])
            yield start, done


def _with_scheme(text: str) -> Iterator[Span]:
    """Where an address begins, and where what follows its scheme does."""
    for mark in re.finditer("://", text):
        before = text[max(0, mark.start() - 31) : mark.start()]
        if scheme := _SCHEME.search(before):
            yield _unescaped(text, mark.start() - len(scheme[0])), mark.end()


def _with_www(text: str) -> Iterator[Span]:
    return (found.span() for found in _WWW.finditer(text))


_CLOSING = {")": "(", "]": "["}


def _without_punctuation(address: str) -> int:
    """Where an address ends, without what ends the sentence; a bracket stays with its pair."""
    open_ones = {
        last: address.count(first) - address.count(last) for last, first in _CLOSING.items()
    }
    end = len(address)
    while end:
        last = address[end - 1]
        if last not in ".,;:!?'*_)]" or open_ones.get(last, -1) >= 0:
            break
        open_ones[last] = open_ones.get(last, 0) + 1 if last in _CLOSING else -1
        end -= 1
    return end


def _ipv4s(text: str) -> Iterator[Span]:
    for found in _IPV4.finditer(text):
        if _is_address(IPv4Address, found[0]):
            yield found.span()


def _ipv6s(text: str) -> Iterator[Span]:
    for found in _IPV6.finditer(text):
        bare = found[0].rstrip(".")
        bare = bare if bare.endswith("::") else bare.rstrip(":")
        # "a::b" is what programs say as well.
        telling = bare.count(":") > 2 or any(map(str.isdigit, bare))
        if bare.count(":") > 1 and telling and _is_address(IPv6Address, bare):
            end = found.start() + len(bare)
            zone = _ZONE.match(text, end)
            yield found.start(), zone.end() if zone else end


def _is_address(kind: type[IPv4Address] | type[IPv6Address], text: str) -> bool:
    try:
        kind(text)
    except AddressValueError:
        return False
    return True


_CARD_RUN = re.compile(r"(?<![^\W_])\d++(?:[ \xa0\u202f.\-\u2010-\u2015]{1,3}\d++)*+")
_DIGITS = re.compile(r"\d++")
_CARD_SIZES = range(13, 20)
_SHORTEST_GROUP = 4
"""Digits of any group of a card number but its last: 4-4-4-4, 4-6-5 and their like."""


def _cards(text: str) -> Iterator[Span]:
    is_valid = needed("stdnum.luhn", "detect_credit_card").is_valid
    for run in _CARD_RUN.finditer(text):
        if run.end() - run.start() < _CARD_SIZES.start:
            continue
        groups = [group.span() for group in _DIGITS.finditer(text, *run.span())]
        if text[run.end() : run.end() + 1].isalpha():
            groups.pop()  # it is the beginning of a word
        at = 0
        while at < len(groups):
            count = _card_at(text, groups, at, is_valid)
            if count:
                yield groups[at][0], groups[at + count - 1][1]
            at += count or 1


def _card_at(text: str, groups: Sequence[Span], at: int, is_valid: Any) -> int:
    """How many groups, from one on, are a card number; the most that could be."""
    digits, found = "", 0
    if groups[at][1] - groups[at][0] < _SHORTEST_GROUP:
        return 0
    for index in range(at, len(groups)):
        start, end = groups[index]
        if len(digits) + end - start >= _CARD_SIZES.stop:
            break
        digits += "".join(str(int(digit)) for digit in text[start:end])
        if len(digits) in _CARD_SIZES and digits[0] != "0" and is_valid(digits):
            found = index - at + 1
        if end - start < _SHORTEST_GROUP:
            break
    return found


_PHONE_RUN = re.compile(
    r"[+\uff0b(\uff08\[]{0,3}\d[\d +\uff0b()\uff08\uff09\[\]./~\-\u2010-\u2015\u2212\u30fc\uff0d"
    r"\xa0\xad\u200b\u2060\u3000\uff0e]*+"
    r"(?:(?:;?ext(?:n|ension)?|[x#])[.:=]{0,2} ?\d{1,7}(?!\d))?",
    re.IGNORECASE,
)


_DATE = re.compile(r"(?<!\d)\d{1,2}/\d{1,2}/\d{2,4}(?!\d)")
_FEWEST_DIGITS = 6


def _phones(text: str, region: str | None) -> Iterator[Span]:
    phonenumbers = needed("phonenumbers", "detect_phone")
    if region is not None and region not in phonenumbers.SUPPORTED_REGIONS:
        raise ValueError(f"region must be a country code such as 'US' or 'DE', not {region!r}.")
    for start, end in _phone_runs(text):
        if sum(map(str.isdigit, text[start:end])) < _FEWEST_DIGITS:
            continue
        # What stands around it tells an amount, a time or a part of a word from a number.
        before, after = max(0, start - 1), end + 3
        for found in phonenumbers.PhoneNumberMatcher(text[before:after], region, max_tries=maxsize):
            # "(+1 650 253 0000)" is found without the bracket that closes it.
            whole = ")" in found.raw_string or not found.raw_string.startswith("(")
            yield before + found.start + (not whole), before + found.end


def _phone_runs(text: str) -> Iterator[Span]:
    """Digits with what may stand between them; a date is none, and hides none beside it."""
    for run in _PHONE_RUN.finditer(text):
        start = run.start()
        for date in _DATE.finditer(text, *run.span()):
            yield start, date.start()
            start = date.end()
        yield start, run.end()


_PAGE = re.compile(r"(?s).{1,100000}(?:\s|\Z)|.{1,100000}")
"""What presidio reads at once: spaCy takes no more than a million characters."""

_SURROGATES = re.compile("[\ud800-\udfff]")


def _names(text: str, engine: Any) -> Iterator[Span]:
    language = engine.supported_languages[0]
    for page in _PAGE.finditer(_SURROGATES.sub("\ufffd", text)):
        found = engine.analyze(text=page[0], language=language, entities=["PERSON"])
        for start, end in sorted((result.start, result.end) for result in found):
            yield page.start() + start, page.start() + end


@lru_cache(maxsize=1)
def _default_analyzer() -> Any:
    presidio = needed("presidio_analyzer", "detect_name")
    import spacy

    if not spacy.util.is_package("en_core_web_lg"):
        raise ImportError(
            "detect_name needs a language model. Install the default one, python -m spacy download "
            "en_core_web_lg, or give your own AnalyzerEngine: "
            "detector=functools.partial(detect_name, analyzer=engine)."
        )
    return presidio.AnalyzerEngine()
