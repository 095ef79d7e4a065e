"""Middleware classes on their way over: what a build refuses, and what nothing would call."""

from __future__ import annotations

import sys
from textwrap import dedent

import pytest

pytest.importorskip("libcst", reason="the extra cli is not installed")

from agent_factory.migrate import migrate_source
from agent_factory.migrate.values import Finding
from tables import each

IMPORTS = """
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import AgentMiddleware, SummarizationMiddleware
from langchain.agents.middleware import after_model, before_model, hook_config
"""


def found(text: str) -> list[Finding]:
    """The findings about a source, which are the same when it has moved."""
    done = migrate_source(IMPORTS + dedent(text))
    assert migrate_source(done.text).findings == done.findings
    return list(done.findings)


@each("base", ["AgentMiddleware", "AgentMiddleware[AgentState, None]", "First"])
def test_a_helper_whose_name_looks_like_a_hook_is_reported(base: str) -> None:
    (finding,) = found(
        f"""
        class First(AgentMiddleware):
            def before_model(self, state, runtime): ...
        class Last({base}):
            def after_tool(self, call): ...
            def _before_tool(self, call): ...
            @property
            def after_tools(self): ...
        """
    )
    assert (finding.kind, finding.what) == ("class", "Last.after_tool")
    assert finding.write == "_after_tool if it is a helper"


@each(
    "text, reported",
    [
        # Private names of a built-in that are overridden or called
        (
            """
            class Short(SummarizationMiddleware):
                def _create_summary(self, messages): return self._shout("short")
                def _shout(self, text): return text.upper()
            class Long(SummarizationMiddleware):
                def before_model(self, state, runtime):
                    self._last = state
                    return self._should_summarize(self._last) and super()._trim(state)
            """,
            ["Short._create_summary", "Long._should_summarize", "Long._trim"],
        ),
        # Those of a base of the file
        (
            """
            class Base(AgentMiddleware):
                def before_model(self, state, runtime): return self._update(state)
                def _update(self, state): ...
            class Own(Base):
                def _update(self, state): return self._other
            """,
            [],
        ),
        # State schemas that are not typed dicts
        (
            """
            from pydantic import BaseModel
            class Form(BaseModel):
                x: int
            @dataclass
            class Data:
                x: int
            class Uses(AgentMiddleware):
                state_schema = Data
            class Names(AgentMiddleware):
                state_schema: type[Form] = Form
            create_agent(m, state_schema=Form)
            """,
            ["state_schema=Data", "state_schema=Form", "state_schema=Form"],
        ),
        # Keys of built-ins that are used
        (
            """
            from langchain.agents.middleware import TodoListMiddleware
            @after_model
            def clear(state, runtime):
                return {"todos": []}
            create_agent(m, middleware=[TodoListMiddleware(), clear])
            """,
            [],
        ),
        # Classes that are not middleware, and classes that derive from each other
        ("class Other:\n    def after_tool(self, call): ...\n", []),
        ("class A(B): ...\nclass B(A):\n    def after_tool(self): ...\n", []),
    ],
)
def test_only_what_breaks_is_reported(text: str, reported: list[str]) -> None:
    assert [finding.what for finding in found(text)] == reported


@each(
    "decorators, reported",
    [
        ("@before_model", True),
        ("@before_model(name='f')", True),
        ("@before_model(can_jump_to=['end'])", False),
        ("@before_model\n@hook_config(can_jump_to=['end'])", False),
        ("", False),
    ],
)
def test_an_undeclared_jump_of_a_function_is_reported(decorators: str, reported: bool) -> None:
    findings = found(f"{decorators}\ndef f(state, runtime): return {{'jump_to': 'end'}}\n")
    assert [finding.what for finding in findings] == ["jump_to"] * reported


