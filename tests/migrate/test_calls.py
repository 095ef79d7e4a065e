"""Calls and classes on their way over: keywords, create_agent, and hooks that nothing calls."""

from __future__ import annotations

import sys
from textwrap import dedent

import pytest

pytest.importorskip("libcst", reason="the extra cli is not installed")

from agent_factory.migrate import Factory, Migration, migrate_source
from agent_factory.migrate.values import Finding
from tables import each

REACT = "from langgraph.prebuilt import create_react_agent\n"
OURS = "from agent_factory.prebuilt import create_react_agent\n"
AGENT = "from agent_factory import create_agent\n"


def to_agent(text: str) -> Migration:
    return migrate_source(REACT + text, Factory.AGENT)


@each(
    "old, new",
    [
        ("m, [], config_schema=C", "m, [], context_schema=C"),
        ("m, [], state_modifier=p", "m, [], prompt=p"),
        ("**kwargs", "**kwargs"),
        ("m, t, version='v1'", "m, t, version='v1'"),
        (
            "m, [make(config_schema=1)], config_schema = C",
            "m, [make(config_schema=1)], context_schema = C",
        ),
    ],
)
def test_keywords_of_create_react_agent_get_their_names_of_now(old: str, new: str) -> None:
    done = migrate_source(f"{REACT}create_react_agent({old})\n")
    assert (done.text, done.findings) == (f"{OURS}create_react_agent({new})\n", ())


def test_keywords_are_found_by_any_name_of_the_function() -> None:
    done = migrate_source(
        "import langgraph.prebuilt as lp\n"
        "from langgraph.prebuilt import create_react_agent as make\n"
        "lp.create_react_agent(m, [], config_schema=C)\n"
        "make(m, [], config_schema=C)\n"
        "other(m, [], config_schema=C)\n"
    )
    assert done.text.splitlines()[2:] == [
        "lp.create_react_agent(m, [], context_schema=C)",
        "make(m, [], context_schema=C)",
        "other(m, [], config_schema=C)",
    ]


@each(
    "call, words",
    [
        ("create_react_agent(m, [], config_schema=C, context_schema=D)", "context_schema is given"),
        ("create_react_agent(m, [], messages_modifier=f)", "function of the state"),
    ],
)
def test_keywords_without_a_counterpart_are_reported(call: str, words: str) -> None:
    done = migrate_source(f"{REACT}{call}\n")
    assert done.text == f"{OURS}{call}\n"
    (finding,) = done.findings
    assert (finding.line, finding.kind) == (2, "argument")
    assert words in f"{finding.why} {finding.write}"


SUMMARIES = "from langchain.agents.middleware import SummarizationMiddleware\n"


@each(
    "old, new",
    [
        (
            "max_tokens_before_summary=4_000, messages_to_keep=20",
            'trigger=("tokens", 4_000), keep=("messages", 20)',
        ),
        ("messages_to_keep=N", 'keep=("messages", N)'),
    ],
)
def test_sizes_of_a_summary_are_written_with_their_unit(old: str, new: str) -> None:
    done = migrate_source(f"{SUMMARIES}N = 9\nSummarizationMiddleware(m, {old})\n")
    assert done.text.splitlines()[2] == f"SummarizationMiddleware(m, {new})"
    assert not done.findings


def test_a_size_that_may_be_none_is_left_to_a_person() -> None:
    done = migrate_source(f"{SUMMARIES}SummarizationMiddleware(max_tokens_before_summary=MOST)\n")
    assert "max_tokens_before_summary=MOST" in done.text
    (finding,) = done.findings
    assert 'trigger=("tokens", number)' in finding.write


@each("name", ["ModelRetryMiddleware", "ToolRetryMiddleware"])
@each(
    "old, new",
    [
        ("'raise'", "'error'"),
        ('"return_message"', '"continue"'),
        ("'continue'", "'continue'"),
        ("explain", "explain"),
    ],
)
def test_what_happens_on_a_failure_is_named_as_it_is_now(name: str, old: str, new: str) -> None:
    text = f"from {{}}.middleware import {name}\n{name}(max_retries=1, on_failure={{}})\n"
    done = migrate_source(text.format("langchain.agents", old))
    assert (done.text, done.findings) == (text.format("agent_factory", new), ())


def test_a_parameter_without_use_is_reported_until_it_is_gone() -> None:
    first = migrate_source(f"{SUMMARIES}SummarizationMiddleware(summary_prefix='So far:')\n")
    (finding,) = first.findings
    assert (finding.kind, finding.write) == ("argument", "nothing")
    assert migrate_source(first.text).findings == first.findings


