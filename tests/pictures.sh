#!/bin/sh
# docs/pictures/, drawn by the programs in DIR: Phi-3-small, patterns with holes, a front, the workbench.
# usage: tests/pictures.sh DIR
set -eu
cd "$(dirname "$0")/.."
s2=$1/s2
out=docs/pictures
phi3='name phi-3-small-8k; layers 32; heads 32; kv-heads 8; layers all: local 16 | stride 8 phase head+1; layers 1::2: dense'
broken='name broken; heads 32; kv-heads 8; layers all: local 16 | stride 16 phase kv'
single='name windows-then-dense; layers 4; heads 8; layers all: local 1024t; layers 3: dense'
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$out"

"$s2" draw "$phi3" -o $out/phi3-union.png
"$s2" draw "$phi3" -H 0 -o $out/phi3-head0.png
"$s2" draw "$phi3" -w shards -o $out/phi3-shards.svg
"$s2" draw "$phi3" -w kv -o $out/phi3-kv.svg
"$s2" draw "$broken" -o $out/broken-union.png
"$s2" draw "$broken" -w shards -o $out/broken-shards.png
"$s2" draw "$broken" --len 32k -w kv -o $out/broken-kv.png
"$s2" draw "$single" -w flow -o $out/window-flow.dot
"$s2" draw "$single" -w flow -o $out/window-flow.png

for window in 4 8 16 32; do
    for stride in 4 8 12 16; do
        for by in head kv head*3; do
            design="name l$window-v$stride-$(echo "$by" | tr -d '*'); model llama-3.1-8b; layers all: local $window | stride $stride phase $by"
            # some of them have holes, which the front leaves out: a verdict (1) and no failure
            "$s2" check "$design" --db "$scratch/front.db" >/dev/null || [ $? -eq 1 ]
            "$s2" sim "$design" --len 32k --db "$scratch/front.db" >/dev/null
        done
    done
done
"$s2" draw --what pareto union=holds --db "$scratch/front.db" -o $out/front.svg
"$s2" draw --what pareto union=holds --db "$scratch/front.db" -o $out/front.png

printf 'size 112x32\n1\ndown ]\ndown right\nG k k k k k\n[ [ [ [\nk k left\ng j\ndump\n' >"$scratch/screen.txt"
"$s2" tui --no-db --script "$scratch/screen.txt" --as png -o $out/workbench.png

printf 'layers 4; heads 8; kv-heads 4; block 16; layers all: local 2 | stride 32 phase head+1; layers 2: stride 4\n' >"$scratch/weak.s2"
printf 'size 112x32\n1 O\ntype %s\nenter\nG k k k k k\n[ [ [ [ [ [ [\n7\ndump\n' "$scratch/weak.s2" >"$scratch/screen.txt"
"$s2" tui --no-db --script "$scratch/screen.txt" --as png -o $out/reach.png
