"""Imports on their way over: every form, what is kept, and what holds for every source."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from contextlib import suppress
from itertools import chain
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("libcst", reason="the extra cli is not installed")

from agent_factory.migrate import Factory, UnreadableSource, migrate_bytes, migrate_source
from agent_factory.migrate.moves import KEYWORDS, MOVES, STAYS, home_of
from agent_factory.migrate.values import Edit, Finding, Symbol, apply
from tables import each


def moved(text: str) -> str:
    return migrate_source(dedent(text)).text


def found(text: str) -> list[Finding]:
    return list(migrate_source(dedent(text)).findings)


REACT, AGENTS = "langgraph.prebuilt", "langchain.agents"
HOME, BOUND = "agent_factory.prebuilt", f"{REACT}.chat_agent_executor"
CALL, INNER = "create_react_agent(m, [])\n", "internal_call_transformer"


@each(
    "text, old, new",
    [
        ("from {} import create_react_agent as make\n", REACT, HOME),
        ("from {} import (ToolRuntime, tools_condition)\n", REACT, "agent_factory"),
        ("from {} import AgentState, create_react_agent\n", BOUND, HOME),
        ("from {} import create_agent, AgentState\n", AGENTS, "agent_factory"),
        # A module whose names the package does not offer
        (f"from {{}}.middleware.{INNER} import InternalCallTransformer\n", AGENTS, "agent_factory"),
        (f"import {{}} as p\np.{CALL}p.ValidationNode([])\n", REACT, HOME),
        (f"import {{0}}\n{{0}}.{CALL}", REACT, HOME),
        (f"from {{}} import prebuilt\nprebuilt.{CALL}", "langgraph", "agent_factory"),
        ("class A:\n    import {} as lp\n    node = lp.ToolNode\n", REACT, "agent_factory"),
        # Another variable of that name
        ("import {} as lp\ndef f(lp):\n    return lp.ToolNode\n", REACT, REACT),
    ],
)
def test_a_module_whose_names_move_together_is_replaced(text: str, old: str, new: str) -> None:
    done = migrate_source(text.format(old))
    assert (done.text, done.findings) == (text.format(new), ())
    assert migrate_source(done.text).text == done.text


FORMS = {
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
    "a backslash": (
        "from langgraph.prebuilt import ToolNode, \\\n    ValidationNode\n",
        "from agent_factory import ToolNode\nfrom agent_factory.prebuilt import ValidationNode\n",
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
        """
    ],
)
def test_a_statement_that_moves_as_a_whole_keeps_its_layout(old: str) -> None:
    assert moved(old) == dedent(old).replace("langchain.agents", "agent_factory")