@each(
    "method, target, reported",
    [
        ("def before_model", "'end'", True),
        ("async def aafter_agent", "'end'", True),
        ("@hook_config(can_jump_to=['end'])\n    def before_model", "'end'", False),
        ("def before_model", "None", False),
        ("def helper", "'end'", False),
    ],
)
def test_an_undeclared_jump_of_a_class_is_reported(
    method: str, target: str, reported: bool
) -> None:
    body = f"{method}(self, state, runtime): return {{'jump_to': {target}}}"
    findings = found(f"class F(AgentMiddleware):\n    {body}\n")
    assert [finding.what for finding in findings] == ["jump_to"] * reported


HOOK = """
@after_model
def count(state, runtime):
    return {"messages": [], "count": 1}
"""


@each(
    "rest, reported",
    [
        ("create_agent(m, middleware=[count])", True),
        ("", False),
        ("class S(AgentState):\n    count: int\ncreate_agent(m, state_schema=S)", False),
        ("class S(AgentState):\n    other: int\ncreate_agent(m, state_schema=S)", True),
        ("class S(TypedDict):\n    count: int\ncreate_agent(m, middleware=[count])", False),
        ("from shop import S\ncreate_agent(m, state_schema=S)", False),
        ("from shop import T\nclass S(T):\n    x: int\ncreate_agent(m, state_schema=S)", False),
    ],
)
def test_a_key_of_no_state_schema_of_the_file_is_reported(rest: str, reported: bool) -> None:
    assert [finding.what for finding in found(f"{HOOK}{rest}\n")] == ["count"] * reported


PII = "from langchain.agents.middleware.pii import PIIMiddleware, RedactionRule\n"


@each(
    "call, package",
    [
        ("PIIMiddleware('key', detector=r'sk-\\w+')", "regex"),
        ("KEY = 'sk-'\nRedactionRule(detector=KEY, pii_type='key')", "regex"),
        ("PIIMiddleware('phone')", "phonenumbers"),
        ("PIIMiddleware(strategy='mask', pii_type='name')", "presidio_analyzer"),
        ("PIIMiddleware('phone', detector=find_numbers)", None),
        ("PIIMiddleware('email', strategy='mask')", None),
    ],
)
def test_a_package_that_a_detector_needs_is_reported_where_it_is_missing(
    call: str, package: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("phonenumbers", "presidio_analyzer", "regex"):
        monkeypatch.setitem(sys.modules, name, None)
    findings = migrate_source(f"{PII}{call}\n").findings
    assert [f"package {package}," in finding.why for finding in findings] == [True] * bool(package)
    monkeypatch.setitem(sys.modules, package or "", sys)
    assert not migrate_source(f"{PII}{call}\n").findings


@each(
    "head",
    [
        "class Odd(AgentMiddleware, metaclass=Meta):",
        "@dataclass\nclass Odd(AgentMiddleware):",
        "@dataclass(frozen=True, slots=True)\nclass Odd(AgentMiddleware):",
        "class Odd(make(), AgentMiddleware):",
        "class Odd(AgentMiddleware, *bases, **words):",
        "class Odd(AgentMiddleware, closed=1 / 0):",
        "class Odd(AgentMiddleware[1 / 0]):",
        *(
            f"class Odd(AgentMiddleware):\n    {body}"
            for body in (
                "def __init__(self, limit): self.limit = limit",
                "__slots__ = ('before_tool',)",
                "def name(self): return 'own'",
                "def mro(cls): return []",
                "def __new__(cls, *args): raise SystemExit('executed')",
                "def __init_subclass__(cls, **words): raise SystemExit('executed')",
                "def __class_getitem__(cls, item): raise SystemExit('executed')",
                "def __getattribute__(self, name): raise SystemExit('executed')",
                "def __set_name__(self, owner, name): raise SystemExit('executed')",
                "def __get__(self, instance, owner): raise SystemExit('executed')",
                "def __del__(self): raise SystemExit('executed')",
                "def __eq__(self, other): raise SystemExit('executed')",
            )
        ),
    ],
)
def test_nothing_of_a_class_is_executed(head: str, capsys: pytest.CaptureFixture[str]) -> None:
    (finding,) = found(f"{head}\n    def after_tool(self): ...\n")
    assert finding.what == "Odd.after_tool"
    assert capsys.readouterr() == ("", "")
