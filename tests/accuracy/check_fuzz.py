"""Asserts on the committed table of fuzzed readers. Reads no clock and runs nothing."""

import json
import pathlib
import sys

folder = pathlib.Path(__file__).resolve().parent
rows = json.loads((folder / "fuzz.json").read_text())["rows"]
readers = {path.name for path in (folder.parent / "fuzz/corpus").iterdir()}
problems = [f"{reader} was not fuzzed" for reader in sorted(readers - {row["reader"] for row in rows})]
for row in rows:
    if row["findings"]:
        problems.append(f"{row['reader']}: {row['findings']} findings")
    if row["seconds"] < 180 or row["executions"] < 10_000:
        problems.append(f"{row['reader']}: {row['executions']} executions in {row['seconds']} s are too few")

executions = sum(row["executions"] for row in rows)
said = f"{len(rows)} readers, {min(row['seconds'] for row in rows)} s each, {executions} executions: no crash, hang or report"
if said not in (folder.parents[1] / "README.md").read_text():
    problems.append(f"README does not say `{said}`")

print("\n".join(problems) or "fuzz: no findings")
sys.exit(1 if problems else 0)
