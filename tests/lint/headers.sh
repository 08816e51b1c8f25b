#!/bin/sh
# Every header of the rooms alone, and all of them together in one C and one C++ unit: no type has two meanings,
# and a C++ program can include what it wants.
# usage: tests/lint/headers.sh CC CXX FLAGS... < list of headers    (CC and CXX may be several words: "ccache gcc")
# shellcheck disable=SC2086 # words on purpose
set -eu
cd "$(dirname "$0")/../.."
cc=$1 cxx=$2
shift 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cat >"$scratch/list"
xargs -P "$(nproc)" -n 1 $cc -std=c11 "$@" -fsyntax-only -x c <"$scratch/list"
sed 's/.*/#include "&"/' "$scratch/list" >"$scratch/all.c"
$cc -std=c11 "$@" -fsyntax-only -x c "$scratch/all.c"
grep -vE '"cli/|/internal\.h' "$scratch/all.c" >"$scratch/library.c" # a program, and what a room keeps to itself: C alone
$cxx -std=c++17 -D_GNU_SOURCE -I. -Wall -Wextra -fsyntax-only -x c++ "$scratch/library.c"
echo "$(wc -l <"$scratch/list") headers stand alone and together, in C and in C++"
