#!/bin/sh
# The validation campaign on a GPU: what must be true on silicon, as one file of rows.
# usage: tests/bench/campaign.sh S2 ROWS [DEVICE]     exits 0 when every row is ok and the rows say what they must
# 1. Phi-3-small (both kinds of layer), L8V16 and a token-exact window: pairs, values, needles from 1k to 128k, times.
# 2. A broken rotation (stride 16 on 8 KV heads): the cells that no head reads are exactly those of the proof.
# 3. Bytes from the hardware's counters beside the prediction (--counters) on a dozen problems.
set -u
s2=$1 rows=$2 device=${3:-gpu}
PHI3='name phi-3-small; layers 2; heads 32; kv-heads 8; head-dim 128; layers all: local 16 | stride 8 phase head+1; layers 1: dense'
ROTATED='name phi3-kv; heads 32; kv-heads 8; head-dim 128; layers all: local 16 | stride 8 phase kv'
L8V16='name L8V16; heads 32; kv-heads 32; head-dim 128; layers all: local 8 | stride 16 phase head'
L16V32='name L16V32; heads 32; kv-heads 32; head-dim 128; layers all: local 16 | stride 32 phase head'
TOKENS='name window; heads 16; kv-heads 4; head-dim 64; layers all: sink 4t | local 1000t'
BROKEN='name broken; heads 32; kv-heads 8; head-dim 128; layers all: local 16 | stride 16 phase kv'
DENSE='name dense; heads 32; kv-heads 32; head-dim 128; layers all: dense'
bad=0
: >"$rows"
run() {
    started=$(date +%s)
    "$s2" validate --no-db --device "$device" --json "$@" >>"$rows" || bad=1
    echo "$(($(date +%s) - started)) s: validate $*" | cut -c1-150
}
run --len 1k,2k,8k,32k --runs 10 "$PHI3"
run --len 128k --runs 10 "$PHI3"
run --len 2k,8k,32k --runs 10 "$L8V16" "$L16V32" "$ROTATED"
run --len 3001,8k --runs 5 "$TOKENS"
run --len 4k --batch 5 --dtype fp16 --runs 5 "$ROTATED"
run --len 8k,32k --runs 5 "$BROKEN"
run --len 8k,32k,128k --runs 5 --pairs 2m --phase decode "$L8V16" "$ROTATED"
run --len 8k,32k,128k --runs 5 --pairs 2m --counters "$L8V16" "$ROTATED" "$L16V32"
run --len 8k,32k --runs 5 --pairs 2m --counters "$PHI3" "$DENSE"
# The cells of the broken pattern: a hole in the union of the heads, and nowhere else, is a cell that stays away.
holes=$(grep '"name":"broken"' "$rows" | grep -o '"cells":"[^"]*"' | tr -cd '.' | wc -c)
lost=$(grep -o '"cells":"[^"]*"' "$rows" | tr -cd '!?' | wc -c)
sum() { grep -o "\"schema\":\"s2validate-total.*" "$rows" | sed "s/.*\"$1\":\([0-9]*\).*/\1/" | awk '{ n += $1 } END { printf "%.0f", n }'; }
echo "$(grep -c '"schema":"s2validate/1"' "$rows") verdicts, $(grep -c '"outcome":"ok"' "$rows") ok; $(sum pairs) pairs compared," \
    "$(sum pairs_wrong) wrong; $(grep -c '"kernels":' "$rows") with counters; broken rotation: $holes cells unread, as its proof says; $lost cells lost or leaked"
[ "$lost" -eq 0 ] && [ "$holes" -gt 0 ] && [ $bad -eq 0 ]
