#!/bin/sh
# Every view as a picture, to be looked at: OUT/VIEW-SIZE-LOOK.png of a database that is made for it.
# usage: tests/screens.sh DIR OUT   (DIR: where s2 is; SIZES="80x24" LOOKS="dark" for fewer)
set -eu
cd "$(dirname "$0")/.."
s2=$(realpath "$1/s2")
mkdir -p "$2"
out=$(realpath "$2")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
for window in 4 16; do
    for stride in 8 16; do
        for by in head kv; do
            "$s2" check "name l$window-v$stride-$by; model llama-3.1-8b; layers all: local $window | stride $stride phase $by" --db s2.db >/dev/null || [ $? = 1 ]
            "$s2" sim "l$window-v$stride-$by" --len 8k --gpu h200 --db s2.db >/dev/null
        done
    done
done
"$s2" validate l4-v8-kv --len 1k --layer 0 --runs 1 --device cpu --db s2.db >/dev/null
"$s2" tag l4-v8-kv baseline --db s2.db >/dev/null

# name and keys of each screen, from the list
screens='designs=
filter=/\ntype us<1
columns=|
design=enter
crosshair=enter n c
record=r
compare=space j space c
pareto=5
bench=1
broken=1 j ] j l l l
repairs=1 j ] j l l l R
baseline=1 b j ]
text=1 E
known=1 T
reach=1 7
validate=v
around=1 a
formats=x
copy=Y
palette=:
command==
runs=6
output=6 enter
log=3
help=1 ?
words=? /
tour=4
quit=1 l Q'
for size in ${SIZES:-80x24 120x40 200x60}; do
    for look in ${LOOKS:-dark light ascii}; do
        case $look in ascii) options=--ascii ;; *) options="--palette $look" ;; esac
        printf '%s\n' "$screens" | while IFS='=' read -r name keys; do
            [ "$name" = command ] && keys='='
            printf "size $size\n$keys\ndump\n" >keys.txt
            # shellcheck disable=SC2086
            "$s2" tui --db s2.db --script keys.txt $options --as png -o "$out/$name-$size-$look.png"
        done
    done
done
ls "$out" | wc -l
