"""Holds README to the committed table of scripts/bench_executor.sh. Reads no clock and runs nothing."""

import json
import pathlib
import sys

table = json.loads((pathlib.Path(__file__).parent / "bench_executor.json").read_text())
readme = (pathlib.Path(__file__).resolve().parents[2] / "README.md").read_text()
problems = []


def expect(holds, text):
    if not holds:
        problems.append(text)


expect([row["dtype"] for row in table["rows"]] == ["fp32", "bf16"], "a precision is missing")
for row in table["rows"]:
    tolerance = 1e-4 if row["dtype"] == "fp32" else 2e-2
    expect(row["largest_loss_difference"] <= tolerance,
           f"{row['dtype']}: losses differ by {row['largest_loss_difference']}, so the two do not train the same")
    ours, peer = row["xt_run"], row["fsdp2"]
    said = (f"| {row['dtype']} | {row['speedup']:.2f} | {ours['tokens_per_rank_s']:.0f} | {peer['tokens_per_rank_s']:.0f} "
            f"| {ours['peak_process_bytes'] / 2**20:.0f} | {peer['peak_process_bytes'] / 2**20:.0f} "
            f"| {ours['peak_device_bytes'] / 2**20:.0f} |")
    expect(said in readme, f"README does not say `{said}`")

print("\n".join(problems) or "bench of xt-run: as published")
sys.exit(1 if problems else 0)
