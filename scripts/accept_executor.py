"""Acceptance of xt-run that takes long: a rank dies at twenty random moments.

Writes tests/accuracy/executor.json, on which tests/accuracy asserts. Uses only the standard library.
XT_BUILD=FOLDER takes the programs from another build folder.
"""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / os.environ.get("XT_BUILD", "build/release")
XT_PLAN, XT_RUN = BUILD / "planner/cli/xt-plan", BUILD / "executor/cli/xt-run"
TABLE = ROOT / "tests/accuracy/executor.json"
N_KILLS, SEED, RANKS, STEPS = 20, 20261130, 4, 60
FOREVER = 1_000_000  # steps, so that no run ends before its rank dies


def losses(plan):
    return [json.loads(line)["loss"] for line in (plan / "metrics.jsonl").read_text().splitlines()]


def train(plan, data, steps, *further):
    return [str(part) for part in (XT_RUN, "train", plan, "--data", data, "--steps", steps, "-q", *further)]


def ranks_of(launcher):
    """Processes of the ranks, in their order."""
    children = pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    return [int(child) for child in children]


def is_alive(process):
    try:
        state = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def kill_once(draw, plan, data, checkpoints):
    """One run whose rank dies at a moment within a second behind its second checkpoint, and how it went on."""
    shutil.rmtree(checkpoints, ignore_errors=True)
    (plan / "metrics.jsonl").unlink(missing_ok=True)
    keeps = ["--checkpoints", checkpoints, "--checkpoint-every", 2]
    with tempfile.TemporaryFile("w+") as err:
        run = subprocess.Popen(train(plan, data, FOREVER, *keeps), stdout=subprocess.DEVNULL, stderr=err)
        while not (checkpoints / "step-4").exists() and run.poll() is None:
            time.sleep(0.005)
        ranks = ranks_of(run.pid)
        time.sleep(draw.uniform(0, 1))
        victim = draw.randrange(RANKS)
        is_writing = any(not re.fullmatch(r"step-\d+", entry.name) for entry in checkpoints.iterdir())
        os.kill(ranks[victim], signal.SIGKILL)
        begin = time.monotonic()
        code = run.wait(timeout=60)
        seconds = time.monotonic() - begin
        err.seek(0)
        said = err.read()
    lost = re.search(rf"rank {victim} was lost during ([^(\n]*)", said)
    row = {
        "rank": victim,
        "step": len(losses(plan)) + 1,
        "during": lost.group(1).strip() if lost else None,
        "writes_checkpoint": is_writing,
        "exit_code": code,
        "seconds": round(seconds, 3),
        "left_processes": sum(map(is_alive, ranks)),
    }
    last = row["step"] - 1
    resumed = subprocess.run(train(plan, data, max(last, STEPS) + 2, *keeps, "--resume"), text=True, capture_output=True)
    row["resumed_exit_code"] = resumed.returncode
    row["damaged_checkpoints"] = resumed.stderr.count("is damaged")
    return row, losses(plan)


def accept_faults(folder):
    data = folder / "text.txt"
    data.write_text("".join(f"the quick brown fox {i % 7} jumps over the lazy dog\n" for i in range(4000)))
    whole, killed = folder / "whole", folder / "killed"
    for plan in (whole, killed):
        subprocess.run([XT_PLAN, "schedule", "--model", "tiny_moe", "--machine", "h100_sxm", "--devices", str(RANKS),
                        "--expert-parallel", "2", "--pack-length", "128", "--compute-dtype", "fp32", "--out", plan],
                       check=True, stdout=subprocess.DEVNULL)
    draw, rows = random.Random(SEED), []
    expected = []
    for number in range(N_KILLS):
        row, found = kill_once(draw, killed, data, folder / "checkpoints")
        if len(expected) < len(found):
            (whole / "metrics.jsonl").unlink(missing_ok=True)
            subprocess.run(train(whole, data, len(found)), check=True, stdout=subprocess.DEVNULL)
            expected = losses(whole)
        row["equal_losses"] = sum(a == b for a, b in zip(found, expected))
        row["losses"] = len(found)
        rows.append(row)
        print(f"{number + 1}: rank {row['rank']} in step {row['step']} during {row['during']}: exit code {row['exit_code']} after "
              f"{row['seconds']:.2f} s, {row['equal_losses']} of {row['losses']} losses equal", flush=True)
    return {"ranks": RANKS, "seed": SEED, "rows": rows}


def main():
    with tempfile.TemporaryDirectory() as folder:
        faults = accept_faults(pathlib.Path(folder))
    table = {"schema": "xt.acceptance/1", "command": "scripts/accept.sh executor", "faults": faults}
    TABLE.write_text(json.dumps(table, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
