"""The packages that only some of the kit needs."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def needs(package: str, module: str = "") -> Any:
    """A module of a package that may be missing.

    Raises:
        ImportError: It is not installed; the error says how to install it.
    """
    try:
        return import_module(f"{package}.{module}" if module else package)
    except ImportError as error:
        raise ImportError(
            f"{package} is not installed. pip install 'agent-factory[testing]'"
        ) from error
