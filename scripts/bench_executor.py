"""xt-run against PyTorch's FSDP2 with transformers' Qwen3-MoE, side by side on this machine: the same
weights, packs, precision, ranks, threads, recompute and update rule, and the same losses. The peer's
implementation of experts is the fastest of those that transformers has for this machine.

Writes tests/accuracy/bench_executor.json, on which tests/accuracy asserts, and renews README's section. XT_BUILD=FOLDER takes the
programs from another build folder.
"""

import argparse
import json
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/accuracy"))
import executor_facts  # noqa: E402

BUILD = ROOT / os.environ.get("XT_BUILD", "build/release")
XT_PLAN, XT_RUN = BUILD / "planner/cli/xt-plan", BUILD / "executor/cli/xt-run"
PEER = ROOT / ".venv/peer"  # the transformers of the peer, newer than the one of the tests
TABLE = executor_facts.BENCH
# batched_mm, the third, copies a weight per token and product: gigabytes a layer at this size.
IMPLEMENTATIONS = ("eager", "grouped_mm")
SEED, RANKS, PACK, PACKS_PER_RANK, LEARNING_RATE = 20261130, 2, 1024, 1, 1e-4
MODEL = {
    "model_type": "qwen3_moe", "vocab_size": 4096, "hidden_size": 512, "num_hidden_layers": 6,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64, "intermediate_size": 1024,
    "num_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 384, "norm_topk_prob": True,
    "rope_theta": 10000.0, "rms_norm_eps": 1e-6, "max_position_embeddings": 4096,
    "tie_word_embeddings": False, "attention_bias": False, "decoder_sparse_step": 1, "mlp_only_layers": [],
    "hidden_act": "silu", "initializer_range": 0.02,
}
# Kernels of xt-run by what they are for, as far as names say; the rest are the norms and their like.
GROUPS = {
    "products of experts": ("grouped_matmul",),
    "products": ("matmul",),
    "attention": ("attention",),
    "rows of experts": ("top_k", "sort_rows", "permute", "group"),
    "loss": ("cross_entropy",),
    "optimizer": ("adamw", "square_sum", "clip"),
    "communication": ("all_gather", "reduce_scatter", "all_reduce", "wait"),
}


def call(*command, environment=None):
    done = subprocess.run([str(word) for word in command], cwd=ROOT, text=True, capture_output=True,
                          env=environment)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def make_weights(folder):
    """Weights that transformers draws, which both sides start from."""
    script = ("import sys, torch, transformers; torch.manual_seed(int(sys.argv[2])); import json; "
              "config = transformers.Qwen3MoeConfig(**json.loads(sys.argv[3])); "
              "transformers.Qwen3MoeForCausalLM(config).save_pretrained(sys.argv[1])")
    call(sys.executable, "-c", script, folder, SEED, json.dumps(MODEL))


def make_data(path):
    """As many packs as a step takes, so that each step sees all of them in whatever order."""
    draw = random.Random(SEED)
    with path.open("w") as file:
        for _ in range(RANKS * PACKS_PER_RANK):
            file.write(json.dumps({"input_ids": draw.choices(range(MODEL["vocab_size"]), k=PACK)}) + "\n")


def make_plan(folder, weights, dtype):
    call(XT_PLAN, "schedule", "--model", weights / "config.json", "--machine", "h100_sxm", "--devices", RANKS,
         "--pack-length", PACK, "--gradient-accumulation", PACKS_PER_RANK, "--compute-dtype", dtype,
         "--recompute", "all", "--learning-rate", LEARNING_RATE, "--out", folder, "--force")


def group_of(kernel):
    return next((group for group, parts in GROUPS.items() if any(part in kernel for part in parts)), "other")


def shares_of(plan):
    """Where the time of xt-run's recorded steps goes, as shares of the time in ops."""
    times = {}
    for kernel in json.loads(call(XT_PLAN, "compare", plan, "--json"))["kernels"]:
        group = group_of(kernel["kernel"])
        times[group] = times.get(group, 0) + kernel["measured_s"]
    whole = sum(times.values())
    return {group: round(spent / whole, 4) for group, spent in sorted(times.items(), key=lambda item: -item[1])}


