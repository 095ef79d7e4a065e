"""The file search middleware, with hostile patterns, paths and folders."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_factory.middleware import FilesystemFileSearchMiddleware
from agent_factory.middleware.file_search import grep as grep_module
from agent_factory.middleware.file_search import tree
from agent_factory.middleware.file_search.tree import Deadline, Scope, Tree
from tables import each
from waiting import auntil

Search = Callable[..., str]

needs_ripgrep = pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")
ENGINES = each("rg", [True, False] if shutil.which("rg") else [False])
"""Runs a test with ripgrep, where it is installed, and with Python."""


def tools(root: Path, **settings: Any) -> tuple[Search, Search]:
    """The two tools of a folder, as functions: glob and grep."""
    found = FilesystemFileSearchMiddleware(root_path=root, **settings).tools
    glob, grep = (lambda *, tool=tool, **arguments: tool.invoke(arguments) for tool in found)
    return glob, grep


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with files of many kinds, next to a secret."""
    (tmp_path / "secret.txt").write_text("TOP secret\n")
    inside = tmp_path / "root"
    for folder in ("src/deep", "docs", "src/.hidden"):
        (inside / folder).mkdir(parents=True)
    files = {
        "src/a.py": "import os\nTOP = 1\n",
        "src/deep/b.py": "def top():\n    return 'TOP'\n",
        "src/.hidden/c.py": "TOP = 3\n",
        "docs/read me.md": "# Top\r\nTOP of it\r\n",
        ".ignore": "*.py\n",
    }
    for name, text in files.items():
        (inside / name).write_bytes(text.encode())
    return inside


def test_the_tools_are_attributes_and_a_link_as_the_root_is_followed(root: Path) -> None:
    (root.parent / "link").symlink_to(root)
    search = FilesystemFileSearchMiddleware(root_path=f"{root.parent}/link", tool_prefix="my_")
    glob: Any = search.glob_search
    grep: Any = search.grep_search
    assert search.tools == [glob, grep]
    assert (glob.name, grep.name) == ("my_glob_search", "my_grep_search")
    for found in (
        glob.func("*.py", "/src"),
        glob.func(pattern="src/*.py"),
        glob.invoke({"pattern": "/src/*.py"}),
        asyncio.run(grep.ainvoke({"pattern": "TOP", "path": "/src/a.py"})),
    ):
        assert found == "/src/a.py"
    assert grep.func("TOP", path="/src", output_mode="count") == (
        "/src/.hidden/c.py:1\n/src/a.py:1\n/src/deep/b.py:1"
    )
    assert search.max_file_size_bytes == 10 * 2**20


@each(
    "pattern, path, found",
    [
        ("**/*.py", "/", ["/src/.hidden/c.py", "/src/a.py", "/src/deep/b.py"]),
        ("*.py", "/", []),
        ("*.py", "/src", ["/src/a.py"]),
        ("*.py", "src/", ["/src/a.py"]),
        ("/src/*.py", "/", ["/src/a.py"]),
        ("/src/**/b.*", "/src/deep", ["/src/deep/b.py"]),
        ("/docs/*", "/src", []),
        ("**/[!a].py", "/", ["/src/.hidden/c.py", "/src/deep/b.py"]),
        ("**/?.{py,md}", "/src", ["/src/.hidden/c.py", "/src/a.py", "/src/deep/b.py"]),
        ("{src,docs}/*", "/", ["/docs/read me.md", "/src/a.py"]),
        ("src/**", "/", ["/src/.hidden/c.py", "/src/a.py", "/src/deep/b.py"]),
        ("src", "/", []),
        ("./docs//read me.md", "/", ["/docs/read me.md"]),
        ("~", "/", []),
        ("", "/", []),
    ],
)
def test_glob_patterns(root: Path, pattern: str, path: str, found: list[str]) -> None:
    glob, _ = tools(root)
    text = glob(pattern=pattern, path=path)
    assert sorted(text.splitlines()) == (found or ["No files found."])


def test_the_most_recently_changed_files_come_first_then_by_path(root: Path) -> None:
    for age, name in enumerate(["src/deep/b.py", "src/a.py"]):
        os.utime(root / name, (1_000 - age, 1_000 - age))
    for name in ("src/.hidden/c.py", "docs/read me.md", ".ignore"):
        os.utime(root / name, (5, 5))
    glob, _ = tools(root)
    newest_first = ["/src/deep/b.py", "/src/a.py"]
    by_path = ["/.ignore", "/docs/read me.md", "/src/.hidden/c.py"]
    assert glob(pattern="**/*").splitlines() == [*newest_first, *by_path]


