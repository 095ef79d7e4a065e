"""The targets of commands, the errors about everything else, and the policies of targets."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from commands import run

pytest.importorskip("typer", reason="the extra cli is not installed")

import typer
from typer.testing import CliRunner

from agent_factory import plan_agent
from agent_factory.cli.app import app
from agent_factory.cli.error_reports import reporting_errors
from tables import each

AGENT = """
from agent_factory import AgentMiddleware, create_agent, plan_agent
from agent_factory.testing import ScriptedChatModel

class Look(AgentMiddleware):
    def before_model(self, state, runtime):
        return None

agent = create_agent(ScriptedChatModel([]), middleware=[Look()])
"""

THINGS = (
    AGENT
    + """
from langgraph.graph import StateGraph
from agent_factory import AgentState

stack = [Look()]
one = Look()
plan = plan_agent(middleware=stack)
number = 3

class Shop:
    desk = agent

graph = StateGraph(AgentState)
graph.add_node("a", lambda state: state)
graph.set_entry_point("a")
foreign = graph.compile()

def build(model=None):
    print("building")
    return agent

def build_stack():
    return tuple(stack)

def nothing():
    return None

def wants(model, *, size):
    return agent

def gives():
    return later()

def broken():
    raise RuntimeError("no key\\nwas given")

def leaves():
    raise SystemExit("enough")

def stopped():
    from agent_factory.demo.interrupt import CtrlC
    raise CtrlC

async def later():
    return agent
"""
)

PLAN = "__start__ -> Look.before_model\nLook.before_model -> model\nmodel -> __end__\n"

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a file into the current folder."""
    monkeypatch.chdir(tmp_path)

    def written(name: str, text: str) -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    return written


def shown(target: str) -> str:
    done = run("show", target)
    assert (done.exit_code, done.exception) == (0, None), done.output
    return done.stdout


def refused(*words: str) -> str:
    """The error output, in one line."""
    done = run(*words)
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


@pytest.mark.parametrize(
    "attribute", ["agent", "plan", "stack", "build", "build_stack", "Shop.desk"]
)
def test_agents_plans_stacks_and_functions_that_build_them_are_targets(
    write: Write, attribute: str
) -> None:
    write("things.py", THINGS)
    assert shown(f"things:{attribute}") == PLAN
    assert shown(f"things.py:{attribute}") == PLAN


def test_a_module_stands_for_its_only_agent(write: Write) -> None:
    write("one.py", AGENT)
    write("things.py", THINGS)
    write("none.py", "")
    assert shown("one") == shown("one.py") == shown("one:") == PLAN
    assert "Write things:agent or things:plan." in refused("show", "things")
    assert "Write none.py:attribute." in refused("show", "none.py")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import json\njson.loads('{')", "raised JSONDecodeError: Expecting"),
        ("def (:\n", "raised SyntaxError: invalid syntax"),
        ("import nothing_such", "raised ModuleNotFoundError: No module named 'nothing_such'"),
        ("raise SystemExit(3)", "raised SystemExit: 3"),
    ],
)
def test_a_module_that_raises_is_reported_with_its_line(
    write: Write, source: str, words: str
) -> None:
    write("mine.py", source)
    said = refused("show", "mine:agent")
    assert words in said
    assert f", at mine.py:{len(source.splitlines())}." in said


def test_the_traceback_option_shows_frames_from_the_users_code_on(write: Write) -> None:
    write("mine.py", "import json\njson.loads('{')")
    done = run("show", "mine:agent", "--traceback")
    lines = done.stderr.splitlines()
    assert done.exit_code == 2
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].endswith('mine.py", line 2, in <module>')
    assert "agent_factory" not in "".join(lines[:-1])


