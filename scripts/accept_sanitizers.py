"""Runs every test program under the sanitizers of addresses, leaks and undefined behaviour, and trains whole plans under these and
under that of threads; lanes, whose kernels are the tests' own, have theirs under the latter as well.

    scripts/accept.sh sanitizers [PART…]

A part is a test program, a preset, or xt-run; `rest` is all that the table does not have. Without one all run, those that are most at
risk first. Writes tests/accuracy/sanitizers.json after each program, so that a run that was ended goes on with `rest`; tests/accuracy
asserts on it. Uses only the standard library.
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
ADDRESSES, THREADS = "asan_executor", "tsan_executor"
RISKIEST = ["kernels_test", "oracle_test", "checkpoints_test", "safetensors_test", "data_test", "xt_run_test"]
# Cases that cannot run, and why.
LEFT_OUT = {
    "faults_test": {"Faults.MemoryThatTheSystemRefusesEndsAllRanksAndIsNamedWithWhatWantedIt":
                    "limits the address space, of which the sanitizer itself takes 20 TB"},
}
# Programs that run a second time, and how; as in their CMakeLists.txt.
AGAIN = {"kernels_test": ["aten_kernels", "--gtest_filter=-*NumberOfThreads:Exponential*:Put*:KernelTable*"]}
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
           "UBSAN_OPTIONS": "print_stacktrace=1", "OMP_NUM_THREADS": "1",
           # Of LibTorch's own code, which is not instrumented, only what it locks is known.
           "TSAN_OPTIONS": "halt_on_error=0:second_deadlock_stack=1:ignore_noninstrumented_modules=1"}


def build(preset, target):
    if not (ROOT / "build" / preset / "build.ninja").exists():
        launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        subprocess.run(["cmake", "--preset", preset, *launcher], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "--preset", preset, "--target", target], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def programs():
    """The tests that CMake knows, those that are most at risk first."""
    names = {f"{name}_test" for path in (ROOT / "tests").rglob("CMakeLists.txt") for name in re.findall(r"^xt_test\((\w+)", path.read_text(), re.MULTILINE)}
    return RISKIEST + sorted(names - set(RISKIEST))


def row_of(preset, what, ends, passed, failed):
    """What came of a program; whatever a sanitizer said is a report."""
    said = "".join(end.stdout + end.stderr for end in ends)
    reports = len(re.findall(r"^(?:==\d+==ERROR|WARNING: ThreadSanitizer|.*: runtime error:)", said, re.MULTILINE))
    if failed or reports:
        print(said[-6000:], file=sys.stderr)
    return {"preset": preset, "program": what, "passed": passed, "failed": failed, "reports": reports}


def run(*command):
    return subprocess.run(command, env=os.environ | OPTIONS, text=True, errors="replace", capture_output=True)


def test(preset, program):
    name, *again = program.split()
    left_out = LEFT_OUT.get(name, {})
    arguments = AGAIN[name] if again else [f"--gtest_filter=-{':'.join(left_out)}"] if left_out else []
    ended = run(next((ROOT / "build" / preset / "tests").rglob(name)), *arguments)
    passed = len(re.findall(r"^\[       OK \]", ended.stdout, re.MULTILINE))
    failed = len(re.findall(r"^\[  FAILED  \] \S+ \(", ended.stdout, re.MULTILINE))
    row = row_of(preset, program, [ended], passed, max(failed, int(ended.returncode != 0)))
    return row | ({"left_out": left_out} if left_out else {})


def train(preset, name):
    """Trains a plan, goes on from its checkpoint, and then from the weights that it saved."""
    with tempfile.TemporaryDirectory() as folder:
        plan, data, weights = (pathlib.Path(folder, part) for part in ("plan", "text.txt", "weights"))
        data.write_text("".join(f"the quick brown fox {i % 7} jumps over\n" for i in range(4000)))
        subprocess.run([XT_PLAN, "schedule", *COMMON, *PLANS[name], "--out", plan], check=True, stdout=subprocess.DEVNULL)
        begin = [ROOT / "build" / preset / "executor/cli/xt-run", "train", plan, "--data", data, "-q", "--force"]
        parts = [["--steps", "4", "--checkpoint-every", "2", "--record-steps", "3", "--stall-timeout", "300"],
                 ["--steps", "6", "--checkpoint-every", "2", "--resume", "--save-weights", weights],
                 ["--steps", "2", "--weights", weights]]
        ends = [run(*begin, *part) for part in parts]
    return row_of(preset, f"xt-run: {name}", ends, sum(end.returncode == 0 for end in ends), sum(end.returncode != 0 for end in ends))


def parts():
    """(preset, what the table calls it, the target that is built, what runs it) of all that there is."""
    tests = [(ADDRESSES, f"{name} {again}".strip(), name, test) for name in programs() for again in ["", *AGAIN.get(name, [])[:1]]]
    plans = [(preset, f"xt-run: {name}", "xt-run", lambda preset, program: train(preset, program.removeprefix("xt-run: ")))
             for preset in (ADDRESSES, THREADS) for name in PLANS]
    return [part for part in plans if part[0] == ADDRESSES] + tests + [(THREADS, "lanes_test", "lanes_test", test)] + [
        part for part in plans if part[0] == THREADS]


def chosen(wanted, rows):
    """Of all parts those that are `wanted`."""
    def is_wanted(preset, program, target):
        return not wanted or preset in wanted or target in wanted or ("rest" in wanted and (preset, program) not in rows)

    return [part for part in parts() if is_wanted(*part[:3])]


def main():
    rows = {(row["preset"], row["program"]): row for row in json.loads(TABLE.read_text())["rows"]} if TABLE.exists() else {}
    known = {part[:2] for part in parts()}
    todo = chosen(sys.argv[1:], rows)
    if any(target == "xt-run" for _, _, target, _ in todo):
        subprocess.run(["scripts/build.sh", "xt-plan"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    for preset, program, target, runs in todo:
        build(preset, target)
        row = rows[preset, program] = runs(preset, program)
        print(json.dumps(row), flush=True)
        table = {"schema": "xt.acceptance/1", "command": "scripts/accept.sh sanitizers", "rows": [rows[key] for key in sorted(rows) if key in known]}
        TABLE.write_text(json.dumps(table, indent=1) + "\n")
    return 1 if any(row["failed"] or row["reports"] for row in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
