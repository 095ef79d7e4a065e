"""Detectors and redaction rules: what they find, and that hostile text takes no more time."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_factory import TurnError
from agent_factory import middleware as m
from tables import each

BUILT_IN = ("email", "credit_card", "ip", "mac_address", "url", "phone")


def values(detect: Callable[[str], Any], text: str) -> list[str]:
    found = detect(text)
    assert all(text[match["start"] : match["end"]] == match["value"] for match in found)
    return [match["value"] for match in found]


TEXTS: dict[Any, list[tuple[str, list[str]]]] = {
    m.detect_email: [
        ("'bob@x.com', <amy@y.co.uk>.", ["bob@x.com", "amy@y.co.uk"]),
        ("mailto:bob+tag@x.com?subject=hi", ["bob+tag@x.com"]),
        ("o'neil@x.ie", ["o'neil@x.ie"]),
        ("josé@exámple.com 用户@例子.公司", ["josé@exámple.com", "用户@例子.公司"]),
        ("उपयोग@उदाहरण.भारत", ["उपयोग@उदाहरण.भारत"]),
        ('"john.doe"@x.com root@[192.168.0.1]', ['"john.doe"@x.com', "root@[192.168.0.1]"]),
        (r"{\"a\": \"\nbob@x.com\"}", ["bob@x.com"]),
        ("bob\uff20x.com", ["bob\uff20x.com"]),
        (
            "a\uff20\uff58\uff0eorg b\ufe6bx\uff0eorg.",
            ["a\uff20\uff58\uff0eorg", "b\ufe6bx\uff0eorg"],
        ),
        ("a@x\u3002org, a@x\uff61co\u3002uk\u3002", ["a@x\u3002org", "a@x\uff61co\u3002uk"]),
        ("写信给a@x.org\u3002谢谢\u3002请@小明\u3002谢谢", ["写信给a@x.org"]),
        ("@scope/pkg a@b b***@****.com [REDACTED_EMAIL]", []),
    ],
    m.detect_credit_card: [
        ("4242 4242 4242 4242", ["4242 4242 4242 4242"]),
        ("(4242-4242-4242-4242).", ["4242-4242-4242-4242"]),
        ("card:378282246310005, 3782 822463 10005", ["378282246310005", "3782 822463 10005"]),
        ("No 12: 4242424242424242", ["4242424242424242"]),
        ("\uff14\uff12" * 8, ["\uff14\uff12" * 8]),
        ("6304\u20090000\u20090000, 6304 0000 0001", ["6304\u20090000\u20090000"]),
        ("4242\t4242\xa04242\u20024242", ["4242\t4242\xa04242\u20024242"]),
        (
            "4242\u200b42\u200d42 4242\ufeff - \u20604242!",
            ["4242\u200b42\u200d42 4242\ufeff - \u20604242"],
        ),
        ("4242\uff0d4242\uff0e4242\u30024242\u3002", ["4242\uff0d4242\uff0e4242\u30024242"]),
        ("4242_4242_4242_4242, id_4242_4242_4242_4242_", ["4242_4242_4242_4242"] * 2),
        ("4242 4242 4242 4243", []),
        ("4200 0000 0000, 0400 0000 0008", []),
        ("1111\t4242 4242 4242 4242\t1111", ["4242 4242 4242 4242"]),
        ("a4242424242424242 4242424242424242x 0000 0000 0000 0000", []),
    ],
    m.detect_ip: [
        ("192.168.0.1:80, 10.0.0.1/8.", ["192.168.0.1", "10.0.0.1"]),
        ("[2001:db8::1]:80 ::ffff:1.2.3.4", ["2001:db8::1", "::ffff:1.2.3.4"]),
        ("fe80::1%eth0", ["fe80::1%eth0"]),
        ("192.168.001.010 000.0.0.1 001.2.3.4", ["192.168.001.010", "000.0.0.1", "001.2.3.4"]),
        ("::1.", ["::1"]),
        (
            "\uff11\uff0e\uff12\u30023\uff614\u3002 1.2.3.4\u3002",
            ["\uff11\uff0e\uff12\u30023\uff614", "1.2.3.4"],
        ),
        ("fe80::\uff11\uff21, \uff12\uff15\uff16.1.1.1", ["fe80::\uff11\uff21"]),
        ("v1.2.3.4 1.2.3.4.5 256.1.1.1 01.2.3.4 10:20:30 std::vector a::b ::", []),
    ],
    m.detect_mac_address: [
        ("00:1a:2b:3c:4d:5e, 00-1A-2B-3C-4D-5E", ["00:1a:2b:3c:4d:5e", "00-1A-2B-3C-4D-5E"]),
        ("001a.2b3c.4d5e", ["001a.2b3c.4d5e"]),
        ("00:11:22:33:44:55:66:77", ["00:11:22:33:44:55:66:77"]),
        ("00:1a-2b:3c:4d:5e 00:1a:2b:3c:4d", []),
    ],
    m.detect_url: [
        ("(see https://a.org/x_(y)), www.b.de!", ["https://a.org/x_(y)", "www.b.de"]),
        ("[x](http://a.b/c?d=e) <ftp://u:p@h/y>", ["http://a.b/c?d=e", "ftp://u:p@h/y"]),
        ("postgres://u:p@db:5432/x", ["postgres://u:p@db:5432/x"]),
        (r'{"a": "\nhttps://x.y"}', ["https://x.y"]),
        ("http:// a.b/c ://x 1.2/3 x/y.md and/or a@b.de/c", []),
        ("go a.de/r?to=https://b.de/c, b.de:80/c", ["a.de/r?to=https://b.de/c", "b.de:80/c"]),
        (
            "https://a\u3002org/b\u3002 http://a\uff0eorg",
            ["https://a\u3002org/b", "http://a\uff0eorg"],
        ),
        (
            "www\uff0ea\uff0ede www\u3002a\u3002de\u3002",
            ["www\uff0ea\uff0ede", "www\u3002a\u3002de"],
        ),
        ("\uff48ttp\uff1a\uff0f\uff0fa.b/c", ["\uff48ttp\uff1a\uff0f\uff0fa.b/c"]),
        ("见https://a.org/b\u3002谢谢", ["https://a.org/b"]),
    ],
    m.detect_phone: [
        ("+44 (0)20 7031 3000 or 650-253-0000.", ["+44 (0)20 7031 3000", "650-253-0000"]),
        ("(650) 253-0000 ext. 12", ["(650) 253-0000 ext. 12"]),
        ("On 3/10/2011, 650-253-0000", ["650-253-0000"]),
        ("$6502530000 2012-01-02 08:00 a6502530000 12345", []),
    ],
}
"""Texts for each detector, and the values that it finds."""


@each("detect", TEXTS)
def test_a_detector_finds_its_values_and_nothing_else(detect: Any) -> None:
    for text, expected in TEXTS[detect]:
        assert values(detect, text) == expected


def test_telephone_numbers_of_another_country() -> None:
    german, world = (partial(m.detect_phone, region=region) for region in ("DE", None))
    assert values(german, "030 901820") == ["030 901820"]
    assert values(m.detect_phone, "030 901820") == []
    assert values(world, "650-253-0000, +16502530000") == ["+16502530000"]
    with pytest.raises(ValueError, match="such as 'US' or 'DE', got 'Germany'"):
        m.detect_phone("650-253-0000", region="Germany")


@pytest.fixture(scope="module")
def analyzer() -> Any:
    """Presidio with a language model that only splits text into words."""
    presidio = pytest.importorskip("presidio_analyzer", reason="the extra pii is not installed")
    import spacy
    from presidio_analyzer.nlp_engine import SpacyNlpEngine

    words: Any = SpacyNlpEngine(models=[{"lang_code": "en", "model_name": "none"}])
    words.nlp = {"en": spacy.blank("en")}
    people = presidio.PatternRecognizer(
        supported_entity="PERSON", deny_list=["Ada Lovelace", "Grace"]
    )
    registry = presidio.RecognizerRegistry(recognizers=[people])
    return presidio.AnalyzerEngine(registry=registry, nlp_engine=words)


@pytest.mark.long
def test_names_are_found_by_presidio_without_the_network(
    analyzer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    rule = m.RedactionRule("name", "mask", partial(m.detect_name, analyzer=analyzer))
    assert rule.apply("Ada Lovelace met \ud800 Grace.") == "A*** L*** met \ud800 G***."
    long = "x " * 60_000 + "Grace"
    assert values(partial(m.detect_name, analyzer=analyzer), long) == ["Grace"]
    with pytest.raises(ImportError, match="python -m spacy download en_core_web_lg"):
        m.detect_name("Ada")


def test_each_type_has_a_mark_a_mask_and_a_hash() -> None:
    text = {
        "email": "ada@example.com",
        "credit_card": "4242-4242-4242-4242",
        "ip": "192.168.10.77",
        "mac_address": "00-1a-2b-3c-4d-5e",
        "url": "https://a.org/b",
        "phone": "+1 650 253 0000",
    }
    masked = {kind: m.RedactionRule(kind, "mask").apply(value) for kind, value in text.items()}
    assert masked == {
        "email": "a***@****.com",
        "credit_card": "****-****-****-4242",
        "ip": "*.*.*.77",
        "mac_address": "**-**-**-**-**-5e",
        "url": "[MASKED_URL]",
        "phone": "+* *** *** 0000",
    }
    assert m.RedactionRule("ip", "mask").apply("at fe80::1") == "at *:*:1"
    for kind, value in text.items():
        assert m.RedactionRule(kind).apply(f"({value})") == f"([REDACTED_{kind.upper()}])"
        token = m.RedactionRule(kind, "hash").apply(value)
        assert re.fullmatch(rf"<{kind}_hash:[0-9a-f]{{8}}>", token)


def test_the_same_value_has_the_same_keyed_hash() -> None:
    text = "ada@example.com \ud800ada@example.com eve@example.com"
    first, odd, third = m.RedactionRule("email", "hash").apply(text).split()
    assert first == m.RedactionRule("email", "hash").apply(text).split()[0]
    assert len({first, odd, third}) == 3
    keyed = m.RedactionRule("email", "hash", hash_key="secret").apply(text)
    assert keyed == m.RedactionRule("email", "hash", hash_key=b"secret").apply(text)
    # hmac.new(b"secret", b"ada@example.com", "sha256"), and never the bare sha256.
    assert keyed.split()[0] == "<email_hash:d1da3149>"
    assert first != keyed.split()[0]
    assert "secret" not in repr(m.RedactionRule("email", "hash", hash_key="secret"))


def test_block_raises_without_showing_the_data_and_a_resolved_rule_returns_the_matches() -> None:
    """The latter as code that is written for LangChain's rules expects."""
    match = {"type": "email", "value": "ada@x.org", "start": 4, "end": 13}
    block = m.RedactionRule("email", "block")
    for rule in (block, block.resolve()):
        with pytest.raises(m.PIIDetectionError) as raised:
            rule.apply("ask ada@x.org")
    error = raised.value
    assert (error.code, error.pii_type, error.matches) == ("AF344", "email", [match])
    assert "ada" not in f"{error} {error!r}"
    assert block.apply("ask me") == "ask me"
    resolved = m.RedactionRule(pii_type="email", strategy="mask", detector=None).resolve()
    assert resolved.apply("ask ada@x.org") == ("ask a***@****.org", [match])
    assert resolved.apply("ask me") == ("ask me", [])
    assert resolved.detector("ask ada@x.org") == [match]
    assert (resolved.pii_type, resolved.strategy) == ("email", "mask")
    assert resolved == m.RedactionRule("email", "mask").resolve()