@each(
    "target, words",
    [
        ("thigns:agent", "Did you mean things?"),
        ("things.agent", "Did you mean things:agent?"),
        ("shop.dsek:agent", "Did you mean shop.desk?"),
        ("", "must name a module or a file"),
        (":agent", "must name a module or a file"),
        (".things:agent", "is not a valid module name"),
        ("things.py:agent:more", "is not a valid module name"),
        ("thigns.py:agent", "The file thigns.py does not exist. Did you mean things.py?"),
        ("shop/", "is a folder"),
        ("readme.txt/../readme", "does not exist"),
        ("./readme.txt", "is neither a Python file nor a plan"),
        ("C:\\x.py:agent", "The file C:\\x.py does not exist."),
        ("things:agnet", "things does not have 'agnet'. Did you mean agent?"),
        ("things:zzz", "Agents in it: agent, plan."),
        ("things:Shop.dsek", "things:Shop does not have 'dsek'. Did you mean desk?"),
        ("things:number", "things:number must be an agent, got int (3)"),
        ("things:one", "is one middleware. Put it into a list."),
        ("things:Look", "is a class"),
        ("things:graph", "create_agent did not build"),
        ("things:foreign", "create_agent did not build"),
        ("things:nothing", "was called, and its result must be an agent, got NoneType"),
        ("things:wants", "must be callable without arguments, but needs model, size"),
        ("things:later", "is asynchronous"),
        ("things:gives", "its result is awaitable"),
        ("things:broken", "raised RuntimeError: no key, at things.py:44"),
        ("things:leaves", "raised SystemExit: enough"),
    ],
)
def test_a_target_that_is_not_an_agent_is_reported_with_a_hint(
    write: Write, target: str, words: str
) -> None:
    write("things.py", THINGS)
    write("shop/desk.py", AGENT)
    write("readme.txt", "")
    assert words in refused("show", target)


@pytest.mark.parametrize("name", ["json.py", "my-agent.py", "a.b.py", "deep/er/inside.py"])
def test_a_file_may_have_any_name_even_of_another_module(write: Write, name: str) -> None:
    write(name, AGENT)
    assert shown(f"{name}:agent") == PLAN
    assert shown(f"./{name}:agent") == PLAN
    assert sys.modules["json"] is json


def test_two_checkouts_of_one_package_are_kept_apart(write: Write) -> None:
    for side in ("old", "new"):
        write(f"{side}/app/__init__.py", "")
        write(f"{side}/app/names.py", f"NAME = '{side}'")
        source = "from .names import NAME\nfrom app.names import NAME as SAME\n" + AGENT
        write(f"{side}/app/desk.py", source.replace("Look()", "Look(name=NAME + SAME)"))
    path = list(sys.path)
    done = run("diff", "old/app/desk.py:agent", "new/app/desk.py:agent")
    assert done.stdout == "renamed middleware oldold -> newnew\n"
    assert "app" not in sys.modules
    assert sys.path == path


def test_the_current_folder_is_searched_first(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = write("elsewhere/desk_of_mine.py", "agent = 3").parent
    monkeypatch.syspath_prepend(str(elsewhere))
    write("desk_of_mine.py", AGENT)
    assert shown("desk_of_mine:agent") == PLAN


def test_a_module_is_run_once_and_its_output_goes_to_the_error_output(write: Write) -> None:
    write("things.py", "print('imported')\n" + THINGS)
    done = run("check", "things:agent", "things:build", "things:stack")
    assert done.stderr.split() == ["imported", "building"]
    done = run("show", "things:build", "--json")
    assert json.loads(done.stdout)["format"] == "agent_factory.topology"
    assert done.stderr.split() == ["building"]


def test_ctrl_c_in_a_module_ends_the_command(write: Write) -> None:
    write("things.py", THINGS)
    done = run("show", "things:stopped")
    assert (done.exit_code, done.stderr.strip()) == (130, "Stopped.")


def test_a_langgraph_configuration_names_its_graphs(write: Write) -> None:
    write("shop/src/near.py", "NAME = 'Look'")
    write("shop/src/inner/desk.py", "import near\n" + AGENT)
    graphs = {"desk": "./src/inner/desk.py:agent"}
    config = {"dependencies": [".", "./src", "langchain"], "graphs": graphs}
    write("shop/langgraph.json", json.dumps(config))
    assert shown("shop/langgraph.json") == shown("shop/langgraph.json:desk") == PLAN
    config["graphs"] = {**graphs, "other": {"path": "src.inner.desk:agent"}}
    write("shop/langgraph.json", json.dumps(config))
    assert shown("shop/langgraph.json:desk") == PLAN
    said = refused("show", "shop/langgraph.json")
    assert "Write shop/langgraph.json:desk or shop/langgraph.json:other." in said
    done = run("check", "shop/langgraph.json", "things:agent", "--json")
    failed = [failure["target"] for failure in json.loads(done.stdout)["failures"]]
    assert failed == ["things:agent"]  # and both graphs were looked at


def test_a_saved_plan_is_a_target(write: Write) -> None:
    plan = plan_agent()
    write("plan.json", plan.to_json())
    write("plan.topology", plan.to_snapshot())
    assert shown("plan.json") == shown("plan.topology") == plan.render() + "\n"
    assert run("diff", "plan.json", "plan.topology").stdout == "No differences.\n"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("plan.json", "[]", "AF130"),
        ("plan.json", '{"format": "agent_factory.topology", "version": 99}', "version 99"),
        ("plan.json", "{", "is not valid JSON"),
        ("plan.topology", "hello", "AF130"),
        ("langgraph.json", "{", "is not valid JSON"),
        ("langgraph.json", "{}", 'must have "graphs"'),
        ("langgraph.json", '{"graphs": {"desk": 3}}', "'desk' must be file.py:attribute, got 3"),
        ("langgraph.json", '{"graphs": {"desk": "a.py"}}', "file.py:attribute, got 'a.py'"),
        ("langgraph.json", '{"graphs": {"desk": "nope.py:agent"}}', "nope.py does not exist"),
        ("langgraph.json:dsek", '{"graphs": {"desk": "desk.py:agent"}}', "Did you mean desk?"),
    ],
)
def test_a_file_without_a_plan_or_a_graph_is_reported(
    write: Write, name: str, text: str, words: str
) -> None:
    write(name.partition(":")[0], text)
    assert words in refused("show", name)


