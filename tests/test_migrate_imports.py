"""Imports on their way over: every form in which they are written, and what is kept of it."""

from __future__ import annotations

import pkgutil
from textwrap import dedent

import pytest

pytest.importorskip("libcst", reason="the extra cli is not installed")

from agent_factory.migrate import migrate_source
from agent_factory.migrate.values import Finding
from tables import each


def moved(text: str) -> str:
    return migrate_source(dedent(text)).text


def found(text: str) -> list[Finding]:
    return list(migrate_source(dedent(text)).findings)


FORMS = {
    "a name": (
        "from langgraph.prebuilt import create_react_agent\n",
        "from agent_factory.prebuilt import create_react_agent\n",
    ),
    "a name under another one": (
        "from langgraph.prebuilt import create_react_agent as make\n",
        "from agent_factory.prebuilt import create_react_agent as make\n",
    ),
    "names that part": (
        "from langgraph.prebuilt import ToolNode, create_react_agent, InjectedState as IS\n",
        "from agent_factory import ToolNode, InjectedState as IS\n"
        "from agent_factory.prebuilt import create_react_agent\n",
    ),
    "a name that stays": (
        "from langgraph.prebuilt import ToolCallTransformer, ValidationNode\n",
        "from langgraph.prebuilt import ToolCallTransformer\n"
        "from agent_factory.prebuilt import ValidationNode\n",
    ),
    "parentheses on a line": (
        "from langgraph.prebuilt import (ToolRuntime, tools_condition)\n",
        "from agent_factory import (ToolRuntime, tools_condition)\n",
    ),
    "a backslash": (
        "from langgraph.prebuilt import ToolNode, \\\n    ValidationNode\n",
        "from agent_factory import ToolNode\nfrom agent_factory.prebuilt import ValidationNode\n",
    ),
    "a module of the package": (
        "from langgraph.prebuilt.chat_agent_executor import AgentState, create_react_agent\n",
        "from agent_factory.prebuilt import AgentState, create_react_agent\n",
    ),
    "two modules of tools": (
        "from langgraph.prebuilt.tool_node import InjectedStore, ToolCallRequest\n"
        "from langgraph.prebuilt.tool_validator import ValidationNode\n",
        "from agent_factory import InjectedStore, ToolCallRequest\n"
        "from agent_factory.prebuilt import ValidationNode\n",
    ),
    "the forms of agent-inbox": (
        "from langgraph.prebuilt.interrupt import HumanInterrupt, HumanResponse\n",
        "from agent_factory.prebuilt import HumanInterrupt, HumanResponse\n",
    ),
    "langchain's factory": (
        "from langchain.agents import create_agent, AgentState\n",
        "from agent_factory import create_agent, AgentState\n",
    ),
    "langchain's middleware": (
        "from langchain.agents.middleware import AgentMiddleware, TracePolicy\n"
        "from langchain.agents.middleware.types import ModelRequest, PrivateStateAttr\n",
        "from agent_factory.middleware import AgentMiddleware, TracePolicy\n"
        "from agent_factory.middleware import ModelRequest, PrivateStateAttr\n",
    ),
    "modules of langchain 1.5": (
        "from langchain.agents.middleware.auto_mode import AutoModeMiddleware\n"
        "from langchain.agents.middleware.model_refusal import ModelRefusalMiddleware\n"
        "from langchain.agents.middleware.model_router import ModelChoice, ModelRouterMiddleware\n",
        "from agent_factory.middleware import AutoModeMiddleware\n"
        "from agent_factory.middleware import ModelRefusalMiddleware\n"
        "from agent_factory.middleware import ModelChoice, ModelRouterMiddleware\n",
    ),
    "a module whose names the package does not offer": (
        "from langchain.agents.middleware.internal_call_transformer import "
        "InternalCallTransformer\n",
        "from agent_factory.middleware.internal_call_transformer import InternalCallTransformer\n",
    ),
    "langchain's structured output": (
        "from langchain.agents.structured_output import ProviderStrategy, ToolStrategy\n",
        "from agent_factory.structured_output import ProviderStrategy, ToolStrategy\n",
    ),
    "statements on a line": (
        "import os; from langgraph.prebuilt import ToolNode, ValidationNode; x = 1\n",
        "import os; from agent_factory import ToolNode; "
        "from agent_factory.prebuilt import ValidationNode; x = 1\n",
    ),
    "a word to a tool holds for each line": (
        "from langgraph.prebuilt import ToolNode, ValidationNode  # noqa: F401\n",
        "from agent_factory import ToolNode  # noqa: F401\n"
        "from agent_factory.prebuilt import ValidationNode  # noqa: F401\n",
    ),
    "a remark stands once": (
        "from langgraph.prebuilt import ToolNode, ValidationNode  # both\n",
        "from agent_factory import ToolNode\n"
        "from agent_factory.prebuilt import ValidationNode  # both\n",
    ),
}