def test_a_regular_expression_or_a_function_is_a_detector() -> None:
    assert m.RedactionRule("key", "mask", r"\bsk-\w+").apply("sk-abcd1234") == "****1234"
    compiled = re.compile(r"SK-\w+", re.IGNORECASE)
    assert m.RedactionRule("api key", detector=compiled).apply("sk-1") == "[REDACTED_API_KEY]"

    def find(text: str) -> list[dict[str, int]]:
        return [{"start": 2, "end": 9999}, {"start": -1, "end": 3}]

    assert m.RedactionRule("all", detector=find).apply("abcd") == "[REDACTED_ALL]"


@each("answer", [None, [1], [{"start": 0}], [{"start": "x", "end": 1}], "ab"])
def test_a_function_that_returns_no_matches_is_an_error(answer: Any) -> None:
    rule = m.RedactionRule("mine", detector=lambda _: answer)
    with pytest.raises(TurnError, match="the detector of mine: did not return matches"):
        rule.apply("text")
    broken = m.RedactionRule("mine", detector=lambda text: {"a": 1}["b"])  # type: ignore[arg-type,return-value]
    with pytest.raises(KeyError, match="b"):
        broken.apply("text")


def test_only_what_needs_an_extra_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("stdnum", "phonenumbers", "presidio_analyzer", "regex"):
        monkeypatch.setitem(sys.modules, package, None)
    for kind in set(BUILT_IN) - {"phone"}:
        m.RedactionRule(kind)
    m.RedactionRule("mine", detector=lambda text: [])
    assert m.RedactionRule("credit_card").apply("4242 4242 4242 4242") == "[REDACTED_CREDIT_CARD]"
    for arguments, feature, package in (
        (("phone",), "The detector of 'phone'", "phonenumbers"),
        (("name",), "The detector of 'name'", "presidio_analyzer"),
        (("key", "redact", r"sk-\w+"), "A regular expression as a detector", "regex"),
    ):
        with pytest.raises(ImportError, match=f"^{feature} needs the extra `pii`") as error:
            m.RedactionRule(*arguments)
        assert error.value.name == package


