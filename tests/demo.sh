#!/bin/sh
# The whole job once on a real model: Phi-3-small's published config is imported, proved, priced, computed,
# stored, listed and exported. Everything is written to demo/ beside the programs' folder, where the next run replaces it.
# usage: tests/demo.sh DIRECTORY_OF_THE_PROGRAMS
set -eu
bin=$1
work=$(dirname "$bin")/demo
rm -rf "$work"
mkdir "$work"
export S2_DB="$work/s2.db"
step() {
    printf '\n\033[1m%s\033[0m\n' "$1"
}
run() {
    printf '$'
    for word in "$@"; do
        case $word in
        "$work"/*) printf ' %s' "${word#"$work"/}" ;;
        "$bin"/*) printf ' %s' "${word#"$bin"/}" ;;
        *\ * | *\;*) printf " '%s'" "$word" ;;
        *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
    "$@"
}
[ -t 1 ] || step() { printf '\n%s\n' "$1"; }

step "1. Import a config that people run"
run "$bin/s2" import docs/examples/phi-3-small-8k.json -o "$work/phi3.s2"
cat "$work/phi3.s2"
step "2. Prove it, for every context length; and let the certificate be checked by another program"
run "$bin/s2" check "$work/phi3.s2"
run "$bin/s2check" --certificate "$work/phi3.cert" "$work/phi3.s2" >"$work/check.txt"
run "$bin/s2cert" "$work/phi3.cert"
step "3. Refute the rotation that DKernel's defaults give with stride 16 on 8 KV heads"
run "$bin/s2" check 'name rotation-16; heads 32; kv-heads 8; layers all: local 16 | stride 16 phase kv' || [ $? = 1 ]
step "4. Price it on an H200: a bound, exact bytes, the KV cache in three layouts"
run "$bin/s2" sim "$work/phi3.s2" --len 8k
step "5. Compute it: what the kernel really reads, its numerics, needles at every depth"
run "$bin/s2" validate "$work/phi3.s2" --device cpu --len 2k
step "6. All of it was stored"
run "$bin/s2" ls
step "7. Ship it: exported, re-imported and compared before it was written"
run "$bin/s2" export "$work/phi3.s2" --to hf -o "$work/config.json"
run "$bin/s2" export "$work/phi3.s2" --to vllm -o "$work/vllm.json"
run "$bin/s2" diff "$work/phi3.s2" "$work/config.json"
printf '\nEverything above is in %s; the next run replaces it.\n' "$work"
