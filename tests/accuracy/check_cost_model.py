"""Asserts on the committed acceptance table of the cost model what README promises. Reads no clock."""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
search = json.loads((HERE / "cost_model.json").read_text())["search"]
readme = (HERE.parents[1] / "README.md").read_text()
problems = []

if search["candidates"] < 10_000:
    problems.append(f"{search['candidates']} candidates of 10000")
says_missed = f"{search['median_wall_s']:.1f} s; the aim of 5 s is missed" in readme
if (search["median_wall_s"] <= 5) == says_missed:
    problems.append(f"the search takes {search['median_wall_s']:.1f} s of 5 s, and README does not say so")
if f"{search['candidates']} candidates" not in readme:
    problems.append(f"README does not say that there are {search['candidates']} candidates")

print("\n".join(problems) or "search: as README says")
sys.exit(1 if problems else 0)