def test_a_regular_expression_that_backtracks_forever_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit = 0.05  # waits: an expression that never ends reaches its limit
    monkeypatch.setattr("agent_factory.middleware._shared.redaction.TIME_LIMIT", limit)
    rule = m.RedactionRule("bad", detector=r"(?:a|aa|a?)+(?:b|c)$")
    with pytest.raises(TurnError, match=r"took more than 0\.05 s for a text of 60 characters"):
        rule.apply("a" * 60)


HOSTILE = (
    *("a", "a@", "@", "a.", "x@a.", "'", '"a', "1", ":", "a:", "1.", "aa:", "://", "a://"),
    *("1\u200b", "1\u2009", "a@x\u3002", "http://a\u3002", "1\u3002", "\u200b"),
    *(")", "(", "+", "\\n", "www.", "http://(", "\ud800", " ", "sk-", '"a@b.', "+(", "ext"),
    *("1 ", "123 ", "4242 ", "4-", "1/", "+1 650 253 0000 "),
)


@pytest.mark.long
@pytest.mark.parametrize("kind", BUILT_IN)
def test_a_value_is_found_after_any_amount_of_hostile_text(kind: str) -> None:
    """In quadratic time, any of these texts would take minutes: more than a test may take."""
    value = VALUES[kind]
    for piece in HOSTILE:
        size = 3_000 if kind == "phone" and piece[0] in "1234+" else 60_000
        (*_, match) = m.RedactionRule(kind).find(f"{(piece * size)[:size]}\n\n{value}")
        assert match["value"] == value, piece


