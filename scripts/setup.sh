#!/usr/bin/env bash
# Installs what the programs (`run`) or also the tests (`test`) need, and skips what is there.
#
#   scripts/setup.sh run       Debian packages, and .venv with LibTorch (the torch wheel, no Python imports)
#   scripts/setup.sh test      also what `import torch` needs, the oracle packages, clang-format-14 and Open MPI
#   scripts/setup.sh bench     what `test` does, and .venv/peer with the newest transformers, beside the tests'
#   scripts/setup.sh tokenise  .venv with the tokenizers package alone
#
# XT_TORCH_ROOT=FOLDER uses the torch package in FOLDER (the one that holds include/ and lib/)
# instead of the wheel.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

debian_run=(g++ cmake ninja-build git python3-venv libyaml-cpp-dev nlohmann-json3-dev libcli11-dev
  libfmt-dev libeigen3-dev libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev ccache)
debian_test=(clang-format-14 openmpi-bin)

torch_pin=torch==2.11.0
tokenizers_pin=tokenizers==0.22.2

# Libraries that the torch wheel is linked to, and the wheel of each. libtorch_cpu needs the first
# two, `import torch` all of them (it loads libtorch_cuda even where there is no GPU). What is not
# listed (triton, cusolver, nvrtc, nvtx) is loaded only when a GPU is used.
libraries_run=(libcudart.so.13=nvidia-cuda-runtime==13.0.96 libcupti.so.13=nvidia-cuda-cupti==13.0.85)
libraries_test=(libcublas.so.13=nvidia-cublas==13.1.0.3 libcudnn.so.9=nvidia-cudnn-cu13==9.19.0.56
  libcufft.so.12=nvidia-cufft==12.0.0.61 libcurand.so.10=nvidia-curand==10.4.0.35
  libcusparse.so.12=nvidia-cusparse==12.6.3.3 libnvJitLink.so.13=nvidia-nvjitlink==13.0.88
  libcusparseLt.so.0=nvidia-cusparselt-cu13==0.8.0 libnccl.so.2=nvidia-nccl-cu13==2.28.9
  libnvshmem_host.so.3=nvidia-nvshmem-cu13==3.4.5 libcufile.so.0=nvidia-cufile==1.15.1.6)

# Python packages of the tests: what torch and transformers import, and the notebook's runner.
python_test=("$tokenizers_pin" numpy==2.4.6 safetensors==0.8.0 transformers==4.57.6
  filelock==4.3.1 typing_extensions==4.16.0 sympy==1.14.0 mpmath==1.3.0 networkx==3.6.1
  Jinja2==3.1.6 MarkupSafe==3.0.4 fsspec==2026.9.0 huggingface_hub==0.36.2 hf-xet==1.8.0
  packaging==26.4 PyYAML==6.0.4 regex==2026.11.19 requests==2.34.2 tqdm==4.70.1
  certifi==2026.10.19.post1 charset-normalizer==3.5.3 idna==3.20 urllib3==2.8.0
  matplotlib==3.11.2 contourpy==1.3.3 cycler==0.12.1 fonttools==4.68.0 kiwisolver==1.5.1
  pillow==13.0.0 pyparsing==3.3.3 python-dateutil==4.0.0 tzdata==2026.6
  nbformat==5.11.1 nbclient==0.11.0 ipykernel==7.4.0 comm==0.2.3 debugpy==1.8.22
  fastjsonschema==2.22.3 ipython==9.18.1 ipython_pygments_lexers==1.1.1 jedi==0.20.1 parso==0.8.7
  jsonschema==4.26.0 jsonschema-specifications==2025.9.1 referencing==0.37.0 rpds-py==2026.9.1
  attrs==26.1.0 jupyter_client==8.10.0 jupyter_core==5.9.1 platformdirs==4.14.8
  matplotlib-inline==0.2.2 nest-asyncio2==1.7.4 prompt_toolkit==3.0.53 wcwidth==0.9.4
  psutil==7.2.2 Pygments==2.21.0 pyzmq==27.3.0 stack-data==0.6.3 asttokens==3.0.2
  executing==2.3.0 pure_eval==0.2.4 tornado==6.6.1 traitlets==5.16.1 pexpect==4.9.0
  ptyprocess==0.7.0)

