"""Savers of others with our agents, and the service's in LangGraph's conformance suite."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import mongomock
import mongomock.collection
import pymysql
import pytest
import redis
from langchain.agents import create_agent
from langchain.agents.middleware import after_model
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.mongodb import MongoDBSaver
from langgraph.checkpoint.mysql.pymysql import PyMySQLSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph_checkpoint_plainredis import RedisSaver
from langgraph_dynamodb_checkpoint import DynamoDBSaver
from moto import mock_aws

from agent_factory.service.database import Database
from agent_factory.service.saver import FencedSaver
from agent_factory.testing import check_saver, savers
from commands import run
from processes import Processes
from waiting import until


class AnyThread:
    """A lease of each thread."""

    thread_id = ""

    def check(self, connection: object) -> None:
        """Lose no thread."""


@pytest.mark.night
async def test_the_saver_of_a_service_passes_the_conformance_suite(tmp_path: Path) -> None:
    lease: Any = AnyThread()

    async def saver() -> AsyncIterator[FencedSaver]:
        with closing(Database(f"sqlite:///{tmp_path}/threads.db")) as database:
            database.create()
            yield FencedSaver(database, lease)

    report = await validate(checkpointer_test(name="FencedSaver")(saver))
    results = {name: result.failures for name, result in report.results.items() if result.detected}
    assert not any(results.values()), results
    base = {"put", "put_writes", "get_tuple", "list", "delete_thread"}
    assert {*results} == base | {"copy_thread"}


@contextmanager
def mongodb(processes: Processes, folder: Path) -> Iterator[Any]:
    """Saver of MongoDB, with its unique index in memory."""
    add = mongomock.collection.BulkOperationBuilder.add_update

    def without_sort(builder: Any, *args: Any, sort: Any = None, **options: Any) -> Any:
        return add(builder, *args, **options)  # mongomock 4.3 does not know `sort` of pymongo 4.20

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mongomock.collection.BulkOperationBuilder, "add_update", without_sort)
        yield MongoDBSaver(mongomock.MongoClient())


@contextmanager
def plain_redis(processes: Processes, folder: Path) -> Iterator[Any]:
    """Saver of a Redis without modules."""
    socket = folder / "redis.sock"
    command = ["redis-server", "--port", 0, "--unixsocket", socket, "--save", ""]
    processes.start(command, ready="ready to accept connections", cwd=folder)
    with closing(redis.Redis(unix_socket_path=str(socket))) as client:
        yield RedisSaver(client)


@contextmanager
def mariadb(processes: Processes, folder: Path) -> Iterator[Any]:
    """Saver of MySQL, on MariaDB."""
    data, socket = f"--datadir={folder}/data", folder / "maria.sock"
    install = processes.start(
        ["mariadb-install-db", "--user=root", data, "--auth-root-authentication-method=normal"]
    )
    assert install.wait() == 0
    processes.start(
        ["mariadbd", "--user=root", data, f"--socket={socket}", "--skip-networking"], cwd=folder
    )
    until(socket.exists)
    options: Any = {"unix_socket": str(socket), "user": "root", "autocommit": True}
    with closing(pymysql.connect(**options)) as connection:
        connection.cursor().execute("create database threads")
        connection.select_db("threads")
        saver: Any = PyMySQLSaver(connection)
        saver.setup()
        yield saver


@contextmanager
def dynamodb(processes: Processes, folder: Path) -> Iterator[Any]:
    """Saver of DynamoDB, which moto answers."""
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield DynamoDBSaver("checkpoints")


OF_DYNAMODB = {"filter of metadata", "list of all threads", "run killed in a hook"}


@contextmanager
def sqlite(processes: Processes, folder: Path) -> Iterator[Any]:
    """LangGraph's own saver of SQLite."""
    with SqliteSaver.from_conn_string(f"{folder}/threads.db") as saver:
        yield saver


@pytest.mark.night
@pytest.mark.parametrize(
    ("opened", "program", "form", "differences"),
    [
        (sqlite, "", "delta", set()),
        (mongodb, "", "full", set()),
        (plain_redis, "redis-server", "full", {"fork of a thread"}),
        (mariadb, "mariadbd", "full", set()),
        (dynamodb, "", "full", OF_DYNAMODB),
    ],
)
def test_savers_answer_as_the_page_says_and_langchains_agent_asks_no_better(
    processes: Processes,
    monkeypatch: pytest.MonkeyPatch,
    opened: Any,
    program: str,
    form: str,
    differences: set[str],
) -> None:
    if program and not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    # The path of a socket has at most 107 characters.
    with TemporaryDirectory() as folder, opened(processes, Path(folder)) as saver:
        monkeypatch.setitem(sys.modules, "desk", SimpleNamespace(saver=saver))
        ours = json.loads(run("check", "--saver", "desk:saver", "--json").stdout)
        monkeypatch.setattr(savers, "create_agent", create_agent)
        monkeypatch.setattr(savers, "after_model", after_model)
        theirs = check_saver(saver)
    assert (ours["form"], {*ours["differences"]}) == (form, differences), ours
    # langchain's agent stores no answer before a hook, so a lost write of None loses no question.
    assert {*theirs.differences} == differences - {"run killed in a hook"}, str(theirs)
