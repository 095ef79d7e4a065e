"""docs/checks.md is made from the code, and its examples give the codes they stand under."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

pytest.importorskip("typer", reason="the extra cli is not installed")

from typer.testing import CliRunner

from agent_factory.cli.app import app
from agent_factory.cli.check_examples import EXAMPLES
from agent_factory.errors import BUILD_CODES, SpecError
from tables import each

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


@each("code", BUILD_CODES)
def test_an_example_gives_its_code_and_nothing_else(checks_page: Any, code: str) -> None:
    (line,) = checks_page.printed(EXAMPLES[code].source).splitlines()
    assert line.startswith(f"[{code}] ")


def test_the_page_is_what_the_code_says(checks_page: Any) -> None:
    """Written by: python scripts/checks_page.py docs/checks.md"""
    assert (ROOT / "docs" / "checks.md").read_text(encoding="utf-8") == checks_page.page()


@each("code", BUILD_CODES)
def test_an_example_that_is_explained_needs_nothing_that_is_not_shown(code: str) -> None:
    source = json.loads(explained(code, "--json"))["example"]
    assert indent(source, "    ") in explained(code)
    namespace: dict[str, Any] = {"__name__": "example"}
    with warnings.catch_warnings(record=True, action="always") as caught:
        out = io.StringIO()
        try:
            with redirect_stdout(out):
                exec(compile(source, "<example>", "exec", dont_inherit=True), namespace)
        except SpecError as error:
            out.write(str(error))
    assert f"[{code}]" in " ".join([out.getvalue(), *(str(w.message) for w in caught)])


def test_each_code_of_an_error_is_explained_with_its_class_and_what_to_do() -> None:
    rows = re.findall(
        r"^\| (AF\d+) \| `(\w+)` \| .*? \| (.*?) \| (.+) \|$",
        (ROOT / "docs" / "errors.md").read_text(encoding="utf-8"),
        flags=re.M,
    )
    others = [row for row in rows if row[0] not in BUILD_CODES]
    assert len(others) > 30
    for code, name, meaning, advice in others:
        if name in ("SpecErrors", "HookPathNotSupported"):  # they have the codes of their parents
            continue
        text = explained(code)
        assert text.startswith(f"{code} {name}\n{meaning}"), text
        assert text.rstrip().endswith(f"\n{advice[0].upper()}{advice[1:]}.")


def test_an_error_of_a_run_is_explained_as_data_with_the_same_keys() -> None:
    data = json.loads(explained("AF301", "--json"))
    assert data.keys() == json.loads(explained("AF204", "--json")).keys()
    assert (data["severity"], data["ignorable"], data["example"]) == ("error", False, "")


def test_an_unknown_code_is_refused_with_those_that_are_known() -> None:
    done = CliRunner().invoke(app, ["explain", "AF999"])
    assert done.exit_code == 2
    assert "AF000, AF100, AF101" in done.stderr
    assert "AF301" in done.stderr


def explained(*words: str) -> str:
    done = CliRunner().invoke(app, ["explain", *words])
    assert done.exit_code == 0, done.output
    return done.stdout
