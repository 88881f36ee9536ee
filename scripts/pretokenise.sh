#!/usr/bin/env bash
# Tokenises text once, by a Hugging Face tokenizer, into files that xt-run trains on (--data PREFIX.bin)
# and xt-plan reads lengths from (--sample-lengths PREFIX.idx). Installs the tokenizers package.
#   scripts/pretokenise.sh --tokenizer FOLDER --out PREFIX [--key text] [--end TOKEN] FILE...
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/scripts/setup.sh" tokenise
exec "$root/.venv/bin/python" "$root/scripts/pretokenise.py" "$@"
