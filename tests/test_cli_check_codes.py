"""docs/checks.md is made from the code, and its examples give the codes they stand under."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer", reason="the extra cli is not installed")

from agent_factory.cli.check_examples import EXAMPLES
from agent_factory.errors import BUILD_CODES

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def checks_page() -> Any:
    path = ROOT / "scripts" / "checks_page.py"
    spec = importlib.util.spec_from_file_location("checks_page", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_code_of_a_build_has_an_example() -> None:
    assert list(EXAMPLES) == list(BUILD_CODES)


@pytest.mark.parametrize("code", BUILD_CODES)
def test_an_example_gives_its_code_and_nothing_else(checks_page: Any, code: str) -> None:
    (line,) = checks_page.printed(EXAMPLES[code].source).splitlines()
    assert line.startswith(f"[{code}] ")


def test_the_page_is_what_the_code_says(checks_page: Any) -> None:
    """Written by: python scripts/checks_page.py docs/checks.md"""
    assert (ROOT / "docs" / "checks.md").read_text(encoding="utf-8") == checks_page.page()
