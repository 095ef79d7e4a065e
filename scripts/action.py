"""Report on agents in a pull request, as Markdown: findings, changes and replays.

Run by action.yml. The report goes to the summary of the job (`$GITHUB_STEP_SUMMARY`), and to the
file of `--report`. The exit code is of the worst command: 1 for errors of a check and for changed
runs, 2 for a target that cannot be loaded.

With `--comment`, the file goes to the pull request in place of the earlier comment, and no agent is
loaded: this command has a token that may write.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

MARK = "<!-- agent-factory -->"
"""First line of the comment, by which the next run finds the comment."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the report; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--targets", default="", help="agents, with spaces between them")
    parser.add_argument("--check", default="", help="more arguments of check, such as --strict")
    parser.add_argument("--base", default="", help="a commit, or a saved plan, to compare with")
    parser.add_argument("--recordings", default="", help="a folder of recorded runs to replay")
    parser.add_argument("--replay", default="", help="more arguments of replay")
    parser.add_argument("--report", type=Path, help="file of the report")
    parser.add_argument("--comment", default="", help="number of the pull request, for the report")
    options = parser.parse_args(arguments)
    if options.comment:
        # Without a file, the first command has failed, and says why.
        if options.report.exists():
            comment(options.comment, options.report.read_text(encoding="utf-8"))
        return 0
    targets = options.targets.split()
    codes, sections = [], [MARK]
    for code, section in (
        checks(targets, options.check.split()),
        *differences(targets, options.base),
        *replays(targets, options.recordings, options.replay.split()),
    ):
        codes.append(code)
        sections.append(section)
    text = "\n\n".join(sections) + "\n"
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(text)
    else:
        print(text)
    if options.report:
        options.report.write_text(text, encoding="utf-8")
    return max(codes)


def command(*words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the `agent-factory` of this Python."""
    module = [sys.executable, "-m", "agent_factory.cli"]
    return subprocess.run([*module, *map(str, words)], cwd=cwd, capture_output=True, text=True)


def checks(targets: list[str], arguments: list[str]) -> tuple[int, str]:
    """The exit code of `check`, and the findings, which are annotations of the files, too."""
    print(command("check", *targets, *arguments, "--github").stdout)
    done = command("check", *targets, *arguments, "--json")
    title = "## Check\n\n"
    if not done.stdout.startswith("{"):
        return done.returncode, title + block(done.stderr)
    report = json.loads(done.stdout)
    rows = [
        (
            finding["severity"],
            finding["code"],
            finding["target"],
            f"{finding['subject']}: {finding['reason']}",
        )
        for finding in report["findings"]
    ]
    rows += [
        ("failure", "", failure["target"], failure["message"]) for failure in report["failures"]
    ]
    if not rows:
        return done.returncode, f"{title}No problems in {len(targets)} targets."
    return done.returncode, title + table(("", "code", "target", "problem"), rows)


def differences(targets: list[str], base: str) -> Iterator[tuple[int, str]]:
    """Changes in the plan of each target since a commit, or against a saved plan."""
    if not base:
        return
    with TemporaryDirectory(prefix="agent-factory-") as folder, before(base, Path(folder)) as place:
        for index, target in enumerate(targets):
            title = f"## Plan of {code(target)}\n\n"
            old = place
            if place.is_dir():
                # In the folder of the base: imports of `shop.desk:agent` begin there.
                plan = command("show", target, "--settings", "--json", cwd=place)
                if plan.returncode:
                    yield 0, f"{title}It cannot be loaded on the base, so all of it is new."
                    continue
                old = Path(folder, f"{index}.json")
                old.write_text(plan.stdout, encoding="utf-8")
            done = command("diff", old, target, "--json")
            if done.returncode:
                yield done.returncode, title + block(done.stderr)
                continue
            changes = json.loads(done.stdout)["changes"]
            rows = [
                tuple(change[key] for key in ("kind", "part", "name", "detail"))
                for change in changes
            ]
            yield (
                0,
                title + (table(("", "part", "name", "detail"), rows) if rows else "No changes."),
            )


@contextmanager
def before(base: str, folder: Path) -> Iterator[Path]:
    """The saved plan, or a folder with the corresponding files of the commit."""
    if Path(base).is_file():
        yield Path(base)
        return
    if git("cat-file", "-e", f"{base}^{{commit}}").returncode:
        git("fetch", "--quiet", "--depth", "1", "origin", base)
    tree = folder / "base"
    done = git("worktree", "add", "--quiet", "--detach", str(tree), base)
    if done.returncode:
        sys.exit(f"action: base must be a saved plan or a commit, got {base!r}. {done.stderr}")
    try:
        yield tree / git("rev-parse", "--show-prefix").stdout.strip()
    finally:
        git("worktree", "remove", "--force", str(tree))


def git(*words: str) -> subprocess.CompletedProcess[str]:
    """Run git."""
    return subprocess.run(["git", *words], capture_output=True, text=True)


def replays(targets: list[str], folder: str, arguments: list[str]) -> Iterator[tuple[int, str]]:
    """Outcomes of recorded runs with the first target."""
    if not folder:
        return
    done = command("replay", targets[0], folder, *arguments, "--json")
    title = f"## Replays of {code(folder)}\n\n"
    if not done.stdout.startswith("{"):
        yield done.returncode, title + block(done.stderr)
        return
    report = json.loads(done.stdout)
    keys = ("passed", "changed", "failed", "error")
    counts = ", ".join(f"{report[key]} {key}" for key in keys if report[key])
    rows = [(run["name"], run["verdict"], run["reason"]) for run in report["runs"]]
    yield done.returncode, f"{title}{counts}\n\n{table(('run', 'verdict', 'reason'), rows)}"


def comment(number: str, text: str) -> None:
    """Write a comment to the pull request, in place of the earlier comment.

    A failure is a warning: in pull requests of forks, the token may not write.
    """
    repository = os.environ["GITHUB_REPOSITORY"]
    comments = f"repos/{repository}/issues/{number}/comments"
    own = f'.[] | select(.body | startswith("{MARK}")) | .id'
    try:
        previous = github("--paginate", comments, "--jq", own).split()
        place = ["POST", comments]
        if previous:
            place = ["PATCH", f"repos/{repository}/issues/comments/{previous[0]}"]
        github("--method", *place, "--field", "body=@-", text=text)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = " ".join(str(getattr(error, "stderr", error)).split())
        hint = "It needs gh, and `permissions: {pull-requests: write}`."
        print(f"::warning title=agent-factory::The comment was not written: {reason}. {hint}")


def github(*words: str, text: str = "") -> str:
    """The answer of GitHub's API."""
    command = ["gh", "api", *words]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *([code(str(cell)) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(text: str) -> str:
    """A text as code, which forges show unchanged: a name may hold Markdown or HTML."""
    plain = " ".join(text.split()).replace("`", "'").replace("|", "\\|")
    return f"`{plain}`" if plain else ""


def block(text: str) -> str:
    """A text of several lines as code."""
    return f"~~~~text\n{text.replace('~~~~', '~ ~ ~ ~').strip()}\n~~~~"


if __name__ == "__main__":
    sys.exit(main())
