"""Source text in, new text and findings out."""

from __future__ import annotations

import io
import re
import threading
import tokenize
from collections.abc import Iterator
from concurrent.futures import Future
from importlib.util import find_spec

import libcst as cst

from agent_factory.errors import install
from agent_factory.migrate.bindings import CallSite, bindings_of, calls_of, keyword_changes
from agent_factory.migrate.classes import Classes
from agent_factory.migrate.imports import Imports, is_taken
from agent_factory.migrate.moves import (
    AGENT,
    KEYWORDS,
    MIDDLEWARE,
    REACTS,
    ROOT,
    TO_AGENT,
    home_of,
    is_known,
    path_of,
    replacement_of,
)
from agent_factory.migrate.source import Source, UnreadableSource, dotted
from agent_factory.migrate.to_create_agent import problems_of
from agent_factory.migrate.values import Edit, Factory, Finding, Migration, Symbol, apply

STACK = 256 * 1024 * 1024
"""Bytes of stack for the parser, which recurses in native code: a full stack ends the process.
libcst 1.9 filled the usual 8 MB with a sum of 5,000 terms. Only what is used is taken."""

_DOTTED_PATH = re.compile(r"(langgraph\.prebuilt|langchain\.agents)(\.\w+)*")

_PATCHES = ("patch", "setattr", "delattr")
"""Functions whose first argument, if it is a dotted path, names what is imported from there."""

_PII_PACKAGES = {"name": "presidio_analyzer", "phone": "phonenumbers"}

_GROUPS = "prebuilt|langchain agents|agent_factory create_react_agent|agent_factory middleware"
_WORDS = [[re.compile(rf"\b{word}\b") for word in group.split()] for group in _GROUPS.split("|")]
"""A source that names something to migrate has all words of one of these groups."""


