"""Acceptance of the cost model: published runs and techniques against their predictions, which is the same everywhere,
and how long a search of ten thousand candidates takes on this machine.

Writes tests/accuracy/cost_model.json, on which tests/accuracy asserts. Uses only the standard library.
XT_BUILD=FOLDER takes the programs from another build folder.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/accuracy"))
import published  # noqa: E402
import techniques  # noqa: E402
BUILD = ROOT / os.environ.get("XT_BUILD", "build/release")
BENCHMARK = BUILD / "tests/benchmarks/search_benchmark"
TABLE = ROOT / "tests/accuracy/cost_model.json"
N_RUNS = 3


def accept_search():
    """The search of configs/runs/qwen3_235b_a22b_search.yaml on two threads, several times.

    Wall time is of the search alone, as is CPU time, which other programs on the machine stretch less."""
    rows = []
    for _ in range(N_RUNS):
        done = subprocess.run([BENCHMARK, "--benchmark_format=json"], check=True, text=True, capture_output=True)
        rows.append(json.loads(done.stdout)["benchmarks"][0])
    wall = [row["real_time"] * 1e-3 for row in rows]
    result = {
        "run": "configs/runs/qwen3_235b_a22b_search.yaml",
        "threads": 2,
        "load_average": os.getloadavg()[0],
        "candidates": int(rows[0]["candidates"]),
        "fitting": int(rows[0]["fitting"]),
        "simulated": int(rows[0]["simulated"]),
        "wall_s": wall,
        "median_wall_s": statistics.median(wall),
        "median_cpu_s": statistics.median(row["cpu_time"] * 1e-3 for row in rows),
    }
    result["candidates_per_s"] = result["candidates"] / result["median_wall_s"]
    print(f"{result['candidates']} candidates in {result['median_wall_s']:.1f} s ({result['median_cpu_s']:.1f} s of "
          f"CPU time, load {result['load_average']:.1f}), {result['candidates_per_s']:.0f} a second", flush=True)
    return result


def renew_readme(begin, end, lines):
    readme = ROOT / "README.md"
    before, _, rest = readme.read_text().partition(begin)
    readme.write_text(before + begin + "\n".join(lines) + "\n" + end + rest.partition(end)[2])
    print("\n".join(lines))


def accept_published():
    """Every row of tests/published priced and scored; nothing is fitted to a row. Renews README's table."""
    result = published.summary(BUILD / "planner/cli/xt-plan")
    renew_readme(published.BEGIN, published.END,
                 [published.HEADER + "\n".join(published.readme_rows(result)), "", *published.readme_facts(result)])
    return result


def accept_techniques():
    """Every pair of tests/published/techniques.json, with one technique and without. Renews README's lines."""
    result = techniques.summary(BUILD / "planner/cli/xt-plan")
    print("\n".join(techniques.lines(result)))
    renew_readme(techniques.BEGIN, techniques.END, techniques.readme_lines(result))
    return result


def main():
    known = {"published": accept_published, "techniques": accept_techniques, "search": accept_search}
    parts = sys.argv[1:] or list(known)
    if unknown := [part for part in parts if part not in known]:
        sys.exit(f"unknown part {', '.join(unknown)}; known are {', '.join(known)}")
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    table["schema"] = "xt.acceptance/1"
    table["command"] = "scripts/accept.sh cost_model"
    for part in parts:
        table[part] = known[part]()
        TABLE.write_text(json.dumps(table, indent=1) + "\n")


main()
