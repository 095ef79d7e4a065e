"""`migrate` knows each public name of the langchain that is installed."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import pytest

pytest.importorskip("langchain.agents", reason="the extra peer is not installed")
pytest.importorskip("libcst", reason="the extra cli is not installed")

from agent_factory.migrate import migrate_source
from tables import each

MODULES = ("langchain.agents", "langchain.agents.middleware", "langchain.agents.structured_output")


def public_names(module: ModuleType) -> list[str]:
    """The names of `__all__`; without one, what the module itself defines."""
    own = (
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    )
    return list(getattr(module, "__all__", None) or own)


@each("module", MODULES)
def test_each_public_name_has_a_counterpart_that_can_be_imported(module: str) -> None:
    names = public_names(import_module(module))
    assert names
    for name in names:
        migration = migrate_source(f"from {module} import {name}\n")
        assert not migration.findings, name
        assert "langchain" not in migration.text
        namespace: dict[str, object] = {}
        exec(migration.text, namespace)
        assert name in namespace
