"""The house rules. `tidy.py rules|format|headers ROOT` prints what breaks them; exit 1 if any does."""

import argparse
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from docstrings import check_docstrings
from edges import check_acyclic, check_edges, read_edges
from source import Problem, Source, sources
from text_rules import (
    check_citations,
    check_forbidden,
    check_names,
    check_opening,
    check_own_header_first,
    check_size,
)


def check_rules(root: Path) -> list[Problem]:
    """Everything that can be seen by reading."""
    edges = read_edges((root / "ARCHITECTURE.md").read_text())
    files = sources(root)
    paths = {source.path for source in files}
    problems = check_acyclic(edges) + check_citations(files)
    for source in files:
        problems += check_edges(source, edges) + check_own_header_first(source, paths)
        for check in (check_size, check_names, check_forbidden, check_opening, check_docstrings):
            problems += check(source)
    return problems


def check_format(root: Path) -> list[Problem]:
    """Files that clang-format would change."""
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    if tool is None:
        return [Problem(".clang-format", 1, "clang-format is not installed")]
    paths = [source.path for source in sources(root)]
    if not paths:
        return []
    command = [tool, "--dry-run", "-Werror", "--ferror-limit=1", *paths]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    errors = [line for line in result.stderr.splitlines() if ": error:" in line]
    if result.returncode != 0 and not errors:
        return [Problem(".clang-format", 1, result.stderr.strip())]
    return [Problem(line.split(":")[0], int(line.split(":")[1]), "run clang-format") for line in errors]


def check_headers(root: Path, compiler: str) -> list[Problem]:
    """Headers of costmodel and planner that do not compile on their own.

    Those with a .cpp are its first include, so that the build has tried them.
    """
    files = [s for s in sources(root) if s.path.startswith(("costmodel/", "planner/"))]
    built = {source.path.removesuffix(".cpp") + ".h" for source in files if not source.is_header}
    headers = [source for source in files if source.is_header and source.path not in built]

    def compile_alone(header: Source) -> Problem | None:
        command = [compiler, "-std=c++20", "-fsyntax-only", "-w", "-I", ".", "-x", "c++", header.path]
        result = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if result.returncode == 0:
            return None
        first = next((line for line in result.stderr.splitlines() if "error" in line), result.stderr)
        return Problem(header.path, 1, f"does not compile alone: {first}")

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [problem for problem in pool.map(compile_alone, headers) if problem is not None]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("rules", "format", "headers"))
    parser.add_argument("root", type=Path)
    parser.add_argument("--compiler", default="c++")
    arguments = parser.parse_args()
    if arguments.what == "rules":
        problems = check_rules(arguments.root)
    elif arguments.what == "format":
        problems = check_format(arguments.root)
    else:
        problems = check_headers(arguments.root, arguments.compiler)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
