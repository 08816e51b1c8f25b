#!/bin/sh
# How many lines of its sources each fuzz target reaches with its corpus: what a campaign left in build/fuzz/corpus, the
# inputs that the tree keeps (tests/fuzz/corpus) and the seeds. A child that crashes counts nothing, and fails.
# usage: tests/fuzz/coverage.sh DIRECTORY   (fuzz_parse, fuzz_import, fuzz_files, fuzz_screen there, built with coverage)
set -u
built=$1
for tool in llvm-profdata llvm-cov; do
    command -v $tool >/dev/null || { echo "fuzz-coverage needs $tool (package llvm)"; exit 77; }
done

# target, its program, its corpus, then the sources that it exists for
report() {
    target=$1 program=$2 corpus=$3
    shift 3
    run=$built/${program}_$target
    ln -f "$built/$program" "$run"
    inputs=
    for folder in "build/fuzz/corpus/$corpus" "tests/fuzz/corpus/$corpus" "tests/data/foreign/$corpus" "build/fuzz/seeds/files/$corpus"; do
        [ -d "$folder" ] && inputs="$inputs $folder"
    done
    case $target in parse) inputs="$inputs tests/data/patterns" ;; any) inputs="$inputs tests/data/foreign tests/data/configs" ;; layers) inputs="$inputs tests/data/configs" ;; esac
    # shellcheck disable=SC2086
    LLVM_PROFILE_FILE=$built/$target.profraw "$run" -runs=0 -rss_limit_mb=4096 $inputs >"$built/$target.log" 2>&1 ||
        { tail -20 "$built/$target.log"; echo "fuzz-coverage: $target failed"; exit 1; }
    llvm-profdata merge -sparse "$built/$target.profraw" -o "$built/$target.profdata" || exit 1
    # shellcheck disable=SC2086
    n=$(find $inputs -type f | wc -l)
    llvm-cov export -summary-only -instr-profile "$built/$target.profdata" "$run" "$@" 2>/dev/null |
        python3 -c 'import json, sys
lines = json.load(sys.stdin)["data"][0]["totals"]["lines"]
print("%-8s %7d inputs  %5d of %5d lines  %5.1f %%  %s" % (sys.argv[1], int(sys.argv[2]), lines["covered"], lines["count"],
      100.0 * lines["covered"] / max(lines["count"], 1), sys.argv[3]))' "$target" "$n" "$*"
}

report parse fuzz_parse parse pattern/parse.c pattern/parse_layer.c pattern/parse_rule.c pattern/parse_term.c pattern/parser.c pattern/lex.c pattern/print.c pattern/print_term.c
for format in $(sed -n 's/^ *X(\([a-z0-9]*\)).*/\1/p' export/registry.c) any; do
    report "$format" fuzz_import "$format" "$(grep -l "s2_format_$format = {" export/*.c || echo export)"
done
report cert fuzz_files cert cert/
report space fuzz_files space search/space.c
report npy fuzz_files npy pattern/mask.c
report db fuzz_files db db/merge.c db/recover.c db/pages.c db/schema.c
report screen fuzz_screen screen tui/
