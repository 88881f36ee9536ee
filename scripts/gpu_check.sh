#!/usr/bin/env bash
# Checks --device cuda on one GPU: kernels against autograd, losses against the CPU's, the GPU's own
# profile, and predicted against measured time, MFU and memory of a model of 285M parameters with swap on
# and off.
#   scripts/gpu_check.sh pack FOLDER   a stripped build in FOLDER, at most 40 MiB, to take to a GPU
#   gpu_check.sh run OUT               from there or here; XT_TORCH_ROOT is that machine's torch. Writes
#                                      at most 6 files to OUT; exit code 1 without a GPU
# XT_CHECK_DEVICE=cpu-aten rehearses the run on a CPU, with a smaller model.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
[[ -d bin ]] || cd ..
usage() { sed -n '2,8s/^# //p' "${BASH_SOURCE[0]}" >&2; exit 2; }
[[ $# -eq 2 ]] || usage

build=${XT_BUILD:-build/release}
programs=("$build/executor/cli/xt-run" "$build/executor/cli/libxt_cuda.so" "$build/planner/cli/xt-plan"
  "$build/tests/executor/kernels/kernels_test")

pack() {
  mkdir -p "$1/bin"
  cp "${programs[@]}" "$1/bin"
  ldd "${programs[@]}" | awk '/lib(fmt|yaml-cpp)\.so/ { print $3 }' | sort -u | xargs -I{} cp -L {} "$1/bin"
  strip "$1"/bin/*
  cp -r configs profiles "$1"
  cp scripts/gpu_check.sh "$1"
  local kib
  kib=$(du -sk "$1" | cut -f1)
  echo "$1: $((kib / 1024)) MiB"
  [[ $kib -le 40960 ]] || { echo "error: more than 40 MiB" >&2; exit 1; }
}

# The GPU's profile; of one without, that of its generation.
machine_of() {
  case $1 in
    *H200*) echo h200_sxm ;;
    *A100*) echo a100_80g_sxm ;;
    *B200*) echo b200 ;;
    *) echo h100_sxm ;;
  esac
}

config() {
  local layers=16 hidden=1024 vocabulary=32768
  [[ $device == cuda ]] || { layers=2 hidden=128 vocabulary=512; }
  cat <<JSON
{"model_type": "qwen3", "vocab_size": $vocabulary, "hidden_size": $hidden, "num_hidden_layers": $layers,
 "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": $((3 * hidden)),
 "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "attention_bias": false,
 "tie_word_embeddings": true}
JSON
}

heading() { printf '\n== %s\n\n' "$*"; }

# Plans a run and trains it: train NAME DEVICE STEPS RECORDED [xt-plan flags]
train() {
  local name=$1 on=$2 steps=$3 recorded=$4
  shift 4
  "$plan" schedule --machine "profiles/$machine.yaml" --devices 1 --engine xt_run --out "$work/$name" --force "$@" \
    >"$work/$name.estimate.txt"
  "$run" train "$work/$name" --data "$work/text.txt" --device "$on" --steps "$steps" \
    --record-steps "$recorded" --force
}

losses() { sed -n 's/.*"loss":\([^,]*\),.*/\1/p' "$work/$1/metrics.jsonl"; }

check() {
  heading "this machine"
  "$run" devices
  if [[ $device == cuda ]]; then
    heading "kernels against autograd"
    if "$kernels" cuda >"$work/kernels.txt" 2>&1; then tail -n 1 "$work/kernels.txt"; else
      tail -n 60 "$work/kernels.txt"
      failed=yes
    fi
  fi
  heading "losses on the CPU and on $device"
  train tiny_cpu cpu 5 5 --model configs/models/tiny_dense.json --pack-length 512 >/dev/null
  train tiny_device "$device" 5 5 --model configs/models/tiny_dense.json --pack-length 512 >/dev/null
  paste <(losses tiny_cpu) <(losses tiny_device) | awk '
    { off = ($1 - $2) / $1; if (off < 0) off = -off; print $1, $2; if (off > 1e-4) bad = 1 }
    END { exit bad }' || failed=yes
  config >"$work/config.json"
  heading "a profile of this $device"
  "$run" measure --device "$device" --quick --bf16 --name measured --out "$out/profile.yaml" --force || failed=yes
  for swap in none all; do
    heading "a model of 285M parameters on a GPU, in bf16, swap $swap"
    local flags=(--model "$work/config.json" --compute-dtype bf16 --pack-length "$pack_length"
      --sample-length "$sample_length" --swap "$swap" --recompute all)
    train "swap_$swap" "$device" 10 6-9 "${flags[@]}"
    "$plan" compare "$work/swap_$swap" --trace "$work/swap_$swap.trace.json" --force
    echo "by the profile that was just measured:"
    "$plan" estimate --machine "$out/profile.yaml" --devices 1 --engine xt_run "${flags[@]}" | grep 'a step,' ||
      failed=yes
    cp "$work/swap_$swap/measured.jsonl" "$out/swap_$swap.measured.jsonl"
    cp "$work/swap_$swap/metrics.jsonl" "$out/swap_$swap.metrics.jsonl"
  done
  if [[ $failed == yes ]]; then echo "failed: see above"; fi
}

run_all() {
  out=$(mkdir -p "$1" && cd "$1" && pwd)
  device=${XT_CHECK_DEVICE:-cuda}
  if [[ -d bin ]]; then
    programs=(bin/xt-run bin/libxt_cuda.so bin/xt-plan bin/kernels_test)
    local torch=${XT_TORCH_ROOT:?the folder of the torch package}
    LD_LIBRARY_PATH=$PWD/bin:$torch/lib$(printf ':%s' "$torch"/../nvidia/*/lib)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
  else
    ln -sf "$PWD/${programs[1]}" "$(dirname "${programs[3]}")"
  fi
  run=${programs[0]} plan=${programs[2]} kernels=${programs[3]}
  local listed
  listed=$("$run" devices | grep '^cuda')
  if [[ $device == cuda && $listed != "cuda 0"* ]]; then
    echo "nothing was checked: $listed" >&2
    exit 1
  fi
  machine=$(machine_of "$listed") pack_length=8192 sample_length=1024 failed=no
  [[ $device == cuda ]] || { pack_length=128 sample_length=64; }
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  find configs profiles -type f -print0 | sort -z | xargs -0 cat >"$work/text.txt"
  check 2>&1 | tee "$out/report.txt"
  grep -q '^failed' "$out/report.txt" && exit 1
  echo "wrote $out"
}

case $1 in
  pack) pack "$2" ;;
  run) run_all "$2" ;;
  *) usage ;;
esac
