"""Keys of `config["configurable"]` that the installed LangGraph reads, found in its source."""

from __future__ import annotations

import re
from importlib.resources import files

_NAMED = re.compile(r"^CONFIG_KEY_\w+ = .*?\"(\w+)\"", re.MULTILINE)
_READ = re.compile(r"""(?:configurable|\[CONF\])(?:\.get\(|\[)["'](\w+)["']""")


def configurable_keys() -> list[str]:
    """All keys that LangGraph's modules name as constants, or read by their names."""
    keys: set[str] = set()
    folders = [files("langgraph")]
    while folders:
        for item in folders.pop().iterdir():
            if item.is_dir():
                folders.append(item)
            elif item.name.endswith(".py"):
                text = item.read_text(encoding="utf-8")
                keys.update(_NAMED.findall(text), _READ.findall(text))
    return sorted(keys)
