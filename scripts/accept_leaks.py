"""Acceptance of xt-run that takes long: what step 50 leaves behind, step 500 does.

Writes tests/accuracy/leaks.json, on which tests/accuracy asserts. Uses only the standard library. XT_BUILD=FOLDER takes the programs
from another build folder.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / os.environ.get("XT_BUILD", "build/release")
XT_PLAN, XT_RUN = BUILD / "planner/cli/xt-plan", BUILD / "executor/cli/xt-run"
TABLE = ROOT / "tests/accuracy/leaks.json"
EARLY, LATE = 50, 500
COMMON = ["--machine", "h100_sxm", "--pack-length", "64", "--compute-dtype", "fp32"]
MODEL = {"model_type": "qwen3", "vocab_size": 256, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 128}
EXPERTS = {"model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "norm_topk_prob": True}
PLANS = [
    ("dense, 1 rank", MODEL, ["--devices", "1"]),
    ("MoE, 2 ranks, experts spread, swap, recompute", MODEL | EXPERTS,
     ["--devices", "2", "--expert-parallel", "2", "--recompute", "all", "--swap", "all"]),
    ("MoE, 2 ranks, experts spread, Domino, Muon", MODEL | EXPERTS,
     ["--devices", "2", "--expert-parallel", "2", "--recompute", "none", "--intra-layer-micro-batches", "2", "--optimizer", "muon"]),
]


def measure(folder, name, model, flags):
    plan, data, config = folder / "plan", folder / "text.txt", folder / "model.json"
    config.write_text(json.dumps(model))
    subprocess.run([XT_PLAN, "schedule", "--model", config, *COMMON, *flags, "--out", plan, "--force"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([XT_RUN, "train", plan, "--data", data, "--steps", str(LATE), "-q", "--force", "--threads", "1",
                    "--checkpoint-every", "10"], check=True, stdout=subprocess.DEVNULL)
    steps = [json.loads(line) for line in (plan / "metrics.jsonl").read_text().splitlines()]
    early, late = steps[EARLY - 1], steps[LATE - 1]
    return {"plan": name, "checkpoint_every": 10,
            **{f"{key}_bytes_at_{step['step']}": step[f"{key}_memory_bytes"] for key in ("allocated", "reserved", "resident") for step in (early, late)}}


def main():
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "text.txt").write_text("".join(f"the quick brown fox {i % 7} jumps over the lazy dog\n" for i in range(4000)))
        for plan in PLANS:
            rows.append(measure(folder, *plan))
            print(json.dumps(rows[-1]), flush=True)
    table = {"schema": "xt.acceptance/1", "command": "scripts/accept.sh leaks", "rows": rows}
    TABLE.write_text(json.dumps(table, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
