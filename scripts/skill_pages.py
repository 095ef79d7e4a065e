"""The generated parts of the skill for coding agents: `make pages` writes the parts.

Run as ``python scripts/skill_pages.py``. Parts by people are in the same folder.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import is_dataclass
from importlib import import_module
from inspect import Signature

import signatures
from reference_pages import REFERENCE, is_own, public_names
from site_pages import ROOT

import agent_factory
from agent_factory import AgentMiddleware
from agent_factory.cli.codes import ERROR_CODES, EXAMPLES
from agent_factory.errors import BUILD_CODES

SKILL = ROOT / "agent_factory" / ".agents" / "skills" / "agent-factory"

_NAME = re.compile(r"(?:(?<=\()\*|), name: str \| None = None\)")
"""The parameter of every built-in, with the mark before a lone parameter."""

_MIDDLEWARE = """# Built-in middleware

All are in `agent_factory.middleware`. The number is the recommended place in `middleware`, the
outermost first: write them in the order of this page. A build warns of the pairs whose order a
built-in declares, such as a retry outside of a fallback (AF204), and of no other pair. Each takes
`name=`, which a second instance of a class needs.
"""

_VALUES = """
## Values and functions

They are imported from `agent_factory.middleware`, too.
"""

_NAMES = """# Names

The names of `agent_factory`, then its modules. `help(name)` has types and defaults.
[Built-in middleware](middleware.md) and [errors](codes.md) have pages for themselves.

"""

_CODES = """# Codes

Each error and warning has a code: `[AF204] ...`. `agent-factory explain AF204` shows one with an
example.

## Builds

`create_agent`, `plan_agent` and `agent-factory check` report all of them at once. Codes from AF101
are errors; codes from AF201 are warnings, and errors with `strict=True`.

| code | what happened | what to do |
|---|---|---|
"""

_RUNS = """
## Runs and services

| code | class, and where to import it from | what happened | what to do |
|---|---|---|---|
"""


def places() -> dict[str, int]:
    """Recommended places of the built-ins in a stack, as docs/order.md has them."""
    text = (ROOT / "docs" / "order.md").read_text(encoding="utf-8")
    return {
        name: int(number)
        for number, names in re.findall(r"^\| (\d+) \| (.+?) \|", text, flags=re.MULTILINE)
        for name in re.findall(r"\[(\w+)\]", names)
    }


def middleware_page() -> str:
    """Every built-in with position, parameters and a sentence; then the values of parameters."""
    order, values = places(), public_names("agent_factory.middleware")
    lines = [
        f"{number}. {_NAME.sub(')', signatures.line_of(name, values[name])).removeprefix('- ')}"
        for name, number in order.items()
    ]
    others = [
        signatures.line_of(name, value)
        for name, value in values.items()
        if name not in order and is_own(value) and _is_helper(value)
    ]
    return "\n".join([_MIDDLEWARE, *lines, _VALUES, *others]) + "\n"


def _is_helper(value: object) -> bool:
    """Return True for a helper of a stack or its caller, next to the middleware."""
    if not getattr(value, "__module__", "").startswith("agent_factory.middleware."):
        return False
    is_middleware = isinstance(value, type) and issubclass(value, AgentMiddleware)
    is_error = isinstance(value, type) and issubclass(value, BaseException)
    is_state = getattr(value, "__name__", "").endswith("State")
    return not (is_middleware or is_error or is_state)


def names_page() -> str:
    """The names of the package with a line each, and the modules."""
    lines = []
    for name, value in public_names("agent_factory").items():
        if inspect.isclass(value) and issubclass(value, Exception):
            continue
        text = name
        if not inspect.isclass(value) or is_dataclass(value):
            signature = inspect.signature(value, eval_str=False)
            plain = [
                parameter.replace(annotation=parameter.empty, default=parameter.empty)
                for parameter in signature.parameters.values()
            ]
            text += str(Signature(plain))
        lines.append(f"- `{text}`: {signatures.summary(value)}\n")
    others = sorted({*agent_factory.__all__} - public_names("agent_factory").keys())
    lines.append(f"\nTypes and marks: {', '.join(f'`{name}`' for name in others)}.\n")
    lines.append("\n## Modules\n\n| module | has |\n|---|---|\n")
    for module in REFERENCE:
        if module != "agent_factory":
            about = signatures.summary(import_module(module))
            lines.append(f"| `{module}` | {_cell(about)} |\n")
    return "".join([_NAMES, *lines])


def codes_page() -> str:
    """Every code of a build, and of a run or a service."""
    builds = [
        f"| {code} {entry.name} | {entry.meaning} | {_cell(EXAMPLES[code].hint)} |\n"
        for code, entry in BUILD_CODES.items()
    ]
    runs = []
    for code, (path, hint) in ERROR_CODES.items():
        module, _, name = path.rpartition(".")
        meaning = signatures.summary(getattr(import_module(module), name))
        runs.append(f"| {code} | `{path}` | {_cell(meaning)} | {_cell(hint)} |\n")
    return "".join([_CODES, *builds, _RUNS, *runs])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def generated() -> dict[str, str]:
    """The text of each generated file, by the path in the skill."""
    return {
        "references/middleware.md": middleware_page(),
        "references/codes.md": codes_page(),
        "references/names.md": names_page(),
    }


if __name__ == "__main__":
    for name, text in generated().items():
        (SKILL / name).write_text(text, encoding="utf-8", newline="\n")
