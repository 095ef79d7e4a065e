"""The Python files of a path, and how one is written so that it is never half written."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from agent_factory.commands.trouble import Trouble

SUFFIXES = (".py", ".pyi")


def python_files(paths: Iterable[Path]) -> list[Path]:
    """The files of some paths, each once.

    A folder stands for its Python files. Hidden folders, virtual environments and symbolic links in
    it are left out.

    Raises:
        Trouble: There is no such path, or it is a notebook.
    """
    found = (file for path in paths for file in _files_of(path))
    return list({file.resolve(): file for file in found}.values())


def _files_of(path: Path) -> Iterable[Path]:
    if path.is_dir():
        return _walked(path)
    if not path.exists():
        raise Trouble(f"There is no file or folder {path}.")
    if path.suffix == ".ipynb":
        raise Trouble(f"{path} is a notebook. Save its code as a .py file, and give that.")
    return [path]


def _walked(folder: Path) -> Iterator[Path]:
    for top, folders, files in os.walk(folder):
        here = Path(top)
        folders[:] = sorted(name for name in folders if not _is_left_out(here / name))
        for name in sorted(files):
            if name.endswith(SUFFIXES) and not (here / name).is_symlink():
                yield here / name


def _is_left_out(folder: Path) -> bool:
    return folder.name.startswith(".") or (folder / "pyvenv.cfg").exists()


def replace_bytes(file: Path, data: bytes) -> None:
    """Write a file at once: whoever reads it sees the old bytes or the new ones.

    Raises:
        OSError: It cannot be written; then it is as it was.
    """
    target = file.resolve()
    with target.open("r+b"):  # a file that is not to be written is not replaced, either
        pass
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(handle, "wb") as opened:
            opened.write(data)
        shutil.copymode(target, name)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
