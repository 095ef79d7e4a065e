"""Figures of words: words of an unclear style, and names with little meaning."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterable

from measures.source import ROOT, Source

_PRIVATE = re.compile(
    r"\b(?:mend\w*|heal(?:s|ed|ing)?|told|tells? (?:of|the model)|colours?|aloud|silenced?"
    r"|heard|hears|dear|anew"  # but `when=\"beside\"`, a value of GuardMiddleware
    r"|(?<![\x22\x27])beside(?![\x22\x27])|unsaid|lead(?:s|ing)? past|kin|worth its while|whoever"
    r"|whomever|in vain|as ever|of its own|hand(?:s|ed)? on|ends? with words|comes? of|purse"
    r"|(?<!there )(?:is|are) no (?!longer|more|need)\w+|wants? to be)\b",
    re.IGNORECASE,
)

_PAGES = (
    *("README.md", "CONTRIBUTING.md", "docs/**/*.md", "agent_factory/.agents/**/*.md"),
    *("examples/**/*.py", "scripts/**/*.py"),
)


def pages() -> list[Source]:
    """The docs, the examples and the scripts; but not this file, which lists the words."""
    paths = [path for pattern in _PAGES for path in sorted(ROOT.glob(pattern))]
    return [
        Source(str(path.relative_to(ROOT)), path.read_text())
        for path in paths
        if path != ROOT / "scripts" / "measures" / "words.py"
    ]


def private_words(files: Iterable[Source]) -> list[str]:
    """Each line of source and docs with any of the words."""
    return [
        f"{file.name}:{number} {match[0]}"
        for file in files
        for number, line in enumerate(file.text.splitlines(), 1)
        if (match := _PRIVATE.search(line))
    ]


_PARTICIPLE = re.compile(
    r"\w+ed|one|begun|bought|broken|built|caught|chosen|dealt|done|drawn|driven|fallen|found|forgotten"
    r"|given|gone|grown|heard|held|kept|known|laid|led|lent|lost|made|meant|met|own|paid|risen|said"
    r"|seen|sent|shown|shut|sold|sought|spent|spoken|stolen|taken|taught|thrown|told|torn|understood"
    r"|unknown|unseen|unwritten|withdrawn|won|worn|written"
)
_FIELD = re.compile(
    r"allowed|cached|cancelled|changed|closed|created|decoded|deprecated|elapsed|enabled|encoded"
    r"|escaped|expected|failed|fused|hidden|injected|merged|nested|parsed|required|reserved"
    r"|serialized|structured|typed|embed|exceed|feed|need|proceed|seed|speed|\w+_\w+"
)
"""Good names: terms of the field, words without a participle, an adjective before a noun."""


def is_participle(name: str) -> bool:
    """Return True for a participle alone, as `found` or `asked`, and for `one`."""
    word = name.strip("_").lower()
    return _PARTICIPLE.fullmatch(word) is not None and not _FIELD.fullmatch(word)


_WORD = re.compile(r"[A-Za-z']+")


def rate(text: str, words: str) -> float:
    """Number of occurrences of some words per 1,000 words of a text.

    Args:
        text: The text.
        words: A regular expression for a word, in lower case.
    """
    every = [word.lower() for word in _WORD.findall(text)]
    hits = sum(re.fullmatch(words, word) is not None for word in every)
    return round(1000 * hits / max(len(every), 1), 1)


def prose(files: Iterable[Source]) -> str:
    """The comments and docstrings of some files, without the code of examples."""
    parts: list[str] = []
    for file in files:
        parts += [
            line
            for docstring in file.docstrings
            for line in str(docstring.value).splitlines()
            if not line.lstrip().startswith((">>>", "..."))
        ]
        parts += [token.string for token in file.tokens if token.type == tokenize.COMMENT]
    return "\n".join(parts)
