"""What xt-plan validate says of tests/published: the summary that is committed, and README's rows of it."""

import json
import pathlib
import statistics
import subprocess

ROWS = pathlib.Path(__file__).resolve().parents[1] / "published"
LEAST_ROWS = 5  # of a stratum that README shows
BEGIN, END = "<!-- published -->\n", "<!-- end of published -->\n"
HEADER = ("| machine, framework, model | rows of time | median error | bias | null model | left out | rows of memory | median error |\n"
          "| --- | --- | --- | --- | --- | --- | --- | --- |\n")


def rounded(value):
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


def validated(xt_plan, name):
    done = subprocess.run([xt_plan, "validate", ROWS / name, "--json"], text=True, capture_output=True, check=True)
    return json.loads(done.stdout)


def mean_abs_time_error(told, source):
    errors = [row["time_error"] for row in told["rows"] if row["id"].startswith(source + "-")]
    return statistics.mean(abs(error) for error in errors if error is not None)


def summary(xt_plan):
    told = validated(xt_plan, "published.json")
    result = {key: told[key] for key in ("total", "strata", "sources", "unsupported", "oom", "layouts", "printed_flops")}
    result["vtrain_mean_abs_error"] = mean_abs_time_error(told, "vtrain")
    result["simumax_b200"] = validated(xt_plan, "simumax_b200.json")["total"]
    return rounded(result)


def is_like(now, before):
    """Equal but for the last digit, in which mathematical libraries may differ."""
    if isinstance(now, float) or isinstance(before, float):
        return now is not None and before is not None and abs(now - before) < 0.002
    if isinstance(now, dict):
        return isinstance(before, dict) and now.keys() == before.keys() and all(
            is_like(now[key], before[key]) for key in now)
    if isinstance(now, list):
        return isinstance(before, list) and len(now) == len(before) and all(map(is_like, now, before))
    return now == before


def percent(value):
    return "" if value is None else f"{100 * value:.0f} %"


def signed(value):
    return "" if value is None else f"{100 * value:+.0f} %"


def readme_rows(result):
    """Lines of README's table: strata with enough rows of time, and all rows together."""
    lines = []
    for of in result["strata"] + [result["total"] | {"machine": "all", "framework_family": "", "kind": ""}]:
        time, memory = of["time"], of["memory"]
        if time["rows"] < LEAST_ROWS:
            continue
        name = " ".join(filter(None, (of["machine"], of["framework_family"], of["kind"])))
        lines.append(f"| {name} | {time['rows']} | {percent(time['median_abs_error'])} | {signed(time['bias'])} | "
                     f"{percent(of['null_model_time']['median_abs_error'])} | "
                     f"{percent(of['left_out_time']['median_abs_error'])} | {memory['rows'] or ''} | "
                     f"{percent(memory['median_abs_error'])} |")
    return lines


def aimed_strata(result):
    """Strata whose time has an aim, and those of them that hold it: outside Ascend, with ten rows and more."""
    strata = [of for of in result["strata"] if of["time"]["rows"] >= 10 and not of["machine"].startswith("ascend")]
    held = []
    for of in strata:
        half = (of["null_model_time"]["median_abs_error"] or 0) / 2
        if of["time"]["median_abs_error"] <= min(0.12, max(0.08, half)):
            held.append(of)
    return strata, held


def readme_facts(result):
    """Lines below that table: what is priced, who fits, and how good a choice is that believes predictions."""
    total, oom, layouts = result["total"], result["oom"], result["layouts"]
    regrets = [of["regret"] for of in layouts]
    correlations = [of["rank_correlation"] for of in layouts if of["rank_correlation"] is not None]
    printed, b200 = result["printed_flops"], result["simumax_b200"]
    strata, held = aimed_strata(result)
    return [
        f"- {total['rows'] - total['unsupported']} of {total['rows']} rows are priced; each of the others has a listed reason.",
        f"- Of {oom['called'] + oom['missed']} runs that went out of memory {oom['called']} are called; so are {oom['false']} of "
        f"{oom['fitting']} that ran.",
        f"- {len(layouts)} models were measured in several layouts by one source. The layout that is predicted to be fastest is "
        f"{percent(statistics.median(regrets))} slower",
        f"  than the fastest in the median and {percent(max(regrets))} at most; the median rank correlation is "
        f"{statistics.median(correlations):.2f}.",
        f"- {len(held)} of {len(strata)} strata of ten rows and more, Ascend apart, hold the aim of 8 % or half the null model, at most 12 %;",
        f"  the median over strata is {100 * statistics.median(of['time']['median_abs_error'] for of in strata):.1f} % (asked: 8 %), nine "
        f"rows of ten are within {percent(total['time']['p90_abs_error'])} (asked: 20 %),",
        f"  of memory within {percent(total['memory']['p90_abs_error'])} (asked: 8 %).",
        f"- {printed['rows'] - len(printed['inconsistent'])} of {printed['rows']} printed rates are within 1 % of the row's own tokens "
        "times flops as its source counts them.",
        f"- vTrain's runs on several nodes of A100 are {100 * result['vtrain_mean_abs_error']:.1f} % off in the mean (asked: 6 %; the best "
        "open tool reaches 9.8 %).",
        f"- `tests/published/simumax_b200.json`, {b200['rows']} steps of Megatron-LM on B200: time {100 * b200['time']['median_abs_error']:.1f} % "
        f"off in the median, memory {100 * b200['memory']['median_abs_error']:.1f} %",
        "  (asked: 5 and 1.5 %). They overlap nothing, as `communication_overlap` false says.",
    ]
