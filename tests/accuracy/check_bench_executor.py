"""Holds README to the committed table of scripts/bench_executor.sh. Reads no clock and runs nothing."""

import json
import sys

import executor_facts

table = json.loads(executor_facts.BENCH.read_text())
readme = executor_facts.README.read_text()
problems = []


def expect(holds, text):
    if not holds:
        problems.append(text)


expect([row["dtype"] for row in table["rows"]] == ["fp32", "bf16"], "a precision is missing")
for row in table["rows"]:
    tolerance = 1e-4 if row["dtype"] == "fp32" else 2e-2
    expect(row["largest_loss_difference"] <= tolerance,
           f"{row['dtype']}: losses differ by {row['largest_loss_difference']}, so the two do not train the same")
section = readme.partition(executor_facts.BEGIN)[2].partition(executor_facts.END)[0]
expect(section == "\n".join(executor_facts.bench_lines(table)) + "\n", "README's section is not the table's")

print("\n".join(problems) or "bench of xt-run: as published")
sys.exit(1 if problems else 0)
