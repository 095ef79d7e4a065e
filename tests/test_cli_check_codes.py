"""docs/checks.md is made from the code, and its examples give the codes they stand under."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="the extra cli is not installed")

import agent_factory
from agent_factory import SpecError, TurnError
from agent_factory.cli.check_codes import Code, codes, page, printed
from agent_factory.errors import BuildWarning, SpecErrors

PAGE = Path(__file__).resolve().parent.parent / "docs" / "checks.md"
CODES = codes()
FAMILIES = {SpecError, SpecErrors, BuildWarning}


def kinds() -> set[type[SpecError]]:
    """Every class of the package that says what is wrong with a build."""
    found = set()
    for name in ("agent_factory", "agent_factory.middleware"):
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__, f"{name}."):
            if "commands" not in module.name and "cli" not in module.name:
                values = vars(importlib.import_module(module.name)).values()
                found |= {v for v in values if inspect.isclass(v) and issubclass(v, SpecError)}
    return {kind for kind in found if not issubclass(kind, TurnError)}


def test_each_kind_of_finding_has_an_entry() -> None:
    assert agent_factory.__path__
    assert {code.kind for code in CODES} == kinds() - FAMILIES


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.code)
def test_an_example_gives_its_code_and_nothing_else(code: Code) -> None:
    (line,) = printed(code.example).splitlines()
    assert line.startswith(f"[{code.code}] ")


def test_the_page_is_what_the_code_says() -> None:
    """Written by: python -m agent_factory.cli.check_codes docs/checks.md"""
    assert PAGE.read_text(encoding="utf-8") == page()
