"""Asserts on the committed acceptance table of overlap what README promises. Reads no clock and runs nothing."""

import json
import sys

import executor_facts

table = json.loads(executor_facts.OVERLAP.read_text())
readme = executor_facts.README.read_text()
problems = []


def expect(holds, text):
    if not holds:
        problems.append(text)


rows = table["rows"]
expect({(row["experiment"], row["share"]) for row in rows} ==
       {(name, share) for name in ("gather", "domino") for share in (0.25, 0.5, 1.0)}, "links are missing")
for row in rows:
    name = f"{row['experiment']} over {row['share']} of a layer"
    hidden, shown = row["with"], row["without"]
    expect(row["in_order"], f"{name}: a lane left the order of the schedule")
    expect(row["beside_compute"] >= 0.5 * row["exchanges"],
           f"{name}: {row['beside_compute']} of {row['exchanges']} exchanges ran beside compute")
    expect(executor_facts.is_beyond_noise(row), f"{name}: what is hidden is not more than three times the noise")
    expect(abs(hidden["predicted_ratio"] - hidden["measured_ratio"]) <= 0.1,
           f"{name}: the overlapped ratio is not predicted within 10 points")
expect(executor_facts.overlap_line(table) in readme, "README's row is not the table's")

print("\n".join(problems) or "overlap: as promised")
sys.exit(1 if problems else 0)
