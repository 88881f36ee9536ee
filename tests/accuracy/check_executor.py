"""Asserts on the committed acceptance table of xt-run what README promises. Reads no clock and runs nothing."""

import json
import pathlib
import sys

table = json.loads((pathlib.Path(__file__).parent / "executor.json").read_text())
rows = table["faults"]["rows"]
problems = []


def expect(holds, text):
    if not holds:
        problems.append(text)


expect(len(rows) >= 20, f"{len(rows)} deaths of 20")
expect(len({row["rank"] for row in rows}) > 1, "one rank died each time")
for phase, hits in table["faults"]["hits"].items():
    expect(hits == sum(phase in row["hit"] for row in rows), f"{phase}: {hits} hits are not those of the rows")
    expect(hits >= 4, f"{hits} deaths in a {phase}, 4 at least")
for number, row in enumerate(rows, 1):
    expect(row["exit_code"] == 3 and row["seconds"] <= 15,
           f"death {number}: exit code {row['exit_code']} after {row['seconds']} s")
    expect(row["during"], f"death {number}: nobody said which rank was lost")
    expect(row["exit_codes_of_others"] == [3] * (table["faults"]["ranks"] - 1),
           f"death {number}: the others ended with {row['exit_codes_of_others']}")
    expect(row["at"], f"death {number}: nobody said what the rank was at")
    expect(row["left_processes"] == 0, f"death {number}: {row['left_processes']} processes were left")
    expect(row["damaged_checkpoints"] == 0, f"death {number}: a half-written checkpoint was taken for one")
    expect(row["resumed_exit_code"] == 0 and row["equal_losses"] == row["losses"],
           f"death {number}: {row['losses'] - row['equal_losses']} losses of the resumed run differ")
slowest = max(row["seconds"] for row in rows)
readme = (pathlib.Path(__file__).resolve().parents[2] / "README.md").read_text()
said = f"{len(rows)} times a rank was killed; the others ended within {slowest:.1f} s"
expect(said in readme, f"README does not say `{said}`")
hits = f"(hit: {', '.join(str(hits) for hits in table['faults']['hits'].values())};"
expect(hits in readme, f"README does not say `{hits}`")

print("\n".join(problems) or "faults: as promised")
sys.exit(1 if problems else 0)
