"""Source text in, new text and findings out."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from functools import partial

import libcst as cst

from agent_factory.migrate.bindings import Binding, bindings_of
from agent_factory.migrate.calls import CallSite, calls_of, keyword_changes
from agent_factory.migrate.deep_stack import with_deep_stack
from agent_factory.migrate.imports import Imports, is_taken
from agent_factory.migrate.moves import AGENT, KEYWORDS, REACTS, ROOT, TO_AGENT, home_of
from agent_factory.migrate.source import Source, UnreadableSource
from agent_factory.migrate.to_create_agent import problems_of
from agent_factory.migrate.values import Edit, Factory, Finding, Migration, Symbol, apply

_DOTTED = re.compile(r"(langgraph\.prebuilt|langchain\.agents)(\.\w+)*")

_WORDS = [
    [re.compile(rf"\b{word}\b") for word in group]
    for group in (("prebuilt",), ("langchain", "agents"), ("agent_factory", "create_react_agent"))
]
"""What moves cannot be named without all words of one of these groups."""


def migrate_bytes(data: bytes, to: Factory = Factory.REACT) -> tuple[bytes, Migration]:
    """A file's new bytes, in its own encoding, and what became of its text.

    Args:
        data: The bytes of the file.
        to: What calls of `create_react_agent` become.

    Raises:
        UnreadableSource: It is no Python, or not in the encoding that it names.

    >>> migrate_bytes(b"\\xef\\xbb\\xbffrom langchain.agents import AgentState\\r\\n")[0]
    b'\\xef\\xbb\\xbffrom agent_factory import AgentState\\r\\n'
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise UnreadableSource(str(error)) from None
    if text.encode(encoding) != data:
        raise UnreadableSource(f"{encoding} would not give back each of its bytes")
    done = migrate_source(text, to)
    return done.text.encode(encoding), done


def migrate_source(text: str, to: Factory = Factory.REACT) -> Migration:
    """A source on agent_factory.

    Imports from `langgraph.prebuilt` and `langchain.agents` become imports from agent_factory, and
    keywords with another name are renamed. What is not rewritten stays byte for byte.

    Args:
        text: Python source, with its line breaks as they are.
        to: What calls of `create_react_agent` become. With `Factory.AGENT`, those whose parameters
            all have a counterpart become calls of `create_agent`; each other one stays, and is
            told as a finding.

    Raises:
        UnreadableSource: It cannot be parsed.

    >>> old = '''from langgraph.prebuilt import create_react_agent
    ... create_react_agent(model, [], prompt="Be brief.")
    ... '''
    >>> print(migrate_source(old, Factory.AGENT).text, end="")
    from agent_factory import create_agent
    create_agent(model, [], system_prompt="Be brief.")
    """
    # Most files of a folder have nothing that moves, and parsing takes a hundred times as long.
    if not any(all(word.search(text) for word in group) for group in _WORDS):
        return Migration(text, text)
    try:
        return with_deep_stack(lambda: _migrated(Source(text), to))
    except RecursionError:
        raise UnreadableSource("it is nested too deeply") from None


def _migrated(source: Source, to: Factory) -> Migration:
    changes = list(_changes(source, to))
    data = apply(source.data, (change for change in changes if isinstance(change, Edit)))
    findings = sorted({change for change in changes if isinstance(change, Finding)})
    return Migration(source.data.decode(), data.decode(), tuple(findings))


def _changes(source: Source, to: Factory) -> Iterator[Edit | Finding]:
    bindings = bindings_of(source)
    calls = calls_of(source, bindings)
    problems = {
        site: [*_doubts(site, bindings), *problems_of(site)]
        for site in calls
        if to is Factory.AGENT and site.symbol in REACTS
    }
    converted = {site for site, found in problems.items() if not found}
    for site in calls:
        yield from problems.get(site, ())
        rows = TO_AGENT if site in converted else KEYWORDS.get(site.symbol, {})
        yield from keyword_changes(site, rows)
    if to is Factory.AGENT:
        yield from _uncalled(source, bindings, calls)
    imports = Imports(source, bindings, frozenset(site.use for site in converted))
    yield from imports.edits()
    yield from imports.findings()
    yield from map(
        partial(_told, source), filter(_names_what_moves, source.every(cst.SimpleString))
    )


def _doubts(site: CallSite, bindings: Iterable[Binding]) -> Iterator[Finding]:
    """What keeps a call of `create_react_agent` as it is, whatever its arguments are."""
    called = site.source.text(site.use.node)
    of_module = any(site.use in binding.uses for binding in bindings if not binding.symbol)
    name = ROOT if of_module else AGENT.name
    if not site.use.certain:
        why = "another statement gives it a value, too"
        yield site.source.finding(site.call, "call", called, why, "one import of it")
    elif is_taken(site.source, name):
        why = f"something of this file is called {name}, and is something else"
        write = "another name for that; then run this again"
        yield site.source.finding(site.call, "name-taken", called, why, write)


def _uncalled(
    source: Source, bindings: Iterable[Binding], calls: Iterable[CallSite]
) -> Iterator[Finding]:
    """Where `create_react_agent` is not called but passed on."""
    called = {site.use for site in calls}
    for use in {use for binding in bindings for use in binding.uses}:
        if use not in called and use.symbol and home_of(use.symbol) in REACTS:
            yield source.finding(
                use.node,
                "call",
                source.text(use.node),
                "it is passed on, and how it is called then cannot be seen here",
                "create_agent, if it is called with what create_agent takes",
            )


def _names_what_moves(node: cst.SimpleString) -> bool:
    found = _DOTTED.fullmatch(node.raw_value)
    return bool(found) and not node.prefix


def _told(source: Source, node: cst.SimpleString) -> Finding:
    module, _, name = node.raw_value.rpartition(".")
    home = home_of(Symbol(module, name))
    return source.finding(
        node,
        "text",
        source.text(node),
        "it is a text, and what it is for cannot be seen here",
        f"{home} if it names what is imported" if home else "the module that the names moved to",
    )
