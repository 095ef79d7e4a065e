"""Wheel, sdist and evidence of a release, in dist/: built, checked, and tried on each Python.

Run by `make release`, which installs the tools. Nothing leaves the machine, but for downloads of
packages. The same commit gives the same bytes of wheel and sdist. `--rehearsal` allows what a
release refuses: changes that are not committed, which are left out, a changelog whose newest
version has no heading yet, and a repository whose address is not known.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from email import message_from_string
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile

from versions import interpreter_of

ROOT = Path(__file__).resolve().parent.parent
PUBLISH = "https://docs.pypi.org/attestations/publish/v1"
"""Predicate of an attestation of a published file, in PEP 740."""

NEEDS_IDENTITY = [
    "signatures of the statements: the forge's OpenID Connect token becomes a certificate",
    "entries in the transparency log, which the signatures come with",
    "the upload, by trusted publishing: .github/workflows/release.yml",
]
"""Steps which need the identity of the forge's workflow."""

MISSING = "not on this machine"

IN_SDIST = [
    "CHANGELOG.md",
    "CITATION.cff",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "pyproject.toml",
    "scripts/build_backend.py",
    "agent_factory/py.typed",
]
LINK = re.compile(r"(!?)(\[[^\]]*\]\()(?!https?:|mailto:|#)([^)\s]+\))")
"""A link of Markdown to a file or a picture of the repository."""

GENERATED = re.compile(r"PKG-INFO|setup\.cfg|agent_factory\.egg-info/[\w.-]+")
"""Files added to an sdist by setuptools."""


class ReleaseError(Exception):
    """The release cannot continue; the message has the reason and a hint."""


@dataclass
class Release:
    """A release: source, target, and the results so far."""

    version: str
    commit: str
    epoch: str
    """Time of the commit, in seconds since 1970."""
    dist: Path
    repository: str = ""
    """Address of the repository; empty if unknown in a rehearsal."""
    pythons: dict[str, str] = field(default_factory=dict)

    @property
    def wheel(self) -> Path:
        """The wheel, for every Python 3 and every platform."""
        return self.dist / f"agent_factory-{self.version}-py3-none-any.whl"

    @property
    def sdist(self) -> Path:
        """The sdist."""
        return self.dist / f"agent_factory-{self.version}.tar.gz"

    @property
    def packages(self) -> list[Path]:
        """The files to upload."""
        return [self.wheel, self.sdist]


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, check and try the release; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("pythons", nargs="+", metavar="PYTHON", help="a version, such as 3.12")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="folder of the results")
    parser.add_argument("--tag", help="the tag that must name the version, such as v0.1.0")
    parser.add_argument("--rehearsal", action="store_true", help="allow what is not released yet")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    try:
        with TemporaryDirectory(prefix="agent-factory-release-") as folder:
            release = begin(ROOT, options.dist, options.tag, rehearsal=options.rehearsal)
            source, tracked = export(ROOT, release.commit, Path(folder, "source"))
            link_to_repository(source / "README.md", release)
            progress("build", "wheel and sdist, twice")
            build(source, release, Path(folder))
            progress("contents", "files, metadata, licence, types")
            check_contents(release, tracked)
            check_metadata(release, source)
            check_with_tools(release)
            for python in options.pythons:
                release.pythons[python] = try_on(python, release, source, Path(folder))
                progress(f"Python {python}", release.pythons[python])
            if all(outcome == MISSING for outcome in release.pythons.values()):
                raise ReleaseError(
                    f"none of the Pythons {', '.join(options.pythons)} is on this machine. "
                    "Install one, or choose others: make release PYTHONS=3.12"
                )
            progress("evidence", "SBOM, statements, checksums")
            write_evidence(release, source, Path(folder))
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    report = report_of(release)
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        print(f"\nVersion {release.version} is in {release.dist}:")
        print(*(f"  {row['sha256']}  {row['name']}" for row in report["files"]), sep="\n")
        print("The identity of the forge is needed for:")
        print(*(f"  {need}" for need in NEEDS_IDENTITY), sep="\n")
    return 0


