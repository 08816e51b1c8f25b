#!/bin/sh
# How many lines of its sources each fuzz target reaches with its corpus: what campaigns left in build/fuzz/, the
# inputs that the tree keeps (tests/fuzz/corpus) and the seeds. A child that crashes counts nothing, and fails. Of importers
# only lines of functions count that reading a file can reach (readers.py).
# usage: tests/fuzz/coverage.sh DIRECTORY [TARGET...]   (fuzz_parse, fuzz_import, fuzz_files, fuzz_screen there, built with coverage)
set -u
built=$1
shift
only=" $* "
for tool in llvm-profdata llvm-cov; do
    command -v $tool >/dev/null || { echo "fuzz-coverage needs $tool (package llvm)"; exit 77; }
done

# target, its program, its corpus, then the sources that it exists for
report() {
    target=$1 program=$2 corpus=$3
    shift 3
    case $only in "  " | *" $target "*) ;; *) return ;; esac
    run=$built/${program}_$target
    ln -f "$built/$program" "$run"
    inputs=$(tests/fuzz/seeds.sh "$corpus")
    for folder in "build/fuzz/corpus/$corpus" "build/fuzz/campaign/corpus/$corpus"; do
        [ -d "$folder" ] && inputs="$inputs $folder"
    done
    # shellcheck disable=SC2086
    LLVM_PROFILE_FILE=$built/$target.profraw "$run" -runs=0 -rss_limit_mb=4096 $inputs >"$built/$target.log" 2>&1 ||
        { tail -20 "$built/$target.log"; echo "fuzz-coverage: $target failed"; exit 1; }
    llvm-profdata merge -sparse "$built/$target.profraw" -o "$built/$target.profdata" || exit 1
    # shellcheck disable=SC2086
    n=$(find $inputs -type f | wc -l)
    if [ "$program" = fuzz_import ]; then
        reached=$(python3 tests/fuzz/readers.py "$built/readers" "$built/$target.profdata" "$run" "$@") || exit 1
    else
        reached=$(llvm-cov export -summary-only -instr-profile "$built/$target.profdata" "$run" "$@" 2>/dev/null |
            python3 -c 'import json, sys
lines = json.load(sys.stdin)["data"][0]["totals"]["lines"]
print(lines["covered"], lines["count"])') || exit 1
    fi
    echo "$target $n $reached $*" | awk '{ n = $1; i = $2; r = $3; l = $4; $1 = $2 = $3 = $4 = ""; sub(/^ +/, "");
        printf "%-8s %7d inputs  %5d of %5d lines  %5.1f %%  %s\n", n, i, r, l, 100 * r / (l > 0 ? l : 1), $0 }'
}

python3 tests/fuzz/readers.py --names "${CLANG:-clang}" >"$built/readers" || exit 1
report parse fuzz_parse parse pattern/parse.c pattern/parse_layer.c pattern/parse_rule.c pattern/parse_term.c pattern/parser.c pattern/lex.c pattern/print.c pattern/print_term.c
for format in $(sed -n 's/^ *X(\([a-z0-9]*\)).*/\1/p' export/registry.c) any; do
    report "$format" fuzz_import "$format" "$(grep -l "s2_format_$format = {" export/*.c || echo export)"
done
report cert fuzz_files cert cert/
report space fuzz_files space search/space.c
report npy fuzz_files npy pattern/mask.c
report db fuzz_files db db/merge.c db/recover.c db/pages.c db/schema.c
report screen fuzz_screen screen tui/
