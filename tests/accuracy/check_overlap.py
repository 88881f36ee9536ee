"""Asserts on the committed acceptance table of overlap what README promises. Reads no clock and runs nothing."""

import json
import pathlib
import sys

table = json.loads((pathlib.Path(__file__).parent / "overlap.json").read_text())
readme = (pathlib.Path(__file__).resolve().parents[2] / "README.md").read_text()
problems = []


def expect(holds, text):
    if not holds:
        problems.append(text)


rows = table["rows"]
expect({(row["experiment"], row["share"]) for row in rows} ==
       {(name, share) for name in ("gather", "domino") for share in (0.25, 0.5, 1.0)}, "links are missing")
n_beyond_noise = 0
for row in rows:
    name = f"{row['experiment']} over {row['share']} of a layer"
    hidden, shown = row["with"], row["without"]
    noise = 3 * max(hidden["deviation_s"], shown["deviation_s"])
    expect(row["in_order"], f"{name}: a lane left the order of the schedule")
    expect(row["beside_compute"] >= 0.5 * row["exchanges"],
           f"{name}: {row['beside_compute']} of {row['exchanges']} exchanges ran beside compute")
    expect(shown["exposed_s"] > hidden["exposed_s"], f"{name}: nothing is hidden")
    n_beyond_noise += shown["exposed_s"] - hidden["exposed_s"] > noise
differences = {(row["experiment"], row["share"]): abs(row["with"]["predicted_ratio"] - row["with"]["measured_ratio"])
               for row in rows}
n_close = sum(difference <= 0.1 for difference in differences.values())
said = (f"by more than three times the noise over {n_beyond_noise} of {len(rows)} links; {n_close} of {len(rows)} overlapped ratios are predicted within 10 points "
        f"(worst: {100 * max(differences.values()):.0f})")
expect(said in readme, f"README does not say `{said}`")

print("\n".join(problems) or "overlap: as promised")
sys.exit(1 if problems else 0)