def test_a_file_that_is_not_text_is_reported(write: Write, tmp_path: Path) -> None:
    (tmp_path / "plan.topology").write_bytes(b"\xff\xfe\x00")
    assert "plan.topology cannot be read" in refused("show", "plan.topology")


def test_a_bug_in_a_command_asks_for_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    def broken(traceback: bool) -> None:
        raise ZeroDivisionError("by zero")

    with pytest.raises(typer.Exit) as end:
        reporting_errors(broken)(traceback=False)
    assert end.value.exit_code == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "a bug in agent-factory itself: ZeroDivisionError: by zero" in said
    assert "Please report it" in said
    assert "Traceback (most" not in said
    with pytest.raises(typer.Exit):
        reporting_errors(broken)(traceback=True)
    assert "Traceback (most" in capsys.readouterr().err


def test_a_full_disk_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    def full() -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(typer.Exit) as end:
        reporting_errors(full)()
    assert end.value.exit_code == 2
    assert "agent-factory: [Errno 28] No space left on device." in capsys.readouterr().err


SHOP = """
from agent_factory import create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware, Rule, ToolPolicy
from agent_factory.testing import ScriptedChatModel

def find(query: str) -> str:
    "Find."
    return ""

def refund(euros: int) -> str:
    "Refund."
    return ""

def mail(to: str) -> str:
    "Mail."
    return ""

policy = ToolPolicy(
    Rule("f*", "deny", reason="Not today."),
    Rule("refund", "allow", when={"euros": {"<": 50}}),
    Rule("refund", "ask", reviewers=["ann"], allowed_decisions=["approve"], remember=90000),
    Rule("mail", "judge", when={"to": "Ann"}, otherwise="deny"),
    judge=ScriptedChatModel([]),
)
middleware = [HumanInTheLoopMiddleware(policy)]
agent = create_agent(ScriptedChatModel([]), [find, refund, mail], middleware=middleware)
plain = create_agent(ScriptedChatModel([]), [find])
bare = create_agent(ScriptedChatModel([]))
"""


@pytest.fixture
def shop(write: Callable[[str, str], Path]) -> None:
    write("shop.py", SHOP)


def policy_of(*words: str, code: int = 0) -> list[str]:
    """The lines of the output, without what only aligns them."""
    done = CliRunner().invoke(app, ["policy", *words], env={"COLUMNS": "200"})
    assert done.exit_code == code, done.output
    return [" ".join(line.split()) for line in done.output.splitlines()]


@pytest.mark.usefixtures("shop")
def test_the_table_says_what_happens_to_which_calls() -> None:
    assert policy_of("shop.py:agent") == [
        "tool calls decision who notes",
        "find all calls deny Not today.; rule f*",
        "refund euros < 50 allow",
        "other calls ask ann only approve; may be remembered for 90000 s",
        'mail to == "Ann" judge, or deny',
        "other calls ask no rule",
        "1 tool is not covered: mail",
    ]
    rows = json.loads(run("policy", "shop.py:agent", "--json").output)
    last = rows[-1]
    assert (last["tool"], last["action"], last["is_covered"]) == ("mail", "ask", False)
    assert rows[2]["reviewers"] == ["ann"]


@pytest.mark.usefixtures("shop")
def test_a_table_of_an_agent_without_a_policy_or_without_tools() -> None:
    assert policy_of("shop.py:plain")[1:] == [
        "find all calls allow no policy",
        "1 tool is not covered: find",
    ]
    assert policy_of("shop.py:bare") == ["The agent has no tools."]
    (line,) = policy_of("shop.py:middleware", code=2)
    assert "is not an agent" in line
