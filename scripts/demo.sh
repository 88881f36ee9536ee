#!/usr/bin/env bash
# The main job from end to end: installs what is missing, builds, measures this machine, plans a small
# Qwen3-MoE run for two ranks, trains it on this project's own text, compares and calibrates.
# Everything it makes is in plans/demo.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/setup.sh run
scripts/build.sh xt-plan xt-run
plan=build/release/planner/cli/xt-plan
run=build/release/executor/cli/xt-run
out=plans/demo
data=(costmodel planner executor tests ARCHITECTURE.md LICENSE)
mkdir -p "$out"

heading() { printf '\n== %s\n\n' "$*"; }

# Plans a run, trains it and records steps: train_plan NAME STEPS RECORDED [xt-plan flags]
train_plan() {
  local name=$1 steps=$2 recorded=$3
  shift 3
  "$plan" schedule configs/runs/demo.yaml --machine "$out/machine.yaml" --out "$out/$name" --force "$@" \
    >"$out/$name.estimate.txt"
  "$run" train "$out/$name" --data "${data[@]}" --steps "$steps" --record-steps "$recorded" --force ${quiet:+-q}
}

heading "measuring this machine"
"$run" measure --quick --nproc 2 --out "$out/machine.yaml" --force

heading "planning"
"$plan" estimate configs/runs/demo.yaml --machine "$out/machine.yaml"

heading "training"
train_plan main 400 100-119

heading "predicted against measured"
"$plan" compare "$out/main" --trace "$out/trace.json" --force

heading "calibrating on two other plans, scored on the one above"
quiet=yes
train_plan dense 12 3-12 --model tiny_dense --pack-length 512 --sample-length 256 --swap none >/dev/null
train_plan routed 30 11-30 --pack-length 512 --sample-length 512 --recompute none --swap none >/dev/null
"$plan" calibrate "$out/dense" "$out/routed" --score "$out/main" --out "$out/overlay.yaml" --force

heading "what is where"
printf '%s\n' "  $out/main         plan directory: schedule, predicted and measured timelines" \
  "  $out/trace.json   recorded steps of both ranks beside the prediction, for Perfetto" \
  "  $out/machine.yaml profile of this machine" \
  "  $out/overlay.yaml calibration; use it with xt-plan --overlay"
