"""Which module may include which, read from the block "edges" of ARCHITECTURE.md."""

import re
from pathlib import PurePosixPath

from source import Problem, Source

_BLOCK = re.compile(r"^```edges\n(.*?)^```", re.DOTALL | re.MULTILINE)

# Prefix of an include to where it may stand.
_THIRD_PARTIES = {
    "yaml-cpp/": ("costmodel/io",),
    "nlohmann/": ("costmodel/io",),
    "CLI/": (),
    "Eigen/": ("costmodel/calibrate", "tests/costmodel/calibrate"),
    "ATen/": ("executor", "tests/executor"),
    "c10/": ("executor", "tests/executor"),
    "torch/": ("executor", "tests/executor"),
    "gloo/": ("executor",),
    "ATen/cuda/": ("executor/cuda",),
    "c10/cuda/": ("executor/cuda",),
    "cuda_runtime": ("executor/cuda",),
    "nccl.h": ("executor/cuda",),
}
_ONLY_IN_CPP = ("yaml-cpp/", "nlohmann/", "CLI/", "Eigen/")
_ONLY_IN_MAIN = ("CLI/",)
_NEVER = ("torch/torch.h",)


def read_edges(architecture: str) -> dict[str, set[str]]:
    """Module to the modules it may use."""
    block = _BLOCK.search(architecture)
    if block is None:
        raise ValueError("ARCHITECTURE.md has no block ```edges")
    edges = {}
    for line in block.group(1).splitlines():
        module, _, used = line.partition(":")
        top = module.split("/")[0]
        names = [name if "/" in name or name == top else f"{top}/{name}" for name in used.split()]
        edges[module] = set(names)
    for module, used in edges.items():
        for name in [name for name in used if name.endswith("/*")]:
            used.remove(name)
            used.update(other for other in edges if other.startswith(name[:-1]))
            used.discard(module)
    return edges


def module_of(path: str, edges: dict[str, set[str]]) -> str | None:
    """The longest module name that the folder of `path` is or lies in."""
    for folder in PurePosixPath(path).parents:
        if folder.as_posix() in edges:
            return folder.as_posix()
    return None


def _edge_problem(source: Source, included: str, edges: dict[str, set[str]]) -> str | None:
    module, target = module_of(source.path, edges), module_of(included, edges)
    if module is None:
        return None
    if target is None:
        return f"`{included}` is in no module, or not included from the root"
    if target != module and target not in edges[module]:
        return f"{module} may not use {target} (`{included}`)"
    return None


def _third_party_problem(source: Source, included: str) -> str | None:
    if included in _NEVER:
        return f"`{included}` is never included"
    for prefix, folders in _THIRD_PARTIES.items():
        if not included.startswith(prefix):
            continue
        is_at_home = any(source.path.startswith(folder + "/") for folder in folders)
        if prefix in _ONLY_IN_MAIN and not source.is_main:
            return f"`{included}` belongs in a main.cpp"
        if prefix not in _ONLY_IN_MAIN and not is_at_home:
            return f"`{included}` belongs in {' or '.join(folders)}"
        if prefix in _ONLY_IN_CPP and source.is_header:
            return f"`{included}` may not be in a header"
    return None


def check_edges(source: Source, edges: dict[str, set[str]]) -> list[Problem]:
    """Includes that ARCHITECTURE.md does not allow."""
    problems = []
    if not source.is_test and module_of(source.path, edges) is None:
        message = "the folder of this file has no line in the edges of ARCHITECTURE.md"
        problems.append(Problem(source.path, 1, message))
    for line, included, is_quoted in source.includes:
        message = _third_party_problem(source, included)
        if message is None and is_quoted and not source.is_test:
            message = _edge_problem(source, included, edges)
        if message is not None:
            problems.append(Problem(source.path, line, message))
    return problems


def check_acyclic(edges: dict[str, set[str]]) -> list[Problem]:
    """Modules that use each other in a circle."""
    done: set[str] = set()
    problems = []

    def visit(module: str, above: tuple[str, ...]) -> None:
        if module in above:
            circle = " → ".join(above[above.index(module):] + (module,))
            problems.append(Problem("ARCHITECTURE.md", 1, f"modules use each other: {circle}"))
        elif module not in done:
            for used in sorted(edges.get(module, ())):
                visit(used, above + (module,))
            done.add(module)

    for module in edges:
        visit(module, ())
    return problems
