#!/bin/sh
# usage: tests/plug.sh S2
#
# Builds the plug of docs/examples/plug outside the tree, with the installed header and nothing else, and has it
# judged: as it is, and with each fault that it can be built with, which must be convicted and named.
set -eu
s2=$(realpath "$1")
root=$(cd "$(dirname "$0")/.." && pwd)
away=$(mktemp -d "${TMPDIR:-/tmp}/s2-plug.XXXXXX")
trap 'rm -rf "$away"' EXIT
cp "$root/judge/s2_kernel_plug.h" "$root/docs/examples/plug/mine.c" "$away"
cd "$away"
design='heads 4; kv-heads 2; block 16; head-dim 32; layers all: local 2 | stride 3 phase head'
n=0

build() { ${CC:-cc} -std=c11 -O2 -Wall -Wextra -Wno-nonnull -Werror -shared -fPIC -I. ${2:+"-D$2"} "${3:-mine.c}" -o "$1" -lm; }

# expect CODE TEXT FILE OPTION...: exit code and a part of what is said
expect() {
    code=$1 text=$2 file=$3
    shift 3
    rc=0
    "$s2" validate "$design" --no-db --device cpu --len 128 --kernel "./$file" "$@" >said 2>&1 || rc=$?
    [ "$rc" -eq "$code" ] && grep -qF -- "$text" said && n=$((n + 1)) && return
    cat said
    echo "plug.sh: $file $*: exit code $rc, expected $code and: $text"
    exit 1
}

build mine.so ""
expect 0 "every pair of the layer" mine.so
expect 0 "  ok" mine.so --phase decode
expect 0 "  ok" mine.so --dtype fp32
expect 5 "takes f32 and bf16" mine.so --dtype fp16
expect 0 "  ok" mine.so --phase train
expect 0 "  ok" mine.so --phase train --dtype fp32
sed 's/^int s2_plug_backward/int another_name/' mine.c >forward.c
build forward.so "" forward.c
expect 5 "exports no s2_plug_backward" forward.so --phase train
for fault in CORNER LATE DENSE GROUPED BEYOND CRASH HANG; do build "$fault.so" "$fault"; done
expect 1 "wrong_pairs: layer 0, length 32: the needle at key 21" CORNER.so
expect 1 "against the pattern" DENSE.so
expect 1 "wrong_pairs" LATE.so
expect 1 "by the pattern:" LATE.so
expect 1 "wrong_values" GROUPED.so
expect 1 "wrong_" LATE.so --phase train --dtype fp32
expect 1 "out_of_bounds: byte -1 of the output" BEYOND.so
expect 1 "launch_failed: CRASH.so was ended by signal 11" CRASH.so
expect 1 "timeout" HANG.so --timeout 1
printf 'not an object\n' >text.so
expect 5 "text.so" text.so
expect 5 "cannot open" missing.so
echo "$n plugs judged as they must be"
