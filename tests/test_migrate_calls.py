"""Calls on their way over: keywords with another name, and create_react_agent as create_agent."""

from __future__ import annotations

import pytest

pytest.importorskip("libcst", reason="the extra cli is not installed")

from agent_factory.migrate import Factory, Migration, migrate_source
from tables import each

REACT = "from langgraph.prebuilt import create_react_agent\n"
OURS = "from agent_factory.prebuilt import create_react_agent\n"
AGENT = "from agent_factory import create_agent\n"


def to_agent(text: str) -> Migration:
    return migrate_source(REACT + text, Factory.AGENT)


# Keywords


@each(
    "old, new",
    [
        (
            "create_react_agent(m, [], config_schema=C)",
            "create_react_agent(m, [], context_schema=C)",
        ),
        ("create_react_agent(m, [], state_modifier=p)", "create_react_agent(m, [], prompt=p)"),
        ("create_react_agent(**kwargs)", "create_react_agent(**kwargs)"),
        ("create_react_agent(m, t, version='v1')", "create_react_agent(m, t, version='v1')"),
        (
            "create_react_agent(m, [make(config_schema=1)], config_schema = C)",
            "create_react_agent(m, [make(config_schema=1)], context_schema = C)",
        ),
    ],
)
def test_keywords_of_create_react_agent_get_their_names_of_now(old: str, new: str) -> None:
    done = migrate_source(f"{REACT}{old}\n")
    assert (done.text, done.findings) == (f"{OURS}{new}\n", ())


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


def test_sizes_of_a_summary_are_written_with_their_unit() -> None:
    call = "SummarizationMiddleware(m, max_tokens_before_summary=4_000, messages_to_keep=20)\n"
    done = migrate_source(SUMMARIES + call)
    new = 'SummarizationMiddleware(m, trigger=("tokens", 4_000), keep=("messages", 20))'
    assert done.text.splitlines()[1] == new
    assert not done.findings


def test_a_size_that_may_be_none_is_left_to_a_person() -> None:
    done = migrate_source(
        f"{SUMMARIES}SummarizationMiddleware(m, max_tokens_before_summary=MOST)\n"
    )
    assert "max_tokens_before_summary=MOST" in done.text
    (finding,) = done.findings
    assert 'trigger=("tokens", number)' in finding.write


def test_a_size_that_is_a_constant_of_the_file_is_written_with_its_unit() -> None:
    done = migrate_source(f"{SUMMARIES}N = 9\nSummarizationMiddleware(m, messages_to_keep=N)\n")
    assert done.text.endswith('SummarizationMiddleware(m, keep=("messages", N))\n')
    assert not done.findings


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


@each("name, argument", [("SummarizationMiddleware", "summary_prefix='So far:'")])
def test_a_parameter_without_use_is_reported_until_it_is_gone(name: str, argument: str) -> None:
    text = f"from langchain.agents.middleware import {name}\n{name}({argument})\n"
    first = migrate_source(text)
    assert [(finding.kind, finding.write) for finding in first.findings] == [
        ("argument", "nothing")
    ]
    assert migrate_source(first.text).findings == first.findings


# create_agent


