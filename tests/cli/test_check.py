"""`check`: the findings, their output, the exit code for CI, and examples that give each code."""

from __future__ import annotations

import io
import json
import os
import re
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

pytest.importorskip("typer", reason="the extra cli is not installed")

import checks_page
from typer.testing import CliRunner, Result

from agent_factory.cli.app import app
from agent_factory.cli.codes import EXAMPLES
from agent_factory.errors import BUILD_CODES, SpecError
from commands import run_in_process
from tables import each

SHOP = '''
from agent_factory import AgentMiddleware, create_agent, hook_config
from agent_factory.testing import ScriptedChatModel

def find(query: str) -> str:
    """Find."""
    return query

class Back(AgentMiddleware):
    @hook_config(can_jump_to=["model"])
    def before_model(self, state, runtime):
        return None

class Keeps(AgentMiddleware):
    needs_checkpointer = True
    expected_tools = ("refund",)

class Misspelt(AgentMiddleware):
    def before_modle(self, state, runtime):
        return None

def made(*stack, **options):
    return create_agent(ScriptedChatModel([]), [find], middleware=stack, **options)

good = made()

doubtful = made(Back(), Keeps())

def refused():
    return made(Misspelt(), Back(), Misspelt(name="second"))

def strict():
    return made(Back(), strict=True)

stack = [Keeps()]
'''


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of agents in the current folder, and without GitHub Actions."""
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("shop.py").write_text(SHOP, encoding="utf-8")


def check(*words: str) -> Result:
    done = CliRunner().invoke(app, ["check", *words])
    assert "Traceback" not in done.output
    return done


def found(*words: str) -> list[dict[str, Any]]:
    findings: list[dict[str, Any]] = json.loads(check(*words, "--json").stdout)["findings"]
    return findings


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(SHOP.splitlines(), 1) if line.startswith(text))


def test_an_agent_without_problems_is_reported_as_such_and_strict_fails_for_a_warning() -> None:
    done = check("shop:good", "shop.py:good", "--strict")
    assert (done.exit_code, done.output) == (0, "2 targets: no problems found.\n")
    warned = check("shop:doubtful")
    where = f"shop.py:{line_of('doubtful')}: warning"
    lines = warned.stdout.splitlines()
    assert [line.partition(" AF")[0] for line in lines] == [where] * 3 + ["1 target: 3 warnings."]
    assert warned.exit_code == 0
    assert check("shop:doubtful", "--strict").exit_code == 1


def test_errors_and_warnings_of_a_failed_build_are_findings() -> None:
    done = check("shop:refused")
    assert done.exit_code == 1
    inner = line_of("    return create_agent")
    lines = done.stdout.splitlines()
    assert [line.split()[:3] for line in lines[:-1]] == [
        [f"shop.py:{inner}:", "error", "AF105"],
        [f"shop.py:{inner}:", "error", "AF105"],
        [f"shop.py:{inner}:", "warning", "AF201"],
    ]
    assert lines[-1] == "1 target: 2 errors, 1 warning."
    Path("whole.py").write_text(SHOP + "\nagent = refused()\n", encoding="utf-8")
    assert [f["code"] for f in found("whole:agent")] == ["AF105", "AF105", "AF201"]


def test_a_warning_of_a_strict_build_is_an_error() -> None:
    (finding,) = found("shop:strict")
    assert (finding["code"], finding["severity"]) == ("AF201", "error")
    assert check("shop:strict", "--ignore", "AF201").exit_code == 1


def test_a_stack_has_no_findings_about_tools() -> None:
    assert found("shop:stack") == []


def test_a_warning_can_be_ignored_by_its_code() -> None:
    assert [f["code"] for f in found("shop:doubtful", "--ignore", "AF201,AF210")] == ["AF211"]
    every = ["--ignore", "AF201", "--ignore", "AF210", "--ignore", "AF211"]
    assert check("shop:doubtful", "--strict", *every).exit_code == 0


@each("code, words", [("AF999", "is not a known code"), ("AF103", "cannot be ignored")])
def test_a_code_that_cannot_be_ignored_is_refused(code: str, words: str) -> None:
    done = check("shop:good", "--ignore", code)
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr


def test_all_targets_are_reported_even_if_one_cannot_be_loaded() -> None:
    done = check("nope:agent", "shop:refused", "shop:doubtful")
    assert done.exit_code == 2
    assert done.stdout.count("AF105") == 2
    assert done.stdout.count("(shop:doubtful)") == 3
    assert done.stdout.endswith("3 targets: 2 errors, 4 warnings, 1 could not be loaded.\n")
    assert "Module nope was not found" in done.stderr


def test_a_saved_plan_has_no_findings() -> None:
    CliRunner().invoke(app, ["show", "shop:good", "-o", "plan.json"])
    done = check("plan.json")
    assert done.exit_code == 2
    assert "is a saved plan" in done.stderr


def test_json_has_the_same_keys_always() -> None:
    data = json.loads(check("shop:doubtful", "nope:agent", "--json").stdout)
    assert list(data) == ["targets", "findings", "failures", "errors", "warnings"]
    keys = ["target", "code", "severity", "subject", "reason", "hint", "file", "line"]
    assert [list(finding) for finding in data["findings"]] == [keys] * 3
    assert data["findings"][0]["file"] == "shop.py"
    assert data["failures"][0]["target"] == "nope:agent"
    assert (data["errors"], data["warnings"]) == (0, 3)
    assert list(json.loads(check("shop:good", "--json").stdout)) == list(data)


# GitHub


def test_github_gets_annotations_with_file_line_and_title() -> None:
    done = check("shop:doubtful", "shop:refused", "--github")
    lines = done.stdout.splitlines()
    place = f"file=shop.py,line={line_of('doubtful')}"
    assert lines[0].startswith(f"::warning {place},title=AF201::Back.before_model: declares a jump")
    assert sum(line.startswith("::error file=shop.py,line=") for line in lines) == 2
    assert done.exit_code == 1


def test_github_actions_gets_annotations_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert check("shop:doubtful").stdout.startswith("::warning ")
    done = check("shop:doubtful", "--json")
    assert json.loads(done.stdout)["warnings"] == 3
    assert done.stderr.startswith("::warning ")


def test_special_characters_in_annotations_are_escaped() -> None:
    text = "agent = 1 / 0"
    Path("a,b.py").write_text(text, encoding="utf-8")
    done = check("a,b.py:agent", "--github")
    assert done.stdout.startswith("::error title=a%2Cb.py%3Aagent::a,b.py:agent raised Zero")
    odd = "\nagent = made(Misspelt(name='100%\\nsure'))\n"
    Path("odd.py").write_text(SHOP + odd, encoding="utf-8")
    assert "100%25 sure.before_modle" in check("odd:agent", "--github").stdout


# As a process


@pytest.mark.long
def test_a_process_needs_no_terminal_and_no_input() -> None:
    done = run_in_process("check", "shop:refused", "nope:agent")
    assert done.returncode == 2
    assert done.stdout == check("shop:refused", "nope:agent").stdout
    assert done.stderr.startswith("agent-factory: Module nope was not found.")
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a process that is forked")
@pytest.mark.parametrize(
    ("source", "how"),
    [
        ("import os; os._exit(0)", "exit code 0"),
        ("import os; os._exit(1)", "exit code 1"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "signal 9"),
        ("import os; os.fork() or os._exit(0); os.wait(); os._exit(0)", ""),
    ],
)
def test_a_module_that_ends_the_process_is_reported_as_not_checked(source: str, how: str) -> None:
    Path("ends.py").write_text(source, encoding="utf-8")
    done = run_in_process("check", "ends.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the check did not finish" in done.stderr
    assert how in done.stderr


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a process that is forked")
def test_the_exit_code_is_that_of_the_check_whatever_runs_after_it() -> None:
    late = "import atexit, os; atexit.register(os._exit, 0)\n"
    Path("late.py").write_text(f"{late}raise ValueError('no')", encoding="utf-8")
    done = run_in_process("check", "late.py")
    assert done.returncode == 2
    assert "ValueError: no" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("raised", ["SystemExit(0)", "KeyboardInterrupt", "Odd('no')"])
def test_a_module_that_raises_no_exception_but_a_base_exception_is_not_checked(raised: str) -> None:
    source = f"class Odd(BaseException): ...\nraise {raised}"
    Path("odd.py").write_text(source, encoding="utf-8")
    done = run_in_process("check", "odd.py")
    assert done.returncode == 2
    assert f"odd.py raised {raised.partition('(')[0]}" in done.stderr
    assert "Traceback" not in done.stderr


class TestGuarantees:
    @staticmethod
    def sentences(*lines: str) -> str:
        Path("guarantees.txt").write_text("\n".join(lines), encoding="utf-8")
        return "guarantees.txt"

    def test_sentences_that_hold_change_nothing(self) -> None:
        file = self.sentences("# What must hold.", "", "no path from tools to end skips tools")
        done = check("shop:good", "--guarantees", file)
        assert (done.exit_code, done.stdout) == (0, "1 target: no problems found.\n")

    def test_a_sentence_that_does_not_hold_is_an_error_with_its_path(self) -> None:
        file = self.sentences("tool find passes a person")
        done = check("shop:good", "--guarantees", file, "--json")
        assert done.exit_code == 1
        (finding,) = json.loads(done.stdout)["findings"]
        assert (finding["code"], finding["subject"]) == ("AF127", "'tool find passes a person'")
        assert "Path: __start__ -> model -> tools" in finding["reason"]

    def test_a_saved_plan_is_checked_as_well(self) -> None:
        CliRunner().invoke(app, ["show", "shop:good", "-o", "good.json"])
        done = check("good.json", "--guarantees", self.sentences("at most 5 model calls"))
        assert done.exit_code == 1
        assert "ModelCallLimitMiddleware(run_limit=5)" in done.stdout

    @pytest.mark.parametrize(
        ("lines", "words"),
        [
            (["find is reviewed"], "guarantees.txt:1: [AF128] guarantee 'find is reviewed'"),
            (["# only words"], "guarantees.txt has no sentence."),
        ],
    )
    def test_a_file_that_says_nothing_is_refused(self, lines: list[str], words: str) -> None:
        done = check("shop:good", "--guarantees", self.sentences(*lines))
        assert done.exit_code == 2
        assert words in done.stderr

    def test_a_missing_file_is_refused(self) -> None:
        done = check("shop:good", "--guarantees", "missing.txt")
        assert done.exit_code == 2
        assert "--guarantees: missing.txt cannot be read" in done.stderr


ROOT = Path(__file__).resolve().parents[2]


def test_each_code_of_a_build_has_an_example() -> None:
    assert list(EXAMPLES) == list(BUILD_CODES)


@each("code", BUILD_CODES)
def test_an_example_gives_its_code_and_nothing_else(code: str) -> None:
    (line,) = checks_page.printed(EXAMPLES[code].source).splitlines()
    assert line.startswith(f"[{code}] ")


def test_the_page_is_what_the_code_says() -> None:
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
    keys = ["code", "name", "meaning", "severity", "ignorable", "example", "hint"]
    assert list(data) == list(json.loads(explained("AF204", "--json"))) == keys
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
