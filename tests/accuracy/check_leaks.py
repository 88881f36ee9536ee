"""Asserts on the committed table of what steps leave behind. Reads no clock and runs nothing."""

import json
import pathlib
import sys

rows = json.loads((pathlib.Path(__file__).parent / "leaks.json").read_text())["rows"]
problems = [] if len(rows) >= 3 else [f"{len(rows)} plans, 3 at least"]
worst = 0
for row in rows:
    if row["allocated_bytes_at_50"] != row["allocated_bytes_at_500"]:
        problems.append(f"{row['plan']}: {row['allocated_bytes_at_50']} bytes are allocated behind step 50, "
                        f"{row['allocated_bytes_at_500']} behind step 500")
    growth = row["resident_bytes_at_500"] / row["resident_bytes_at_50"] - 1
    if growth > 0.01:
        problems.append(f"{row['plan']}: the processes have grown by {100 * growth:.1f} %")
    worst = max(worst, growth)
said = f"{len(rows)} plans: allocated bytes are equal, processes at most {100 * worst:.1f} % larger"
if said not in (pathlib.Path(__file__).resolve().parents[2] / "README.md").read_text():
    problems.append(f"README does not say `{said}`")

print("\n".join(problems) or "leaks: none")
sys.exit(1 if problems else 0)
