"""Asserts on the committed table of tests under sanitizers. Reads no clock and runs nothing."""

import json
import pathlib
import sys

rows = json.loads((pathlib.Path(__file__).parent / "sanitizers.json").read_text())["rows"]
problems = [f"{row['program']} under {row['preset']}: {row['failed']} failed, {row['reports']} reports"
            for row in rows if row["failed"] or row["reports"] or not row["passed"]]
for preset, least in (("tsan", 1), ("asan_executor", 4)):
    programs = sum(row["preset"] == preset for row in rows)
    if programs < least:
        problems.append(f"{programs} programs under {preset}, {least} at least")
said = f"{sum(row['passed'] for row in rows)} tests of {len(rows)} programs: nothing reported"
if said not in (pathlib.Path(__file__).resolve().parents[2] / "README.md").read_text():
    problems.append(f"README does not say `{said}`")

print("\n".join(problems) or "sanitizers: nothing to report")
sys.exit(1 if problems else 0)
