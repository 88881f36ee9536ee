"""Runs tests under sanitizers: those of the executor under the ones of addresses and undefined behaviour, those of its lanes, whose
kernels are the tests' own, under the one of threads.

    scripts/accept.sh sanitizers [PROGRAM, all if none: a test, or xt-run]

Writes tests/accuracy/sanitizers.json, on which tests/accuracy asserts. Uses only the standard library.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests/accuracy/sanitizers.json"
# Preset of the build, the programs of tests that run, and whether xt-run trains whole plans as well.
RUNS = [("tsan", ["lanes_test"], False),
        ("asan_executor", ["allocator_test", "communicators_test", "conformance_execute_test", "data_test", "lanes_test", "safetensors_test"],
         True)]
XT_PLAN = ROOT / "build/release/planner/cli/xt-plan"
COMMON = ["--machine", "h100_sxm", "--pack-length", "128"]
PLANS = {
    "dense, 1 rank, fp32": ["--model", "tiny_dense", "--devices", "1", "--compute-dtype", "fp32"],
    "dense, 2 ranks, Muon, bf16": ["--model", "tiny_dense", "--devices", "2", "--optimizer", "muon"],
    "dense, 2 ranks, Ulysses, accumulation": ["--model", "tiny_dense", "--devices", "2", "--sequence-parallel", "2",
                                              "--gradient-accumulation", "2", "--compute-dtype", "fp32"],
    "MoE, 2 ranks, experts spread, swap, recompute": ["--model", "tiny_moe", "--devices", "2", "--expert-parallel", "2", "--swap", "all",
                                                      "--compute-dtype", "fp32"],
    "MoE, 2 ranks, Domino, bf16, balance loss": ["--model", "tiny_moe", "--devices", "2", "--expert-parallel", "2", "--recompute", "none",
                                                 "--intra-layer-micro-batches", "2", "--balance-loss", "0.01"],
}
OPTIONS = {"ASAN_OPTIONS": "detect_odr_violation=0:strict_string_checks=1:detect_stack_use_after_return=1",
           "LSAN_OPTIONS": f"suppressions={ROOT}/tests/sanitizers/leaks.txt:print_suppressions=0",
           "UBSAN_OPTIONS": "print_stacktrace=1", "TSAN_OPTIONS": "halt_on_error=0:second_deadlock_stack=1", "OMP_NUM_THREADS": "1"}


def build(preset, targets):
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    subprocess.run(["cmake", "--preset", preset, *launcher], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "--preset", preset, "--target", *targets], cwd=ROOT, check=True)


def row_of(preset, what, ended, passed, failed):
    """What came of a program; whatever a sanitizer said is a report."""
    said = ended.stdout + ended.stderr
    reports = len(re.findall(r"^(?:==\d+==ERROR|WARNING: ThreadSanitizer|.*: runtime error:)", said, re.MULTILINE))
    if ended.returncode != 0 or reports:
        print(said[-6000:], file=sys.stderr)
    row = {"preset": preset, "program": what, "passed": passed, "failed": failed, "reports": reports}
    print(json.dumps(row), flush=True)
    return row


def run(*command):
    return subprocess.run(command, env=os.environ | OPTIONS, text=True, errors="replace", capture_output=True)


def test(preset, name):
    ended = run(next((ROOT / "build" / preset / "tests").rglob(name)))
    passed = len(re.findall(r"^\[       OK \]", ended.stdout, re.MULTILINE))
    failed = len(re.findall(r"^\[  FAILED  \] \S+ \(", ended.stdout, re.MULTILINE))
    return row_of(preset, name, ended, passed, max(failed, int(ended.returncode != 0)))


def train(preset, folder, name, flags):
    """Trains a plan, goes on from its checkpoint, and then from the weights that it saved."""
    plan, data, weights = folder / "plan", folder / "text.txt", folder / "weights"
    subprocess.run([XT_PLAN, "schedule", *COMMON, *flags, "--out", plan, "--force"], check=True, stdout=subprocess.DEVNULL)
    begin = [ROOT / "build" / preset / "executor/cli/xt-run", "train", plan, "--data", data, "-q", "--force"]
    parts = [["--steps", "4", "--checkpoint-every", "2", "--record-steps", "3"],
             ["--steps", "6", "--checkpoint-every", "2", "--resume", "--save-weights", weights],
             ["--steps", "2", "--weights", weights]]
    ends = [run(*begin, *part) for part in parts]
    worst = max(ends, key=lambda end: (end.returncode != 0, "ERROR" in end.stderr or "runtime error" in end.stderr))
    return row_of(preset, f"xt-run: {name}", worst, sum(end.returncode == 0 for end in ends), sum(end.returncode != 0 for end in ends))


def rows_of(preset, tests, trains):
    build(preset, tests + ["xt-run"] * trains)
    rows = [test(preset, name) for name in tests]
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "text.txt").write_text("".join(f"the quick brown fox {i % 7} jumps over\n" for i in range(4000)))
        return rows + [train(preset, pathlib.Path(folder), *plan) for plan in PLANS.items() if trains]


def main():
    wanted = sys.argv[1:]
    rows = json.loads(TABLE.read_text())["rows"] if wanted and TABLE.exists() else []
    for preset, tests, trains in RUNS:
        tests = [name for name in tests if not wanted or name in wanted]
        trains = trains and (not wanted or "xt-run" in wanted)
        if trains:
            subprocess.run(["scripts/build.sh", "xt-plan"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        found = rows_of(preset, tests, trains) if tests or trains else []
        renewed = {(row["preset"], row["program"]) for row in found}
        rows = [row for row in rows if (row["preset"], row["program"]) not in renewed] + found
    TABLE.write_text(json.dumps({"schema": "xt.acceptance/1", "command": "scripts/accept.sh sanitizers", "rows": rows}, indent=1) + "\n")
    return 1 if any(row["failed"] or row["reports"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
