"""Acceptance of the whole loop on this machine: memory, time and planning speed.

Plans are drawn from a committed seed before anything is measured; every plan drawn is reported.
Writes tests/accuracy/end_to_end.json, on which tests/accuracy asserts. Uses only the standard library.
"""

import json
import math
import pathlib
import random
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLAN = ROOT / "build/release/planner/cli/xt-plan"
RUN = ROOT / "build/release/executor/cli/xt-run"
BENCHMARK = ROOT / "build/release/tests/benchmarks/planning_benchmark"
TABLE = ROOT / "tests/accuracy/end_to_end.json"
WORK = ROOT / "plans/accept"
SOURCES = ["costmodel", "planner", "executor", "tests"]
SEED = 20261129
LONGEST_SAMPLE = 2048  # tokens, which are bytes; a multiple of all that are drawn
MOST_FLOPS = 240e9  # of a rank in a step of a memory plan: a few seconds on one core


def call(*command, check=True):
    """Standard output of a command."""
    done = subprocess.run([str(word) for word in command], cwd=ROOT, text=True, capture_output=True)
    if check and done.returncode not in (0, 1):
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def draw_model(draw, path, scale):
    """A random small model, dense or routed; `scale` multiplies its widths."""
    routed = draw.random() < 0.5
    head_dim = draw.choice([32, 64])
    kv_heads = draw.choice([1, 2])
    model = {
        "model_type": "qwen3_moe" if routed else "qwen3",
        "vocab_size": draw.choice([256, 512, 2048]),
        "hidden_size": draw.choice([128, 192, 256, 384]) * scale,
        "num_hidden_layers": draw.choice([2, 3, 4, 6]),
        "num_attention_heads": kv_heads * draw.choice([2, 4]),
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "intermediate_size": draw.choice([256, 512, 768]) * scale,
        "tie_word_embeddings": draw.random() < 0.5,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-6,
    }
    if routed:
        model |= {
            "num_experts": draw.choice([4, 8, 16]),
            "num_experts_per_tok": draw.choice([1, 2]),
            "moe_intermediate_size": draw.choice([128, 256]) * scale,
            "norm_topk_prob": True,
        }
    path.write_text(json.dumps(model, indent=1))
    return model