@ENGINES
@each(
    "arguments, found",
    [
        ({}, ["/docs/read me.md", "/src/.hidden/c.py", "/src/a.py", "/src/deep/b.py"]),
        ({"include": "*.md"}, ["/docs/read me.md"]),
        ({"include": "*.{md,txt}"}, ["/docs/read me.md"]),
        ({"include": "*[{].{md}"}, []),
        ({"include": "*.{md}"}, ["/docs/read me.md"]),
        ({"include": "src/*"}, ["/src/a.py"]),
        ({"include": "deep/*", "path": "/src"}, ["/src/deep/b.py"]),
        ({"include": "/src/*/*", "path": "/src"}, ["/src/.hidden/c.py", "/src/deep/b.py"]),
        ({"include": "*.rs"}, []),
        ({"path": "/src/deep"}, ["/src/deep/b.py"]),
        ({"path": "/src/a.py"}, ["/src/a.py"]),
        ({"path": "/docs", "output_mode": "count"}, ["/docs/read me.md:1"]),
        ({"pattern": "(?i)top", "path": "/docs", "output_mode": "count"}, ["/docs/read me.md:2"]),
        ({"pattern": "^TOP", "path": "/src"}, ["/src/.hidden/c.py", "/src/a.py"]),
        ({"pattern": r"(.)\1TOP"}, []),
        ({"pattern": r"(?<=')TOP"}, ["/src/deep/b.py"]),
        ({"pattern": r"\d$"}, ["/src/.hidden/c.py", "/src/a.py"]),
        ({"pattern": "-e"}, []),
        ({"pattern": "--files"}, []),
        ({"pattern": "", "include": "a.py", "output_mode": "count"}, ["/src/a.py:2"]),
    ],
)
def test_grep(root: Path, rg: bool, arguments: dict[str, Any], found: list[str]) -> None:
    _, grep = tools(root, use_ripgrep=rg)
    text = grep(**{"pattern": "TOP", **arguments})
    assert text.splitlines() == (found or ["No matches found."])


HOSTILE_PATHS = [
    *("/..", "../secret.txt", "/src/../../secret.txt", "....//....//secret.txt", "/src/..\\.."),
    *("~", "~root", "/etc/passwd", "//etc//passwd", "file:///etc/passwd", "/proc/self/environ"),
    *("/up", "/up/secret.txt", "/absolute", "/loop", "/chain", "/chain/x", "/file_link", "/inner"),
    *("/pipe", "/socket", "C:\\Windows", "-rf", "`id`", "$(cat ../secret.txt)"),
    *("/src\0/../..", "\0", "\ud800", "/\udcff\udcfe"),
    *("/a" * 10_000, "n" * 5_000, "/" * 100_000 + "x"),
]


@pytest.fixture
def hostile_root(root: Path) -> Path:
    """The same folder with links of all kinds, a pipe and a socket."""
    for name, target in {
        "up": "..",
        "absolute": str(root.parent),
        "file_link": "../secret.txt",
        "loop": "loop",
        "ping": "pong",
        "pong": "ping",
        "chain": "up",
        "inner": "src",
        "dangling": "nowhere",
        "src/back": "..",
        "src/deep/top.py": "/etc/passwd",
    }.items():
        (root / name).symlink_to(target)
    os.mkfifo(root / "pipe")
    server = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(root)  # a socket's path must be short
    try:
        server.bind("socket")
    finally:
        os.chdir(here)
        server.close()
    return root


@ENGINES
@each("path", HOSTILE_PATHS)
def test_no_path_leads_out(hostile_root: Path, rg: bool, path: str) -> None:
    glob, grep = tools(hostile_root, use_ripgrep=rg)
    for text in (glob(pattern="**/*", path=path), grep(pattern="", path=path)):
        assert text.startswith("Error: "), text
        assert "secret" not in text.removeprefix("Error: ") or "secret" in path


@ENGINES
@each(
    "pattern", ["**/*", "*/*", "up/*", "/up/**", "loop/**/x", "**/secret.txt", "inner/**", "pipe"]
)
def test_no_pattern_leads_out(hostile_root: Path, rg: bool, pattern: str) -> None:
    glob, grep = tools(hostile_root, use_ripgrep=rg, timeout=60)
    everything = glob(pattern=pattern) + grep(pattern="", include=pattern, output_mode="content")
    words = ("secret", "root:", "up/", "inner/", "pipe", "socket", "top.py", "Error", "stopped")
    assert [word for word in words if word in everything] == []