def progress(step: str, text: str) -> None:
    """Print a line of progress on the error output, which `--json` does not use."""
    print(f"{step:<12} {text}", file=sys.stderr, flush=True)


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """The output of a command.

    Raises:
        ReleaseError: The command failed, or is missing.
    """
    try:
        done = subprocess.run(
            [*map(str, command)],
            cwd=cwd,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
        )
    except FileNotFoundError:
        raise ReleaseError(
            f"{command[0]} is missing. Run `make release`, which installs it."
        ) from None
    if done.returncode:
        words = " ".join(map(str, command))
        raise ReleaseError(
            f"expected success, got {done.returncode} from: {words}\n{done.stdout}{done.stderr}"
        )
    return done.stdout


def tool(name: str) -> Path:
    """A command of the environment of this Python."""
    return Path(sys.executable).with_name(name)


def begin(root: Path, dist: Path, tag: str | None, *, rehearsal: bool) -> Release:
    """The release of the current commit, and an empty folder for the files.

    Raises:
        ReleaseError: Version, changelog and tag differ, changes are not committed, or the address
            of the repository is not known.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version: str = project["version"]
    repository: str = project.get("urls", {}).get("Repository", "").rstrip("/")
    problems = [changelog_problem((root / "CHANGELOG.md").read_text(encoding="utf-8"), version)]
    problems.append(repository_problem(root, repository))
    if changes := run("git", "status", "--porcelain", cwd=root).strip():
        problems.append(f"expected a checkout without changes, got:\n{changes}\nCommit them first.")
    for problem in filter(None, problems):
        if not rehearsal:
            raise ReleaseError(problem)
        progress("rehearsal", f"a release is refused: {problem}")
    if tag not in (None, f"v{version}"):
        raise ReleaseError(
            f"the tag must be v{version}, the version of pyproject.toml, got {tag}. "
            f"Change the version, or tag the commit again: git tag v{version}"
        )
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir(parents=True)
    commit, epoch = run("git", "log", "-1", "--format=%H %ct", cwd=root).split()
    progress("version", f"{version} of commit {commit[:12]}")
    return Release(version, commit, epoch, dist, repository)


def changelog_problem(text: str, version: str) -> str:
    """The mistake in the newest heading of a changelog; empty without a mistake.

    An `[Unreleased]` without entries is passed over: the next changes go there.
    """
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        heading, _, entries = section.partition("\n")
        name = heading.strip().split("]")[0].lstrip("[")
        if name == "Unreleased" and not re.search(r"^\s*[-*] ", entries, flags=re.M):
            continue
        if re.fullmatch(rf"\[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d", heading.strip()):
            return ""
        hint = "Write that heading above the entries of the release, and leave an empty"
        return (
            f"the newest heading of CHANGELOG.md must be `## [{version}] - YYYY-MM-DD`, "
            f"got `## {heading.strip()}`. {hint} `## [Unreleased]` above it."
        )
    return f"CHANGELOG.md has no entries. Write a heading `## [{version}] - YYYY-MM-DD`."


def repository_problem(root: Path, repository: str) -> str:
    """The files without the address of the repository, in words; empty for none."""
    if not repository:
        return (
            "pyproject.toml must name the repository, to which the links of the README lead on an "
            'index. Write [project.urls] and Repository = "https://github.com/OWNER/agent_factory".'
        )
    pages = [root / "SECURITY.md", *sorted(root.glob("docs/**/*.md"))]
    found = [
        path.relative_to(root).as_posix()
        for path in pages
        if path.exists() and re.search(r"\bOWNER/", path.read_text(encoding="utf-8"))
    ]
    return f"{', '.join(found)} must name {repository}, got OWNER. Replace it." if found else ""


def link_to_repository(readme: Path, release: Release) -> None:
    """Let the links of the README lead to the repository, as they are to be read on an index."""

    def absolute(match: re.Match[str]) -> str:
        kind = "raw" if match[1] else "blob"
        return f"{match[1]}{match[2]}{release.repository}/{kind}/v{release.version}/{match[3]}"

    if release.repository:
        text = readme.read_text(encoding="utf-8")
        readme.write_text(LINK.sub(absolute, text), encoding="utf-8")


def export(root: Path, commit: str, folder: Path) -> tuple[Path, set[str]]:
    """The files of a commit in a folder, and their names; no other file gets into a package."""
    archive = subprocess.run(
        ["git", "archive", "--format=tar", commit], cwd=root, capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="tar")
    return folder, {
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()
    }


def build(source: Path, release: Release, folder: Path) -> None:
    """Build both packages, the wheel from the sdist, and compare with another build.

    Raises:
        ReleaseError: The build failed, the names are wrong, or the bytes differ.
    """
    # Without isolation: the versions of the tools are pinned in pyproject.toml, so that the
    # bytes are the same in a year.
    command = [sys.executable, "-m", "build", "--no-isolation"]
    epoch = {"SOURCE_DATE_EPOCH": release.epoch}
    run(*command, "--outdir", release.dist, source, cwd=folder, **epoch)
    names = {path.name for path in release.dist.iterdir()}
    expected = {path.name for path in release.packages}
    if names != expected:
        raise ReleaseError(f"the packages must be {sorted(expected)}, got {sorted(names)}.")
    again = folder / "again"
    run(*command, "--sdist", "--wheel", "--outdir", again, source, cwd=folder, **epoch)
    for package in release.packages:
        if package.read_bytes() != (again / package.name).read_bytes():
            raise ReleaseError(
                f"two builds of {package.name} differ. Compare {package} with another build by "
                "diffoscope; scripts/build_backend.py removes times, owners and permissions."
            )


def check_contents(release: Release, tracked: set[str]) -> None:
    """Check that each file of the packages is of the commit, and that no needed file is missing.

    Raises:
        ReleaseError: A file is missing, or has no place there.
    """
    with tarfile.open(release.sdist) as archive:
        paths = [member.name.partition("/")[2] for member in archive if not member.isdir()]
    problems = [f"{release.sdist.name} lacks {path}" for path in IN_SDIST if path not in paths]
    problems += [
        f"{release.sdist.name} has {path}, which is not in the commit"
        for path in paths
        if path not in tracked and not GENERATED.fullmatch(path)
    ]
    information = f"agent_factory-{release.version}.dist-info/"
    members = ZipFile(release.wheel).namelist()
    for path in ("agent_factory/py.typed", f"{information}licenses/LICENSE"):
        problems += [f"{release.wheel.name} lacks {path}"] if path not in members else []
    for member in members:
        origin = re.sub("^agent_factory/middleware/", "middleware/", member)
        if not member.startswith(information) and origin not in tracked:
            problems.append(f"{release.wheel.name} has {member}, which is not in the commit")
    if problems:
        hint = "MANIFEST.in and [tool.setuptools] of pyproject.toml say what is packed."
        raise ReleaseError("; ".join(problems) + f". {hint}")


def check_metadata(release: Release, source: Path) -> None:
    """Compare the metadata of both packages with pyproject.toml.

    Raises:
        ReleaseError: They differ.
    """
    project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with tarfile.open(release.sdist) as archive:
        file = archive.extractfile(f"{release.sdist.name.removesuffix('.tar.gz')}/PKG-INFO")
        assert file is not None
        sdist = file.read().decode()
    with ZipFile(release.wheel) as wheel:
        metadata = f"agent_factory-{release.version}.dist-info/METADATA"
        texts = {release.sdist: sdist, release.wheel: wheel.read(metadata).decode()}
    expected = {
        "Name": project["name"],
        "Version": project["version"],
        "Summary": project["description"],
        "License-Expression": project["license"],
        "License-File": "LICENSE",
        "Requires-Python": project["requires-python"],
    }
    for package, text in texts.items():
        message = message_from_string(text)
        for key, value in expected.items():
            if message[key] != value:
                raise ReleaseError(
                    f"{key} of {package.name} must be {value!r}, as in pyproject.toml, got "
                    f"{message[key]!r}. See [project] there, and scripts/build_backend.py."
                )


def check_with_tools(release: Release) -> None:
    """Check the packages as an index does, and the layout of the wheel.

    Raises:
        ReleaseError: A check failed; the text comes from the tool.
    """
    run(tool("twine"), "check", "--strict", *release.packages, cwd=release.dist)
    run(tool("check-wheel-contents"), release.wheel, cwd=release.dist)


def try_on(python: str, release: Release, source: Path, folder: Path) -> str:
    """Install each package into an empty environment and use the package; the outcome in words.

    Raises:
        ReleaseError: A package cannot be installed, imported or used.
    """
    interpreter = interpreter_of(python)
    if interpreter is None:
        return MISSING
    modules = {}
    for package in release.packages:
        inside = environment(folder / f"{python}-{package.suffix}", interpreter, package)
        smoke = source / "scripts" / "release_smoke.py"
        modules[package.name] = json.loads(run(inside / "python", "-I", smoke, cwd=folder))
        environment(inside.parent, interpreter, f"agent-factory[cli] @ {package.as_uri()}")
        version = run(inside / "agent-factory", "--version", cwd=folder).strip()
        if version != f"agent-factory {release.version}":
            raise ReleaseError(
                f"agent-factory --version must print {release.version}, got {version!r} from "
                f"{package.name} on Python {python}. See agent_factory/cli/app.py."
            )
        run(inside / "agent-factory", "check", f"{smoke}:desk", cwd=folder)
    wheel, sdist = modules.values()
    if wheel != sdist:
        raise ReleaseError(
            f"wheel and sdist must have the same modules, got {modules}. See [tool.setuptools] in "
            "pyproject.toml."
        )
    extras = ", ".join(name.removeprefix("agent_factory.") for name in wheel["extras"])
    return f"passed; {wheel['modules']} modules without extras; {extras} name theirs"


def environment(folder: Path, interpreter: str, *packages: str | Path) -> Path:
    """The folder of commands of an environment with these packages; a new one is empty before."""
    inside = folder / ("Scripts" if os.name == "nt" else "bin")
    if not folder.exists():
        run(tool("uv"), "venv", "--quiet", "--python", interpreter, folder, cwd=folder.parent)
    options = ["--quiet", "--python", str(inside / "python")]
    run(tool("uv"), "pip", "install", *options, *packages, cwd=folder.parent)
    return inside


def write_evidence(release: Release, source: Path, folder: Path) -> None:
    """Write the SBOM, the statements for the signature of a forge, and the checksums.

    Raises:
        ReleaseError: A statement is malformed, or is about other bytes.
    """
    inside = environment(folder / "sbom", sys.executable, release.wheel)
    sbom = release.dist / f"agent_factory-{release.version}.cdx.json"
    # Most readers know this version of the format.
    options = ["--output-reproducible", "--spec-version", "1.6", "--pyproject", "pyproject.toml"]
    options += ["--mc-type", "library", "-o", str(sbom), str(inside / "python")]
    run(tool("cyclonedx-py"), "environment", *options, cwd=source, SOURCE_DATE_EPOCH=release.epoch)
    lines = [statement(package) for package in release.packages]
    for line, package in zip(lines, release.packages, strict=True):
        check_statement(line, package)
    path = release.dist / f"agent_factory-{release.version}.statements.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    files = sorted(release.dist.iterdir())
    sums = "".join(f"{digest(file)}  {file.name}\n" for file in files)
    (release.dist / "SHA256SUMS").write_text(sums, encoding="utf-8")


def statement(package: Path) -> str:
    """The signed statement of an attestation of a package, in the form of PEP 740."""
    subject = {"name": package.name, "digest": {"sha256": digest(package)}}
    document = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [subject],
        "predicateType": PUBLISH,
        "predicate": None,
    }
    return json.dumps(document)


def check_statement(text: str, package: Path) -> None:
    """Read a statement like signers and verifiers, and compare with a package.

    Raises:
        ReleaseError: The statement has another form, or other bytes.
    """
    from pypi_attestations import Distribution
    from sigstore.dsse import Error, Statement

    try:
        Statement(text.encode())
    except Error as error:
        raise ReleaseError(f"the statement about {package.name} is malformed: {error}") from error
    file = Distribution.from_file(package)
    if json.loads(text)["subject"] != [{"name": file.name, "digest": {"sha256": file.digest}}]:
        raise ReleaseError(f"the statement is not about {package.name}. Run `make release` again.")


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def report_of(release: Release) -> dict[str, Any]:
    """The output of `--json`."""
    return {
        "version": release.version,
        "commit": release.commit,
        "epoch": int(release.epoch),
        "files": [
            {"name": path.name, "sha256": digest(path), "bytes": path.stat().st_size}
            for path in sorted(release.dist.iterdir())
        ],
        "pythons": release.pythons,
        "needs_identity": NEEDS_IDENTITY,
    }


if __name__ == "__main__":
    sys.exit(main())
