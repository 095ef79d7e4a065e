"""`show`, `diff`, `explain` and `replay`: in words, as data, on a page and on a terminal."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from commands import run
from processes import Processes, exit_code

pytest.importorskip("typer", reason="the extra cli is not installed")

from rich.console import Console
from typer.testing import CliRunner, Result

from agent_factory import Topology, create_agent
from agent_factory.cli import console
from agent_factory.cli.app import app
from agent_factory.cli.show import plan_tree
from agent_factory.testing import Reply, ScriptedChatModel, record_agent
from agent_factory.testing.recorded_usage import usage_of_runs
from agent_factory.topology import plan
from agent_factory.topology.model import Call, Hook, Layer, Move, Phase, Shape, Tool, ToolKind
from samples import refund
from tables import each

posix = pytest.mark.skipif(os.name != "posix", reason="needs a terminal as POSIX has it")

OLD = plan(Shape(has_tools=True, tools=(Tool("find"),)))
NEW = plan(
    Shape(
        hooks=(
            Hook("Guard", Phase.BEFORE_AGENT),
            Hook("Limit", Phase.BEFORE_MODEL, frozenset({"end"})),
            Hook("Log", Phase.AFTER_AGENT),
        ),
        layers=(Layer("Retry", Call.MODEL, "around_model"),),
        has_tools=True,
        may_skip_tools=True,
        tools=(Tool("find", return_direct=True), Tool("search", ToolKind.PROVIDER, owner="Web")),
    )
)


@pytest.fixture(autouse=True)
def plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two plans in the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("old.json").write_text(OLD.to_json(), encoding="utf-8")
    Path("new.json").write_text(NEW.to_json(), encoding="utf-8")


def refused(*words: str) -> str:
    done = run(*words)
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    return " ".join(done.stderr.split())


@each(
    "words, expected",
    [
        ("", NEW.render()),
        ("--format text", NEW.render()),
        ("--format mermaid", NEW.to_mermaid()),
        ("--json", NEW.to_json()),
        ("--format topology", NEW.to_snapshot()),
    ],
)
def test_a_plan_is_shown_as_it_renders_itself(words: str, expected: str) -> None:
    assert run("show", "new.json", *words.split()).stdout == expected.rstrip("\n") + "\n"


@each(
    "file, expected",
    [
        ("a.txt", NEW.render()),
        ("a.topology", NEW.to_snapshot()),
        ("a.mmd", NEW.to_mermaid()),
        ("a.md", f"```mermaid\n{NEW.to_mermaid()}\n```"),
        ("A.JSON", NEW.to_json()),
    ],
)
def test_the_suffix_of_a_file_decides_its_format(file: str, expected: str) -> None:
    done = run("show", "new.json", "--output", file)
    assert (done.exit_code, done.output) == (0, "")
    assert Path(file).read_bytes() == (expected.rstrip("\n") + "\n").encode()


@each("form, words", [("svg", "<svg"), ("html", "<h1>The plan of new.json</h1>")])
def test_a_picture_is_written_by_its_suffix(form: str, words: str) -> None:
    pytest.importorskip("pygraphviz", reason="the extra draw is not installed")
    assert run("show", "new.json", "--output", f"plan.{form}").exit_code == 0
    assert words in Path(f"plan.{form}").read_text(encoding="utf-8")


def test_a_png_is_written_by_its_suffix_and_to_a_pipe() -> None:
    pytest.importorskip("pygraphviz", reason="the extra draw is not installed")
    assert run("show", "new.json", "-o", "plan.PNG").exit_code == 0
    written = Path("plan.PNG").read_bytes()
    assert written.startswith(b"\x89PNG\r\n")
    assert b"IEND" in written[-12:]
    assert run("show", "new.json", "--format", "png").stdout_bytes == written


@each("file", ["plan.pgn", "plan", ".svg"])
def test_an_unknown_suffix_is_refused_with_those_that_are_known(file: str) -> None:
    said = refused("show", "new.json", "--output", file)
    assert ".txt, .mmd, .md, .json, .topology, .svg, .png, .html" in said
    assert not Path(file).exists()
    assert run("show", "new.json", "-f", "json", "-o", file).exit_code == 0
    assert Path(file).read_text(encoding="utf-8") == NEW.to_json()


@each("form", ["svg", "png", "html"])
def test_without_the_extra_draw_the_error_says_what_to_install(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pygraphviz"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    assert "the extra `draw`" in refused("show", "new.json", "--format", form)
    assert not Path(f"plan.{form}").exists()


def test_contradicting_formats_and_unwritable_files_are_reported(tmp_path: Path) -> None:
    assert "--json and --format svg" in refused("show", "new.json", "--json", "--format", "svg")
    assert "cannot be written" in refused("show", "new.json", "-o", str(tmp_path / "no" / "a.txt"))
    Path("a.txt").mkdir()
    assert "Is a directory" in refused("show", "new.json", "-o", "a.txt") or os.name != "posix"


def on_console(topology: Topology, width: int = 80, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    console = Console(file=file, width=width, no_color=True, _environ={})
    console.print(plan_tree("new.json", topology))
    file.flush()
    return raw.getvalue().decode(encoding)


def test_the_tree_shows_phases_jumps_and_tools() -> None:
    lines = [line.strip("│├└─ ") for line in on_console(NEW).splitlines()]
    phases = ["when a run starts", "each turn", "when a run ends"]
    assert [line for line in lines if line in phases] == phases
    jump, last = "-> Log.after_agent  jump: Limit", "Log.after_agent -> __end__"
    tools = ["tools", "find  return_direct", "search  provider  by Web"]
    assert lines[-3:] == tools
    assert {jump, last, "1. Retry.around_model"} <= {*lines}


def test_the_tree_fits_a_narrow_terminal_and_ascii() -> None:
    assert max(map(len, on_console(NEW, width=30).splitlines())) <= 30
    assert "-- tools" in on_console(NEW, encoding="ascii")


def on_terminal(processes: Processes, *words: str, **env: str) -> str:
    """What the command shows on its own terminal."""
    ours, theirs = os.openpty()
    process = processes.start(
        [sys.executable, "-m", "agent_factory.cli", *words],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": "80", "TERM": "xterm-256color", "NO_COLOR": "1", **env},
    )
    os.close(theirs)
    text = b""
    with os.fdopen(ours, "rb", 0) as terminal, suppress(OSError):  # Linux reports its end so
        while part := terminal.read(65536):
            text += part
    assert exit_code(process) == 0
    return text.decode()


def test_control_characters_in_names_do_not_reach_a_terminal() -> None:
    odd = plan(Shape((Hook("a\x1b[31m\nb", Phase.BEFORE_MODEL),), tools=(Tool("c\x9bd"),)))
    shown = on_console(odd)
    assert "a\\x1b[31m\\nb.before_model" in shown
    assert "c\\x9bd" in shown
    assert not {"\x1b", "\x9b"} & set(shown)


def test_a_file_that_is_nested_too_deeply_is_reported() -> None:
    Path("deep.json").write_text("[" * 200_000, encoding="utf-8")
    assert "deep.json is not valid JSON" in refused("show", "deep.json")


def test_differences_are_printed_in_words_and_as_data() -> None:
    assert run("diff", "old.json", "new.json").stdout == f"{OLD.diff(NEW)}\n"
    data = json.loads(run("diff", "old.json", "new.json", "--json").stdout)
    assert list(data) == ["old", "new", "differs", "changes"]
    assert data["changes"] == OLD.diff(NEW).to_data()
    assert (data["old"], data["differs"]) == ("old.json", True)


def test_what_happens_to_threads_is_printed_in_words_and_as_data() -> None:
    points = NEW.stopping_points(OLD)
    done = run("diff", "new.json", "old.json", "--threads")
    assert (done.exit_code, done.stdout.splitlines()) == (0, [str(point) for point in points])
    assert "breaks node Limit.before_model: raises MissingNode" in done.stdout
    data = json.loads(run("diff", "new.json", "old.json", "--threads", "--json").stdout)
    assert list(data) == ["old", "new", "breaks", "points"]
    assert data["breaks"] is True
    assert [point["name"] for point in data["points"]] == [point.name for point in points]
    stands = json.loads(run("diff", "old.json", "new.json", "--threads", "--json").stdout)
    assert stands["breaks"] is False


def test_former_names_are_a_branch_of_the_tree() -> None:
    shape = Shape(hooks=(Hook("Guard", Phase.BEFORE_AGENT),), moved=(Move("Old", "Guard"),))
    lines = [line.strip(" └─") for line in on_console(plan(shape)).splitlines()]
    assert lines[-2:] == ["moved", "Old -> Guard"]


def test_only_the_option_exit_code_makes_a_difference_a_failure() -> None:
    assert run("diff", "old.json", "new.json").exit_code == 0
    assert run("diff", "old.json", "new.json", "--exit-code").exit_code == 1
    same = run("diff", "old.json", "old.json", "--exit-code")
    assert (same.exit_code, same.stdout) == (0, "No differences.\n")
    assert run("diff", "old.json", "none.json", "--exit-code").exit_code == 2
    threads = ("--threads", "--exit-code")
    assert run("diff", "new.json", "old.json", *threads).exit_code == 1
    assert run("diff", "old.json", "new.json", *threads).exit_code == 0  # they differ and stand


def test_an_agent_whose_guarantee_fails_is_compared_and_then_refused() -> None:
    Path("desk.py").write_text(
        """from agent_factory import create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware, ModelCallLimitMiddleware
