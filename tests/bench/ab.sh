#!/bin/sh
# Two builds of the kernels on one card in one run: what a change bought.
# usage: tests/bench/ab.sh [--visits=N] [--rows=FILE] OLD NEW [OPTION OF bench_gpu...]
#
#   OLD, NEW   folders with bench_gpu, of two commits, built here or elsewhere
#   options    which rows, as bench_gpu --list names them: --only=L8V16,dense --tok=8k,32k --phase=forward --kernel=best
#
# The builds take turns, N times each (5), old first in odd visits and new first in even ones, so that heat and the other
# tenants of the machine meet both alike. Rows go to FILE as they come (ab.jsonl), with "build" and "visit" in each. At the end a line
# a row: the median of each build's visits in both protocols, new over old, and whether that is more than the visits of
# one build differ among themselves. Exit codes: 0 compared, 1 a build failed, 2 called wrongly, 77 no GPU.
set -u
visits=5 rows=ab.jsonl
while :; do
    case ${1:-} in
    --visits=*) visits=${1#*=} ;;
    --rows=*) rows=${1#*=} ;;
    *) break ;;
    esac
    shift
done
[ $# -ge 2 ] && [ -x "$1/bench_gpu" ] && [ -x "$2/bench_gpu" ] || {
    echo "usage: ab.sh [--visits=N] [--rows=FILE] OLD NEW [OPTION OF bench_gpu...]; OLD/bench_gpu and NEW/bench_gpu must be there" >&2
    exit 2
}
case $visits in *[!0-9]* | "" | 0) echo "ab.sh: --visits=$visits is no number of visits" >&2 && exit 2 ;; esac
old=$1 new=$2
shift 2
: >"$rows" || exit 2
said=$(mktemp) || exit 2
trap 'rm -f "$said"' EXIT
commit_of() { "$1/s2" --version 2>/dev/null | sed -n 's/.*(\(.*\)).*/\1/p'; }
old_commit=$(commit_of "$old") new_commit=$(commit_of "$new")

visit() { # visit WORD FOLDER COMMIT NUMBER OPTION...
    word=$1 folder=$2 commit=$3 number=$4
    shift 4
    "$folder/bench_gpu" --json --no-check --no-ceilings --commit="${commit:-unknown}" "$@" >"$said"
    rc=$?
    sed "s/^{/{\"build\": \"$word\", \"visit\": $number, /" "$said" >>"$rows"
    [ $rc -eq 0 ] || { echo "ab.sh: $folder/bench_gpu ended with $rc" >&2 && exit $rc; }
}

for number in $(seq "$visits"); do
    if [ $((number % 2)) -eq 1 ]; then
        visit old "$old" "$old_commit" "$number" "$@"
        visit new "$new" "$new_commit" "$number" "$@"
    else
        visit new "$new" "$new_commit" "$number" "$@"
        visit old "$old" "$old_commit" "$number" "$@"
    fi
    echo "visit $number of $visits" >&2
done

echo "old $old ${old_commit:-unknown}, new $new ${new_commit:-unknown}, $visits visits; TFLOP/s or TB/s, medians"
awk '
function field(name,    at, text) {
    at = index($0, "\"" name "\": ")
    text = substr($0, at + length(name) + 4)
    sub(/[,}].*/, "", text)
    gsub(/"/, "", text)
    return at ? text : ""
}
function insert(key, value,    n, at) {
    n = ++count[key]
    for (at = n; at > 1 && sorted[key, at - 1] > value; at--)
        sorted[key, at] = sorted[key, at - 1]
    sorted[key, at] = value
}
function median(key) { return sorted[key, int((count[key] + 1) / 2)] }
function spread(key) { return count[key] ? (sorted[key, count[key]] - sorted[key, 1]) / median(key) : 0 }
function compare(row, what,    a, b, ratio, noise) {
    a = row SUBSEP "old" SUBSEP what
    b = row SUBSEP "new" SUBSEP what
    if (!count[a] || !count[b])
        return sprintf("%9s %9s %7s %-10s", count[a] ? median(a) : "-", count[b] ? median(b) : "-", "-", "")
    ratio = median(b) / median(a)
    noise = spread(a) > spread(b) ? spread(a) : spread(b)
    return sprintf("%9.1f %9.1f %7.3f %-10s", median(a), median(b), ratio,
                   ratio - 1 > noise || 1 - ratio > noise ? (ratio > 1 ? "faster" : "slower") : "no change")
}
field("sustained") != "" && field("pattern") != "" {
    row = sprintf("%-9s %-16s %8d %-14s", field("row"), field("pattern"), field("n_tok"), field("kernel"))
    if (!(row in seen)) {
        seen[row] = 1
        order[++n_rows] = row
    }
    insert(row SUBSEP field("build") SUBSEP "sustained", field("sustained") + 0)
    insert(row SUBSEP field("build") SUBSEP "cool", field("cool") + 0)
}
END {
    printf "%-50s | %9s %9s %7s %-10s | %9s %9s %7s\n", "", "sustained", "new", "ratio", "", "cool", "new", "ratio"
    for (at = 1; at <= n_rows; at++)
        printf "%s | %s | %s\n", order[at], compare(order[at], "sustained"), compare(order[at], "cool")
}' "$rows"
