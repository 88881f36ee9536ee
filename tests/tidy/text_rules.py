"""Rules about the text of one file: words, sizes, openings, citations."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from source import Problem, Source

LONGEST_FILE = 400

_FORBIDDEN_NAMES = re.compile(r"(?i)(?:^|_)(?:utils?|common|helpers?|misc|managers?|impl)(?:_|$)")
_FORBIDDEN_TYPES = re.compile(
    r"\b(?:struct|class|enum)\s+(?:class\s+)?(\w*(?:Utils?|Common|Helper|Misc|Manager|Impl)\w*)"
)

# Pattern, message, and where it is allowed all the same.
_FORBIDDEN_CODE = (
    (r"\busing\s+namespace\s+std\b", "`using namespace std`", lambda s: False),
    (r"\bcatch\s*\(\s*\.\.\.\s*\)", "`catch (...)` outside a main.cpp", lambda s: s.is_main),
    (r"(?<![\w.>])(?:std::)?exit\s*\(", "`exit` outside a main.cpp", lambda s: s.is_main),
    (r"\bDISABLED_\w+", "a disabled test", lambda s: False),
    # A static that outlives main is the one thing `new` is for.
    (r"^(?!\s*static\b).*\bnew\s+[A-Za-z_]", "raw `new`", lambda s: s.is_test),
    (r"#\s*if\s+0\b", "code switched off", lambda s: False),
    (
        r"\b(?:cuda|nccl)[A-Z]\w*|\bCUDA[A-Z]\w*|\b(?:c10|at)::cuda\b|\bkCUDA\b|\bProcessGroupNCCL\b",
        "a name of CUDA or NCCL outside executor/cuda",
        lambda s: s.path.startswith("executor/cuda/"),
    ),
)
_FORBIDDEN_IN_PURE = (
    (r"<(?:fstream|iostream)>", "only costmodel/io touches files"),
    (r"\b(?:filesystem|fs)::(?!path\b)\w+", "only costmodel/io touches files"),
    (r"\bgetenv\b", "the environment is passed in"),
    (r"<random>|\bstd::rand\b|\brandom_device\b", "randomness is passed in"),
    (r"_clock::now\b|\btime\s*\(\s*nullptr", "the clock is passed in"),
)
_TODO = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b(?!\(#\d+\))")
_CITED_FOLDERS = ("costmodel/cost/", "costmodel/models/")


def _is_pure(source: Source) -> bool:
    inside = source.path.startswith(("costmodel/", "planner/"))
    outer = ("costmodel/io/", "costmodel/report/progress.cpp", "planner/cli/")
    return inside and not source.path.startswith(outer)


def _matches(pattern: str, source: Source) -> Iterable[int]:
    for match in re.finditer(pattern, source.code, re.MULTILINE):
        yield source.code.count("\n", 0, match.end()) + 1


def check_size(source: Source) -> list[Problem]:
    """Files that are too long to read."""
    if len(source.lines) <= LONGEST_FILE:
        return []
    message = f"{len(source.lines)} lines, at most {LONGEST_FILE}"
    return [Problem(source.path, LONGEST_FILE + 1, message)]


def check_names(source: Source) -> list[Problem]:
    """Names that say a role instead of the thing."""
    problems = []
    for part in PurePosixPath(source.path).with_suffix("").parts:
        if _FORBIDDEN_NAMES.search(part):
            problems.append(Problem(source.path, 1, f"`{part}` names a role, not the thing"))
        if part != part.lower():
            problems.append(Problem(source.path, 1, f"`{part}` is not snake_case"))
    for match in _FORBIDDEN_TYPES.finditer(source.code):
        line = source.code.count("\n", 0, match.start()) + 1
        problems.append(Problem(source.path, line, f"`{match.group(1)}` names a role"))
    return problems


def check_forbidden(source: Source) -> list[Problem]:
    """Words that must not appear in code, and TODOs without an issue."""
    problems = []
    for pattern, message, is_allowed in _FORBIDDEN_CODE:
        if not is_allowed(source):
            problems += [Problem(source.path, line, message) for line in _matches(pattern, source)]
    for pattern, message in _FORBIDDEN_IN_PURE:
        if _is_pure(source):
            problems += [Problem(source.path, line, message) for line in _matches(pattern, source)]
    for number, line in enumerate(source.lines, 1):
        if _TODO.search(line):
            problems.append(Problem(source.path, number, "a TODO names its issue: TODO(#12)"))
    return problems


def check_opening(source: Source) -> list[Problem]:
    """Headers that do not open with `#pragma once` and a paragraph on what they are for."""
    if not source.is_header:
        return []
    if not source.lines or source.lines[0] != "#pragma once":
        return [Problem(source.path, 1, "a header begins with `#pragma once`")]
    rest = [line for line in source.lines[1:] if line.strip()]
    if not rest or not rest[0].startswith("// "):
        return [Problem(source.path, 2, "a header opens with a paragraph on what it is for")]
    return []


def check_own_header_first(source: Source, paths: set[str]) -> list[Problem]:
    """A .cpp includes its header first, so that building it shows that the header stands alone."""
    header = source.path.removesuffix(".cpp") + ".h"
    if source.is_header or source.is_test or header not in paths:
        return []
    if source.includes and source.includes[0][1] == header:
        return []
    return [Problem(source.path, 1, f"the first include is not `{header}`")]


def check_citations(sources: Iterable[Source]) -> list[Problem]:
    """Formulas without a `Source:`; it may stand in the .cpp or in the header beside it."""
    inside = [source for source in sources if source.path.startswith(_CITED_FOLDERS)]
    cited = {PurePosixPath(s.path).with_suffix("") for s in inside if "Source:" in s.text}
    return [
        Problem(source.path, 1, "names no `Source:` for its formulas")
        for source in inside
        if not source.is_header and PurePosixPath(source.path).with_suffix("") not in cited
    ]