from agent_factory.testing import ScriptedChatModel


def refund(euros: int) -> str:
    "Pay money back."


def build(*stack, guarantees=("tool refund passes a person",)):
    model = ScriptedChatModel([])
    options = {"middleware": stack, "guarantees": guarantees, "ignore": ["AF211"]}
    return create_agent(model, [refund], **options)


def good():
    return build(HumanInTheLoopMiddleware({"refund": True}))


def bad():
    return build(ModelCallLimitMiddleware(run_limit=3))


def worse():
    return build(5)
""",
        encoding="utf-8",
    )
    done = run("diff", "desk.py:good", "desk.py:bad", "--exit-code")
    assert done.exit_code == 2
    assert "removed guard of refund by HumanInTheLoopMiddleware: it was: a pers" in done.stdout
    assert "AF127" in " ".join(done.stderr.split())
    assert json.loads(run("diff", "desk.py:good", "desk.py:bad", "--json").stdout)["differs"]
    threads = run("diff", "desk.py:good", "desk.py:bad", "--threads")
    assert (threads.exit_code, "stands node model" in threads.stdout) == (2, True)
    assert "must" in refused("diff", "desk.py:good", "desk.py:worse")


def test_an_order_is_explained_in_words_and_as_data() -> None:
    assert run("explain", "new.json").stdout == f"{NEW.explain()}\n"
    data = json.loads(run("explain", "new.json", "--json").stdout)
    assert list(data) == ["target", "order", "corners", "undecided"]
    assert [(part["part"], part["names"]) for part in data["order"]] == [
        ("before_agent", ["Guard"]),
        ("before_model", ["Limit"]),
        ("after_agent", ["Log"]),
        ("model layers", ["Retry.around_model"]),
    ]
    assert all(part["why"] in NEW.explain() for part in data["order"])
    assert data["corners"]["loop_entry"] == "Limit.before_model"


def test_an_edge_is_explained_by_its_nodes_or_reported_missing() -> None:
    assert run("explain", "new.json", "model", "tools").stdout == (
        f"{NEW.explain('model', 'tools')}\n"
    )
    data = json.loads(run("explain", "new.json", "start", "Guard.before_agent", "--json").stdout)
    assert (data["from"], data["exists"], data["instead"]) == ("__start__", True, [])
    assert [list(reason) for reason in data["reasons"]] == [["why", "by", "meaning"]]
    missing = json.loads(run("explain", "new.json", "tools", "end", "--json").stdout)
    assert (missing["exists"], missing["reasons"]) == (False, [])
    assert missing["instead"] == ["Limit.before_model", "Log.after_agent"]
    ends = [[(edge["from"], edge["to"]) for edge in path] for path in missing["paths"]]
    assert ends[0] == [("tools", "Log.after_agent"), ("Log.after_agent", "__end__")]


@posix
def test_on_a_terminal_a_path_is_explained_edge_by_edge(processes: Processes) -> None:
    text = on_terminal(processes, "explain", "new.json", "tools", "end", COLUMNS="120")
    assert "\x1b[3" not in text  # codes of foreground colors; bold is not one
    lines = [re.sub(r"\x1b\[\d*m", "", line).strip() for line in text.splitlines()]
    assert "No edge leads from tools to __end__" in lines[0]
    assert "tools -> Log.after_agent -> __end__" in lines
    assert "- Log.after_agent -> __end__: It is the next node; nothing decides." in lines


def test_unknown_nodes_are_reported() -> None:
    assert "Did you mean model?" in refused("explain", "new.json", "modle", "tools")
    assert "Its nodes are __start__" in refused("explain", "new.json", "model", "xyz")
    assert "FROM needs TO" in refused("explain", "new.json", "model")


SHOP = """
from agent_factory import create_agent
from agent_factory.middleware import ModelCallLimitMiddleware
from agent_factory.testing import ScriptedChatModel

