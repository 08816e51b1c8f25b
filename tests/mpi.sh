#!/bin/sh
# `s2 search` as one MPI job of 4 ranks on this machine: the front of one process byte for byte, and that of 4 shards
# merged but for designs that cost the same; killed and resumed; and its exit codes.
# usage: tests/mpi.sh PROGRAM   (built with MPI=1)
set -u
if ! command -v mpirun >/dev/null 2>&1; then
    echo "skipped: mpi needs mpirun (Debian: openmpi-bin, libopenmpi-dev)"
    exit 0
fi
s2=$(realpath "$1")
dir=$(mktemp -d "${TMPDIR:-/tmp}/s2-mpi.XXXXXX") || exit 2
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
passed=0 failed=0
job() { timeout 300 mpirun --oversubscribe -n 4 "$s2" "$@"; }
expect() {
    name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $name"
        tail -n 5 err 2>/dev/null
    fi
}
exits() {
    wanted=$1
    shift
    "$@" >out 2>err
    code=$?
    [ "$code" -eq "$wanted" ] || { echo "exit code $code instead of $wanted"; false; }
}
front() { "$s2" pareto --minimize us,kv_bytes --db "$1" --distinct --format csv --columns name,hash,union,kv,phase,len,kv_mib,us 2>/dev/null; }
# What the front costs, and every design that costs it: of designs that cost the same, a process keeps the first of
# its space, while --distinct keeps the first name of those that its database holds.
costs() { cut -d, -f3-; }
all_of_front() { "$s2" pareto --minimize us,kv_bytes --db "$1" --format csv --columns hash 2>/dev/null; }
front_of_json() { sed 's/.*"front"://' "$1"; }

space='block {16,32,64}; layers all: local {1..16} | stride {2..16} phase {head,kv}*{1,3}+{0,1}; {,layers 1::2: dense}'
set -- search "$space" --model llama-3.1-8b --len 32k --phase prefill,decode --minimize us,kv_bytes --json --jobs 1

expect "one process searches" exits 0 "$s2" "$@" --db one.db
cp out one.json
expect "a job of 4 ranks searches" exits 0 job "$@" --db job.db
cp out job.json
expect "it says what it is" grep -q 'on 4 x 1 threads' err
for shard in 1 2 3 4; do
    expect "shard $shard searches" exits 0 "$s2" "$@" --db "shard$shard.db" --shard "$shard/4"
    [ $shard -gt 1 ] && expect "shard $shard merges" exits 0 "$s2" db merge "shard$shard.db" --db shard1.db
done
for kind in one job shard1; do front "$kind.db" >"$kind.front"; done
front_of_json one.json >one.points
front_of_json job.json >job.points
expect "the front is not empty" [ "$(wc -l <one.front)" -gt 3 ]
expect "the job's front is that of one process" cmp one.front job.front
costs <one.front >one.costs
costs <shard1.front >shard1.costs
expect "so is that of 4 shards merged" cmp one.costs shard1.costs
all_of_front one.db | sort >one.designs
all_of_front shard1.db | sort >shard1.designs
expect "which keep every design that one process keeps" [ -z "$(comm -23 one.designs shard1.designs)" ]
expect "and what is printed of it" cmp one.points job.points
expect "rank 0 alone recorded, once" [ "$("$s2" db stat --db job.db | awk '$1 == "run" {print $2}')" = 1 ]

# Kill the whole job while it searches a larger space, again and again; then let it end.
wide='block {32,64}; layers all: local {1..32} | sink {1..3} | stride {2..32} phase {head,kv}*{1,3}+{0..3}'
set -- search "$wide" --model llama-3.1-8b --len 128k --minimize us,kv_bytes --json --jobs 1
expect "one process searches the wide space" exits 0 "$s2" "$@" --db wide.db
front_of_json out >wide.points
for n in 1 2; do
    mpirun --oversubscribe -n 4 "$s2" "$@" --db killed.db --resume >out 2>err &
    launcher=$!
    touch "before$n"
    while kill -0 $launcher 2>/dev/null; do
        [ -n "$(find . -name 'killed.db.search-*' -newer "before$n" 2>/dev/null)" ] && break
        sleep 0.05
    done
    ranks=$(pgrep -P $launcher)
    # shellcheck disable=SC2086 # process ids
    [ -n "$ranks" ] && kill -9 $ranks
    wait $launcher 2>/dev/null
done
expect "a killed job left something to resume" [ -n "$(ls killed.db.search-* 2>/dev/null)" ]
expect "a killed job goes on" exits 0 job "$@" --db killed.db --resume
front_of_json out >killed.points
expect "to the front of one process" cmp wide.points killed.points
expect "and leaves no state behind" [ -z "$(ls killed.db.search-* 2>/dev/null)" ]

expect "a wrong call is said once" exits 2 job search "$space" --model llama-9 --no-db
expect "by rank 0" [ "$(grep -c 'llama-9' err)" = 1 ]
expect "nothing found is exit code 1" exits 1 job search 'heads 4; heads all: local {1,2}' --no-db
expect "a limit is shared" exits 0 job "$@" --no-db --limit 1000
expect "among the ranks" grep -q "\"visited\":1000" out
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
