"""Asserts on the committed acceptance table what README promises. Reads no clock and runs nothing."""

import json
import pathlib
import statistics
import sys

table = json.loads((pathlib.Path(__file__).parent / "end_to_end.json").read_text())
problems = []


def expect(holds, text):
    if not holds:
        problems.append(text)




def check_memory(rows):
    expect(len(rows) >= 32, f"{len(rows)} memory rows of 32")
    for row in rows:
        expect(row["predicted_bytes"] >= 200e6, f"{row['plan']}: under 200 MB")
        expect(abs(row["error_ratio"]) <= 0.005, f"{row['plan']}: peak off by {row['error_ratio']:.2%}")
        for category, (predicted, measured) in row["categories"].items():
            limit = 0.02 * max(predicted, measured)
            expect(abs(predicted - measured) <= limit, f"{row['plan']}: {category} {predicted} against {measured}")


def check_time(rows):
    before = [abs(row["error_ratio"]) for row in rows]
    after = [abs(row["error_after_ratio"]) for row in rows if row["error_after_ratio"] is not None]
    steps = [row["measured_s"] for row in rows]
    expect(len(rows) >= 12, f"{len(rows)} time rows of 12")
    expect(max(steps) / min(steps) >= 4, "step times span less than 4")
    expect(all(row["error_after_ratio"] is None for row in rows if row["used_for_calibration"]),
           "a plan is scored that was fitted to")
    expect(statistics.median(before) <= 0.15, f"median error before calibration {statistics.median(before):.1%}")
    expect(statistics.median(after) <= 0.10, f"median error after calibration {statistics.median(after):.1%}")
    expect(max(after) <= 0.25, f"largest error after calibration {max(after):.1%}")


def check_planning(planning):
    expect(planning["estimate_process_s"] <= 0.050, f"estimate takes {planning['estimate_process_s'] * 1e3:.1f} ms")
    in_process = planning["build_price_simulate_s"]
    readme = (pathlib.Path(__file__).resolve().parents[2] / "README.md").read_text()
    says_missed = f"{in_process * 1e3:.1f} ms; the aim of 2 ms is missed" in readme
    expect((in_process <= 0.002) != says_missed,
           f"build, price and simulate take {in_process * 1e3:.2f} ms of 2 ms, and README does not say so")


# A part is asserted on once it has been run; README says which have not.
checks = {"memory": lambda part: check_memory(part["rows"]), "time": lambda part: check_time(part["rows"]),
          "planning": check_planning}
parts = [part for part in checks if part in table]
expect(bool(parts), "the table is empty")
for part in parts:
    checks[part](table[part])

print("\n".join(problems) or f"{', '.join(parts)}: as promised")
sys.exit(1 if problems else 0)