@each(
    "arguments",
    [
        *({"pattern": p} for p in ("(", "a{2,1}", "*", "\0", "\ud800", "x" * 5_000, "((((" * 300)),
        *({"pattern": "x", "include": include} for include in ("{a,b}" * 30, "*" * 5_000, "*.{py")),
    ],
)
@ENGINES
def test_invalid_patterns_are_reported(root: Path, rg: bool, arguments: dict[str, Any]) -> None:
    glob, grep = tools(root, use_ripgrep=rg)
    assert grep(**arguments).startswith("Error: the ")
    error = "Error: '..' is not allowed in a glob pattern; give the folder to search as path."
    assert glob(pattern="../*") == grep(pattern="x", include="src/../../*") == error


def when_opened(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], object]) -> None:
    """Call a function when a search opens a file of some name."""
    real_open = os.open

    def opens(path: Any, *args: Any, **settings: Any) -> int:
        if path == name:
            act()
        return real_open(path, *args, **settings)

    monkeypatch.setattr(os, "open", opens)


@ENGINES
def test_a_regex_that_backtracks_forever_is_stopped_and_keeps_its_results(
    root: Path, rg: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_late = Event()

    class Timer:
        """Ends a process when the time is up."""

        def __init__(self, seconds: float, function: Callable[[], None]) -> None:
            self._function = function
            self.start = Thread(target=self._end, daemon=True).start

        def _end(self) -> None:
            if is_late.wait(60):
                self._function()

        def cancel(self) -> None:
            """Leave the thread alone: it ends with the test."""

    monkeypatch.setattr(grep_module, "Timer", Timer)
    monkeypatch.setattr(tree, "monotonic", lambda: time.monotonic() + 100 * is_late.is_set())
    when_opened(monkeypatch, "zz", is_late.set)
    (root / "src/zz").write_text("a" * 60 + "!\n")
    _, grep = tools(root, use_ripgrep=rg, timeout=60)
    # ripgrep does not support look-ahead, so Python searches in both cases.
    text = grep(pattern="TOP = 1|^(?=a)(a+)+$", path="/src", include="[az]*")
    assert text == (
        "/src/a.py\n[The search was stopped after 60 seconds. Narrow the pattern or the path.]"
    )


@ENGINES
def test_hostile_patterns_take_linear_time(root: Path, rg: bool) -> None:
    """A search that is stopped says so. Python's own regexes backtrack."""
    (root / "evil").write_text("a" * 60 + "!\n")
    (root / ("a" * 250)).write_text("x")
    glob, grep = tools(root, timeout=60, use_ripgrep=rg)
    assert glob(pattern="*a" * 100 + "b") == "No files found."
    assert glob(pattern="**/" * 300 + "b") == "No files found."
    if rg:
        assert grep(pattern="(a+)+$", path="/", include="evil") == "No matches found."


@ENGINES
def test_binary_and_large_files_are_left_out(root: Path, rg: bool) -> None:
    (root / "binary").write_bytes(b"TOP\n" + b"x" * 100_000 + b"\0")
    (root / "utf16").write_bytes("TOP\n".encode("utf-16"))
    with (root / "large").open("wb") as file:
        file.write(b"TOP\n")
        file.truncate(200 * 2**20)
    limit = 4 / 2**20
    (root / "fits").write_bytes(b"TOP\n")
    (root / "one_more").write_bytes(b"TOP\n\n")
    glob, grep = tools(root, use_ripgrep=rg)
    assert grep(pattern="T.?O.?P", path="/", include="*") == (
        "/docs/read me.md\n/fits\n/one_more\n/src/.hidden/c.py\n/src/a.py\n/src/deep/b.py"
    )
    assert "/large" in glob(pattern="*")
    _, grep = tools(root, use_ripgrep=rg, max_file_size_mb=limit)
    assert grep(pattern="TOP") == "/fits"


@ENGINES
@each("mode", ["files_with_matches", "count", "content"])
def test_many_results_are_truncated_with_a_notice(tmp_path: Path, rg: bool, mode: str) -> None:
    for number in range(250):
        (tmp_path / f"{number:03}").write_text("x\n")
    glob, grep = tools(tmp_path, use_ripgrep=rg)
    *lines, notice = glob(pattern="*").splitlines()
    assert (len(lines), notice[:28]) == (200, "[200 of 250 files are shown.")
    *lines, notice = grep(pattern="x", output_mode=mode).splitlines()
    assert (len(lines), notice[:39]) == (200, "[Only the first 200 results are shown. ")
    assert [line[:4] for line in lines] == [f"/{number:03}" for number in range(200)]


@ENGINES
def test_long_lines_are_truncated(tmp_path: Path, rg: bool) -> None:
    (tmp_path / "long").write_text("ä" * 3_000_000 + "\n" + "b" * 501 + "\n" + "c" * 500)
    _, grep = tools(tmp_path, use_ripgrep=rg)
    assert grep(pattern="^.", output_mode="content").splitlines() == [
        f"/long:1:{'ä' * 500}...",
        f"/long:2:{'b' * 500}...",
        f"/long:3:{'c' * 500}",
    ]


@ENGINES
def test_unprintable_names_are_escaped_and_forge_no_line(tmp_path: Path, rg: bool) -> None:
    for name in (b"bad\xff", b"two\nfake:1:x", b"\xe2\x80\xaeright"):
        Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name))).write_bytes(b"x\xffy\n")
    glob, grep = tools(tmp_path, use_ripgrep=rg)
    names = ["/bad\\xff", "/two\\nfake:1:x", "/\\u202eright"]
    assert sorted(glob(pattern="*").splitlines()) == sorted(names)
    lines = grep(pattern="x", output_mode="content").splitlines()
    assert sorted(lines) == sorted(f"{name}:1:x\N{REPLACEMENT CHARACTER}y" for name in names)


