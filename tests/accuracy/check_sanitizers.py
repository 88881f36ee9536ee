"""Asserts on the committed table of programs under sanitizers. Reads no clock and runs nothing."""

import json
import pathlib
import re
import sys

folder = pathlib.Path(__file__).resolve().parent
rows = json.loads((folder / "sanitizers.json").read_text())["rows"]
problems = [f"{row['program']} under {row['preset']}: {row['failed']} failed, {row['reports']} reports"
            for row in rows if row["failed"] or row["reports"] or not row["passed"]]
seen = {(row["preset"], row["program"]) for row in rows}
tests = {f"{name}_test" for path in folder.parent.rglob("CMakeLists.txt")
         for name in re.findall(r"^xt_test\((\w+)", path.read_text(), re.MULTILINE)}
if ("tsan_executor", "lanes_test") not in seen:
    problems.append("lanes_test has not run under tsan_executor")
for preset in ("asan_executor", "tsan_executor"):
    plans = sum(row["preset"] == preset and row["program"].startswith("xt-run") for row in rows)
    if plans < 5:
        problems.append(f"{plans} plans were trained under {preset}, 5 at least")
missing = sorted(name for name in tests if ("asan_executor", name) not in seen)
left_out = {case: reason for row in rows for case, reason in row.get("left_out", {}).items()}
problems += [f"{case} is left out for no reason" for case, reason in left_out.items() if not reason]

readme = (folder.parents[1] / "README.md").read_text()
parts = {"asan_executor": "addresses, leaks and undefined behaviour", "tsan_executor": "threads"}
for preset, sanitizers in parts.items():
    of = [row for row in rows if row["preset"] == preset]
    cases = sum(row["passed"] for row in of if not row["program"].startswith("xt-run"))
    said = f"{cases} cases of {sum(not row['program'].startswith('xt-run') for row in of)}"
    if said not in readme:
        problems.append(f"README does not say `{said}` of {sanitizers}")
if left_out and (said := f"{len(left_out)} is left out") not in readme:
    problems.append(f"README does not say `{said}`")
if missing and (said := "not run yet: " + ", ".join(f"`{name}`" for name in missing)) not in readme:
    problems.append(f"README does not say `{said}`")

print("\n".join(problems) or "sanitizers: nothing to report")
sys.exit(1 if problems else 0)