@each(
    "old, new",
    [
        ("create_react_agent(m, [])", "create_agent(m, [])"),
        ("create_react_agent(model=m, tools=[])", "create_agent(model=m, tools=[])"),
        ("create_react_agent(m, [], prompt='Hi')", "create_agent(m, [], system_prompt='Hi')"),
        ("create_react_agent(m, [], prompt=f'{x}')", "create_agent(m, [], system_prompt=f'{x}')"),
        ("create_react_agent(m, [], prompt=None)", "create_agent(m, [], system_prompt=None)"),
        (
            "create_react_agent(m, [], prompt=SystemMessage(x))",
            "create_agent(m, [], system_prompt=SystemMessage(x))",
        ),
        (
            "create_react_agent(m, [], prompt='Be ' + y)",
            "create_agent(m, [], system_prompt='Be ' + y)",
        ),
        (
            "P = '''Be {} '''\ncreate_react_agent(m, [], prompt=P.format(x).strip())",
            "P = '''Be {} '''\ncreate_agent(m, [], system_prompt=P.format(x).strip())",
        ),
        (
            "create_react_agent(m, [], state_modifier='Hi')",
            "create_agent(m, [], system_prompt='Hi')",
        ),
        (
            "create_react_agent(m, [], config_schema=C, checkpointer=c, store=s, name='n')",
            "create_agent(m, [], context_schema=C, checkpointer=c, store=s, name='n')",
        ),
        (
            "create_react_agent(m, [], state_schema=None, interrupt_after=None)",
            "create_agent(m, [], state_schema=None, interrupt_after=None)",
        ),
        (
            "create_react_agent(m, [], response_format=Ticket, interrupt_before=['tools'])",
            "create_agent(m, [], response_format=Ticket, interrupt_before=['tools'])",
        ),
        (
            "def f(m):\n    P: str = 'Hi'\n    return create_react_agent(m, [], prompt=P)",
            "def f(m):\n    P: str = 'Hi'\n    return create_agent(m, [], system_prompt=P)",
        ),
    ],
)
def test_calls_whose_parameters_have_a_counterpart_become_create_agent(old: str, new: str) -> None:
    done = to_agent(f"{old}\n")
    assert (done.text, done.findings) == (f"{AGENT}{new}\n", ())
    assert migrate_source(done.text, Factory.AGENT).text == done.text


@each(
    "call, words",
    [
        ("create_react_agent(**kwargs)", "hides which parameters"),
        ("create_react_agent(*args)", "hides which parameters"),
        ("create_react_agent(m, [], prompt)", "no such parameter"),
        ("create_react_agent(m, [], retries=p)", "no such parameter"),
        ("create_react_agent(m, [], retry_policy=p)", "NodePolicy(retry_policy=...)"),
        ("create_react_agent(m, [], prompt=lambda s: [])", "@dynamic_prompt"),
        ("def p(s): ...\ncreate_react_agent(m, [], prompt=p)", "@dynamic_prompt"),
        ("from texts import P\ncreate_react_agent(m, [], prompt=P)", "does not show"),
        ("P = 'a'\nP = ask()\ncreate_react_agent(m, [], prompt=P)", "does not show"),
        ("def f(P): create_react_agent(m, [], prompt=P)", "does not show"),
        ("create_react_agent(m, [], prompt=x + y)", "does not show"),
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
        ("create_react_agent(m, [], interrupt_after=nodes)", "'model' for 'agent'"),
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


def test_where_some_calls_stay_both_functions_are_imported() -> None:
    done = to_agent("a = create_react_agent(m, [])\nb = create_react_agent(m, [], version='v2')\n")
    assert done.text.splitlines() == [
        AGENT.strip(),
        OURS.strip(),
        "a = create_agent(m, [])",
        "b = create_react_agent(m, [], version='v2')",
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
        (f"{REACT}__all__ = ['create_react_agent']\n", f"{OURS}__all__ = ['create_react_agent']\n"),
    ],
)
def test_the_names_that_calls_go_by_fit_their_imports(old: str, new: str) -> None:
    done = migrate_source(old, Factory.AGENT)
    assert done.text == new
    assert migrate_source(new, Factory.AGENT).text == new


def test_calls_of_the_prebuilt_agent_here_can_follow_in_a_second_step() -> None:
    first = migrate_source(f"{REACT}create_react_agent(m, [], prompt='Hi')\n")
    second = migrate_source(first.text, Factory.AGENT)
    assert second.text == f"{AGENT}create_agent(m, [], system_prompt='Hi')\n"
    top = "from agent_factory import create_react_agent\n"
    third = migrate_source(f"{top}create_react_agent(m, [], prompt='Hi')\n", Factory.AGENT)
    assert third.text == second.text