def draw_run(draw, model, packs):
    """Random flags of a run of `model` on up to two ranks."""
    layers = model["num_hidden_layers"]
    pack = draw.choice(packs)
    recompute = draw.choice([0, layers // 2, layers])
    devices = draw.choice([1, 2, 2])
    flags = {
        "devices": devices,
        "pack-length": pack,
        "sample-length": draw.choice([pack, pack // 2, pack // 4]),
        "gradient-accumulation": draw.choice([1, 1, 2, 4]),
        "recompute": recompute,
        "swap": draw.choice([0, recompute // 2, recompute]),
        "loss-chunk": draw.choice(["none", "auto", 256]),
        "seed": draw.randrange(1000),
    }
    if "num_experts" in model and devices == 2:
        flags["expert-parallel"] = draw.choice([1, 2])
    return flags


def plan_directory(name, flags, machine):
    out = WORK / name
    arguments = [word for key, value in flags.items() for word in (f"--{key}", value)]
    text = call(PLAN, "schedule", "--json", "--model", WORK / f"{name}.config.json", "--machine", machine,
                "--out", out, "--force", *arguments)
    return json.loads(text)


def write_text():
    """This project's own text as one document, so that every sample has the length that its plan says."""
    files = sorted(path for folder in SOURCES for path in (ROOT / folder).rglob("*") if path.suffix in (".h", ".cpp"))
    folder = WORK / "text"  # the files of a folder are documents; one that is named is split at blank lines
    folder.mkdir(exist_ok=True)
    text = "\n".join(path.read_text() for path in files).encode()
    # A shorter last sample would shift those behind it, and packs would hold pieces.
    (folder / "text.txt").write_bytes(text[:len(text) // LONGEST_SAMPLE * LONGEST_SAMPLE])


def measured(name, steps, recorded):
    call(RUN, "train", WORK / name, "--threads", 1, "--data", WORK / "text", "--steps", steps,
         "--record-steps", recorded, "--force", "-q")
    return json.loads(call(PLAN, "compare", WORK / name, "--json"))


def measure_machine(ranks):
    machine = WORK / f"machine_{ranks}.yaml"
    call(RUN, "measure", "--nproc", ranks, "--threads", 1, "--out", machine, "--force")
    return machine


def draw_all(draw, prefix, n, packs, scale):
    """`n` runs, drawn before anything is planned or measured."""
    runs = []
    for index in range(n):
        name = f"{prefix}{index:02d}"
        model = draw_model(draw, WORK / f"{name}.config.json", scale)
        runs.append((name, model, draw_run(draw, model, packs)))
    return runs


def accept_memory():
    """At least 32 plans with a predicted peak of 200 MB or more: peak and categories from step 3 on.

    The schedule's memory is evaluated under the rows and lengths that came, which nobody can know before."""
    draw = random.Random(SEED)
    rows = []
    machine = "h800_sxm"  # memory depends on no machine
    for name, model, flags in draw_all(draw, "memory", 400, [512, 1024, 2048, 4096], 2):
        if len(rows) == 32:
            break
        predicted = plan_directory(name, flags, machine)
        if predicted["peak_memory_bytes"] < 200e6 or predicted["hardware_flops"] > MOST_FLOPS:
            continue
        both = measured(name, 3, "3")
        p, m = both["on_data_memory"], both["measured_memory"]
        rows.append({
            "plan": name, "model": model["model_type"], **flags,
            "planned_bytes": predicted["peak_memory_bytes"], "predicted_bytes": p["peak_memory_bytes"], "measured_bytes": m["peak_memory_bytes"],
            "error_ratio": p["peak_memory_bytes"] / m["peak_memory_bytes"] - 1,
            "categories": {key: [p["memory_breakdown_bytes"][key], m["memory_breakdown_bytes"][key]]
                           for key in p["memory_breakdown_bytes"]},
        })
        print(f"{name} {p['peak_memory_bytes'] / 2**20:9.2f} MiB {rows[-1]['error_ratio']:+.4%}", flush=True)
    return {"rows": rows}


def accept_time():
    """Plans drawn first; the machine measured; half of the plans calibrate, the other half score.

    One thread a rank: ranks × threads ≤ cores."""
    draw = random.Random(SEED + 1)
    runs = draw_all(draw, "time", 24, [512, 1024, 2048], 1)
    machine = {ranks: measure_machine(ranks) for ranks in (1, 2)}
    for name, _, flags in runs:
        plan_directory(name, flags, machine[flags["devices"]])
    noise = {}
    results = {}
    for _ in range(3):  # interleaved, so that a drift of the machine meets every plan
        for name, _, _ in runs:
            both = measured(name, 8, "3-8")
            noise.setdefault(name, []).append(both["measured_step_time_s"])
            results[name] = both
    rows = []
    for ranks in (1, 2):
        names = [name for name, _, flags in runs if flags["devices"] == ranks]
        fit, score = names[0::2], names[1::2]
        overlay = WORK / f"overlay_{ranks}.yaml"
        scores = json.loads(call(PLAN, "calibrate", *[WORK / name for name in fit], "--score",
                                 *[WORK / name for name in score], "--out", overlay, "--force", "--json"))
        after = {pathlib.Path(row["plan"]).name: row["after_s"] for row in scores["scores"]}
        for name in names:
            both = results[name]
            flags = next(flags for other, _, flags in runs if other == name)
            step = statistics.median(noise[name])
            rows.append({
                "plan": name, "devices": ranks, "used_for_calibration": name in fit,
                "flags": flags,
                "measured_s": step,
                "predicted_s": both["predicted_step_time_s"],
                "error_ratio": both["predicted_step_time_s"] / step - 1,
                "error_after_ratio": after[name] / step - 1 if name in after else None,
                "data_error_ratio": both["data_error_s"] / step,
                "cost_error_ratio": both["cost_error_s"] / step,
                "schedule_error_ratio": both["schedule_error_s"] / step,
                "noise_ratio": (max(noise[name]) - min(noise[name])) / step,
            })
    for row in rows:
        after_text = "" if row["error_after_ratio"] is None else f"{row['error_after_ratio']:+.1%}"
        print(f"{row['plan']} {row['measured_s'] * 1e3:8.1f} ms {row['error_ratio']:+7.1%} {after_text:>7} "
              f"data {row['data_error_ratio']:+.1%} cost {row['cost_error_ratio']:+.1%} "
              f"schedule {row['schedule_error_ratio']:+.1%} noise {row['noise_ratio']:.1%}", flush=True)
    before = [abs(row["error_ratio"]) for row in rows]
    after = [abs(row["error_after_ratio"]) for row in rows if row["error_after_ratio"] is not None]
    steps = [row["measured_s"] for row in rows]
    return {
        "rows": rows,
        "median_error_before_ratio": statistics.median(before),
        "median_error_after_ratio": statistics.median(after),
        "largest_error_after_ratio": max(after),
        "span": max(steps) / min(steps),
        "noise_floor_ratio": statistics.median(row["noise_ratio"] for row in rows),
    }


def accept_planning():
    """Whole process: `estimate` of Qwen3-235B on 256 H800; in process: build, price and simulate."""
    walls = []
    for _ in range(20):
        start = time.perf_counter()
        call(PLAN, "estimate", "configs/runs/qwen3_235b_a22b_h800.yaml")
        walls.append(time.perf_counter() - start)
    report = json.loads(call(BENCHMARK, "--benchmark_format=json", "--benchmark_min_time=1",
                             "--benchmark_repetitions=5", "--benchmark_report_aggregates_only=true"))
    in_process = next(row["real_time"] for row in report["benchmarks"]
                      if row["name"].startswith("build_price_and_simulate") and row["aggregate_name"] == "median")
    result = {"estimate_process_s": statistics.median(walls), "build_price_simulate_s": in_process * 1e-3}
    print(f"estimate, whole process: {result['estimate_process_s'] * 1e3:.1f} ms; "
          f"build, price, simulate: {in_process:.2f} ms", flush=True)
    return result


def main():
    parts = sys.argv[1:] or ["planning", "memory", "time"]
    WORK.mkdir(parents=True, exist_ok=True)
    write_text()
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    table["schema"] = "xt.acceptance/1"
    table["command"] = "scripts/accept.sh end_to_end"
    table["seed"] = SEED
    for part in parts:
        table[part] = {"memory": accept_memory, "time": accept_time, "planning": accept_planning}[part]()
        TABLE.write_text(json.dumps(table, indent=1) + "\n")
    for key in ("median_error_before_ratio", "median_error_after_ratio", "largest_error_after_ratio"):
        if not math.isnan(table.get("time", {}).get(key, math.nan)):
            print(f"{key}: {table['time'][key]:.1%}")


if __name__ == "__main__":
    main()
