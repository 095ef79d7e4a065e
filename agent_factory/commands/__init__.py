"""The commands behind `agent-factory`; they need the extra `cli`."""

from agent_factory.commands.group import app as app
