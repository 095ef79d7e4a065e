"""Import a target as Python would, and apart from other targets."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

_kept: dict[Path, dict[str, ModuleType]] = {}


@contextmanager
def at_home(root: Path, folders: Sequence[Path] = ()) -> Iterator[None]:
    """Imports look into a folder first, as `python -m` has it with the current one.

    Its own modules are put aside afterwards: two checkouts of one package can be compared.

    Args:
        root: The folder.
        folders: More folders to look into next.
    """
    path, before = list(sys.path), set(sys.modules)
    kept = _kept.setdefault(root, {})
    sys.modules.update({name: kept[name] for name in kept.keys() - before})
    sys.path[:0] = [str(root), *map(str, folders)]
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = path
        for name in _come_from({root, *folders}, before):
            kept[name] = sys.modules.pop(name)


def _come_from(folders: set[Path], before: set[str]) -> list[str]:
    """The modules that were imported since from these folders themselves."""
    known = {name.partition(".")[0] for name in before}
    new = [name for name in sys.modules if name.partition(".")[0] not in known]
    tops = {name for name in new if "." not in name and _folder(sys.modules[name]) in folders}
    return [name for name in new if name.partition(".")[0] in tops]


def _folder(module: ModuleType) -> Path | None:
    """The folder in which a module of the first level was found."""
    for place in getattr(module, "__path__", ()):
        return Path(place).parent
    file = getattr(module, "__file__", None)
    return Path(file).parent if file else None


def root_and_name(path: Path) -> tuple[Path, str]:
    """Where a file's outermost package lies, and what the file is called as a module.

    >>> root_and_name(Path("desk.py"))[1]
    'desk'
    """
    folder, parts = path.parent, [] if path.stem == "__init__" else [path.stem]
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts)


def import_file(path: Path, name: str) -> ModuleType:
    """Import a file under its name, or under another one where something else has it."""
    # A dot in a file's own name is none between packages.
    spec = find_spec(name) if "." not in path.stem else None
    if spec and spec.origin and Path(spec.origin) == path:
        return importlib.import_module(name)
    return _import_from(path, f"_target_{path.stem}")


def _import_from(path: Path, name: str) -> ModuleType:
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no module")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
