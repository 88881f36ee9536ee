"""Public types and functions of headers that nobody explained."""

import re
from dataclasses import dataclass

from source import Problem, Source

_TYPE = re.compile(r"^(?:struct|class)\s+(?:\[\[\w+\]\]\s+)?(\w+)(?!\w*\s*<)\b")
_FUNCTION = re.compile(r"([\w:~]+)\s*\($")
_SKIPPED = ("namespace", "using", "static_assert", "extern", "concept", "enum", "#", "}")


@dataclass
class Statement:
    line: int  # counted from 0
    text: str
    is_definition: bool


def _strip_template(text: str) -> str:
    """`text` without leading `template <…>` and `requires (…)`."""
    while text.startswith(("template", "requires")):
        opening, closing = "<>" if text.startswith("template") else "()"
        depth = 0
        for at, char in enumerate(text):
            depth += (char == opening) - (char == closing)
            if char == closing and depth == 0:
                text = text[at + 1:].strip()
                break
        else:
            return text
    return text


def statements(code: str) -> list[Statement]:
    """Declarations and definitions directly inside namespaces."""
    found: list[Statement] = []
    inside: list[str] = []  # what each open brace belongs to
    text, line, start, parens = "", 0, 0, 0
    for char in code:
        line += char == "\n"
        is_at_namespace = all(kind == "namespace" for kind in inside)
        if char == "{" and parens == 0 or char == "{" and not is_at_namespace:
            if is_at_namespace:
                head = text.strip()
                if not head.startswith(("namespace", "inline namespace")):
                    found.append(Statement(start, head, True))
                    inside.append("other")
                else:
                    inside.append("namespace")
                text = ""
            else:
                inside.append("other")
        elif char == "}" and inside and (parens == 0 or not is_at_namespace):
            inside.pop()
            text = ""
        elif is_at_namespace:
            parens += (char == "(") - (char == ")")
            if char == ";" and parens == 0:
                if text.strip():
                    found.append(Statement(start, text.strip(), False))
                text = ""
            elif text.strip() or not char.isspace():
                start = line if not text.strip() else start
                text += char
    return found


def _name_of(statement: Statement) -> str | None:
    """The name of a type or function that needs a docstring."""
    if statement.text.startswith("template <>"):
        return None
    text = _strip_template(" ".join(statement.text.split()))
    if text.startswith(_SKIPPED) or "operator" in text:
        return None
    if is_type := _TYPE.match(text):
        rest = text[is_type.end():].strip()
        return is_type.group(1) if statement.is_definition and not rest.startswith("<") else None
    opening = text.find("(")
    if opening < 0 or "=" in text[:opening]:
        return None
    function = _FUNCTION.search(text[: opening + 1])
    return function.group(1) if function and "::" not in function.group(1) else None


def _without_directives(code: str) -> str:
    """`code` with preprocessor lines blanked, continued ones too."""
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m.group().count("\n"), code,
                  flags=re.MULTILINE)


def check_docstrings(source: Source) -> list[Problem]:
    """Names of a header that no `///` explains; one above the first of a block is enough."""
    if not source.is_header or source.is_test:
        return []
    seen: dict[str, int] = {}
    explained: set[str] = set()
    is_explained = False
    for statement in statements(_without_directives(source.code)):
        above = source.lines[statement.line - 1].strip() if statement.line > 0 else ""
        # A line right below an explained one belongs to the same block.
        is_explained = above.startswith("///") or (is_explained and above.endswith((";", "}")))
        name = _name_of(statement)
        if name is None:
            continue
        seen.setdefault(name, statement.line)
        if is_explained:
            explained.add(name)
    return [
        Problem(source.path, line + 1, f"`{name}` has no `///` that says what it is")
        for name, line in seen.items()
        if name not in explained
    ]