FULL_WIDTH = {ord(char): chr(ord(char) + 0xFEE0) for char in "0123456789abcdef@."}
VALUES = {
    "email": "ada@x1.org",
    "ip": "192.168.0.71",
    "url": "www.a1.org",
    "credit_card": "4242424242424242",
    "mac_address": "00-1a-2b-3c-4d-5e",
    "phone": "650-253-0000",
}


@given(
    st.sampled_from(["credit_card", "email", "ip", "url"]),
    st.lists(st.integers(0, 2), min_size=16, max_size=16),
    st.data(),
)
def test_a_value_is_found_in_any_width_at_its_place(
    kind: str, widths: list[int], data: st.DataObject
) -> None:
    """Each character plain or in full width; a dot may be the full stop of Chinese, too."""
    value = VALUES[kind]
    host = value.find("@") + 1
    stops = "." not in value[host:] or data.draw(st.booleans())
    written = ""
    for char, width in zip(value, widths, strict=False):
        wide = char.translate(FULL_WIDTH) if width else char
        written += "\u3002" if char == "." and stops else wide
    text = f"\u4f60\u597d\uff1a {written}\u3002 \u8c22\u8c22"
    (found,) = m.RedactionRule(kind).find(text)
    assert (found["value"], found["start"]) == (written, 4)
    assert m.RedactionRule(kind).apply(text) == text.replace(written, f"[REDACTED_{kind.upper()}]")
    masked = m.RedactionRule(kind, "mask").apply(text)
    assert written not in masked
    assert m.RedactionRule(kind, "mask").apply(masked) == masked


