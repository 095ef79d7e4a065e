"""The service for `agent-factory serve`."""

from __future__ import annotations

import os

from agent_factory.service import Service
from benchmarks.served_agent import agent

service = Service(os.environ["SERVED_DATABASE"])
service.add("agent", agent)
