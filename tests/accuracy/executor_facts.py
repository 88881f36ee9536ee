"""README's sections on what xt-run was measured beside: PyTorch's FSDP2, and links between hosts; from the
committed tables."""

import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
README = HERE.parents[1] / "README.md"
BENCH, OVERLAP = HERE / "bench_executor.json", HERE / "overlap.json"
BEGIN, END = "<!-- bench_executor -->\n", "<!-- end of bench_executor -->\n"
ASKED = 1.2  # times as fast as the peer
OVERLAP_ROW = "| overlap over a link between two hosts"


def mib(size):
    return f"{size / 2**20:.0f}"


def shares(side):
    return ", ".join(f"{group} {100 * share:.0f} %" for group, share in list(side["shares"].items())[:4])


def bench_row(row):
    ours, peer = row["xt_run"], row["fsdp2"]
    return (f"| {row['dtype']} | {row['speedup']:.2f} | {ours['tokens_per_rank_s']:.0f} | {peer['tokens_per_rank_s']:.0f} "
            f"| {mib(ours['peak_process_bytes'])} | {mib(peer['peak_process_bytes'])} | {mib(ours['peak_device_bytes'])} |")


def verdict(rows):
    misses = [row["dtype"] for row in rows if row["speedup"] < ASKED]
    if not misses:
        return f"Asked: {ASKED} times as fast."
    return f"Asked: {ASKED} times as fast, which {' and '.join(misses)} misses."


def bench_lines(table):
    """The lines between BEGIN and END."""
    model, rows = table["model"], table["rows"]
    has_instructions = "has" if table["has_bf16_instructions"] else "has no"
    return [
        f"Against PyTorch. `{table['command']}` trains one Qwen3-MoE (hidden size {model['hidden_size']}, "
        f"{model['num_hidden_layers']} layers, {model['num_experts']} experts of which a token takes "
        f"{model['num_experts_per_tok']}) on",
        f"{table['ranks']} ranks of one thread each, by xt-run and by PyTorch {table['torch'].split('+')[0]}'s FSDP2 with "
        f"transformers {rows[0]['fsdp2']['transformers']}, in turn: the same weights, packs of",
        f"{table['pack_length']} tokens, recompute and update; losses differ by "
        + " and ".join(f"{row['largest_loss_difference']:.0e} in {row['dtype']}" for row in rows)
        + ". Of transformers' kernels for experts the faster of two is",
        "taken (" + ", ".join(f"{row['fsdp2']['experts']} in {row['dtype']}" for row in rows) + f"). {verdict(rows)} "
        f"The CPU {has_instructions} instructions for products in bf16.",
        "",
        "| precision | times as fast | xt-run, tokens per rank and second | FSDP2 | xt-run, process [MiB] | FSDP2 "
        "| xt-run, device space [MiB] |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *map(bench_row, rows),
        "",
        *(f"- Time in {row['dtype']}, xt-run: {shares(row['xt_run'])}; FSDP2: {shares(row['fsdp2'])}." for row in rows),
        "",
        "Shares are of the time in ops; what FSDP2 waits for in no operator is not among them.",
    ]


def hidden(rows, experiment):
    """From how many to how many percent less is exposed."""
    falls = [1 - row["with"]["exposed_s"] / row["without"]["exposed_s"] for row in rows if row["experiment"] == experiment]
    return f"{100 * min(falls):.0f} to {100 * max(falls):.0f} %"


def is_beyond_noise(row):
    noise = 3 * max(row["with"]["deviation_s"], row["without"]["deviation_s"])
    return row["without"]["exposed_s"] - row["with"]["exposed_s"] > noise


def overlap_line(table):
    """The row of README's table of what was found."""
    rows = table["rows"]
    apart = [abs(row["with"]["predicted_ratio"] - row["with"]["measured_ratio"]) for row in rows]
    return (
        f"{OVERLAP_ROW}, shaped so that an exchange takes 0.25, 0.5 and 1 times a layer's compute | overlap hides "
        f"{hidden(rows, 'gather')} of what gathers and reductions expose without it, Domino {hidden(rows, 'domino')} of what "
        f"exchanges of rows do, by more than three times the noise over {sum(map(is_beyond_noise, rows))} of {len(rows)} links; "
        f"{sum(difference <= 0.1 for difference in apart)} of {len(rows)} overlapped ratios are predicted within 10 points "
        f"(worst: {100 * max(apart):.0f}) | `{table['command']}` (root) |")


def renewed(readme):
    """`readme` with both as the committed tables have them."""
    before, _, rest = readme.partition(BEGIN)
    lines = "\n".join(bench_lines(json.loads(BENCH.read_text())))
    readme = before + BEGIN + lines + "\n" + END + rest.partition(END)[2]
    line = overlap_line(json.loads(OVERLAP.read_text()))
    return "\n".join(line if old.startswith(OVERLAP_ROW) else old for old in readme.split("\n"))


def renew_readme():
    README.write_text(renewed(README.read_text()))