def refund(euros: int) -> str:
    "Pay money back."
    raise RuntimeError("The tool ran.")

def build(model):
    return create_agent(model, [refund])

def build_kindly(model):
    return create_agent(model, [refund], system_prompt="Be kind.")

def build_wrongly(model):
    return create_agent(model, [refund], middleware=[5])

def build_later():
    return build(ScriptedChatModel([]))

agent = build_later()
number = 5
stack = [ModelCallLimitMiddleware(run_limit=5)]
limited = create_agent(ScriptedChatModel([]), [refund], middleware=stack)
"""

ASK: Any = {"messages": [("user", "Please.")]}


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shop, and its recorded runs, in the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("shop.py").write_text(SHOP, encoding="utf-8")
    for name, expect in (("small", "refund(euros<=50)"), ("large", "refund")):
        steps = [
            Reply(calls=[{"name": "refund", "args": {"euros": 50}}], usage=(1_000_000, 0)),
            "Done.",
        ]
        agent = create_agent(ScriptedChatModel(steps), [refund])
        record_agent(agent, f"runs/{name}.jsonl", expect=expect).invoke(ASK)


def replayed(*words: str) -> Result:
    return CliRunner().invoke(app, ["replay", *words], env={"COLUMNS": "200"})


@pytest.mark.parametrize("name", ["build", "build_later", "agent"])
def test_runs_that_pass_end_with_0(name: str) -> None:
    done = replayed(f"shop.py:{name}", "runs")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == "2 runs: 2 passed"


def test_runs_that_have_changed_end_with_1_unless_they_may() -> None:
    done = replayed("shop.py:build_kindly", "runs")
    assert done.exit_code == 1
    assert "request 1 differs: messages[0].content: 'Please.' was recorded" in done.stdout
    assert done.stdout.splitlines()[-1] == "2 runs: 2 changed"
    assert replayed("shop.py:build_kindly", "runs", "--allow-changes").exit_code == 0
    Path("runs/small.trajectory").write_text("never refund")
    done = replayed("shop.py:build_kindly", "runs", "--allow-changes")
    assert done.exit_code == 1
    assert "2 runs: 1 failed, 1 changed" in done.stdout


def test_tools_run_on_request() -> None:
    done = replayed("shop.py:build", "runs", "--run-tools")
    assert done.exit_code == 1
    assert "raised RuntimeError: The tool ran." in done.stdout


def test_json_has_all_fields() -> None:
    done = replayed("shop.py:build_kindly", "runs", "--json")
    data = json.loads(done.stdout)
    assert done.exit_code == 1
    assert list(data) == ["agent", "folder", "runs", "passed", "changed", "failed", "error"]
    assert (data["agent"], data["folder"]) == ("shop.py:build_kindly", "runs")
    assert [run["name"] for run in data["runs"]] == ["large", "small"]
    assert set(data["runs"][0]) == {
        "name", "verdict", "reason", "request", "step", "tool", "recorded", "replayed", "seconds",
        "trajectory",
    }  # fmt: skip


def test_a_page_is_written() -> None:
    assert replayed("shop.py:build", "runs", "-o", "report.html").exit_code == 0
    page = Path("report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "2 runs: 2 passed" in page


def test_a_terminal_gets_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "is_terminal", lambda: True)
    text = re.sub(r"[┃│]", "|", replayed("shop.py:build_kindly", "runs").stdout)
    assert re.search(r"\| large +\| changed +\| +2 \| +1 \|", text)
    assert re.search(r"request 1 differs", text)
    assert re.search(r"\| all +\| +\| +4 \| +2 \|", text)


def test_models_that_the_price_list_knows_have_a_cost() -> None:
    pytest.importorskip("genai_prices", reason="the extra cost is not installed")
    path = Path("runs/small.jsonl")
    text = path.read_text().replace('"model_name": null', '"model_name": "gpt-4o-mini"')
    path.write_text(text)
    data = json.loads(replayed("shop.py:build", "runs", "--json").stdout)
    assert [run["recorded"]["usd"] for run in data["runs"]] == [None, pytest.approx(0.15, 0.5)]


@each(
    "words, said",
    [
        (["shop.py:build", "nowhere"], "folder nowhere does not exist."),
        (["shop.py:build", "."], "2 runs"),
        (["shop.py:number", "runs"], "must be an agent, got int (5)"),
        (["shop.py:bild", "runs"], "Did you mean build?"),
        (["plan.json", "runs"], "does not exist"),
        (["shop.py:build", "runs", "-o", "report.pdf"], "Write -o report.html."),
        (["shop.py:build_wrongly", "runs"], "shop.py:build_wrongly cannot be built"),
    ],
)
def test_what_cannot_be_loaded_ends_with_2(words: list[str], said: str) -> None:
    done = replayed(*words)
    assert said in " ".join(done.output.split())
    assert (done.exit_code == 2) == ("." not in words[1:])


def recorded(path: str, calls: int, *inputs: Any) -> None:
    """Record an agent that refunds so often, and is then asked for each further input."""
    step = {"name": "refund", "args": {"euros": 5}}
    replies: list[Any] = [Reply(calls=[step], usage=(100, 10)) for _ in range(calls)]
    replies += [Reply("Done.", usage=(200, 20)) for _ in range(1 + len(inputs))]
    agent = record_agent(create_agent(ScriptedChatModel(replies), [refund]), path)
    result = agent.invoke({"messages": [("user", "Please.")]})
    for text in inputs:
        result = agent.invoke({"messages": [*result["messages"], ("user", text)]})


@pytest.fixture
def used(shop: None) -> None:
    """Recorded runs of the shop, which differ in how often they call."""
    for number, calls in enumerate((0, 0, 0, 1, 3)):
        recorded(f"used/{number}.jsonl", calls)


def test_each_bound_is_a_line_with_its_limit() -> None:
    result = run("explain", "shop:stack", "--bounds")
    assert result.exit_code == 0
    assert result.output.splitlines()[0] == (
        "model calls: at most 5, by ModelCallLimitMiddleware: at most 5 model calls a run"
    )


def test_recorded_runs_stand_next_to_the_bounds(used: None) -> None:
    lines = run("explain", "shop:stack", "--bounds", "--recordings", "used").output.splitlines()
    assert lines[0].endswith("a run. Recorded: median 1, 95 % up to 4.")
    assert "Recorded: median 220, 95 % up to 550." in "\n".join(lines)
    assert lines[-1] == "5 recorded runs in used."


def test_a_run_without_calls_of_a_tool_counts_as_none(used: None) -> None:
    words = ("explain", "shop:limited", "--bounds", "--recordings", "used", "--json")
    rows = {row["what"]: row for row in json.loads(run(*words).output)["bounds"]}
    assert rows["calls of refund"]["recorded"] == {"median": 0, "p95": 3}


def test_a_call_without_a_result_is_not_counted() -> None:
    def fail(euros: int) -> str:
        """Refund."""
        raise RuntimeError

    reply = Reply(calls=[{"name": "fail", "args": {"euros": 5}}])
    agent = record_agent(create_agent(ScriptedChatModel([reply]), [fail]), "failed.jsonl")
    with pytest.raises(RuntimeError):
        agent.invoke({"messages": "Please."})
    (usage,) = usage_of_runs(Path("failed.jsonl"), lambda name, usage: None)
    assert (usage["model calls"], usage["tool calls"]) == (1, 0)


def test_json_holds_bounds_and_recorded_runs(used: None) -> None:
    words = ("explain", "shop:stack", "--bounds", "--json")
    assert "recorded" not in json.loads(run(*words).output)["bounds"][0]
    data = json.loads(run(*words, "--recordings", "used").output)
    first, second = data["bounds"][:2]
    assert (first["what"], first["most"]) == ("model calls", 5)
    assert first["recorded"] == {"median": 1, "p95": 4}
    assert (second["most"], second["recorded"]) == (0, {"median": 0, "p95": 3})
    assert data["recorded_runs"] == 5


def test_on_a_terminal_they_are_a_table(used: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "is_terminal", lambda: True)
    output = run("explain", "shop:stack", "--bounds", "--recordings", "used").output
    assert "median" in output
    assert "no bound" in output


def test_a_recording_of_several_runs_counts_as_several() -> None:
    recorded("more/one.jsonl", 2, "Thanks.", "Bye.")
    runs = usage_of_runs(Path("more/one.jsonl"), lambda name, usage: 0.5)
    assert [item["model calls"] for item in runs] == [3, 1, 1]
    assert [item.get("calls of refund") for item in runs] == [2, None, None]
    assert [item["USD"] for item in runs] == [1.5, 0.5, 0.5]
    assert "USD" not in usage_of_runs(Path("more/one.jsonl"), lambda name, usage: None)[0]


@each(
    "words, text",
    [
        (("shop:stack", "--recordings", "used"), "Add --bounds."),
        (("shop:stack", "model", "tools", "--bounds"), "name the agent alone"),
        (("AF204", "--bounds"), "name the agent alone"),
        (("shop:stack", "--bounds", "--recordings", "nowhere"), "does not exist"),
    ],
)
def test_words_that_do_not_fit_are_refused(used: None, words: tuple[str, ...], text: str) -> None:
    result = run("explain", *words)
    assert (result.exit_code, text in " ".join(result.output.split())) == (2, True), result.output
