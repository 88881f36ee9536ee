"""Fuzzes the readers of files from outside with libFuzzer, under the sanitizers of addresses and undefined behaviour.

    scripts/accept.sh fuzz [SECONDS a reader, 300 if nothing is said] [READER, all if none]

Writes tests/accuracy/fuzz.json, on which tests/accuracy asserts, and keeps what covers most in tests/fuzz/corpus. What makes a
reader crash, hang or allocate more than it should stays in build/fuzz/findings, and the answer is no (exit code 1). Uses only the
standard library, and clang.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/fuzz"
CORPUS = ROOT / "tests/fuzz/corpus"
FINDINGS = BUILD / "findings"
TABLE = ROOT / "tests/accuracy/fuzz.json"
READER_FILES, READER_BYTES = 60, 30_000  # of what is found and kept a reader; seeds, which have names, come on top
LIMITS = ["-timeout=10", "-rss_limit_mb=1500", "-malloc_limit_mb=256"]


def build():
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    subprocess.run(["cmake", "--preset", "fuzz", *launcher], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "--preset", "fuzz", "--target", "fuzzers"], cwd=ROOT, check=True)


def is_seed(path):
    return not re.fullmatch(r"[0-9a-f]{40}", path.name)


def keep(fuzzer, found, corpus):
    """Of all files some of those that together cover as much."""
    with tempfile.TemporaryDirectory() as folder:
        seeds = pathlib.Path(folder, "seeds")
        small = pathlib.Path(folder, "small")
        seeds.mkdir()
        small.mkdir()
        for path in filter(is_seed, corpus.iterdir()):
            shutil.copy(path, small / path.name)
        subprocess.run([fuzzer, "-merge=1", small, corpus, found], check=True, capture_output=True)
        for path in corpus.iterdir():
            if not is_seed(path):
                path.unlink()
        for path in spread(sorted((p for p in small.iterdir() if not is_seed(p)), key=lambda p: (p.stat().st_size, p.name))):
            shutil.copy(path, corpus / path.name)


def spread(files):
    """So many of `files`, which are sorted by size, that they are small together: evenly, so that long ones are among them."""
    kept = files[:: max(1, -(-len(files) // READER_FILES))]
    while sum(path.stat().st_size for path in kept) > READER_BYTES:
        kept.pop()
    return kept


def fuzz(reader, seconds):
    fuzzer, corpus = BUILD / f"tests/fuzz/fuzz_{reader}", CORPUS / reader
    before = set(FINDINGS.glob(f"{reader}-*"))
    with tempfile.TemporaryDirectory() as found:
        run = subprocess.run([fuzzer, found, corpus, f"-max_total_time={seconds}", "-print_final_stats=1", "-use_value_profile=1",
                              f"-artifact_prefix={FINDINGS}/{reader}-", *LIMITS], text=True, errors="replace", capture_output=True)
        said = run.stderr
        if run.returncode == 0:
            keep(fuzzer, found, corpus)
    stat = {key: int(value) for key, value in re.findall(r"stat::(\w+):\s+(\d+)", said)}
    covered = re.findall(r" cov: (\d+) ft: (\d+)", said)
    findings = sorted(path.name for path in set(FINDINGS.glob(f"{reader}-*")) - before)
    if run.returncode != 0:
        print(said[-3000:], file=sys.stderr)
    return {"reader": reader, "seconds": seconds, "executions": stat.get("number_of_executed_units", 0),
            "executions_per_s": stat.get("average_exec_per_sec", 0), "peak_rss_mb": stat.get("peak_rss_mb", 0),
            "covered_edges": int(covered[-1][0]) if covered else 0, "findings": len(findings) + (run.returncode != 0 and not findings),
            "corpus_files": len(list(corpus.iterdir()))}


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    build()
    FINDINGS.mkdir(exist_ok=True)
    names = sorted(corpus.name for corpus in CORPUS.iterdir())
    rows = {row["reader"]: row for row in json.loads(TABLE.read_text())["rows"]} if TABLE.exists() else {}
    for name in sys.argv[2:] or names:
        row = rows[name] = fuzz(name, seconds)
        print(f"{row['reader']}: {row['executions']} executions, {row['executions_per_s']} a second, {row['covered_edges']} edges, "
              f"{row['findings']} findings", flush=True)
        table = {"schema": "xt.acceptance/1", "command": "scripts/accept.sh fuzz", "rows": [rows[key] for key in sorted(rows)]}
        TABLE.write_text(json.dumps(table, indent=1) + "\n")
    return 1 if any(row["findings"] for row in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
