"""The service. One machine: a file. Many machines: the URL of a Postgres, and nothing else."""

from __future__ import annotations

import os

from agent_factory.service import Service
from shop.agent import desk_agent

service = Service(os.environ.get("SHOP_DATABASE", "sqlite:///desk.db"))
service.add("desk", desk_agent, review_within="4h", late="reject")
