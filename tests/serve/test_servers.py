"""The helper of tests that serves a service fails where its server does."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from agent_factory.service import Service
from servers import served


def test_a_server_that_does_not_start_is_an_error_at_once(
    tmp_path: Path,
) -> None:
    service = Service(f"sqlite:///{tmp_path}/desk.db")
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        place.listen()
        port = place.getsockname()[1]
        with (
            pytest.raises(RuntimeError, match=rf"port {port} has ended"),
            served(service, port=port),
        ):
            pytest.fail("a server listens at a port that is taken")
    service.close()
