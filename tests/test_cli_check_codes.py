"""docs/checks.md is made from the code, and its examples give the codes they stand under."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("typer", reason="the extra cli is not installed")

from agent_factory.cli.check_codes import Code, codes, page, printed
from agent_factory.cli.check_examples import EXAMPLES
from agent_factory.errors import BUILD_CODES

PAGE = Path(__file__).resolve().parent.parent / "docs" / "checks.md"
CODES = codes()


def test_each_code_of_a_build_has_an_example() -> None:
    assert list(EXAMPLES) == list(BUILD_CODES)


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.code)
def test_an_example_gives_its_code_and_nothing_else(code: Code) -> None:
    (line,) = printed(code.example).splitlines()
    assert line.startswith(f"[{code.code}] ")


def test_the_page_is_what_the_code_says() -> None:
    """Written by: python -m agent_factory.cli.check_codes docs/checks.md"""
    assert PAGE.read_text(encoding="utf-8") == page()
