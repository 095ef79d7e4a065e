"""Files that the tests of scripts, pages, examples and benchmarks depend on.

At a submission such a test runs only if one of its inputs changed. Every other test runs always,
and at night all run.
"""

from __future__ import annotations

PACKAGE = ("agent_factory/*", "middleware/*")

BENCHMARKS = ("benchmarks/*", "agent_factory/*__init__.py", "middleware/__init__.py")
"""The benchmarks, and the public names of the package, which they call."""

AGENTS = (
    *BENCHMARKS,
    "agent_factory/factory/*",
    "agent_factory/hooks/*",
    "agent_factory/runtime/*",
    "agent_factory/state/*",
    "agent_factory/tools/*",
)
"""The benchmarks, and the parts of the package that agents of the benchmarks run."""

PAGES = ("docs/*", "examples/*", "benchmarks/*.md", "README.md", "CONTRIBUTING.md", "SECURITY.md")

SITE = (
    *PAGES,
    *PACKAGE,  # the reference is made of its docstrings and signatures
    "CHANGELOG.md",
    "mkdocs.yml",
    "scripts/docs_site.py",
    "scripts/llms.py",
    "scripts/reference_pages.py",
    "scripts/signatures.py",
    "scripts/site_p*.py",
)

PACKAGING = ("pyproject.toml", "MANIFEST.in", "README.md", "scripts/build_backend.py")

INPUTS: dict[str, tuple[str, ...]] = {
    "test_action.py": (
        "action.yml",
        ".pre-commit-hooks.yaml",
        "scripts/action.py",
        "agent_factory/cli/*",
        "agent_factory/testing/*",
        "agent_factory/topology/*",
        "tests/commands.py",
        "tests/environments.py",
    ),
    "test_benchmark_capacity.py": ("benchmarks/capacity.py",),
    "test_benchmark_contenders.py": AGENTS,
    "test_benchmark_peers.py": (*AGENTS, "agent_factory/serve/*", "agent_factory/service/*"),
    "test_benchmarks.py": (*BENCHMARKS, "docs/pictures/*"),
    "cli/test_page.py": ("docs/command_line.md", *PACKAGE),
    "test_deploy.py": (
        *PACKAGING,
        "examples/deploy/*",
        "examples/service/*",
        "agent_factory/cli/*",
        "agent_factory/serve/*",
        "agent_factory/service/*",
        "tests/environments.py",
        "tests/service/databases.py",
    ),
    "test_docs.py": (*PAGES, *PACKAGE, "scripts/*", "pyproject.toml"),
    "test_docs_site.py": SITE,
    "test_examples.py": ("examples/*", *PACKAGE),
    "test_figures.py": ("scripts/figures.py", "scripts/measures/*"),
    "test_installation.py": (
        *PACKAGING,
        "docs/*",
        "agent_factory/*__init__.py",
        "agent_factory/errors.py",
        "tests/environments.py",
    ),
    "test_llms.py": SITE,
    "test_new_builtin.py": (
        "scripts/new_builtin.py",
        "agent_factory/cli/new.py",
        "middleware/__init__.py",
        "docs/index.md",
        "docs/order.md",
        "docs/middleware/*",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "README.md",
        "mkdocs.yml",
        "pyproject.toml",
        "tests/crossings/features.py",
        "tests/middleware/test_any_stack.py",
        "tests/test_docs.py",
        "tests/test_public_api.py",
    ),
    "test_packaging.py": (
        *PACKAGING,
        "agent_factory/*__init__.py",
        "agent_factory/*.css",
        "agent_factory/*.html",
        "agent_factory/*.js",
        "agent_factory/*.svg",
        "agent_factory/.agents/*",
        "middleware/*__init__.py",
        "tests/environments.py",
    ),
    "test_release.py": (
        *PACKAGING,
        ".ci/*",
        ".github/*",
        "CHANGELOG.md",
        "CITATION.cff",
        "Makefile",
        "SECURITY.md",
        "scripts/release*.py",
        "scripts/versions.py",
        "tests/environments.py",
    ),
    "test_skill.py": (*PACKAGE, "scripts/*", "tests/commands.py", "tests/fixtures/skill/*"),
    "web/test_search.py": SITE,
}
"""Patterns of the inputs of each test file, which is named by its path below `tests/`.

The patterns are those of `fnmatch` for a path below the root: `*` matches `/`, too. The file
itself, `tests/conftest.py`, and the conftest.py of its folder are inputs that stand in no list.
"""