# The peer of scripts/bench_executor.sh: the release of transformers that has grouped products of experts.
python_peer=(transformers==5.24.0 huggingface_hub==2.4.0 tokenizers==0.23.3 httpx2==2.16.2 httpcore2==2.16.2
  anyio==4.16.0 h11==0.16.0 truststore==0.10.5 typer==0.29.2 click==8.5.1 rich==15.0.0 shellingham==1.5.4
  markdown-it-py==4.3.0 mdurl==0.1.2 pydantic==2.14.4 pydantic_core==2.50.5 annotated-types==0.8.0
  annotated-doc==0.0.7 typing-inspection==0.4.5)

say() { echo "setup: $*" >&2; }

die() {
  echo "setup: error: $*" >&2
  exit 2
}

# Runs a command as root.
as_root() {
  if [[ $(id -u) == 0 ]]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "installing Debian packages needs root or sudo; missing: ${missing_debian[*]}"
  fi
}

install_debian() {
  missing_debian=()
  local package
  for package in "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
      missing_debian+=("$package")
  done
  ((${#missing_debian[@]})) || return 0
  say "installing Debian packages as root: ${missing_debian[*]}"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing_debian[@]}" >&2
}

make_venv() { [[ -x .venv/bin/python ]] || /usr/bin/python3 -m venv .venv; }

# Installs the pinned packages that .venv lacks, without what they would pull in.
install_python() {
  local missing
  missing=$(.venv/bin/python - "$@" <<'PYTHON'
import importlib.metadata as metadata
import sys

for pin in sys.argv[1:]:
    name, wanted = pin.split("==")
    try:
        found = metadata.version(name).split("+")[0]
    except metadata.PackageNotFoundError:
        found = None
    if found != wanted:
        print(pin)
PYTHON
  )
  [[ -n $missing ]] || return 0
  say "installing into .venv:" $missing
  # shellcheck disable=SC2086 # one word a pin
  .venv/bin/python -m pip install --quiet --no-input --disable-pip-version-check --no-deps $missing >&2
}

# Installs the wheel of each `library=pin` that the loader does not find by itself. A library that
# is only in the CUDA toolkit's folder is linked to where torch looks for it.
install_libraries() {
  local beside_torch entry library pins=() cached
  beside_torch=$(echo .venv/lib/python3*/site-packages)/nvidia/cu13/lib
  cached=$(/sbin/ldconfig -p)
  for entry in "$@"; do
    library=${entry%%=*}
    [[ $cached == *"$library "* ]] && continue
    if [[ -e /usr/local/cuda/lib64/$library ]]; then
      mkdir -p "$beside_torch"
      [[ -e $beside_torch/$library ]] || ln -s "/usr/local/cuda/lib64/$library" "$beside_torch/$library"
    else
      pins+=("${entry#*=}")
    fi
  done
  ((${#pins[@]} == 0)) || install_python "${pins[@]}"
}

mode=${1:-}
[[ $mode == run || $mode == test || $mode == bench || $mode == tokenise ]] ||
  die "usage: scripts/setup.sh run|test|bench|tokenise"
command -v dpkg-query >/dev/null || die "this script installs Debian packages; this is not Debian"

if [[ $mode == tokenise ]]; then
  install_debian python3-venv
  make_venv
  install_python "$tokenizers_pin"
  exit
fi
install_debian "${debian_run[@]}"
make_venv
if [[ -n ${XT_TORCH_ROOT:-} ]]; then
  [[ -e $XT_TORCH_ROOT/lib/libtorch_cpu.so ]] ||
    die "XT_TORCH_ROOT is $XT_TORCH_ROOT, which holds no lib/libtorch_cpu.so"
  say "using LibTorch in $XT_TORCH_ROOT"
else
  install_python "$torch_pin"
fi
install_libraries "${libraries_run[@]}"

if [[ $mode == test || $mode == bench ]]; then
  install_debian "${debian_test[@]}"
  install_libraries "${libraries_test[@]}"
  install_python "${python_test[@]}"
fi
if [[ $mode == bench && ! -d .venv/peer/transformers-${python_peer[0]#*==}.dist-info ]]; then
  say "installing into .venv/peer: ${python_peer[*]}"
  .venv/bin/python -m pip install --quiet --no-input --disable-pip-version-check --no-deps --upgrade \
    --target .venv/peer "${python_peer[@]}" >&2
fi