@ENGINES
def test_unreadable_and_vanished_files_are_left_out(
    root: Path, rg: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny() -> None:
        raise PermissionError(13, "denied")

    for name in ("a.py", "deep"):
        when_opened(monkeypatch, name, deny)
    glob, grep = tools(root, use_ripgrep=rg)
    assert grep(pattern="TOP", path="/src") == "/src/.hidden/c.py"
    assert "b.py" not in glob(pattern="**/*")
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda *_: scandir(str(root / "gone")))
    assert glob(pattern="**/*") == "No files found."


@ENGINES
def test_a_missing_root_gives_no_results(tmp_path: Path, rg: bool) -> None:
    root = tmp_path / f"root with {rg}"
    root.mkdir()
    glob, grep = tools(root, use_ripgrep=rg)
    root.rmdir()
    (tmp_path / "secret").write_text("x")
    root.symlink_to(tmp_path)
    assert glob(pattern="*") == "No files found."
    assert "secret" not in grep(pattern="x")


def test_a_folder_replaced_by_a_link_leads_nowhere(root: Path) -> None:
    """Python rejects the link even if the folder is replaced during the search."""
    folder = Tree(root)
    shutil.rmtree(root / "src")
    (root / "src").symlink_to(root.parent)
    assert folder.read(("src", "secret.txt"), 100) is None
    assert folder.kind(("src", "secret.txt")) == "nothing"
    assert folder.kind(("src",)) == "link"
    scope = Scope("**/*", ("src",))
    assert list(folder.walk(scope, Deadline(time.monotonic() + 9))) == []


