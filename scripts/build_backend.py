"""Build backend: setuptools, with editable installs visible to type checkers of other projects.

Where `SOURCE_DATE_EPOCH` is set, wheel and sdist depend on the source alone: not on the owner, the
permissions and the times of its files.

The folder middleware/ is installed as agent_factory.middleware. For such a mapping, setuptools
writes an import hook into an editable install, which mypy and pyright do not follow. Here it is a
path instead: of the folder .editable, which holds only a link to agent_factory. The
root of the repository would do for checkers, but would make `import middleware` find the folder.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import sys
import tarfile
import time
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from setuptools import build_meta
from setuptools.build_meta import (
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

Settings = dict[str, str | list[str] | None] | None


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Write the wheel, and return the name."""
    name: str = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        path = Path(wheel_directory, name)
        with ZipFile(path) as archive:
            files = {member: archive.read(member) for member in archive.namelist()}
        # A zip file has no time before 1980.
        date = time.gmtime(max(int(epoch), 315532800))[:6]
        with ZipFile(path, "w", ZIP_DEFLATED) as archive:
            for member, data in files.items():
                entry = ZipInfo(member, date)
                entry.external_attr = 0o100644 << 16
                entry.compress_type = ZIP_DEFLATED
                archive.writestr(entry, data)
    return name


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Write the sdist, and return the name."""
    name: str = build_meta.build_sdist(sdist_directory, config_settings)
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        path = Path(sdist_directory, name)
        with tarfile.open(path) as archive:
            files = [
                (member, archive.extractfile(member) if member.isfile() else None)
                for member in archive.getmembers()
            ]
            with (
                path.with_suffix(".new").open("wb") as file,
                gzip.GzipFile("", "wb", fileobj=file, mtime=int(epoch)) as packed,
                tarfile.open(fileobj=packed, mode="w") as normal,
            ):
                for member, data in sorted(files, key=lambda pair: pair[0].name):
                    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
                    member.mtime, member.pax_headers = int(epoch), {}
                    member.uid, member.gid, member.uname, member.gname = 0, 0, "", ""
                    normal.addfile(member, data)
        path.with_suffix(".new").replace(path)
    return name


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Write the wheel of an editable install, and return the name.

    Where links cannot be created, or a checkout has lost agent_factory/middleware, it is that of
    setuptools.
    """
    name: str = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    # Hooks run in the root of the source.
    root = Path.cwd()
    if config_settings:
        return name
    try:
        folder = _linked(root)
    except OSError as error:
        print(
            f"Type checkers of other projects will not see agent_factory: {error}", file=sys.stderr
        )
        return name
    wheel = Path(wheel_directory, name)
    with ZipFile(wheel) as archive:
        metadata = {
            member: archive.read(member)
            for member in archive.namelist()
            if ".dist-info/" in member and not member.endswith("/RECORD")
        }
    (info,) = {member.partition("/")[0] for member in metadata}
    files = {"agent_factory.pth": f"{folder}\n".encode(), **metadata}
    record = "".join(f"{member},{_digest(data)}\n" for member, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    with ZipFile(wheel, "w", ZIP_DEFLATED) as archive:
        for member, data in files.items():
            archive.writestr(member, data)
    return name


def _linked(root: Path) -> Path:
    """The folder with a link to agent_factory alone; OSError if there can be none."""
    if not (root / "agent_factory" / "middleware").is_dir():
        raise OSError("agent_factory/middleware is not a link to middleware/; see `make link`.")
    folder = root / ".editable"
    link = folder / "agent_factory"
    folder.mkdir(exist_ok=True)
    if not link.is_dir():
        link.unlink(missing_ok=True)
        link.symlink_to(os.path.join("..", "agent_factory"), target_is_directory=True)
    return folder


def _digest(data: bytes) -> str:
    """Digest and size of a file, as RECORD has them."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
    return f"sha256={digest.decode()},{len(data)}"