MODULES = {
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
    "the package around it is used, too": (
        "import langgraph.prebuilt\nimport langgraph.types\n"
        "langgraph.prebuilt.ToolNode(langgraph.types.Command, langgraph.version)\n",
        "import langgraph.prebuilt\nimport agent_factory\nimport langgraph.types\n"
        "agent_factory.ToolNode(langgraph.types.Command, langgraph.version)\n",
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
    "langchain as a whole": (
        "import langchain.agents, os\nlangchain.agents.middleware.PIIMiddleware(os.name)\n",
        "import agent_factory.middleware\nimport os\n"
        "agent_factory.middleware.PIIMiddleware(os.name)\n",
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


MIDDLEWARE, INIT = "langchain.agents.middleware", "init_chat_model"
PAUSE, HOOK = "human_in_the_loop.interrupt", "SummarizationMiddleware.before_model"


@each(
    "call, old, new",
    [
        ("patch", "langchain.agents.create_agent", "agent_factory.create_agent"),
        ("mock.patch", f"{MIDDLEWARE}.pii.PIIMiddleware", "agent_factory.middleware.PIIMiddleware"),
        ("monkeypatch.setattr", f"{MIDDLEWARE}.{PAUSE}", f"agent_factory.middleware.{PAUSE}"),
        ("mocker.patch", f"{MIDDLEWARE}.summarization.{HOOK}", f"agent_factory.middleware.{HOOK}"),
        ("patch", f"{MIDDLEWARE}.tool_retry.time.sleep", "time.sleep"),
        ("patch", f"{AGENTS}.factory.{INIT}", f"langchain.chat_models.{INIT}"),
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


@each(
    "text, line, kind, words",
    [
        ("x = 1\nfrom langgraph.prebuilt import *\n", 2, "star-import", "import *"),
        ("from langchain.agents import AgentExecutor\n", 1, "name", "AgentExecutor"),
        ("import langchain.agents as a\na.AgentExecutor()\n", 2, "name", "AgentExecutor"),
        ("from langgraph.prebuilt.interrupt import deprecated\n", 1, "name", "no such name"),
        (f"from {BOUND} import create_tool_calling_executor\n", 1, "name", "create_react_agent"),
        (
            f"import {REACT} as lp\nsetattr(lp, 'ToolNode', fake)\n",
            2,
            "module",
            "the module itself",
        ),
        ("x = 'langchain.agents.create_agent'\n", 1, "text", "agent_factory.create_agent"),
        (f"patch('{MIDDLEWARE}.SummarizationMiddleware._summary')\n", 1, "text", "no such name"),
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
    done = migrate_source("from langchain.agents import AgentExecutor, create_agent\n")
    assert done.text.splitlines() == [
        "from langchain.agents import AgentExecutor",
        "from agent_factory import create_agent",
    ]
    (finding,) = done.findings
    assert (finding.line, finding.column) == (1, 30)


def test_findings_come_from_top_to_bottom() -> None:
    text = "f('langchain.agents.create_agent')\nfrom langchain.agents import *\n" * 2
    assert [finding.line for finding in found(text)] == [1, 2, 3, 4]


IMPORT = "from langchain.agents import create_agent"
MOVED = "from agent_factory import create_agent"
NAMES = sorted(
    (module, name)
    for module, homes in MOVES.items()
    for name in chain.from_iterable(homes.values())
)


def exists(module: str, name: str) -> bool:
    return hasattr(importlib.import_module(module), name)


@each("home", sorted({home for module, name in NAMES if (home := home_of(Symbol(module, name)))}))
def test_every_name_has_a_home_that_exists(home: Symbol) -> None:
    assert exists(home.module, home.name)
    assert home.name in importlib.import_module(home.module).__all__


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@each("module", [name for name in STAYS if name.startswith("langgraph")])
def test_what_is_moved_from_langgraph_is_there_to_be_moved(module: str) -> None:
    assert all(exists(module, name) for moved, name in NAMES if moved == module)


def test_the_keywords_of_now_are_parameters_of_now() -> None:
    for symbol, rows in KEYWORDS.items():
        function = getattr(importlib.import_module(symbol.module), symbol.name)
        parameters = inspect.signature(function).parameters
        assert {row.name for row in rows.values() if row.name} <= set(parameters)


alias = st.sampled_from(["", " as z", " as create_agent", " as agent_factory"])
comment = st.sampled_from(["", "  # noqa: F401", "  # über", "  # type: ignore"])
newline = st.sampled_from(["\n", "\r\n"])
indent = st.sampled_from(["    ", "\t", "  "])


@st.composite
def from_imports(draw: st.DrawFn) -> str:
    module = draw(st.sampled_from([m for m in MOVES if "agent_factory" not in m]))
    own = [name for moved, name in NAMES if moved == module]
    names = draw(st.lists(st.sampled_from([*own, "Unknown"]), min_size=1, max_size=4, unique=True))
    bound = [name + draw(alias) for name in names]
    if draw(st.booleans()):
        return f"from {module} import {', '.join(bound)}{draw(comment)}\n"
    lines = "".join(f"    {name},{draw(comment)}\n" for name in bound)
    return f"from {module} import ({draw(comment)}\n{lines}){draw(comment)}\n"


whole_imports = st.builds(
    lambda module, name, note: f"import {module}{name}{note}\n",
    st.sampled_from(["langgraph.prebuilt", "langchain.agents", "langchain.agents.middleware"]),
    alias,
    comment,
)

calls = st.builds(
    "{}({}){}\n".format,
    st.sampled_from(["create_react_agent", "z", "z.create_react_agent", "create_agent", "f"]),
    st.lists(
        st.sampled_from(
            ["prompt='Grüße'", "config_schema=C", "tools=[]", "model=m", "version='v1'", "name=n"]
        ),
        unique=True,
        max_size=3,
    ).map(", ".join),
    comment,
)

rest = st.sampled_from(
    [
        "\n",
        "# prebuilt, langchain, agents\n",
        "def f(z):\n    return z.ToolNode\n",
        "x = '''\n\tlanggraph.prebuilt\n'''  \n",
        "class A:\n    node = langgraph.prebuilt.ToolNode\n",
        "if True: pass; y = 'langchain.agents.create_agent'\n",
        "agents = langchain.agents\n",
    ]
)


@st.composite
def sources(draw: st.DrawFn) -> str:
    parts = draw(st.lists(st.one_of(from_imports(), whole_imports, calls, rest), max_size=4))
    inside = draw(st.one_of(from_imports(), whole_imports))
    deep = draw(indent)
    body = "".join(f"{deep}{line}\n" for line in inside.splitlines())
    text = "".join([*parts, f"def late():\n{body}{deep}return 1\n"])
    if draw(st.booleans()):
        text = text.removesuffix("\n")
    return text.replace("\n", draw(newline))


@pytest.mark.long
@given(sources(), st.sampled_from(Factory))
def test_a_second_time_changes_nothing_and_tells_the_same(text: str, to: Factory) -> None:
    first = migrate_source(text, to)
    second = migrate_source(first.text, to)
    assert second.text == first.text
    kinds = [(f.kind, f.what, f.why) for f in first.findings]
    assert sorted((f.kind, f.what, f.why) for f in second.findings) == sorted(kinds)


def imported(text: str) -> set[tuple[str, str]]:
    return {
        (node.module or "", alias.name)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


@pytest.mark.long
@given(sources(), st.sampled_from(Factory))
def test_what_comes_out_is_python_and_all_that_it_imports_exists(text: str, to: Factory) -> None:
    old, new = imported(text), imported(migrate_source(text, to).text)
    for module, name in new - old:
        assert exists(module, name), (module, name)
    for module, name in old - new:
        assert home_of(Symbol(module, name))
    assert not [pair for pair in new if (home := home_of(Symbol(*pair))) and home.module != pair[0]]


def unmoved(text: str) -> list[str]:
    """The lines of a source that have nothing to do with what moves, and all of its comments."""
    lines = re.split(r"\r?\n", text)
    moving = re.compile(
        r"import|^\s+\w+( as \w+)?,|^\s*\)|create_|[z.]\w*\(|ToolNode|langgraph|langchain"
    )
    return [line for line in lines if not moving.search(line)]


@pytest.mark.long
@given(sources(), st.sampled_from(Factory))
def test_lines_that_do_not_move_stay_and_no_remark_is_lost(text: str, to: Factory) -> None:
    new = migrate_source(text, to).text
    assert unmoved(new) == unmoved(text)
    for remark in ("# über", "# noqa: F401", "# type: ignore"):
        assert new.count(remark) >= text.count(remark)
    assert new.endswith("\n") == text.endswith("\n")
    assert new.count("\r") in (0, new.count("\n"))


@given(st.text(), st.text(), newline)
def test_what_is_around_an_import_stays_to_the_letter(before: str, after: str, end: str) -> None:
    around = f"{before!a}{end}", f"{end}# {after!a}"
    assert migrate_source(IMPORT.join(around)).text == MOVED.join(around)


@given(st.text())
def test_what_is_not_python_is_refused_in_words_and_nothing_else(text: str) -> None:
    with suppress(UnreadableSource):
        assert migrate_source(f"{IMPORT}\n{text}").text == f"{MOVED}\n{text}"


@given(st.lists(st.tuples(st.integers(0, 20), st.text(max_size=3)), unique_by=lambda t: t[0]))
def test_edits_leave_what_is_between_them(edits: list[tuple[int, str]]) -> None:
    data = bytes(range(60, 81))
    done = apply(data, [Edit(at, at + 1, text) for at, text in edits])
    texts = dict(edits)
    assert done == b"".join(
        texts[n].encode() if n in texts else data[n : n + 1] for n in range(len(data))
    )


@each(
    "form",
    [
        "{}\n",
        "{}",
        "{}\r\nx = 1\r\n",
        "{}\nx = 1\r\ny = 2\n",
        "if 1:\n\tpass\n{}\n",
        "\ufeff{}\n",
        "\x0c\n{}  \n\n\n",
        "# 漢字 \u2028 é\n{}\n'ß'\n",
        "{}\\\n\n",
    ],
)
def test_a_file_keeps_its_line_breaks_its_mark_and_its_end(form: str) -> None:
    data, done = migrate_bytes(form.format(IMPORT).encode())
    assert data == form.format(MOVED).encode()
    assert done.changed


@each("encoding", ["latin-1", "cp1252", "utf-8", "shift_jis", "koi8-r"])
def test_a_file_keeps_its_encoding(encoding: str) -> None:
    letters = {"shift_jis": "漢字", "koi8-r": "да"}.get(encoding, "é")
    old = f"# -*- coding: {encoding} -*-\n# {letters}\n{IMPORT}  # {letters}\n"
    data, _ = migrate_bytes(old.encode(encoding))
    assert data == old.replace(IMPORT, MOVED).encode(encoding)


@each(
    "data, words",
    [
        (b"from langchain.agents import (\n", "line"),
        (b"print 'langchain agents'\n", "line 1"),
        (b"# prebuilt\nif True:\n\tx\n        y\n", "line"),
        (b"# prebuilt\n\xff\xfe\n", "encoding"),
        (b"# prebuilt\n\n\n\xff\n", "utf-8"),
        (b"prebuilt = 1\rx = 2\r", "each of its bytes"),
        (b"# -*- coding: nonsense -*-\nimport prebuilt\n", "nonsense"),
        (b"prebuilt = 1\x00\n", "line 1"),
        (b"prebuilt = " + b"+".join([b"1"] * 1_000) + b"\n", "nested too deeply"),
        (b"prebuilt = " + b"(" * 5000 + b")" * 5000 + b"\n", "200 brackets"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(data: bytes, words: str) -> None:
    with pytest.raises(UnreadableSource, match=words):
        migrate_bytes(data)


def test_a_file_with_nothing_to_move_need_not_be_python() -> None:
    data = b"print 'no agent'\r\n"
    assert migrate_bytes(data)[0] == data


@pytest.mark.long
def test_every_source_of_this_library_stays_as_it_is() -> None:
    root = Path(__file__).resolve().parents[2]
    for path in sorted((root / "examples").glob("*.py")):
        assert migrate_bytes(path.read_bytes())[0] == path.read_bytes()
