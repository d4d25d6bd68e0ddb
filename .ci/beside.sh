#!/usr/bin/env bash
# beside.sh FIRST SECOND...: runs SECOND, and beside it the shell command FIRST, whose output comes in one piece when it
# has ended. Fails where one of them fails, and says at the end that FIRST did.
set -uo pipefail
first=$1
shift
told=$(mktemp)
set -m  # a process group of its own, all of which is ended where SECOND is interrupted
(
  nice bash -c "$first" >"$told" 2>&1
  status=$?
  printf '\n%s\n' "$(<"$told")"
  exit "$status"
) &
pid=$!
set +m
trap 'kill -- "-$pid" 2>/dev/null; rm -f "$told"' EXIT
trap 'exit 130' INT
"$@"
status=$?
wait "$pid" && exit "$status"
echo "failed: $first; what it said is above" >&2
exit 1