@each(
    "old, new",
    [
        ("m, []", "m, []"),
        ("m, [], prompt='Hi'", "m, [], system_prompt='Hi'"),
        ("m, [], prompt=SystemMessage(x)", "m, [], system_prompt=SystemMessage(x)"),
        ("m, [], prompt='Be ' + y", "m, [], system_prompt='Be ' + y"),
        ("m, [], prompt=P.format(x).strip()", "m, [], system_prompt=P.format(x).strip()"),
        ("m, [], prompt=Q", "m, [], system_prompt=Q"),
        ("m, [], state_modifier='Hi'", "m, [], system_prompt='Hi'"),
        ("m, [], config_schema=C, store=s, name='n'", "m, [], context_schema=C, store=s, name='n'"),
        *(
            (same, same)
            for same in (
                "m, [], checkpointer=c",
                "m, [], state_schema=None, interrupt_after=None",
                "m, [], response_format=Ticket, interrupt_before=['tools']",
            )
        ),
    ],
)
def test_calls_whose_parameters_have_a_counterpart_become_create_agent(old: str, new: str) -> None:
    text = "P = '''Be {{}} '''\ndef f(m):\n    Q: str = 'Hi'\n    return {}({})\n"
    done = to_agent(text.format("create_react_agent", old))
    assert (done.text, done.findings) == (AGENT + text.format("create_agent", new), ())
    assert migrate_source(done.text, Factory.AGENT).text == done.text


@each(
    "call, words",
    [
        ("create_react_agent(**kwargs)", "hides which parameters"),
        ("create_react_agent(m, [], prompt)", "no such parameter"),
        ("create_react_agent(m, [], retries=p)", "no such parameter"),
        ("create_react_agent(m, [], retry_policy=p)", "NodePolicy(retry_policy=...)"),
        ("create_react_agent(m, [], prompt=lambda s: [])", "@dynamic_prompt"),
        ("def p(s): ...\ncreate_react_agent(m, [], prompt=p)", "@dynamic_prompt"),
        ("from texts import P\ncreate_react_agent(m, [], prompt=P)", "does not show"),
        ("P = 'a'\nP = ask()\ncreate_react_agent(m, [], prompt=P)", "does not show"),
        ("def f(P): create_react_agent(m, [], prompt=P)", "does not show"),
        ("create_react_agent(m, [], prompt=texts[0])", "does not show"),
        ("create_react_agent(lambda s, r: m, [])", "request.override(model=...)"),
        ("async def m(s, r): ...\ncreate_react_agent(m, [])", "request.override(model=...)"),
        ("create_react_agent(m.bind_tools([]), [])", "binds the tools itself"),
        ("create_react_agent(p | m, [])", "this is a chain"),
        ("create_react_agent(m, ToolNode([]))", "handle_tool_errors"),
        ("create_react_agent(m, [], response_format=('Sum up', T))", "in its loop"),
        ("create_react_agent(m, [], pre_model_hook=h)", "@before_model"),
        ("create_react_agent(m, [], post_model_hook=h)", "@after_model"),
        ("create_react_agent(m, [], state_schema=S)", "agent_factory.AgentState"),
        ("create_react_agent(m, [], interrupt_before=['agent'])", "'model' for 'agent'"),
        ("create_react_agent(m, [], version='v1')", "one version"),
        ("create_react_agent(m, [], messages_modifier=f)", "function of the state"),
        ("create_react_agent(m, [], config_schema=C, context_schema=D)", "is given, too"),
        ("functools.partial(create_react_agent, m)", "passed on"),
        ("def create_agent(): ...\ncreate_react_agent(m, [])", "something else"),
        ("from shop import create_agent\ncreate_react_agent(m, [])", "something else"),
        ("if OLD: create_react_agent = None\ncreate_react_agent(m, [])", "another statement"),
    ],
)
def test_calls_that_a_person_has_to_look_at_stay_and_say_why(call: str, words: str) -> None:
    done = to_agent(f"{call}\n")
    assert done.text.startswith(OURS)
    assert done.text.count("create_agent") == call.count("create_agent")
    assert words in "".join(f"{f.what} {f.why} {f.write}" for f in done.findings)
    again = migrate_source(done.text, Factory.AGENT)
    assert again.text == done.text
    assert [(f.line, f.what) for f in again.findings] == [(f.line, f.what) for f in done.findings]


