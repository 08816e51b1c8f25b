#!/bin/sh
# The validation campaign on a GPU: what must be true on silicon, as one file of rows.
# usage: tests/bench/campaign.sh S2 ROWS [DEVICE]     exits 0 when every row is ok and the rows say what they must
# PART=pairs or PART=bytes does the first or the second half alone; what a killed run had found is in ROWS*.
# 1. Side by side, untimed: pairs, values and needles of Phi-3-small (both kinds of layer, 1k to 128k), three rotations, a
#    token-exact window, a batch in fp16, decoding, and a broken rotation (stride 16 on 8 KV heads) whose cells that no
#    head reads must be those of the proof.
# 2. One after the other: times, the dense pattern beside, and the hardware's bytes beside the prediction (--counters).
set -u
s2=$1 rows=$2 device=${3:-gpu}
PHI3='name phi-3-small; layers 2; heads 32; kv-heads 8; head-dim 128; layers all: local 16 | stride 8 phase head+1; layers 1: dense'
ROTATED='name phi3-kv; heads 32; kv-heads 8; head-dim 128; layers all: local 16 | stride 8 phase kv'
L8V16='name L8V16; heads 32; kv-heads 32; head-dim 128; layers all: local 8 | stride 16 phase head'
L16V32='name L16V32; heads 32; kv-heads 32; head-dim 128; layers all: local 16 | stride 32 phase head'
TOKENS='name window; heads 16; kv-heads 4; head-dim 64; layers all: sink 4t | local 1000t'
BROKEN='name broken; heads 32; kv-heads 8; head-dim 128; layers all: local 16 | stride 16 phase kv'
short=${LENGTHS:-1k,2k,8k,32k} long=${LONG:-128k}
train=${TRAIN-$([ "$device" = cpu ] || echo 1)} # TRAIN= leaves the gradients out
half=${PART:-all}
bad=0 n=0 parts=""
begin() {
    n=$((n + 1))
    parts="$parts $rows.$n"
    "$s2" validate --no-db --device "$device" --json "$@" >"$rows.$n" 2>"$rows.$n.err" &
    pids="${pids:-} $!"
}
finish() {
    for pid in $pids; do wait "$pid" || bad=1; done
    pids=""
    cat $parts
    cat $(for part in $parts; do echo "$part.err"; done) >&2
    rm -f $parts $(for part in $parts; do echo "$part.err"; done)
    parts=""
}
pairs_and_needles() {
    begin --runs 0 --len "$short" "$PHI3"
    begin --runs 0 --len "$long" --layer 0 "$PHI3"
    begin --runs 0 --len "$long" --layer 1 "$PHI3"
    begin --runs 0 --len "$short" "$L8V16"
    begin --runs 0 --len "$short" "$L16V32"
    begin --runs 0 --len 1k,2k,4k,8k,16k,32k "$BROKEN"
    begin --runs 0 --len "$short" "$ROTATED"
    begin --runs 0 --len 1001,3001 "$TOKENS"
    begin --runs 0 --len 1k --batch 5 --dtype fp16 "$ROTATED" "$L8V16"
    begin --runs 0 --len "$short,$long" --phase decode "$ROTATED" "$L8V16"
    [ -n "$train" ] && begin --runs 0 --len 1k,4k --phase train "$ROTATED" "$L8V16"
    finish >"$rows"
}
timed() { "$s2" validate --no-db --device "$device" --json --light --counters "$@" >>"$rows" || bad=1; }
times_and_bytes() {
    timed --runs 10 --len 8k,32k "$L8V16" "$L16V32" "$ROTATED" "$PHI3"
    timed --runs 5 --len "$long" "$L8V16" "$ROTATED"
    [ "$device" = cpu ] || timed --runs 20 --len 32k --phase decode "$ROTATED" "$L8V16"
    [ -n "$train" ] && timed --runs 5 --len 8k --phase train "$ROTATED"
}
: >"$rows"
[ "$half" = bytes ] || pairs_and_needles
[ "$half" = pairs ] || times_and_bytes
# The cells of the broken pattern: a hole in the union of the heads, and nowhere else, is a cell that stays away.
holes=$(grep '"name":"broken"' "$rows" | grep -o '"cells":"[^"]*"' | tr -cd '.' | wc -c)
whole=$(grep '"name":"phi-3-small"' "$rows" | grep -o '"cells":"[^"]*"' | tr -cd '.!?' | wc -c)
lost=$(grep -o '"cells":"[^"]*"' "$rows" | tr -cd '!?' | wc -c)
sum() { grep -o "\"touch\":{[^}]*}" "$rows" | sed "s/.*\"$1\":\([0-9]*\).*/\1/" | awk '{ n += $1 } END { printf "%.0f", n }'; }
echo "$(grep -c '"schema":"s2validate/1"' "$rows") verdicts, $(grep -c '"outcome":"ok"' "$rows") ok; $(sum pairs) pairs compared, $(sum wrong) wrong"
echo "$(grep -c '"kernels":' "$rows") rows with hardware counters; needles lost or leaked: $lost; Phi-3-small cells not retrieved: $whole;" \
    "broken rotation: $holes cells that no head reads, as its proof says"
[ "$half" != bytes ] || holes=1
[ "$lost" -eq 0 ] && [ "$holes" -gt 0 ] && [ "$whole" -eq 0 ] && [ $bad -eq 0 ]
