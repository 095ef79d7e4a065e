"""The pages of the reference, as Markdown: the exports of each public module, in short pages.

A module with many exports has a page with a list of names, and a page for each part.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from functools import cache
from typing import Any, NamedTuple

REFERENCE = {
    "agent_factory": "agent_factory",
    "agent_factory.middleware": "middleware",
    "agent_factory.structured_output": "structured_output",
    "agent_factory.review": "review",
    "agent_factory.telemetry": "telemetry",
    "agent_factory.service": "service",
    "agent_factory.serve": "serve",
    "agent_factory.testing": "testing",
    "agent_factory.testing.providers": "testing_providers",
    "agent_factory.testing.strategies": "testing_strategies",
    "agent_factory.topology": "topology",
    "agent_factory.stack": "stack",
    "agent_factory.errors": "errors",
    "agent_factory.prebuilt": "prebuilt",
    "agent_factory.migrate": "migrate",
    "agent_factory.local_model": "local_model",
}
"""Public modules, and the names of their pages under reference/."""

SPLIT = ("agent_factory", "middleware", "review", "service", "testing", "topology")
"""Pages with a list of names alone: each part of the module has a page in a folder."""

PARTS = {"compat": "models", "factory": "agents", "types": "state"}
"""Titles of parts, where not the names of modules."""

EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", flags=re.M)


class Home(NamedTuple):
    """The documentation of a name: the owning public module, and a page under reference/."""

    module: str
    page: str


@cache
def reference_pages() -> dict[str, str]:
    """The pages of the public modules, by their place in the site."""
    pages = {}
    for module, page in REFERENCE.items():
        names = public_names(module)
        if page not in SPLIT:
            pages[f"reference/{page}.md"] = "\n".join([*head(module), *body(module, names)])
            continue
        homes = {name: home_of(module, name) for name in names}
        pages[f"reference/{page}/index.md"] = "\n".join(
            [*head(module), *name_tables(module, homes)]
        )
        for part in {home.page for home in homes.values() if home.module == module}:
            values = {name: names[name] for name in names if homes[name] == (module, part)}
            title = f"# {module}: {part.rpartition('/')[2].replace('_', ' ')}"
            pages[f"reference/{part}.md"] = "\n".join([title, *body(module, values)])
    return pages


@cache
def public_names(name: str) -> dict[str, Any]:
    """The documented names of a public module, with the values."""
    module = importlib.import_module(name)
    names = getattr(module, "__all__", None) or [
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and getattr(value, "__module__", "") == name
    ]
    values = {key: getattr(module, key) for key in sorted(names)}
    return {k: value for k, value in values.items() if is_own(value) or has_own_docstring(value)}


@cache
def home_of(module: str, name: str) -> Home:
    """The page with the documentation of an export of a split module.

    The page of the innermost public module with definition and export; in a split module, the page
    of the part with the definition, or with the export if the defining module is private.
    """
    value = public_names(module)[name]
    source = value.__module__ if is_own(value) else type(value).__module__
    owners = [
        owner
        for owner in REFERENCE
        if f"{source}.".startswith(f"{owner}.") and public_names(owner).get(name) is value
    ]
    owner = max(owners, key=len, default=module)
    if REFERENCE[owner] not in SPLIT:
        return Home(owner, REFERENCE[owner])
    parts = [m.name for m in pkgutil.iter_modules(importlib.import_module(owner).__path__)]
    part = source.removeprefix(f"{owner}.").partition(".")[0]
    if part not in parts or part.startswith("_"):
        exporters = (
            part
            for part in parts
            if name in getattr(importlib.import_module(f"{owner}.{part}"), "__all__", ())
        )
        part = next(exporters, "functions")
    return Home(owner, f"{REFERENCE[owner]}/{PARTS.get(part, part)}")


def head(module: str) -> list[str]:
    """The title of a module's page, and the docstring."""
    options = "{members: false, show_root_heading: false, show_root_toc_entry: false}"
    return [f"# {module}", "", f"::: {module}", f"    options: {options}", ""]


def name_tables(module: str, homes: dict[str, Home]) -> list[str]:
    """A table of names for each page about names of a module, the parts first.

    Each name has an anchor here, too, for links to a name on the page of the module.
    """
    lines = []
    for home in sorted(set(homes.values()), key=lambda home: (home.module != module, home.page)):
        title = home.page.rpartition("/")[2].replace("_", " ")
        lines += ["", f"## {title if home.module == module else home.module}", ""]
        lines += ["| name | meaning |", "|---|---|"]
        for name in (name for name in homes if homes[name] == home):
            value = public_names(module)[name]
            summary = (inspect.getdoc(value) or "").partition("\n\n")[0]
            # mkdocstrings knows objects; a decorator is only a heading of its page.
            target = f"[{home.module}.{name}]"
            if not is_own(value):
                target = f"(../{home.page}.md#{home.module}.{name})"
            link = f'<a id="{module}.{name}"></a>[`{name}`]{target}'
            cells = (link, " ".join(summary.split()).replace("|", r"\|"))
            lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def body(module: str, values: dict[str, Any]) -> list[str]:
    """The documentation of names of a module, by kind."""
    members = [key for key, value in values.items() if is_own(value)]
    errors = [key for key in members if is_error(values[key])]
    classes = [key for key in members if inspect.isclass(values[key]) and key not in errors]
    functions = [key for key in members if key not in (*errors, *classes)]
    lines = []
    for title, keys in (("Functions", functions), ("Classes", classes), ("Errors", errors)):
        lines += ["", f"## {title}", "", *(f"::: {module}.{key}" for key in keys)] if keys else []
    instances = [key for key, value in values.items() if has_own_docstring(value)]
    lines += ["", "## Decorators"] if instances else []
    for key in instances:
        heading = f"### {key} {{#{module}.{key}}}"
        lines += ["", heading, "", with_examples(inspect.getdoc(values[key]) or "")]
    return [*lines, ""]


def has_own_docstring(value: Any) -> bool:
    """Return True for an instance with its own docstring, which Griffe cannot see."""
    return is_own(type(value)) and "__doc__" in getattr(value, "__dict__", {})


def is_error(value: Any) -> bool:
    """Return True if a name is an exception or a warning."""
    return inspect.isclass(value) and issubclass(value, BaseException)


def is_own(value: Any) -> bool:
    """Return True for a class or a function of this library, not of LangGraph."""
    documented = inspect.isclass(value) or inspect.isroutine(value)
    return documented and value.__module__.startswith("agent_factory")


def with_examples(text: str) -> str:
    """A docstring with a fence around each block of lines with ``>>>`` at the start."""
    return EXAMPLE.sub(lambda match: f"```pycon\n{match[0]}\n```", text)