def test_all_reasons_of_a_call_are_reported_where_they_stand() -> None:
    done = to_agent(
        "create_react_agent(\n    m,\n    [],\n    version='v1',\n    pre_model_hook=h)\n"
    )
    report = [(f.line, f.column, f.what) for f in done.findings]
    assert report == [
        (5, 5, "create_react_agent(version=...)"),
        (6, 5, "create_react_agent(pre_model_hook=...)"),
    ]


@each(
    "old, new",
    [
        (
            "from langgraph.prebuilt import create_react_agent as make\nmake(m, [])\n",
            "from agent_factory import create_agent as make\nmake(m, [])\n",
        ),
        (
            "from langgraph.prebuilt import create_react_agent as make\n"
            "make(m, [])\nmake(m, [], version='v2')\n",
            "from agent_factory import create_agent\n"
            "from agent_factory.prebuilt import create_react_agent as make\n"
            "create_agent(m, [])\nmake(m, [], version='v2')\n",
        ),
        (
            "from langgraph.prebuilt import (\n    create_react_agent,  # it\n    ToolNode,\n)\n"
            "create_react_agent(m, [])\n",
            "from agent_factory import (\n    create_agent,  # it\n    ToolNode,\n)\n"
            "create_agent(m, [])\n",
        ),
        (
            "import langgraph.prebuilt as lp\nlp.create_react_agent(m, [], prompt='Hi')\n",
            "import agent_factory as lp\nlp.create_agent(m, [], system_prompt='Hi')\n",
        ),
        (
            "import langgraph.prebuilt\nlanggraph.prebuilt.create_react_agent(m, [])\n"
            "langgraph.prebuilt.create_react_agent(m, [], version='v2')\n",
            "import agent_factory\nimport agent_factory.prebuilt\n"
            "agent_factory.create_agent(m, [])\n"
            "agent_factory.prebuilt.create_react_agent(m, [], version='v2')\n",
        ),
        (
            f"{OURS}from langchain.agents import create_agent\n"
            "create_react_agent(m, [])\ncreate_agent(m)\n",
            f"{AGENT}{AGENT}create_agent(m, [])\ncreate_agent(m)\n",
        ),
        (
            "from agent_factory import create_react_agent\ncreate_react_agent(m, [])\n",
            f"{AGENT}create_agent(m, [])\n",
        ),
        (f"{REACT}__all__ = ['create_react_agent']\n", f"{OURS}__all__ = ['create_react_agent']\n"),
    ],
)
def test_the_names_that_calls_go_by_fit_their_imports(old: str, new: str) -> None:
    assert migrate_source(old, Factory.AGENT).text == new
    assert migrate_source(new, Factory.AGENT).text == new


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


def jump_of_function(decorators: str) -> str:
    return f"{decorators}\ndef f(state, runtime): return {{'jump_to': 'end'}}\n"


def jump_of_class(method: str, target: str) -> str:
    body = f"{method}(self, state, runtime): return {{'jump_to': {target}}}"
    return f"class F(AgentMiddleware):\n    {body}\n"


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
        # Jumps that are not declared
        (jump_of_function("@before_model"), ["jump_to"]),
        (jump_of_function("@before_model(can_jump_to=['end'])"), []),
        (jump_of_function("@before_model\n@hook_config(can_jump_to=['end'])"), []),
        (jump_of_function(""), []),
        (jump_of_class("def before_model", "'end'"), ["jump_to"]),
        (jump_of_class("async def aafter_agent", "'end'"), ["jump_to"]),
        (jump_of_class("@hook_config(can_jump_to=['end'])\n    def before_model", "'end'"), []),
        (jump_of_class("def before_model", "None"), []),
    ],
)
def test_only_what_breaks_is_reported(text: str, reported: list[str]) -> None:
    assert [finding.what for finding in found(text)] == reported


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
                "def __new__(cls, *args): raise SystemExit('executed')",
                "def __init_subclass__(cls, **words): raise SystemExit('executed')",
                "def __getattribute__(self, name): raise SystemExit('executed')",
            )
        ),
    ],
)
def test_nothing_of_a_class_is_executed(head: str, capsys: pytest.CaptureFixture[str]) -> None:
    (finding,) = found(f"{head}\n    def after_tool(self): ...\n")
    assert finding.what == "Odd.after_tool"
    assert capsys.readouterr() == ("", "")