@each(
    "old, new",
    [
        # Comments and the indent stay.
        (
            """
            def build():
                from langgraph.prebuilt import (  # noqa: F401
                    # runs tools
                    ToolNode,  # of langgraph

                    # makes agents
                    create_react_agent as make,
                    tools_condition  # a route
                    # that is all
                )
            """,
            """
            def build():
                from agent_factory import (  # noqa: F401
                    # runs tools
                    ToolNode,  # of langgraph
                    tools_condition,  # a route
                    # that is all
                )
                from agent_factory.prebuilt import (  # noqa: F401
                    # makes agents
                    create_react_agent as make,
                )
            """,
        ),
        # Names that fit on a line are written on one.
        (
            """
            from langgraph.prebuilt import (
                ToolNode,
                create_react_agent,
                tools_condition,
            )
            """,
            """
            from agent_factory import ToolNode, tools_condition
            from agent_factory.prebuilt import create_react_agent
            """,
        ),
        # Imports for types, and imports with an alternative
        (
            """
            from typing import TYPE_CHECKING
            if TYPE_CHECKING:
                from langgraph.prebuilt import ToolNode
            try:
                from langchain.agents import create_agent
            except ImportError:
                from langgraph.prebuilt import create_react_agent as create_agent
            def f(node: "ToolNode") -> "list[ToolNode]": ...
            """,
            """
            from typing import TYPE_CHECKING
            if TYPE_CHECKING:
                from agent_factory import ToolNode
            try:
                from agent_factory import create_agent
            except ImportError:
                from agent_factory.prebuilt import create_react_agent as create_agent
            def f(node: "ToolNode") -> "list[ToolNode]": ...
            """,
        ),
    ],
)
def test_statements_of_many_lines_are_laid_out_as_before(old: str, new: str) -> None:
    assert moved(old) == dedent(new)


@each(
    "old",
    [
        """
        from langchain.agents.middleware import (
          PIIMiddleware  ,  # privacy


        \tModelRetryMiddleware)
        """,
        """
        from langchain.agents.middleware import (
            HumanInTheLoopMiddleware,
            ModelFallbackMiddleware,
            SummarizationMiddleware,
            TracePolicy,
        )
        """,
    ],
)
def test_a_statement_that_moves_as_a_whole_keeps_its_layout(old: str) -> None:
    assert moved(old) == dedent(old).replace("langchain.agents", "agent_factory")


# Modules


