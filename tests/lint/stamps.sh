#!/bin/sh
# usage: tests/lint/stamps.sh MAKE      What one target alone is compiled with does not make everything else look out of date.
set -u
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
built() { "$1" -s CI=1 CUDA=0 BUILD=release O="$folder" B="$folder" "$folder/$2" >"$folder/said" 2>&1 || { cat "$folder/said" && exit 1; }; }
bad=0
built "$1" flags
cp "$folder/flags" "$folder/first"
for object in tests/test_file.c.o cli/version.c.o pattern/spec.c.o; do
    built "$1" "$object"
    cmp -s "$folder/flags" "$folder/first" && continue
    echo "stamps: $object changes what all others are compiled with (FLAGS in the Makefile)"
    bad=$((bad + 1))
done
[ $bad -eq 0 ] && echo "stamps: nothing found"
exit $bad
