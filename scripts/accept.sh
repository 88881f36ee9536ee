#!/usr/bin/env bash
# Acceptance that reads a clock or takes long; writes the table that the tests assert on.
#   scripts/accept.sh end_to_end [time|memory|planning]
#   scripts/accept.sh cost_model [published|techniques|search]
#   scripts/accept.sh executor
#   scripts/accept.sh leaks
#   scripts/accept.sh overlap     needs root, ip and tc
#   scripts/accept.sh fuzz [SECONDS] [READER]
#   scripts/accept.sh sanitizers
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
name=${1:-}
case $name in
end_to_end | cost_model | executor | leaks | overlap) shift ;;
fuzz | sanitizers)
  shift
  exec python3 "scripts/accept_$name.py" "$@"
  ;;
*)
  echo "usage: scripts/accept.sh end_to_end [time|memory|planning] | cost_model [published|techniques|search] |" \
    "executor | leaks | overlap | fuzz [SECONDS] [READER] | sanitizers" >&2
  exit 2
  ;;
esac
scripts/setup.sh run
scripts/build.sh
exec .venv/bin/python "scripts/accept_$name.py" "$@"