MODULES = {
    "one module takes its place": (
        "import langgraph.prebuilt as p\np.create_react_agent(m, [])\np.ValidationNode([])\n",
        "import agent_factory.prebuilt as p\np.create_react_agent(m, [])\np.ValidationNode([])\n",
    ),
    "two modules take its place": (
        "import langgraph.prebuilt as lp\nlp.create_react_agent(m, [lp.ToolNode])\n",
        "import agent_factory.prebuilt\nimport agent_factory\n"
        "agent_factory.prebuilt.create_react_agent(m, [agent_factory.ToolNode])\n",
    ),
    "something of it stays": (
        "import langgraph.prebuilt as lp\nlp.ToolNode(lp.ToolCallTransformer)\n",
        "import langgraph.prebuilt as lp\nimport agent_factory\n"
        "agent_factory.ToolNode(lp.ToolCallTransformer)\n",
    ),
    "a path": (
        "import langgraph.prebuilt\nlanggraph.prebuilt.create_react_agent(m, [])\n",
        "import agent_factory.prebuilt\nagent_factory.prebuilt.create_react_agent(m, [])\n",
    ),
    "the package around it is used, too": (
        "import langgraph.prebuilt\nimport langgraph.types\n"
        "langgraph.prebuilt.ToolNode(langgraph.types.Command, langgraph.version)\n",
        "import langgraph.prebuilt\nimport agent_factory\nimport langgraph.types\n"
        "agent_factory.ToolNode(langgraph.types.Command, langgraph.version)\n",
    ),
    "from the package": (
        "from langgraph import prebuilt\nprebuilt.create_react_agent(m, [])\n",
        "from agent_factory import prebuilt\nprebuilt.create_react_agent(m, [])\n",
    ),
    "from the package, next to others": (
        "from langgraph import prebuilt as p, types\np.ValidationNode([types.Command])\n",
        "import agent_factory.prebuilt as p\nfrom langgraph import types\n"
        "p.ValidationNode([types.Command])\n",
    ),
    "a module in it": (
        "from langgraph.prebuilt import chat_agent_executor\n"
        "class S(chat_agent_executor.AgentState): ...\n",
        "import agent_factory.prebuilt as chat_agent_executor\n"
        "class S(chat_agent_executor.AgentState): ...\n",
    ),
    "a module by a module": (
        "from langgraph import prebuilt as p\nclass S(p.chat_agent_executor.AgentState): ...\n",
        "import agent_factory.prebuilt as p\nclass S(p.AgentState): ...\n",
    ),
    "langchain as a whole": (
        "import langchain.agents, os\nlangchain.agents.middleware.PIIMiddleware(os.name)\n",
        "import agent_factory.middleware\nimport os\n"
        "agent_factory.middleware.PIIMiddleware(os.name)\n",
    ),
    "in a class": (
        "class A:\n    import langgraph.prebuilt as lp\n    node = lp.ToolNode\n",
        "class A:\n    import agent_factory as lp\n    node = lp.ToolNode\n",
    ),
    "a text names it": (
        "import langgraph.prebuilt as lp\nx: 'lp.ToolNode'\ny = lp.ToolNode\n",
        "import langgraph.prebuilt as lp\nimport agent_factory\n"
        "x: 'lp.ToolNode'\ny = agent_factory.ToolNode\n",
    ),
}


@each("old, new", [*FORMS.values(), *MODULES.values()])
def test_names_are_found_where_they_live_now(old: str, new: str) -> None:
    done = migrate_source(old)
    assert (done.text, done.findings) == (new, ())
    assert migrate_source(new).text == new


def test_another_variable_of_that_name_is_none_of_it() -> None:
    old = """
    import langgraph.prebuilt as lp
    def f(lp):
        return lp.ToolNode
    """
    assert moved(old) == dedent(old)


def test_imports_that_lead_elsewhere_are_none_of_it() -> None:
    old = """
    import prebuilt, langchain_core.agents
    from .prebuilt import create_react_agent
    from .langchain.agents import create_agent
    from . import agents
    from langgraph.graph import StateGraph
    from langchain.tools import tool, ToolRuntime
    from langchain.chat_models import init_chat_model
    """
    assert migrate_source(dedent(old)).text == dedent(old)
    assert not found(old)


# Patches


MIDDLEWARE = "langchain.agents.middleware"


