"""Asserts on the committed acceptance table of the cost model what README promises, and that published runs are still
predicted as the table says. Reads no clock."""

import json
import pathlib
import sys

import published
import techniques

HERE = pathlib.Path(__file__).resolve().parent
table = json.loads((HERE / "cost_model.json").read_text())
readme = (HERE.parents[1] / "README.md").read_text()
problems = []

search = table["search"]
if search["candidates"] < 10_000:
    problems.append(f"{search['candidates']} candidates of 10000")
says_missed = f"{search['median_wall_s']:.1f} s; the aim of 5 s is missed" in readme
if (search["median_wall_s"] <= 5) == says_missed:
    problems.append(f"the search takes {search['median_wall_s']:.1f} s of 5 s, and README does not say so")
if f"{search['median_wall_s']:.1f} s" not in readme or f"{round(search['candidates_per_s'], -1):.0f} candidates a second" not in readme:
    problems.append(f"README does not say {search['median_wall_s']:.1f} s, {search['candidates_per_s']:.0f} candidates a second")
if f"{search['candidates']} candidates" not in readme:
    problems.append(f"README does not say that there are {search['candidates']} candidates")

now = published.summary(sys.argv[1])
if not published.is_like(now, table["published"]):
    problems.append("published runs are not predicted as the table says: scripts/accept.sh cost_model published")
problems += [f"README lacks: {row}" for row in published.readme_rows(now) + published.readme_facts(now) if row not in readme]

effects = techniques.summary(sys.argv[1])
if effects != table["techniques"]:
    problems.append("techniques do not have the effects of the table: scripts/accept.sh cost_model techniques")
problems += [f"README lacks: {line}" for line in techniques.readme_lines(effects) if line not in readme]

print("\n".join(problems) or "cost model: as README says")
sys.exit(1 if problems else 0)
