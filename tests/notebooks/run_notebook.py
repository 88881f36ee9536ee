"""Executes a notebook of the repository from top to bottom, in a temporary copy, on the acceptance table.

    run_notebook.py NOTEBOOK            every cell runs and every cell tagged `figure` leaves a picture
    run_notebook.py NOTEBOOK --spoiled  the same on a table that misses every bound: each verdict must say so

XT_ACCEPTANCE_TABLE=FILE takes another table. Exit code 77 where the table, a part of it or nbclient is missing.
"""

import copy
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77


def skip(text):
    print(f"skipped: {text}")
    sys.exit(SKIPPED)


def spoiled(table):
    """`table` with every promise broken."""
    table = copy.deepcopy(table)
    table["time"]["rows"] = table["time"]["rows"][:8]
    for row in table["time"]["rows"]:
        row["predicted_s"] = 2 * row["measured_s"]
        row["error_after_ratio"] = None if row["used_for_calibration"] else 0.5
    table["memory"]["rows"] = table["memory"]["rows"][:8]
    for row in table["memory"]["rows"]:
        row["predicted_bytes"] = 2 * row["measured_bytes"]
        row["categories"] = {name: [1, 2] for name in row["categories"]}
    table["planning"] = {"estimate_process_s": 1.0, "build_price_simulate_s": 1.0}
    return table


def execute(path, table, folder):
    """The notebook after its cells ran beside a copy of `table` in `folder`."""
    import nbclient
    import nbformat

    # The kernel of this Python, and nothing of the user's configuration.
    os.environ.update({"MPLBACKEND": "Agg", "JUPYTER_PREFER_ENV_PATH": "1", "JUPYTER_PLATFORM_DIRS": "1",
                       "IPYTHONDIR": str(folder / "ipython"), "JUPYTER_DATA_DIR": str(folder / "data"),
                       "JUPYTER_CONFIG_DIR": str(folder / "config"), "JUPYTER_RUNTIME_DIR": str(folder / "run"),
                       "XT_ACCEPTANCE_TABLE": str(folder / "table.json")})
    (folder / "table.json").write_text(json.dumps(table))
    notebook = nbformat.read(shutil.copy(path, folder), as_version=4)
    nbformat.validate(notebook)
    if any(cell.outputs for cell in notebook.cells if cell.cell_type == "code"):
        sys.exit(f"{path.name}: the committed notebook holds outputs; clear them")
    client = nbclient.NotebookClient(notebook, timeout=240, kernel_name="python3",
                                     resources={"metadata": {"path": str(folder)}})
    try:
        return client.execute()
    except nbclient.exceptions.CellExecutionError as error:
        sys.exit(f"{path.name}: {error}")


def tagged(notebook, tag):
    return [cell for cell in notebook.cells if tag in cell.metadata.get("tags", [])]


def pictures(cell):
    return sum("image/png" in output.get("data", {}) for output in cell.outputs)


def printed(cell):
    return "".join(output.get("text", "") for output in cell.outputs)


def problems_of(notebook, every_bound_is_missed):
    """What is wrong with an executed notebook, as sentences."""
    found = [f"cell {cell.id} draws {pictures(cell)} figures, not one"
             for cell in tagged(notebook, "figure") if pictures(cell) != 1]
    if not tagged(notebook, "figure"):
        found.append("no cell is tagged `figure`")
    found += [f"cell {cell.id} warns: {output.text}" for cell in notebook.cells if cell.cell_type == "code"
              for output in cell.outputs if output.get("name") == "stderr"]
    text = "".join(map(printed, tagged(notebook, "conclusion")))
    print(text)
    if not re.search(r"\b(Held|MISSED): ", text):
        found.append("no verdict in the conclusion")
    if every_bound_is_missed:
        found += [f"claimed of a table that misses it: {line}" for line in text.splitlines() if "Held: " in line]
    return found


def main():
    path = pathlib.Path(sys.argv[1])
    is_spoiled = "--spoiled" in sys.argv[2:]
    source = pathlib.Path(os.environ.get("XT_ACCEPTANCE_TABLE") or ROOT / "tests/accuracy/end_to_end.json")
    if not source.exists():
        skip(f"{source} is missing; scripts/accept.sh end_to_end writes it")
    try:
        import ipykernel  # noqa: F401
        import matplotlib  # noqa: F401
        import nbclient  # noqa: F401
    except ImportError as error:
        skip(f"{error}; scripts/setup.sh test installs it")
    table = json.loads(source.read_text())
    missing = [part for part in ("time", "memory", "planning") if part not in table]
    if missing:
        print(f"skipped: {source} has no part `{missing[0]}` yet; scripts/accept.sh end_to_end makes it")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        notebook = execute(path, spoiled(table) if is_spoiled else table, pathlib.Path(folder))
    found = problems_of(notebook, is_spoiled)
    print("\n".join(found) or f"{path.name}: {len(tagged(notebook, 'figure'))} figures")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
