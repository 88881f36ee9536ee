"""A C++ source file as the rules see it: its lines, and the code without comments and strings."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

FOLDERS = ("costmodel", "planner", "executor", "tests")

_TOKENS = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL
)
_INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


@dataclass(frozen=True)
class Problem:
    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


@dataclass(frozen=True)
class Source:
    path: str  # from the repository root
    text: str

    @property
    def is_header(self) -> bool:
        return self.path.endswith(".h")

    @property
    def is_test(self) -> bool:
        return self.path.startswith("tests/")

    @property
    def is_main(self) -> bool:
        return self.path.endswith("/main.cpp")

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def code(self) -> str:
        """The text with comments and strings blanked out; line numbers stay."""

        def blank(match: re.Match) -> str:
            token = match.group(0)
            if token.startswith("/"):
                return "\n" * token.count("\n")
            return '""' + "\n" * token.count("\n")

        return _TOKENS.sub(blank, self.text)

    @cached_property
    def includes(self) -> list[tuple[int, str, bool]]:
        """(line, path, is in quotes) of each include."""
        return [
            (self.text.count("\n", 0, match.start(2)) + 1, match.group(2), match.group(1) == '"')
            for match in _INCLUDE.finditer(self.text)
        ]


def sources(root: Path) -> list[Source]:
    """Our C++ files. Folders named `…_stub` mimic third parties and keep no rule of ours."""
    found = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            is_stub = any(part.endswith("_stub") for part in path.parts)
            if path.suffix in (".h", ".cpp") and path.is_file() and not is_stub:
                found.append(Source(path.relative_to(root).as_posix(), path.read_text()))
    return found