GAPS = st.text(" \t\xa0\u2009\u202f\u3000-\u2010\u2212\uff0d.\uff0e", min_size=1, max_size=1)
INVISIBLE = st.text("\u200b\u200c\u200d\u2060\ufeff\xad", max_size=2)


@given(st.text("0123456789", min_size=12, max_size=18), GAPS, st.lists(INVISIBLE, max_size=30))
def test_a_card_number_is_found_however_it_is_written(
    digits: str, gap: str, invisible: list[str]
) -> None:
    """One check digit of ten is valid."""
    digits = f"4{digits[1:]}"
    valid = [f"{digits}{check}" for check in range(10) if m.detect_credit_card(f"{digits}{check}")]
    (number,) = valid
    written = ""
    for at, digit in enumerate(number):
        written += gap if at and at % 4 == 0 else ""
        written += digit + (invisible[at] if at + 1 < len(number) and at < len(invisible) else "")
    assert values(m.detect_credit_card, f"My card: {written}, ok") == [written]


PIECES = (
    *("ada@x.org", "4242 4242 4242 4242", "+1 650 253 0000", "650-253-0000", "1.2.3.4", "fe80::1"),
    *("00:1a:2b:3c:4d:5e", "https://a.b/c", "www.a.de", " ext. 12", " e", "x", "4242", "7", "12"),
    *(*" .,:;@-/()[]%$\n\t\\", "\u3002", "\ud800", "é", "3/10/2011", "sk-ab", "\xa0"),
    *("\uff20", "\uff0e", "\uff11", "\u200b", "\u2009", "org", "\u3002org"),
)
TEXT = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


@example("ada@x.org%ada@x.org", "email")  # one begins where another has ended
@given(TEXT, st.sampled_from(BUILT_IN))
def test_redaction_is_idempotent_and_leaves_no_match_and_typed_marks(text: str, kind: str) -> None:
    rule = m.RedactionRule(kind)
    once = rule.apply(text)
    for match in rule.find(text):
        assert match["value"] not in rule.apply(match["value"])
    assert rule.apply(once) == once
    rule = m.RedactionRule("word", detector=r"[A-Z_]{6,}|\d+")
    marked = f"[REDACTED_WORD] {text} <word_hash:00000000>"
    once = rule.apply(marked)
    assert once.startswith("[REDACTED_WORD] ")
    assert once.endswith(" <word_hash:00000000>")
    assert rule.apply(once) == once
