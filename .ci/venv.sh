#!/bin/sh
# venv.sh PYTHON FOLDER [asked]: makes the virtual environment FOLDER with PYTHON, or says what is wrong with the one
# that is there. With `asked` somebody named PYTHON, so an environment of another version is not what they meant.
set -eu
python=$1 folder=$2 asked=${3:-}

stop() { printf 'make: %s\n' "$@" >&2; exit 1; }

# 3.12, say; fails where it does not run.
version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

is_too_old() { case $1 in 2.* | 3.[0-9] | 3.10) true ;; *) false ;; esac; }

wanted=$(version "$python") || wanted=
if [ ! -e "$folder" ] && [ ! -L "$folder" ]; then
  [ -n "$wanted" ] || stop "$python does not run. Name a Python of 3.11 or newer: make PYTHON=python3.12"
  ! is_too_old "$wanted" || stop "$python is Python $wanted; 3.11 or newer is needed: make PYTHON=python3.12"
  "$python" -m venv "$folder" || { rm -rf "$folder"; exit 1; }
  exit
fi

again="Remove it and run make again: rm -rf $folder"
found=$(version "$folder/bin/python") || stop "$folder/bin/python does not run: was the Python that made $folder removed? $again"
made=$(sed -n 's/^version *= *\([0-9]*\.[0-9]*\).*/\1/p' "$folder/pyvenv.cfg" 2>/dev/null) || made=
[ "$found" = "$made" ] || stop "$folder was made with Python ${made:-of an unknown version}, and $folder/bin/python is Python $found now. $again"
! is_too_old "$found" || stop "$folder has Python $found; 3.11 or newer is needed. $again PYTHON=python3.12"
"$folder/bin/python" -c 'import pip' 2>/dev/null || stop "$folder has no pip: it was not completely set up. $again"
if [ "$found" != "$wanted" ]; then
  [ -z "$asked" ] || stop "$folder has Python $found, and $python is Python ${wanted:-that does not run}. $again PYTHON=$python, or name another folder: make VENV=.venv-${wanted:-other} PYTHON=$python"
fi