def migrate_bytes(data: bytes, to: Factory = Factory.REACT) -> tuple[bytes, Migration]:
    """Migrate a file in its encoding.

    Args:
        data: The bytes of the file.
        to: Function in place of `create_react_agent`.

    Returns:
        The new bytes, and the migration of the text.

    Raises:
        UnreadableSource: The file is not Python, or not in the declared encoding.

    >>> migrate_bytes(b"\\xef\\xbb\\xbffrom langchain.agents import AgentState\\r\\n")[0]
    b'\\xef\\xbb\\xbffrom agent_factory import AgentState\\r\\n'
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise UnreadableSource(str(error)) from None
    # Some encodings have several forms of a text, and unedited lines must stay.
    if text.encode(encoding) != data:
        raise UnreadableSource(f"{encoding} would not reproduce each of its bytes")
    migration = migrate_source(text, to)
    return migration.text.encode(encoding), migration


def migrate_source(text: str, to: Factory = Factory.REACT) -> Migration:
    """Migrate source text to agent_factory.

    Imports from `langgraph.prebuilt` and `langchain.agents` become imports from agent_factory, and
    keywords with another name are renamed. Everything else stays byte for byte.

    Args:
        text: Python source, with original line breaks.
        to: Function in place of `create_react_agent`. With `Factory.AGENT`, a call whose parameters
            all have a counterpart becomes a call of `create_agent`; each other call stays, and is
            reported as a finding.

    Raises:
        UnreadableSource: The text cannot be parsed.

    >>> old = '''from langgraph.prebuilt import create_react_agent
    ... create_react_agent(model, [], prompt="Be brief.")
    ... '''
    >>> print(migrate_source(old, Factory.AGENT).text, end="")
    from agent_factory import create_agent
    create_agent(model, [], system_prompt="Be brief.")
    """
    # Most files of a folder have nothing to migrate, and parsing takes a hundred times as long.
    if not any(all(word.search(text) for word in group) for group in _WORDS):
        return Migration(text, text)
    future: Future[Migration] = Future()

    def migrate() -> None:
        try:
            source = Source(text)
            changes = list(_changes(source, to))
            edits = (change for change in changes if isinstance(change, Edit))
            findings = sorted({change for change in changes if isinstance(change, Finding)})
            new = apply(source.data, edits).decode()
            future.set_result(Migration(source.data.decode(), new, tuple(findings)))
        # Without a result or an exception, the caller would wait for ever.
        except BaseException as error:
            future.set_exception(error)

    # The size holds for all new threads, so the old size is restored in any case.
    usual = threading.stack_size(STACK)
    try:
        # A daemon: after Ctrl-C, the program does not wait for the rest of the work.
        threading.Thread(target=migrate, daemon=True).start()
    finally:
        threading.stack_size(usual)
    try:
        return future.result()
    except RecursionError:
        raise UnreadableSource("it is nested too deeply") from None


def _changes(source: Source, to: Factory) -> Iterator[Edit | Finding]:
    bindings = bindings_of(source)
    calls = calls_of(source, bindings)
    module_uses = {use for binding in bindings if not binding.symbol for use in binding.uses}
    conversions = set()
    for site in calls:
        rows = KEYWORDS.get(site.symbol, {})
        if to is Factory.AGENT and site.symbol in REACTS:
            callee = source.text(site.use.node)
            name = ROOT if site.use in module_uses else AGENT.name
            problems = list(problems_of(site))
            if not site.use.certain:
                problems.append(source.finding(site.call, callee, "two imports"))
            elif is_taken(source, name):
                problems.append(source.finding(site.call, callee, "name taken", name=name))
            yield from problems
            if not problems:
                conversions.add(site.use)
                rows = TO_AGENT
        yield from keyword_changes(site, rows)
        yield from _extra_findings(site)
    if to is Factory.AGENT:
        called_uses = {site.use for site in calls}
        for use in {use for binding in bindings for use in binding.uses} - called_uses:
            if use.symbol and home_of(use.symbol) in REACTS:
                yield source.finding(use.node, source.text(use.node), "passed on")
    yield from Imports(source, bindings, frozenset(conversions)).changes()
    yield from Classes(source, bindings).findings()
    for node in source.every(cst.SimpleString):
        if not node.prefix and _DOTTED_PATH.fullmatch(node.raw_value):
            yield _text_change(source, node)


def _extra_findings(site: CallSite) -> Iterator[Finding]:
    """A detector of personal data whose package is not installed."""
    if site.symbol not in (Symbol(MIDDLEWARE, name) for name in ("PIIMiddleware", "RedactionRule")):
        return
    # The first argument without a keyword is the type.
    args = reversed(site.call.args)
    arguments = {arg.keyword.value if arg.keyword else "pii_type": arg for arg in args}
    arg = arguments.get("detector", arguments.get("pii_type"))
    value = site.source.value_of(arg.value) if arg else None
    package = None
    if "detector" in arguments and isinstance(value, cst.BaseString):
        package = "regex"
    elif isinstance(value, cst.SimpleString):
        package = _PII_PACKAGES.get(str(value.raw_value))
    if arg and package and find_spec(package) is None:
        words = {"package": package, "install": install("pii")}
        yield site.finding(arg, site.source.text(arg), "package", **words)


def _text_change(source: Source, node: cst.SimpleString) -> Edit | Finding:
    """The edit of a dotted path in a string, or a finding about the string."""
    path = node.raw_value
    new = path_of(path)
    # Around the value of an argument is an Arg, and around the Arg the call.
    call = source.parent(source.parent(node) or node)
    name = dotted(call.func) if isinstance(call, cst.Call) and call.args[0].value is node else ""
    if new and name.rpartition(".")[2] in _PATCHES:
        return source.edit(node, f"{node.quote}{new}{node.quote}")
    may_move = is_known(path)
    write = f"{new} if it names an import" if new else ""
    write = write or replacement_of(path if may_move else path.rpartition(".")[0])
    advice = "text" if new or may_move else "unknown text"
    return source.finding(node, source.text(node), advice, replacement=write)
