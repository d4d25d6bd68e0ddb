#!/usr/bin/env bash
# in-memory.sh COMMAND...: runs COMMAND with its temporary files in memory where there is room for them, unless TMPDIR
# says where they are to be. Tests sync thousands of small files, and wait for a disk longer than they compute.
set -euo pipefail
memory=/dev/shm
least_kib=$((2 << 20))  # ten times what the tests need; a container has 64 MiB
if [ -z "${TMPDIR:-}" ] && [ -w "$memory" ]; then
  read -r _ _ _ free _ < <(df -Pk "$memory" | tail -n 1)
  # The same folder each time: what is left there of tests that failed, pytest takes away after three runs. A short
  # name, because the path of a socket has a hundred characters.
  folder=$memory/lacuna-$(id -u)
  if [ "$free" -ge "$least_kib" ] && mkdir -p -m 700 "$folder" && [ -O "$folder" ]; then
    export TMPDIR=$folder
  fi
fi
exec "$@"