@each("descriptors", [True, False])
def test_without_descriptors_links_pipes_and_devices_lead_nowhere(
    hostile_root: Path, descriptors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows."""
    monkeypatch.setattr(tree, "HAS_DESCRIPTORS", descriptors)
    glob, grep = tools(hostile_root, use_ripgrep=False)
    files = ["/src/.hidden/c.py", "/src/a.py", "/src/deep/b.py"]
    assert Tree(hostile_root).read(("pipe",), 100) is None
    assert Tree("/dev").read(("zero",), 100) is None
    assert sorted(glob(pattern="**/*.py").splitlines()) == files
    assert grep(pattern="TOP = 1") == "/src/a.py"
    for path in ("/up", "/up/secret.txt", "/inner/deep", "/src/back"):
        assert grep(pattern="", path=path).startswith("Error: ")


@ENGINES
def test_settings_of_the_machine_have_no_effect(
    root: Path, rg: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No configuration of ripgrep is read, and no `rg` or Python module in the folder is run."""
    config = tmp_path / "rc"
    config.write_text("--follow\n--files\n--invert-match\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(config))
    monkeypatch.setenv("PYTHONPATH", str(root))
    (root / "re.py").write_text("raise SystemExit\n")
    (root / "rg").write_text("#!/bin/sh\necho hacked\n")
    (root / "rg").chmod(stat.S_IRWXU)
    _, grep = tools(root, use_ripgrep=rg)
    monkeypatch.chdir(root)
    assert grep(pattern="import os") == "/src/a.py"


@needs_ripgrep
def test_a_program_in_the_folder_is_not_used_as_ripgrep(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rg").symlink_to(shutil.which("rg") or "")
    (root / "rg").write_text("#!/bin/sh\necho > hacked\n")
    (root / "rg").chmod(stat.S_IRWXU)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".")
    _, grep = tools(root)
    assert grep(pattern="import os") == "/src/a.py"
    assert not (root / "hacked").exists()


@pytest.mark.parametrize("removed", [False, True])
def test_without_ripgrep_python_searches(
    root: Path, tmp_path: Path, removed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it was there when the middleware was made."""
    monkeypatch.setenv("PATH", str(tmp_path))
    if removed:
        (tmp_path / "rg").write_text("#!/bin/sh\n")
        (tmp_path / "rg").chmod(stat.S_IRWXU)
    _, grep = tools(root)
    (tmp_path / "rg").unlink(missing_ok=not removed)
    assert grep(pattern="import os") == "/src/a.py"


@ENGINES
def test_searches_do_not_block_the_event_loop(
    root: Path, rg: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_opened, go_on = Event(), Event()

    def wait() -> None:
        is_opened.set()
        assert go_on.wait(60)

    async def both() -> Any:
        arguments = {"pattern": "(?=T)TOP = 1", "path": "/src"}
        search = asyncio.ensure_future(searching.grep_search.ainvoke(arguments))
        await auntil(is_opened.is_set)
        go_on.set()
        return await search

    searching: Any = FilesystemFileSearchMiddleware(root_path=root, use_ripgrep=rg)
    when_opened(monkeypatch, "a.py", wait)
    assert asyncio.run(both()) == "/src/a.py"


NAMES = st.sampled_from(["a", "b.py", "ä", "sub dir", "-x", ".h", "B", "a.b", "[z]", "new\nline"])
LINES = st.text(st.sampled_from("aAb1 .ä\t\r"), max_size=8)
CONTENTS = st.lists(LINES, max_size=4).map("\n".join).map(str.encode) | st.sampled_from(
    [b"\0a", b"a\n\0", b"\xffa\n", b"\n", b"\n\na", b"\xef\xbb\xbfa"]
)
TREES = st.dictionaries(st.lists(NAMES, min_size=1, max_size=3).map(tuple), CONTENTS, max_size=6)
PATTERNS = st.sampled_from(
    [
        *("", "a", "^a", "b$", "[ab]1?", "a.*b", "^$", "ä"),
        *(r"\d", "(?i)A", r"\bab", r"\s", "a|1", "a{2}"),
    ]
)
INCLUDES = st.none() | st.sampled_from(["*", "*.py", "*.{py,b}", "a/**", "**/a/*", "[!.]*", "?"])
MODES = st.sampled_from(["files_with_matches", "content", "count"])


def write_tree(root: Path, tree: dict[tuple[str, ...], bytes]) -> None:
    """Write a tree; skip paths below a name that is already a file."""
    for parts, content in tree.items():
        path = root.joinpath(*parts)
        if not path.exists() and not any(parent.is_file() for parent in path.parents):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


@needs_ripgrep
@settings(max_examples=settings().max_examples // 3)  # each starts three processes
@given(tree=TREES, pattern=PATTERNS, include=INCLUDES, mode=MODES)
def test_ripgrep_and_python_find_the_same(
    tree: dict[tuple[str, ...], bytes], pattern: str, include: str | None, mode: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_tree(Path(folder), tree)
        arguments = {"pattern": pattern, "include": include, "output_mode": mode}
        by_ripgrep, by_python = (
            tools(Path(folder), use_ripgrep=rg)[1](**arguments) for rg in (True, False)
        )
    assert by_ripgrep == by_python


@given(
    path=st.text(st.sampled_from("/.~ab\0\\\ud800") | st.characters(), max_size=12),
    pattern=st.text(st.sampled_from("/.*?[]{},!ab\0"), max_size=12),
)
def test_any_arguments_give_a_text(path: str, pattern: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a").write_text("x")
        glob, _ = tools(Path(folder))
        text = glob(pattern=pattern, path=path)
    text.encode()
    assert text in ("/a", "No files found.") or text.startswith("Error: ")
