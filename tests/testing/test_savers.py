"""`check_saver`: a saver that stores or finds something else than the saver in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver

from agent_factory.errors import ArgumentError
from agent_factory.testing import check_saver
from commands import run
from service.conftest import postgres_server as postgres_server
from service.databases import new_postgres
from tables import each


class OwnPath(InMemorySaver):
    """Refuses another path of a task, as a unique index without the path does."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: dict[str, str] = {}

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        task = f"{config['configurable']['checkpoint_id']} {task_id}"
        if self.paths.setdefault(task, task_path) != task_path:
            raise KeyError("a duplicate key")
        super().put_writes(config, writes, task_id, task_path)


class Latest(InMemorySaver):
    """Keeps the latest checkpoint alone."""

    def put(self, config: Any, *rest: Any) -> Any:
        stored = super().put(config, *rest)
        thread, namespace, latest = stored["configurable"].values()
        kept = self.storage[thread][namespace]
        self.storage[thread][namespace] = {latest: kept[latest]}
        return stored


class Unfiltered(InMemorySaver):
    """Ignores the filters of `list`."""

    def list(self, config: Any, *, filter: Any = None, **options: Any) -> Iterator[Any]:
        return super().list(config, **options)


class NoNone(InMemorySaver):
    """Drops writes of None, which edges are."""

    def put_writes(self, config: Any, writes: Any, *task: str) -> None:
        super().put_writes(config, [w for w in writes if w[1] is not None], *task)


HISTORY = {"history", "fork of a thread", "list with limit", "list with before"}
FILTERS = {"list with a filter", "filter of metadata"}


@each(
    "kind, differences",
    [
        (InMemorySaver, set()),
        (OwnPath, set()),
        (NoNone, {"run killed in a hook"}),
    ],
)
def test_a_saver_is_told_by_its_answers(
    kind: Callable[[], InMemorySaver], differences: set[str]
) -> None:
    report = check_saver(kind())
    assert {*report.differences} == differences, str(report)
    assert report.form == ("delta" if kind is InMemorySaver else "full")
    assert f"{len(differences)} differ from the saver in memory." in str(report)


@each("kind, differences", [(Latest, HISTORY), (Unfiltered, FILTERS)])
def test_a_saver_is_told_by_lists_and_histories(kind: Any, differences: set[str]) -> None:
    assert {*check_saver(kind()).differences} >= differences


def test_a_saver_is_expected() -> None:
    wrong: Any = object()
    with pytest.raises(ArgumentError, match=r"saver: must be a BaseCheckpointSaver, got object"):
        check_saver(wrong)


@pytest.mark.long
def test_the_saver_of_postgres_answers_as_that_in_memory(postgres_server: Any) -> None:
    with PostgresSaver.from_conn_string(new_postgres(postgres_server)) as saver:
        saver.setup()
        report = check_saver(saver)
    assert (report.form, dict(report.differences)) == ("delta", {})


SAVERS = """
from contextlib import contextmanager
from langgraph.checkpoint.memory import InMemorySaver

class Latest(InMemorySaver):
    def list(self, config, **options):
        raise RuntimeError("broken")

@contextmanager
def latest():
    yield Latest()
"""


def test_the_command_prints_the_differences_of_a_saver(tmp_path: Any) -> None:
    result = run("check", "--saver", f"sqlite:///{tmp_path}/threads.db")
    assert result.output == (
        "SqliteSaver: delta checkpoints, 21 questions\n"
        "  lacks: copy_thread, prune, async methods\n"
        "0 differ from the saver in memory.\n"
    )
    (tmp_path / "savers.py").write_text(SAVERS)
    result = run("check", "--saver", f"{tmp_path}/savers.py:latest", "--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["saver"], report["form"]) == (1, "Latest", "full")
    assert report["differences"]["list with limit"].endswith("got RuntimeError: broken.")


@each(
    "words, message",
    [
        ([], "Name a TARGET, or a saver by --saver."),
        (["--saver", "nowhere:saver"], "Module nowhere was not found."),
        (["--saver", "postgresql://localhost:1/x"], "raised OperationalError"),
    ],
)
def test_a_saver_that_cannot_be_opened_is_named(words: list[str], message: str) -> None:
    result = run("check", *words)
    assert result.exit_code == 2
    assert message in result.stderr
