"""One technique on and off, predicted and measured: tests/published/techniques.json priced by xt-plan. Reads no clock."""

import json
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "tests/published/techniques.json"
KINDS = {"allocated": "allocated", "reserved": "reserved_p50", "device": "p50"}
GIB = 2**30
BEGIN, END = "<!-- techniques -->\n", "<!-- end of techniques -->\n"


def estimate(program, flags):
    """The answer of `xt-plan estimate`, or the first line of its refusal. What does not fit is an answer."""
    done = subprocess.run([program, "estimate", *flags.split(), "--json"], cwd=ROOT, text=True, capture_output=True)
    if done.returncode == 2:
        return None, done.stderr.splitlines()[0]
    return json.loads(done.stdout), None


def effect(program, pair):
    """What a pair saves and how much faster it is, beside what was measured."""
    row = {"id": pair["id"], "technique": pair["technique"], "case": pair.get("case", "")}
    without, refusal = estimate(program, pair["run"] + " " + pair["without"])
    with_it, refusal_with = estimate(program, pair["run"] + " " + pair["with"])
    if refusal or refusal_with:
        return row | {"refused": refusal or refusal_with}
    if "memory_gib" in pair:
        kind = KINDS[pair["memory_kind"]]
        before, after = pair["memory_gib"]
        row["saved_gib"] = [round((without["device_bytes"][kind] - with_it["device_bytes"][kind]) / GIB, 2),
                            round(before - after, 2)]
    if "relative_rate" in pair:
        row["rate"] = [round(with_it["tokens_per_device_s"] / without["tokens_per_device_s"], 3), pair["relative_rate"]]
    return row


def is_memory_within(row):
    predicted, measured = row["saved_gib"]
    return abs(predicted - measured) <= max(0.5, 0.15 * abs(measured))


def summary(program):
    """All pairs, and what they come to: asked are bytes within 15 % or 0.5 GiB, and rates within 5 points, in the median."""
    table = json.loads(TABLE.read_text())
    rows = [effect(program, pair) for pair in table["pairs"]]
    memory = [row for row in rows if "saved_gib" in row]
    rate = [row for row in rows if "rate" in row]
    return {
        "rows": rows,
        "not_priced": len(table["not_priced"]),
        "memory_rows": len(memory),
        "memory_within": sum(map(is_memory_within, memory)),
        "memory_median_error": round(statistics.median(abs(p / m - 1) for p, m in (row["saved_gib"] for row in memory)), 3),
        "rate_rows": len(rate),
        "rate_median_points": round(100 * statistics.median(abs(p - m) for p, m in (row["rate"] for row in rate)), 1),
    }


def lines(result):
    """The rows for people."""
    for row in result["rows"]:
        saved = "{:8.2f} {:8.2f} GiB".format(*row["saved_gib"]) if "saved_gib" in row else " " * 21
        rate = "{:7.3f} {:7.3f}".format(*row["rate"]) if "rate" in row else ""
        yield f"{row['id']:28}{row['case']:26}{row.get('refused', saved + rate)}"
    yield (f"{result['memory_within']} of {result['memory_rows']} savings within 15 % or 0.5 GiB, median error "
           f"{result['memory_median_error']:.0%}; rates off by {result['rate_median_points']} points in the median of "
           f"{result['rate_rows']}; {result['not_priced']} techniques not priced")


def readme_lines(result):
    """What README says of them."""
    return [f"- One technique on and off, {len(result['rows'])} pairs of published runs: {result['memory_within']} of "
            f"{result['memory_rows']} savings are within 15 % or 0.5 GiB,",
            f"  {result['memory_median_error']:.0%} off in the median; changes of speed are {result['rate_median_points']:.0f} points off in "
            f"the median. {result['not_priced']} techniques are not priced.".replace("%", " %")]
