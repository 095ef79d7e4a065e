"""What holds for every source on its way over: nothing is lost, and what is imported exists."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from contextlib import suppress
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("libcst", reason="the extra cli is not installed")

from agent_factory.migrate import Factory, UnreadableSource, migrate_bytes, migrate_source
from agent_factory.migrate.moves import KEYWORDS, MOVES, STAYS, home_of
from agent_factory.migrate.values import Edit, Symbol, apply
from tables import each

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


# Sources of any kind

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
    done = migrate_source(IMPORT.join(around))
    assert done.text == MOVED.join(around)


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


# Bytes


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
    root = Path(__file__).resolve().parent.parent
    for path in sorted((root / "examples").glob("*.py")):
        assert migrate_bytes(path.read_bytes())[0] == path.read_bytes()
