"""Acceptance of xt-run that takes long: a rank dies at twenty random moments of each phase of a step in turn.

What a rank is at stands in memory that it shares with its launcher (executor/runtime/activity_board.h). A kill is aimed by it, and
it is read again when the rank is dead: the table says what was hit, not what was aimed at.

Writes tests/accuracy/executor.json, on which tests/accuracy asserts. Uses only the standard library.
XT_BUILD=FOLDER takes the programs from another build folder.
"""

import json
import mmap
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / os.environ.get("XT_BUILD", "build/release")
XT_PLAN, XT_RUN = BUILD / "planner/cli/xt-plan", BUILD / "executor/cli/xt-run"
TABLE = ROOT / "tests/accuracy/executor.json"
N_KILLS, SEED, RANKS, STEPS = 20, 20261130, 4, 60
PHASES = ["forward", "backward", "collective", "checkpoint"]
LANES = ["host", "compute", "all_gather", "reduce_scatter", "expert", "swap_out", "swap_in"]
NO_OP = 0xFFFFFFFF
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


class Board:
    """What the ranks of a launcher are at."""

    def __init__(self, launcher, rank_process, plan):
        environment = pathlib.Path(f"/proc/{rank_process}/environ").read_bytes().decode().split("\0")
        name = next(entry for entry in environment if entry.startswith("TORCHELASTIC_RUN_ID="))
        with open(f"/proc/{launcher}/fd/{name.rpartition('-')[2]}", "r+b") as shared:
            self.memory = mmap.mmap(shared.fileno(), 0)
        self.stride = len(self.memory) // RANKS
        lines = map(json.loads, (plan / "schedule.jsonl").read_text().splitlines()[1:])
        self.phases = [line[3] for line in lines if line[0] == "op"]

    def of(self, rank):
        """Of the ops that `rank` is at: their phases, and whether one is an exchange."""
        running = dict(zip(LANES, struct.unpack_from(f"<{len(LANES)}I", self.memory, rank * self.stride + 16)))
        ops = {lane: op for lane, op in running.items() if op != NO_OP}
        phases = {self.phases[op] for op in ops.values()}
        return [part for part in PHASES if part in phases or part == "collective" and ops.keys() & set(LANES[2:5])]


def is_at(aim, board, rank, checkpoints):
    """Whether `rank` is at what is aimed at."""
    return is_written(checkpoints) if aim == "checkpoint" else aim in board.of(rank)


def is_written(checkpoints):
    return any(not re.fullmatch(r"step-\d+", entry.name) for entry in checkpoints.iterdir())


def kill_once(draw, aim, plan, data, checkpoints):
    """One run whose rank dies within a second behind its second checkpoint when it is at `aim`, and how it went on."""
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
        board = Board(run.pid, ranks[victim], plan)
        while not is_at(aim, board, victim, checkpoints) and run.poll() is None:
            pass
        is_writing = is_written(checkpoints)
        os.kill(ranks[victim], signal.SIGKILL)
        begin = time.monotonic()
        code = run.wait(timeout=60)
        seconds = time.monotonic() - begin
        err.seek(0)
        said = err.read()
        hit = board.of(victim) + ["checkpoint"] * is_writing
    killed = re.search(rf"rank {victim} was killed by signal 9 \(Killed\) in step \d+, (.*)", said)
    lost = re.search(rf"rank {victim} was lost during ([^(\n]*)", said)
    row = {
        "rank": victim,
        "aimed_at": aim,
        "hit": hit,
        "at": killed.group(1) if killed else None,
        "step": len(losses(plan)) + 1,
        "during": lost.group(1).strip() if lost else None,
        "writes_checkpoint": is_writing,
        "exit_code": code,
        "seconds": round(seconds, 3),
        "exit_codes_of_others": [int(found) for found in re.findall(r"rank \d+ failed with exit code (\d)", said)],
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
        row, found = kill_once(draw, PHASES[number % len(PHASES)], killed, data, folder / "checkpoints")
        if len(expected) < len(found):
            (whole / "metrics.jsonl").unlink(missing_ok=True)
            subprocess.run(train(whole, data, len(found)), check=True, stdout=subprocess.DEVNULL)
            expected = losses(whole)
        row["equal_losses"] = sum(a == b for a, b in zip(found, expected))
        row["losses"] = len(found)
        rows.append(row)
        print(f"{number + 1}: rank {row['rank']} in step {row['step']} at {row['at']}, {' and '.join(row['hit'])}: exit code {row['exit_code']} after "
              f"{row['seconds']:.2f} s, {row['equal_losses']} of {row['losses']} losses equal", flush=True)
    hits = {phase: sum(phase in row["hit"] for row in rows) for phase in PHASES}
    return {"ranks": RANKS, "seed": SEED, "hits": hits, "rows": rows}


def main():
    with tempfile.TemporaryDirectory() as folder:
        faults = accept_faults(pathlib.Path(folder))
    table = {"schema": "xt.acceptance/1", "command": "scripts/accept.sh executor", "faults": faults}
    TABLE.write_text(json.dumps(table, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
