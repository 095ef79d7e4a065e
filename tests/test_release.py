"""`scripts/release.py` and the workflows: what a release refuses, and what it consists of."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import tarfile
import tomllib
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import release
from release import Release, ReleaseError, changelog_problem

from environments import ROOT, built, ok, run, yaml_of
from tables import each

REPOSITORY = "https://example.com/ann/shop"

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@each(
    "text",
    [
        "## [0.2.0] - 2026-11-27\n\n- A name.\n",
        "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-11-27\n\n- A name.\n",
        "## [Unreleased]\n\n### Added\n\n## [0.2.0] - 2026-11-27\n\n## [0.1.0] - 2026-01-01\n",
    ],
)
def test_the_newest_heading_of_the_changelog_names_the_version(text: str) -> None:
    assert changelog_problem(text, "0.2.0") == ""


@each(
    "text, heading",
    [
        ("## [Unreleased]\n\n- A name.\n\n## [0.2.0] - 2026-11-27\n", "got `## [Unreleased]`"),
        ("## [0.1.0] - 2026-01-01\n\n- A name.\n", r"got `## \[0.1.0\] - 2026-01-01`"),
        ("## [0.2.0]\n\n- A name.\n", r"got `## \[0.2.0\]`"),
        ("## [0.200] - 2026-11-27\n", r"got `## \[0.200\] - 2026-11-27`"),
        ("# Changelog\n", "has no entries"),
    ],
)
def test_another_heading_is_refused_with_the_one_to_write(text: str, heading: str) -> None:
    problem = changelog_problem(text, "0.2.0")
    assert heading.replace("\\", "") in problem
    assert "`## [0.2.0] - YYYY-MM-DD`" in problem


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small project with our build backend, committed, with a changelog that is ready."""
    root = tmp_path / "checkout"
    (root / "scripts").mkdir(parents=True)
    (root / "shop").mkdir()
    shutil.copy(ROOT / "scripts" / "build_backend.py", root / "scripts")
    (root / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools>=77"]\nbuild-backend = "build_backend"\n'
        'backend-path = ["scripts"]\n[project]\nname = "shop"\nversion = "0.2.0"\n'
        f'[project.urls]\nRepository = "{REPOSITORY}/"\n'
        '[tool.setuptools]\npackages = ["shop"]\n',
        encoding="utf-8",
    )
    (root / "shop" / "__init__.py").write_text("PRICE = 5\n", encoding="utf-8")
    (root / "shop" / "desk.py").write_text("NAME = 'desk'\n", encoding="utf-8")
    (root / "CHANGELOG.md").write_text("## [0.2.0] - 2026-11-27\n\n- A shop.\n", encoding="utf-8")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "A shop")):
        ok(run(*git, *words, cwd=root))
    return root


def test_a_release_is_of_one_commit_and_an_empty_folder(checkout: Path, tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    dist.mkdir()
    (dist / "old.whl").touch()
    begun = release.begin(checkout, dist, "v0.2.0", rehearsal=False)
    head = ok(run("git", "log", "-1", "--format=%H %ct", cwd=checkout)).split()
    assert [begun.version, begun.commit, begun.epoch] == ["0.2.0", *head]
    assert begun.repository == REPOSITORY
    assert list(dist.iterdir()) == []


def test_a_tag_of_another_version_is_always_refused(checkout: Path, tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"the tag must be v0\.2\.0, .* got v0\.3\.0"):
        release.begin(checkout, tmp_path / "dist", "v0.3.0", rehearsal=True)


def test_changes_that_are_not_committed_are_refused_and_left_out_of_a_rehearsal(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "shop" / "desk.py").write_text("NAME = 'other'\n", encoding="utf-8")
    (checkout / "shop" / "stray.py").touch()
    with pytest.raises(ReleaseError, match="without changes, got:\n"):
        release.begin(checkout, tmp_path / "dist", None, rehearsal=False)
    begun = release.begin(checkout, tmp_path / "dist", None, rehearsal=True)
    assert "a release is refused: expected a checkout without changes" in capsys.readouterr().err
    source, tracked = release.export(checkout, begun.commit, tmp_path / "source")
    assert "shop/stray.py" not in tracked
    assert (source / "shop" / "desk.py").read_text(encoding="utf-8") == "NAME = 'desk'\n"


@pytest.mark.parametrize(
    ("name", "old", "new", "problem"),
    [
        ("pyproject.toml", "Repository", "Changes", r"Repository = .https://github\.com/OWNER/"),
        ("SECURITY.md", "", "Of https://github.com/OWNER/shop.\n", r"SECURITY\.md must name https"),
    ],
)
def test_a_release_names_its_repository_everywhere(
    name: str, old: str, new: str, problem: str, checkout: Path
) -> None:
    path = checkout / name
    path.write_text((path.read_text() if old else "").replace(old, new), encoding="utf-8")
    urls = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]["urls"]
    found = release.repository_problem(checkout, urls.get("Repository", ""))
    assert re.search(problem, found), found