@each(
    "call, old, new",
    [
        ("patch", "langchain.agents.create_agent", "agent_factory.create_agent"),
        ("mock.patch", f"{MIDDLEWARE}.pii.PIIMiddleware", "agent_factory.middleware.PIIMiddleware"),
        (
            "monkeypatch.setattr",
            f"{MIDDLEWARE}.human_in_the_loop.interrupt",
            "agent_factory.middleware.human_in_the_loop.interrupt",
        ),
        (
            "mocker.patch",
            f"{MIDDLEWARE}.summarization.SummarizationMiddleware.before_model",
            "agent_factory.middleware.SummarizationMiddleware.before_model",
        ),
        ("patch", f"{MIDDLEWARE}.tool_retry.time.sleep", "time.sleep"),
        (
            "patch",
            "langchain.agents.factory.init_chat_model",
            "langchain.chat_models.init_chat_model",
        ),
        ("patch", "langgraph.prebuilt.ToolNode.invoke", "agent_factory.ToolNode.invoke"),
    ],
)
def test_a_path_that_is_patched_moves_with_what_it_names(call: str, old: str, new: str) -> None:
    done = migrate_source(f"with {call}('{old}', fake):\n    pass\n")
    assert done.text == f"with {call}('{new}', fake):\n    pass\n"
    assert not done.findings
    module, _, name = new.rpartition(".")
    if module.startswith("langchain."):
        pytest.importorskip("langchain", reason="the extra peer is not installed")
    assert hasattr(pkgutil.resolve_name(module), name)


# What a person decides


@each(
    "text, line, kind, words",
    [
        ("x = 1\nfrom langgraph.prebuilt import *\n", 2, "star-import", "import *"),
        ("from langchain.agents.middleware import *\n", 1, "star-import", "import *"),
        ("from langchain.agents import AgentExecutor\n", 1, "name", "AgentExecutor"),
        ("import langchain.agents as a\na.AgentExecutor()\n", 2, "name", "AgentExecutor"),
        ("from langgraph.prebuilt.interrupt import deprecated\n", 1, "name", "no such name"),
        (
            "from langgraph.prebuilt.chat_agent_executor import create_tool_calling_executor\n",
            1,
            "name",
            "prebuilt.create_react_agent",
        ),
        (
            "import langgraph.prebuilt as lp\nsetattr(lp, 'create_react_agent', fake)\n",
            2,
            "module",
            "the module itself",
        ),
        ("x = 'langchain.agents.create_agent'\n", 1, "text", "agent_factory.create_agent"),
        ("import_module('langgraph.prebuilt')\n", 1, "text", "langgraph.prebuilt"),
        (
            "import_module('langchain.agents.middleware.pii')\n",
            1,
            "text",
            "agent_factory.middleware.pii",
        ),
        (
            "patch('langchain.agents.middleware.SummarizationMiddleware._create_summary')\n",
            1,
            "text",
            "no such name",
        ),
        (
            "import langchain.agents.middleware.human_in_the_loop as review\n"
            "patch.object(review, 'interrupt')\n",
            2,
            "module",
            "agent_factory.middleware.human_in_the_loop",
        ),
        (
            "import langgraph.prebuilt\ndef f(agent_factory):\n"
            "    return langgraph.prebuilt.ToolNode\n",
            1,
            "name-taken",
            "would hide the package",
        ),
    ],
)
def test_open_questions_are_reported_and_left(text: str, line: int, kind: str, words: str) -> None:
    done = migrate_source(text)
    assert done.text == text
    (finding,) = done.findings
    assert (finding.line, finding.kind) == (line, kind)
    assert words in f"{finding.what} {finding.why} {finding.write}"


def test_what_has_no_counterpart_stays_next_to_what_moves() -> None:
    text = "from langchain.agents import AgentExecutor, create_agent\n"
    done = migrate_source(text)
    assert done.text.splitlines() == [
        "from langchain.agents import AgentExecutor",
        "from agent_factory import create_agent",
    ]
    (finding,) = done.findings
    assert (finding.line, finding.column) == (1, 30)


def test_findings_come_from_top_to_bottom() -> None:
    text = "f('langchain.agents.create_agent')\nfrom langchain.agents import *\n" * 2
    assert [finding.line for finding in found(text)] == [1, 2, 3, 4]
