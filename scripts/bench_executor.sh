#!/usr/bin/env bash
# xt-run against PyTorch's FSDP2 with transformers' Qwen3-MoE on this machine, side by side, in fp32 and
# bf16. Takes some minutes; writes tests/accuracy/bench_executor.json.
#   scripts/bench_executor.sh [--steps N] [--rounds N]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/setup.sh bench
scripts/build.sh xt-plan xt-run
exec .venv/bin/python scripts/bench_executor.py "$@"