def test_links_of_the_readme_lead_to_the_repository(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    readme.write_text(text, encoding="utf-8")
    release.link_to_repository(readme, Release("0.2.0", "", "", tmp_path))
    assert readme.read_text(encoding="utf-8") == text
    release.link_to_repository(readme, Release("0.2.0", "", "", tmp_path, REPOSITORY))
    pictures, links = (
        re.findall(rf"(?<{sign}!)\[[^\]]*\]\(([^)\s]+)\)", readme.read_text(encoding="utf-8"))
        for sign in "=!"
    )
    assert f"{REPOSITORY}/raw/v0.2.0/docs/pictures/studio.png" in pictures
    assert f"{REPOSITORY}/blob/v0.2.0/docs/middleware.md#a-flow" in links
    assert all(link.startswith(("https://", "#")) for link in [*pictures, *links])
    for link in [*pictures, *links]:  # each leads to a file that there is
        if link.startswith(REPOSITORY):
            path = re.sub(r"^/(raw|blob)/v0\.2\.0/|#.*", "", link.removeprefix(REPOSITORY))
            assert (ROOT / path).exists(), link


def test_the_error_of_a_release_is_a_line_and_the_exit_code(
    checkout: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(release, "ROOT", checkout)
    assert release.main(["3.11", "--dist", str(tmp_path / "dist"), "--tag", "v1"]) == 1
    output = capsys.readouterr()
    assert output.err.startswith("release: the tag must be v0.2.0")
    assert output.out == ""


@pytest.mark.long
@pytest.mark.parametrize("hook", ["build_wheel", "build_sdist"])
def test_the_same_source_gives_the_same_bytes(hook: str, checkout: Path, tmp_path: Path) -> None:
    """Times, permissions and the folder differ; without the variable, the bytes do, too."""
    other = tmp_path / "a copy"
    shutil.copytree(checkout, other, copy_function=shutil.copyfile)
    for path in other.rglob("*.py"):
        path.chmod(0o600)
        os.utime(path, (1_700_000_000, 1_700_000_000))
    same, differ = (
        [built(hook, source, folder, **variables).read_bytes() for source, folder in folders]
        for variables, folders in (
            ({"SOURCE_DATE_EPOCH": "1800000000"}, places(tmp_path / "same", checkout, other)),
            ({}, places(tmp_path / "differ", checkout, other)),
        )
    )
    assert same[0] == same[1]
    assert differ[0] != differ[1]


def places(folder: Path, *sources: Path) -> list[tuple[Path, Path]]:
    """Each source, with an empty folder for what is built from it."""
    results = [folder / str(number) for number in range(len(sources))]
    for result in results:
        result.mkdir(parents=True)
    return list(zip(sources, results, strict=True))


METADATA = f"""Metadata-Version: 2.4
Name: agent-factory
Version: {PROJECT["version"]}
Summary: {PROJECT["description"]}
License-Expression: MIT
License-File: LICENSE
Requires-Python: {PROJECT["requires-python"]}
"""


@pytest.fixture
def packages(tmp_path: Path) -> Release:
    """A release whose packages have what they must have, and no more."""
    value = Release(PROJECT["version"], "c" * 40, "1800000000", tmp_path)
    write_sdist(value, dict.fromkeys(release.IN_SDIST, "") | {"PKG-INFO": METADATA})
    write_wheel(value, {"agent_factory/py.typed": "", "agent_factory/middleware/todo.py": ""})
    return value


def write_sdist(value: Release, files: dict[str, str]) -> None:
    with tarfile.open(value.sdist, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"agent_factory-{value.version}/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))


def write_wheel(value: Release, files: dict[str, str]) -> None:
    information = f"agent_factory-{value.version}.dist-info"
    with ZipFile(value.wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(f"{information}/METADATA", METADATA)
        archive.writestr(f"{information}/licenses/LICENSE", "")


TRACKED = {*release.IN_SDIST, "middleware/todo.py"}


def test_packages_of_the_files_of_a_commit_pass(packages: Release) -> None:
    release.check_contents(packages, TRACKED)
    release.check_metadata(packages, ROOT)


@pytest.mark.parametrize("lost", [path for path in release.IN_SDIST if path != "PKG-INFO"])
def test_an_sdist_without_a_file_that_it_needs_is_refused(lost: str, packages: Release) -> None:
    write_sdist(packages, {path: "" for path in release.IN_SDIST if path != lost})
    with pytest.raises(ReleaseError, match=f"{re.escape(packages.sdist.name)} lacks {lost}"):
        release.check_contents(packages, TRACKED)


def test_files_that_are_not_of_the_commit_are_refused(packages: Release) -> None:
    write_sdist(packages, dict.fromkeys([*release.IN_SDIST, "docs/draft.md"], ""))
    write_wheel(packages, {"agent_factory/py.typed": "", "agent_factory/middleware/old.py": ""})
    with pytest.raises(ReleaseError) as error:
        release.check_contents(packages, TRACKED)
    assert "has docs/draft.md, which is not in the commit" in str(error.value)
    assert "has agent_factory/middleware/old.py, which is not in the commit" in str(error.value)


def test_a_wheel_without_the_mark_of_types_is_refused(packages: Release) -> None:
    write_wheel(packages, {"agent_factory/middleware/todo.py": ""})
    with pytest.raises(ReleaseError, match=r"\.whl lacks agent_factory/py\.typed"):
        release.check_contents(packages, TRACKED)


def test_metadata_that_differ_from_pyproject_are_refused(packages: Release) -> None:
    other = METADATA.replace("License-Expression: MIT", "License-Expression: ISC")
    write_sdist(packages, {"PKG-INFO": other})
    with pytest.raises(ReleaseError, match=r"License-Expression of .* must be 'MIT'.* got 'ISC'"):
        release.check_metadata(packages, ROOT)


def test_a_statement_names_the_file_and_its_digest(packages: Release) -> None:
    document = json.loads(release.statement(packages.wheel))
    (line,) = ok(run("sha256sum", packages.wheel, cwd=packages.dist)).splitlines()
    name, digest = packages.wheel.name, line.split()[0]
    assert document["subject"] == [{"name": name, "digest": {"sha256": digest}}]
    assert document["_type"] == "https://in-toto.io/Statement/v1"
    assert document["predicateType"] == "https://docs.pypi.org/attestations/publish/v1"


def test_a_python_that_this_machine_lacks_is_named(packages: Release, tmp_path: Path) -> None:
    assert release.try_on("3.98", packages, ROOT, tmp_path) == "not on this machine"


def test_the_citation_names_the_version_and_the_licence() -> None:
    citation = yaml_of("CITATION.cff")
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])
    assert citation["cff-version"] == "1.2.0"
    assert citation["authors"]


WORKFLOWS = [f".github/workflows/{path.name}" for path in (ROOT / ".github/workflows").iterdir()]


def targets() -> set[str]:
    """The targets of the Makefile that are not files."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^\.PHONY: (.*)", makefile, flags=re.M)[0].split())


def commands(workflow: str) -> list[tuple[str, dict[str, Any]]]:
    """The commands of a workflow, each with its job."""
    jobs = yaml_of(workflow)["jobs"].values()
    return [(step["run"], job) for job in jobs for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_workflows_call_targets_that_there_are(workflow: str) -> None:
    names = set()
    for text, job in commands(workflow):
        for name in re.findall(r"^make (\$\{\{.*?\}\}|\S+)", text, flags=re.M):
            choices = job.get("strategy", {}).get("matrix", {})
            variable = re.fullmatch(r"\$\{\{ matrix\.(\w+) \}\}", name)
            names |= set(choices[variable[1]]) if variable else {name}
    assert names
    assert names <= targets()


def test_continuous_integration_calls_targets_that_there_are() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    lines = re.findall(r"scripts/run_targets\.py (.*)", makefile)
    words = [shlex.split(word)[0] for line in lines for word in shlex.split(line)]
    assert {"test", "release"} <= {*words} <= targets() | {"--parallel", "--then"}
    assert {"submission", "night"} <= targets()


def test_each_python_and_system_is_in_the_matrix() -> None:
    matrix = yaml_of(".github/workflows/ci.yml")["jobs"]["test"]["strategy"]["matrix"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (pythons,) = re.findall(r"^PYTHONS \?= (.*)", makefile, flags=re.M)
    assert matrix["python"] == pythons.split()
    assert {name.partition("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_a_workflow_may_write_only_where_a_job_says_so(workflow: str) -> None:
    document = yaml_of(workflow)
    assert document["permissions"] in ({}, {"contents": "read"})
    text = (ROOT / workflow).read_text(encoding="utf-8")
    assert "secrets." not in text
    for name, job in document["jobs"].items():
        rights = {right for right, level in job.get("permissions", {}).items() if level == "write"}
        expected = {"publish": {"id-token"}, "page": {"contents"}}.get(name, set())
        assert rights == (expected if "release" in workflow else set()), name
        # With a token in .git, each step that follows could push.
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] == "false"


def test_a_release_is_published_by_a_person_and_from_the_packages_alone() -> None:
    jobs = yaml_of(".github/workflows/release.yml")["jobs"]
    assert jobs["publish"]["environment"] == "pypi"
    assert jobs["publish"]["needs"] == "build"
    assert [step for step in jobs["publish"]["steps"] if "run" in step] == []
    download, upload = jobs["publish"]["steps"]
    assert download["with"]["name"] == "packages"
    assert upload["with"]["attestations"] == "true"


def commands_of(target: str, *variables: str) -> str:
    """What make would run for a target; `UV=` is that of the line, not of this machine."""
    done = subprocess.run(
        ["make", "-n", "-B", target, *variables],
        cwd=ROOT,
        capture_output=True,
        text=True,
        # Tests are run by make as well, whose level and flags a make inside of it would take over.
        env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_environments_are_made_with_uv_where_it_is_and_with_pip_otherwise() -> None:
    target = ".venv-release/.installed"
    uv = commands_of(target, "UV=/tools/uv").splitlines()
    assert [line.split()[:2] for line in uv[:2]] == [["/tools/uv", "venv"], ["/tools/uv", "pip"]]
    assert "--python .venv-release/bin/python" in uv[1]
    pip = commands_of(target, "UV=").splitlines()
    assert pip[0].endswith("-m venv .venv-release")
    assert pip[1].startswith(".venv-release/bin/python -m pip ")
    assert uv[1].endswith("-e '.[release]'")
    assert pip[1].endswith("-e '.[release]'")
