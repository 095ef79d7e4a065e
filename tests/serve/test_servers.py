"""The helper of tests that serves a service fails where its server does."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest
import uvicorn

from agent_factory.service import Service
from servers import served


@pytest.mark.parametrize("end", [SystemExit(1), OSError("No socket."), [None]], ids=repr)
def test_a_server_that_does_not_start_is_an_error_at_once(
    end: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uvicorn raises SystemExit if its port is taken, and returns if an application fails."""
    monkeypatch.setattr(uvicorn.Server, "run", Mock(side_effect=end))
    error = None if isinstance(end, list) else end
    with closing(Service(f"sqlite:///{tmp_path}/desk.db")) as service:
        with pytest.raises(RuntimeError, match="has ended") as raised, served(service):
            pytest.fail("a server that has ended was used")
        assert raised.value.__cause__ is error
