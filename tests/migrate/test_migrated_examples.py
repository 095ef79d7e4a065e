"""Examples written the old way are moved, and then run."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("libcst", reason="the extra cli is not installed")

from agent_factory.migrate import Factory, Migration, migrate_source
from agent_factory.testing import ScriptedChatModel
from tables import each

OLD = Path(__file__).parents[1] / "fixtures" / "old_way"
SCRIPTS = sorted((Path(__file__).parents[1] / "fixtures" / "langchain_scripts").iterdir())
FIND = [{"name": "find_order", "args": {"order_id": "A-1001"}}]


def migrated(name: str, to: Factory = Factory.REACT) -> Migration:
    text = (OLD / f"{name}.py.txt").read_text(encoding="utf-8")
    done = migrate_source(text, to)
    assert migrate_source(done.text, to).text == done.text
    return done


def printed(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a script prints; lambdas and types of its annotations are found by its module."""
    module = ModuleType("script")
    monkeypatch.setitem(sys.modules, "script", module)
    with redirect_stdout(StringIO()) as output:
        exec(compile(text, name, "exec", dont_inherit=True), vars(module))
    return output.getvalue()


@each("path", SCRIPTS, ids=lambda path: path.name.removesuffix(".py.txt"))
def test_a_script_prints_the_same_after_its_move(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("langchain")
    text = path.read_text(encoding="utf-8")
    done = migrate_source(text)
    assert not done.findings
    assert "langchain.agents" not in done.text
    before = printed("before.py", text, monkeypatch)
    assert before.count("\n") > 1
    assert printed("after.py", done.text, monkeypatch) == before


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a migrated text as a module."""

    def load(done: Migration) -> Any:
        module = ModuleType("moved")
        monkeypatch.setitem(sys.modules, "moved", module)
        exec(compile(done.text, "moved.py", "exec", dont_inherit=True), vars(module))
        return module

    return load


def test_every_example_has_a_test_here() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    for path in OLD.iterdir():
        assert f'migrated("{path.name.removesuffix(".py.txt")}"' in text


@each("to", Factory)
def test_quickstart_calls_its_tool_and_answers(to: Factory, loaded: Any) -> None:
    done = migrated("quickstart", to)
    assert not done.findings
    assert f"{to.value}(model" in done.text
    assert "import langgraph" not in done.text
    assert "from langgraph" not in done.text
    model = ScriptedChatModel([FIND, "It arrives on Thursday."])
    result = loaded(done).main(model)
    assert [m.type for m in result["messages"]] == ["human", "ai", "tool", "ai"]
    assert result["messages"][-1].name == "desk"
    assert model.requests[0].messages[0].text == "You help customers of a shop."


def test_long_thread_keeps_its_hook_its_state_and_its_tool_node(loaded: Any) -> None:
    done = migrated("long_thread")
    assert not done.findings
    script = [
        FIND,
        "It arrives on Thursday.",
        [{"name": "find_order", "args": {"order_id": "C-77"}}],
        "You have no such order.",
    ]
    model = ScriptedChatModel(script)
    result = loaded(done).main(model)
    answers = [m.text for m in result["messages"] if m.type == "tool"]
    assert answers == ["Ada's order A-1001 arrives on Thursday.", "Ada has no order C-77"]
    assert len(result["messages"]) == 8
    assert [len(request.messages) for request in model.requests] == [1, 3, 1, 3]


def test_long_thread_leaves_three_arguments_to_a_person() -> None:
    done = migrated("long_thread", Factory.AGENT)
    lines = done.before.splitlines()
    report = [lines[finding.line - 1].split("=")[0].strip() for finding in done.findings]
    assert report == ["state_schema", "pre_model_hook", "version"]
    assert "from agent_factory.prebuilt import create_react_agent\n" in done.text


def test_structured_output_is_asked_for_as_before(loaded: Any) -> None:
    done = migrated("structured_output")
    assert not done.findings
    assert "    ToolNode,  # for the desk's own graph\n" in done.text
    module = loaded(done)
    ticket = {"subject": "Broken lamp", "desk": "returns"}
    script = [FIND, "I see.", [{"name": "Ticket", "args": ticket}]]
    result = module.main(ScriptedChatModel(script))
    assert result["structured_response"] == module.Ticket(**ticket)
    question = {"messages": [{"role": "user", "content": "Where is it?"}]}
    graph = module.own_graph(ScriptedChatModel([FIND, "A lamp."]))
    assert graph.invoke(question)["messages"][-1].text == "A lamp."


def test_structured_output_is_part_of_the_loop_of_create_agent(loaded: Any) -> None:
    module = loaded(migrated("structured_output", Factory.AGENT))
    ticket = {"subject": "Broken lamp", "desk": "returns"}
    result = module.main(ScriptedChatModel([FIND, [{"name": "Ticket", "args": ticket}]]))
    assert result["structured_response"] == module.Ticket(**ticket)


def test_own_middleware_runs_as_it_is(loaded: Any) -> None:
    done = migrated("own_middleware")
    assert not done.findings
    assert "langchain" not in done.text.replace("LangChain", "")
    script = [
        ConnectionError("the provider hung up"),
        [{"name": "shout", "args": {"text": "hello"}}],
        "HELLO is what came back.",
    ]
    model = ScriptedChatModel(script)
    result = loaded(done).main(model)
    assert result["messages"][-1].text == "HELLO is what came back."
    assert "words_said" not in result
    assert model.requests[-1].messages[0].text == "Be brief. You have seen 3 messages."


def test_summarize_and_review_pays_what_the_reviewer_decided(loaded: Any) -> None:
    done = migrated("summarize_and_review")
    assert not done.findings
    assert 'trigger=("tokens", 40), keep=("messages", 2),' in done.text
    model = ScriptedChatModel(
        [
            [{"name": "refund", "args": {"order_id": "A-1001", "euros": 90}}],
            [{"name": "Outcome", "args": {"paid_back": 45}}],
        ]
    )
    summaries = ScriptedChatModel(["A lamp broke."] * 2)
    result = loaded(done).main(model, summaries)
    tool = next(m for m in result["messages"] if m.type == "tool" and m.name == "refund")
    assert "45 euros were paid back" in tool.text
    assert result["structured_response"].paid_back == 45