def wait_for(process):
    """Exit code and largest resident set of a process and its children, in bytes."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_maxrss * 1024


def run_ours(plan, weights, data, steps):
    command = [XT_RUN, "train", plan, "--data", data, "--weights", weights, "--steps", steps, "--nproc", RANKS,
               "--threads", 1, "--record-steps", steps, "--force", "--json"]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen([str(word) for word in command], cwd=ROOT, stdout=out, stderr=err)
        code, peak = wait_for(process)
        out.seek(0), err.seek(0)
        if code != 0:
            sys.exit(f"xt-run: {err.read()}")
        steps_of = json.loads(out.read())["steps"]
    return {
        "losses": [step["loss"] for step in steps_of],
        "seconds": [step["step_time_s"] for step in steps_of],
        "peak_process_bytes": peak,
        "peak_device_bytes": max(step["peak_memory_bytes"] for step in steps_of),
    }


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_peer(weights, data, dtype, experts, steps):
    command = [sys.executable, ROOT / "scripts/bench_peer.py", "--weights", weights, "--data", data, "--dtype", dtype,
               "--experts", experts, "--steps", steps, "--learning-rate", LEARNING_RATE, "--recompute", "--profile"]
    port = free_port()
    ranks = []
    for rank in range(RANKS):
        variables = os.environ | {
            "RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(PEER)}
        ranks.append(subprocess.Popen([str(word) for word in command], cwd=ROOT, env=variables, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    answers = [process.communicate() for process in ranks]
    for process, (_, err) in zip(ranks, answers):
        if process.returncode != 0:
            sys.exit(f"peer: {err}")
    return json.loads(answers[0][0].splitlines()[-1])


def median_of(run):
    """Seconds of a step; the first is not counted."""
    return statistics.median(run["seconds"][1:])


def compare(weights, data, folder, dtype, steps, rounds):
    """Rounds of one run of each side, in turn; of the peer's kernels for experts the faster over all rounds counts."""
    plan = folder / f"plan_{dtype}"
    make_plan(plan, weights, dtype)
    ours, by_kernel = [], {experts: [] for experts in IMPLEMENTATIONS}
    for number in range(rounds):
        for side in (("ours", *by_kernel) if number % 2 == 0 else (*by_kernel, "ours")):
            if side == "ours":
                ours.append(run_ours(plan, weights, data, steps))
            else:
                by_kernel[side].append(run_peer(weights, data, dtype, side, steps))
        times = ", ".join(f"{median_of(runs[-1]):.3f} s by {side}" for side, runs in by_kernel.items())
        print(f"{dtype}: {median_of(ours[-1]):.3f} s, peer {times}", file=sys.stderr, flush=True)
    tried = {experts: round(statistics.median(median_of(run) for run in runs), 4) for experts, runs in by_kernel.items()}
    experts = min(tried, key=tried.get)
    peers = by_kernel[experts]
    ratios = [median_of(peer) / median_of(own) for own, peer in zip(ours, peers)]
    tokens = PACK * PACKS_PER_RANK
    row = {"dtype": dtype, "speedup": round(statistics.median(ratios), 3),
           "speedups": [round(ratio, 3) for ratio in ratios],
           "largest_loss_difference": max(abs(own - peer) / peer for own, peer in
                                          zip(ours[0]["losses"], peers[0]["losses"]))}
    for name, runs in (("xt_run", ours), ("fsdp2", peers)):
        seconds = statistics.median(second for run in runs for second in run["seconds"][1:])
        row[name] = {"step_s": round(seconds, 4), "tokens_per_rank_s": round(tokens / seconds, 1),
                     "peak_process_bytes": max(run["peak_process_bytes"] for run in runs)}
    row["xt_run"] |= {"peak_device_bytes": ours[-1]["peak_device_bytes"], "shares": shares_of(plan)}
    row["fsdp2"] |= {"transformers": peers[-1]["transformers"], "experts": experts, "tried_s": tried,
                     "imports_bytes": peers[-1]["imports_bytes"], "shares": peers[-1]["shares"]}
    return row


def text_of(row):
    lines = [f"{row['dtype']}: xt-run does {row['speedup']} times the tokens per second "
             f"(rounds: {', '.join(map(str, row['speedups']))}); losses differ by {row['largest_loss_difference']:.1e}"]
    for name in ("xt_run", "fsdp2"):
        side = row[name]
        device = f", device space {side['peak_device_bytes'] / 2**20:.0f} MiB" if "peak_device_bytes" in side else ""
        shares = ", ".join(f"{group} {share:.0%}" for group, share in side["shares"].items())
        lines.append(f"  {name:7} {side['step_s']:.3f} s a step, {side['tokens_per_rank_s']:.0f} tokens a rank and second, "
                     f"process {side['peak_process_bytes'] / 2**20:.0f} MiB{device}\n          {shares}")
    return "\n".join(lines)


def has_bf16_instructions():
    flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    return "avx512_bf16" in flags or "amx_bf16" in flags


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench_executor.sh")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dry", action="store_true", help="write no table")
    arguments = parser.parse_args()
    import torch
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        weights, data = folder / "weights", folder / "data.jsonl"
        make_weights(weights)
        make_data(data)
        rows = [compare(weights, data, folder, dtype, arguments.steps, arguments.rounds) for dtype in ("fp32", "bf16")]
    for row in rows:
        print(text_of(row))
    if not arguments.dry:
        table = {"schema": "xt.acceptance/1", "command": "scripts/bench_executor.sh", "ranks": RANKS, "threads": 1,
                 "pack_length": PACK, "packs_per_rank": PACKS_PER_RANK, "steps": arguments.steps,
                 "rounds": arguments.rounds, "model": MODEL, "has_bf16_instructions": has_bf16_instructions(),
                 "torch": torch.__version__, "rows": rows}
        TABLE.write_text(json.dumps(table, indent=1) + "\n")
        executor_facts.renew_readme()
    return 0


if __name__ == "__main__":
    sys.exit(main())
