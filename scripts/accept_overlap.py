"""Acceptance of overlap: two hosts in network namespaces, the link between them shaped so that one layer's
gather, or one all-to-all, takes 0.25, 0.5 and 1 times a layer's forward compute. Needs root, ip, tc and two
cores. Weights hardly move, so that routing stays as a run before, over a link of any rate, shows it to be:
plans are told how many rows the fuller rank gets.

Of each link a profile is measured over it, plans with and without overlap are predicted by that profile and
run over it in turn. A plan says what the rank with the most rows does; it is that rank whose times are held to
it: the other one waits. Writes tests/accuracy/overlap.json, on which tests/accuracy asserts, and renews README's
row. Uses only the standard library. XT_BUILD=FOLDER takes the programs from another build folder.
"""

import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/accuracy"))
import executor_facts  # noqa: E402

BUILD = ROOT / os.environ.get("XT_BUILD", "build/release")
XT_PLAN, XT_RUN = BUILD / "planner/cli/xt-plan", BUILD / "executor/cli/xt-run"
TABLE = executor_facts.OVERLAP
SEED, PORT, STEPS, RECORDED, ROUNDS = 20261130, 29777, 8, "3-8", 2
SHARES = (0.25, 0.5, 1.0)  # of a layer's compute that one exchange takes
HOSTS = ("xt_host_0", "xt_host_1")
ADDRESSES = ("10.77.0.1", "10.77.0.2")

# Layers wide enough that an exchange takes milliseconds. Of the routed model each rank has half of the
# experts whole, so that its gathers are small beside its exchanges of rows.
COMMON = {"vocab_size": 256, "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4,
          "num_key_value_heads": 2, "head_dim": 64, "rope_theta": 10000.0, "rms_norm_eps": 1e-6,
          "tie_word_embeddings": False}
DENSE = COMMON | {"model_type": "qwen3", "intermediate_size": 1024}
ROUTED = COMMON | {"model_type": "qwen3_moe", "intermediate_size": 1024, "num_experts": 8,
                   "num_experts_per_tok": 2, "moe_intermediate_size": 512, "norm_topk_prob": True}
# What each experiment exchanges, on which model, with and without that which hides it.
EXPERIMENTS = {
    "gather": {
        "model": DENSE, "traffic": ("all_gather", "reduce_scatter"), "shaped_by": "all_gather",
        "with": {"communication-overlap": "true"}, "without": {"communication-overlap": "false"},
        "flags": {"pack-length": 1024, "gradient-accumulation": 1}},
    "domino": {
        "model": ROUTED, "traffic": ("all_to_all",), "shaped_by": "all_to_all",
        "with": {"intra-layer-micro-batches": 2, "gradient-accumulation": 1},
        "without": {"intra-layer-micro-batches": 1, "gradient-accumulation": 2},
        "flags": {"pack-length": 1024, "expert-parallel": 2}},
}


def call(*command, check=True):
    done = subprocess.run([str(word) for word in command], cwd=ROOT, text=True, capture_output=True)
    if check and done.returncode not in (0, 1):
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


class Hosts:
    """Two hosts and the link between them, for as long as the context lasts."""

    def __enter__(self):
        self.remove()
        for host in HOSTS:
            call("ip", "netns", "add", host)
            call("ip", "-n", host, "link", "set", "lo", "up")
        call("ip", "-n", HOSTS[0], "link", "add", "xt0", "type", "veth", "peer", "name", "xt0", "netns", HOSTS[1])
        for host, address in zip(HOSTS, ADDRESSES):
            call("ip", "-n", host, "address", "add", f"{address}/24", "dev", "xt0")
            call("ip", "-n", host, "link", "set", "xt0", "up")
        return self

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        for host in HOSTS:
            call("ip", "netns", "delete", host, check=False)

    def shape(self, bytes_per_s):
        """Lets so many bytes a second leave each host; what waits is queued, nothing is dropped."""
        for host in HOSTS:
            call("tc", "-n", host, "qdisc", "replace", "dev", "xt0", "root", "tbf", "rate", f"{int(8 * bytes_per_s)}bit",
                 "burst", "128kb", "limit", "256mb")

    def unshape(self):
        """Lets as much leave as the hosts can send."""
        for host in HOSTS:
            call("tc", "-n", host, "qdisc", "delete", "dev", "xt0", "root", check=False)

    def run(self, *arguments, is_one_host):
        """Runs xt-run as one rank on each host, each with a core of its own; returns what rank 0 printed."""
        ranks = []
        for rank, host in enumerate(HOSTS):
            variables = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": rank if is_one_host else 0,
                         "LOCAL_WORLD_SIZE": 2 if is_one_host else 1, "MASTER_ADDR": ADDRESSES[0],
                         "MASTER_PORT": PORT, "GLOO_SOCKET_IFNAME": "xt0", "OMP_NUM_THREADS": 1}
            ranks.append(subprocess.Popen(
                ["ip", "netns", "exec", host, "env", *(f"{name}={value}" for name, value in variables.items()),
                 "taskset", "-c", str(rank), *map(str, (XT_RUN, *arguments))],
                cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        answers = [rank.communicate() for rank in ranks]
        for rank, (_, err) in zip(ranks, answers):
            if rank.returncode != 0:
                sys.exit(f"xt-run {' '.join(map(str, arguments))}: {err}")
        return answers[0][0]


def flags_of(*tables):
    return [word for table in tables for name, value in table.items() for word in (f"--{name}", value)]


def make_plan(folder, model, machine, *tables):
    call(XT_PLAN, "schedule", "--model", model, "--machine", machine, "--devices", 2, "--recompute", "none",
         "--learning-rate", 1e-9, *flags_of(*tables), "--out", folder, "--force")


def train(hosts, plan, data, rank):
    """What `rank` logs of the steps but the first two."""
    hosts.run("train", plan, "--data", data, "--steps", STEPS, "--record-steps", RECORDED, "--threads", 1, "--force", "-q",
              is_one_host=False)
    log = plan / "logs/exp_tracking" / f"rank{rank}" / "tracker.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()][2:]


class Recording:
    """What a rank did in the recorded steps of a plan, op by op."""

    def __init__(self, plan, rank):
        lines = [json.loads(line) for line in (plan / "schedule.jsonl").read_text().splitlines()[1:]]
        works = [line for line in lines if line[0] == "work"]
        self.ops = [{"kernel": works[line[1]][1], "lane": line[2], "phase": line[3], "layer": line[5]}
                    for line in lines if line[0] == "op"]
        self.steps = []
        for line in (plan / ("measured.jsonl" if rank == 0 else f"measured.rank{rank}.jsonl")).read_text().splitlines():
            entry = json.loads(line)
            if isinstance(entry, dict):
                self.steps.append([])
            else:
                self.steps[-1].append(entry)

    def layer_compute(self, traffic):
        """Seconds of the forward compute of a layer and micro-step, without `traffic`: median over layers and steps."""
        sums = []
        for step in self.steps:
            layers = {}
            for op, repeat, start, end in step:
                entry = self.ops[op]
                is_compute = entry["lane"] == "compute" and entry["kernel"] not in traffic
                if is_compute and entry["phase"] == "forward" and entry["layer"] >= 0:
                    key = entry["layer"], repeat
                    layers[key] = layers.get(key, 0) + end - start
            sums.extend(layers.values())
        return statistics.median(sums) / 1e9

    def beside_compute(self, kernels):
        """Exchanges of these kernels, those during which a compute op ran, and whether each lane kept the order
        of the schedule."""
        n = beside = 0
        in_order = True
        for step in self.steps:
            compute = [(start, end) for op, _, start, end in step if self.ops[op]["lane"] == "compute"
                       and self.ops[op]["kernel"] not in kernels]
            last = {}
            for op, _, start, end in step:
                entry = self.ops[op]
                in_order &= start >= last.get(entry["lane"], 0)
                last[entry["lane"]] = start
                if entry["kernel"] in kernels:
                    n += 1
                    beside += any(begin < end and stop > start for begin, stop in compute)
        return n, beside, in_order


def seconds(step, traffic, which=""):
    """What a rank logs of `traffic` in a step: all of it, or what is `_exposed`."""
    return sum(step[f"communication/{kind}{which}_s"] for kind in traffic)


def exposed(metrics, traffic):
    return [seconds(step, traffic, "_exposed") for step in metrics]


def deviation(values):
    middle = statistics.median(values)
    return statistics.median(abs(value - middle) for value in values)


def overlapped(total, hidden_from):
    return 1 - hidden_from / total if total > 0 else 1.0


def predicted_ratio(plan, traffic):
    kinds = json.loads((plan / "plan.json").read_text())["prediction"]["communication"]
    return overlapped(sum(kinds[kind]["total_s"] for kind in traffic), sum(kinds[kind]["exposed_s"] for kind in traffic))


def measured_ratio(metrics, traffic):
    return statistics.median(overlapped(seconds(step, traffic), seconds(step, traffic, "_exposed")) for step in metrics)


def bytes_of_exchange(kernel, model, flags):
    """What one exchange of a layer sends over the link, each way."""
    if kernel == "all_to_all":  # half of the rows, which uneven routing changes
        return flags["pack-length"] * model["num_experts_per_tok"] * model["hidden_size"] * 4 / 2
    hidden, heads = model["hidden_size"], model["num_attention_heads"] + model["num_key_value_heads"]
    weights = 2 * hidden * heads * model["head_dim"] + 3 * hidden * model["intermediate_size"]
    return weights * 4 / 2


def accept(hosts, name, experiment, share, folder, data, rank, compute_s, routing):
    """One experiment over one link."""
    model = folder / f"{name}.json"
    traffic = experiment["traffic"]
    hosts.shape(bytes_of_exchange(experiment["shaped_by"], experiment["model"], experiment["flags"]) / (share * compute_s))
    machine = folder / "machine.yaml"
    hosts.run("measure", "--quick", "--threads", 1, "--out", machine, "--force", "-q", is_one_host=True)
    plans = {side: folder / f"{name}_{side}" for side in ("with", "without")}
    metrics = {side: [] for side in plans}
    for side, plan in plans.items():
        make_plan(plan, model, machine, experiment["flags"], experiment[side], routing)
    for number in range(ROUNDS):
        for side in (("with", "without") if number % 2 == 0 else ("without", "with")):
            metrics[side] += train(hosts, plans[side], data, rank)
    recording = Recording(plans["with"], rank)
    n, beside, in_order = recording.beside_compute(traffic)
    row = {"experiment": name, "share": share, "rank": rank, "layer_compute_s": round(compute_s, 5), "exchanges": n,
           "beside_compute": beside, "in_order": in_order}
    for side, plan in plans.items():
        values = exposed(metrics[side], traffic)
        row[side] = {"exposed_s": round(statistics.median(values), 5), "deviation_s": round(deviation(values), 5),
                     "step_s": round(statistics.median(step["time/step_time"] for step in metrics[side]), 5),
                     "predicted_ratio": round(predicted_ratio(plan, traffic), 4),
                     "measured_ratio": round(measured_ratio(metrics[side], traffic), 4)}
    print(json.dumps(row), file=sys.stderr, flush=True)
    return row


def alone(hosts, name, experiment, folder, data):
    """Over an unshaped link and with nothing beside compute: the rank that has most of it, that rank's seconds of a
    layer's compute, and how unequal routing is."""
    hosts.unshape()
    (folder / f"{name}.json").write_text(json.dumps(experiment["model"]))
    plan = folder / f"{name}_alone"
    make_plan(plan, folder / f"{name}.json", "h100_sxm", experiment["flags"], {"communication-overlap": "false"})
    train(hosts, plan, data, 0)
    imbalance = json.loads(call(XT_PLAN, "compare", plan, "--json"))["routing_imbalance"]
    routing = {} if imbalance is None else {"routing-imbalance": round(imbalance, 3)}
    compute_s = [Recording(plan, rank).layer_compute(experiment["traffic"]) for rank in range(len(HOSTS))]
    fullest = max(range(len(HOSTS)), key=compute_s.__getitem__) if routing else 0
    return fullest, compute_s[fullest], routing


def main():
    if os.geteuid() != 0 or not shutil.which("tc") or not shutil.which("ip"):
        sys.exit("overlap: error: needs root, ip and tc (Debian: iproute2), to make hosts and shape the link between them")
    if (os.cpu_count() or 1) < 2:
        sys.exit("overlap: error: needs a core for each of two ranks")
    draw = random.Random(SEED)
    rows = []
    with tempfile.TemporaryDirectory() as temporary, Hosts() as hosts:
        folder = pathlib.Path(temporary)
        data = folder / "data.jsonl"
        data.write_text("".join(json.dumps({"input_ids": draw.choices(range(256), k=1024)}) + "\n" for _ in range(64)))
        for name, experiment in EXPERIMENTS.items():
            rank, compute_s, routing = alone(hosts, name, experiment, folder, data)
            rows += [accept(hosts, name, experiment, share, folder, data, rank, compute_s, routing) for share in SHARES]
    table = {"schema": "xt.acceptance/1", "command": "scripts/accept.sh overlap", "rows": rows}
    TABLE.write_text(json.dumps(table, indent=1) + "\n")
    executor_facts.renew_readme()
    return 0


if __name__ == "__main__":
    sys.exit(main())
