#!/bin/sh
# What README.md and docs/*.md say, held against the programs: commands with a prompt are run and print what stands
# under them, options and targets that are named exist, links and paths lead somewhere, and every member of the JSON
# objects is explained in docs/json.md.
#
# A line "$ COMMAND" in a fenced or indented block is run (a backslash goes on with the next line), in a folder of its
# own for each page, which holds links to docs/ and tests/. The lines under it up to the next prompt or the end of the
# block are its output, stderr too; a line "..." stands for any lines, "..." in a line for any characters, no lines for any output. A command must not end
# with a code above 1, unless it says so at its end: "# exit 3".
# usage: tests/docs.sh DIR_OF_PROGRAMS     last line: N passed, N failed
set -u
programs=$(cd "$1" && pwd) || exit 2
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 2
scratch=$(mktemp -d "${TMPDIR:-/tmp}/s2-docs.XXXXXX") || exit 2
trap 'rm -rf "$scratch"' EXIT
export PATH="$programs:$PATH" LC_ALL=C.UTF-8 TERM=dumb COLUMNS=100
unset S2_DB NO_COLOR
passed=0 failed=0
pages="README.md $(echo docs/*.md)"

judge() { # TEXT: a test that passed when the text is empty
    if [ -z "$1" ]; then
        passed=$((passed + 1))
    else
        printf '%s\n' "$1"
        failed=$((failed + 1))
    fi
}

# One file N.cmd and N.want for each prompt of a page, and N.at with its line.
cut_page() { # PAGE DIR
    awk -v dir="$2" '
        function close_block() { want = 0; more = 0 }
        { line = $0; inside = fence || line ~ /^    / }
        /^ *```/ { fence = !fence; close_block(); next }
        !inside && line != "" { close_block(); next }
        !fence { sub(/^    /, "", line) }
        more { print line > cmd; more = line ~ /\\$/; next }
        line ~ /^\$ / {
            n++; cmd = dir "/" n ".cmd"; want = dir "/" n ".want"
            print substr(line, 3) > cmd; printf "" > want; print NR > (dir "/" n ".at")
            more = line ~ /\\$/; next
        }
        want { print line > want }
    ' "$1"
    for file in "$2"/*.want; do # blank lines before the next prompt are layout
        [ -f "$file" ] && sed -e :a -e '/^\n*$/{$d;N;ba' -e '}' -i "$file"
    done
}

# Is GOT what WANT says, "..." standing for any lines?
same() { # WANT GOT
    awk 'NR == FNR { want[++n] = $0; next } { got[++m] = $0 }
        function alike(w, g,   at, k, piece) { # "..." inside a line: any characters
            if (index(w, "...") == 0) return w == g
            k = split(w, piece, "[.][.][.]")
            if (substr(g, 1, length(piece[1])) != piece[1]) return 0
            g = substr(g, length(piece[1]) + 1)
            for (at = 2; at <= k; at++) {
                if (piece[at] == "") { if (at == k) return 1; continue }
                if (!index(g, piece[at])) return 0
                g = substr(g, index(g, piece[at]) + length(piece[at]))
            }
            return g == ""
        }
        function fits(w, g) {
            for (; w <= n && want[w] != "..."; w++)
                if (g > m || !alike(want[w], got[g++])) return 0
            if (w > n) return g > m
            for (; g <= m + 1; g++) if (fits(w + 1, g)) return 1
            return 0
        }
        END { exit !fits(1, 1) }' "$1" "$2"
}

run_page() { # PAGE
    dir="$scratch/$(echo "$1" | tr '/' '-')"
    mkdir -p "$dir/cut" "$dir/work" && cut_page "$1" "$dir/cut"
    ln -s "$root/docs" "$root/tests" "$dir/work/"
    n=0
    while n=$((n + 1)); [ -f "$dir/cut/$n.cmd" ]; do
        at="$1:$(cat "$dir/cut/$n.at")"
        (cd "$dir/work" && timeout 900 sh "$dir/cut/$n.cmd") >"$dir/cut/$n.got" 2>&1 </dev/null
        code=$?
        may=$(sed -n 's/.*# exit \([0-9]*\)$/\1/p' "$dir/cut/$n.cmd")
        said=""
        if [ -n "$may" ] && [ "$code" -ne "$may" ] || { [ -z "$may" ] && [ "$code" -gt 1 ]; }; then
            said="$at: exit code $code: $(cat "$dir/cut/$n.cmd" "$dir/cut/$n.got" | head -5)"
        elif [ -s "$dir/cut/$n.want" ] && ! same "$dir/cut/$n.want" "$dir/cut/$n.got"; then
            said="$at: prints something else
$(diff "$dir/cut/$n.want" "$dir/cut/$n.got" | head -30)"
        fi
        judge "$said"
    done
}

# Options in "s2 COMMAND ... --option", wherever it stands in a page.
check_options() {
    for command in $(s2 help --list) s2check; do
        [ "$command" = s2check ] && name=s2check || name="s2 $command"
        $name --help >"$scratch/help" 2>&1
        said=""
        # shellcheck disable=SC2086 # pages are words on purpose
        for option in $(sed -e :a -e '/\\$/{N;s/\\\n//;ba' -e '}' $pages | grep -oE "(^|[^a-z0-9-])$name [^\`;|&]*" |
            grep -oE -- ' \[?--[a-z][a-z-]*' | tr -d ' [' | sort -u); do
            grep -qE -- "$option( |$)" "$scratch/help" || said="$said a page names $name $option, which help does not know;"
        done
        judge "$said"
    done
}

check_targets() {
    # shellcheck disable=SC2086
    for target in $(grep -ohE '(^    |`)make (CUDA=0 |-s )*[a-z][a-z-]*' $pages | grep -oE '[a-z-]+$' | sort -u); do
        grep -qE "^$target( [a-z-]+)*:" Makefile library/library.mk tests/campaigns.mk && judge "" || judge "a page names make $target, which is no target"
    done
    # shellcheck disable=SC2086
    for test in $(grep -ohE '`[^`]*T=[a-z_]+' $pages | sed 's/.*T=//' | sort -u); do
        [ -f "tests/test_$test.c" ] && judge "" || judge "a page names T=$test, and there is no tests/test_$test.c"
    done
}

check_links() {
    for page in $pages; do
        said=""
        for link in $(grep -oE '\]\([^)#]+' "$page" | cut -c3- | grep -v '^http' | sort -u); do
            [ -e "$(dirname "$page")/$link" ] || said="$said $page links to $link, which is not there;"
        done
        rooms=$(cut -d: -f1 tests/lint/layers.txt | paste -sd '|')'|experiments|docs'
        for path in $(grep -oE "\`($rooms)/[A-Za-z0-9_./-]*\`" "$page" | tr -d '`' | grep -v NAME | sort -u); do
            [ -e "$path" ] || said="$said $page names $path, which is not there;"
        done
        judge "$said"
    done
}

# Functions that a page names, as `name()` or `s2_name`, are somewhere in the sources.
check_functions() {
    git ls-files -co --exclude-standard -- '*.c' '*.h' '*.cu' '*.cuh' 'adapters/*.py' | while read -r file; do
        [ ! -f "$file" ] || cat "$file"
    done >"$scratch/sources"
    said=""
    # shellcheck disable=SC2086
    for name in $(grep -ohE '`[a-z][a-z0-9_]*\(\)|s2_[a-z][a-z0-9_]*' $pages | tr -d '`()' | sort -u); do
        case $name in *_) continue ;; esac
        grep -qw "$name" "$scratch/sources" || said="$said $name"
    done
    judge "${said:+pages name functions that are nowhere:$said}"
}

# Every member of every object, by its own name: "kv_over_context" must stand in docs/json.md as `kv_over_context`.
check_json() {
    cd "$scratch" || exit 2
    good='name json; heads 4; kv-heads 2; head-dim 32; block 16; layers all: local 2 | stride 4 phase head'
    bad='name holes; heads 4; head-dim 32; block 16; layers all: local 2 | stride 8 phase head'
    {
        s2check --json "$good" "$bad"
        s2check --json -r group,shards,ranks:2,depth:1 "$bad" 'heads 2; layers all: topk 4'
        s2 check --json "$good"
        s2 sim --json --len 512 "$good"
        s2 sim --json --len 512 --phase decode 'model llama-3.1-8b; layers all: local 2 | stride 4 phase head'
        s2 validate --json --len 128 --runs 1 "$good"
        s2 validate --json --len 64 --steps 8 --runs 0 --phase decode "$good"
        s2 search --json 'heads 4; layers all: local {1,2} | stride 4 phase head' --len 1k
        s2 ls --format json
        s2 pareto --format json --len 1k --phase prefill
        s2 doctor --json
        s2 diff --json "$good" "$bad"
        s2 diff --json "$bad" 'heads 4; head-dim 32; block 16; layers all: local 2'
        s2 show --json "$good"
        s2 reach --json --len 512 "$good" 'layers 4; heads 8; kv-heads 4; block 8; local 2'
    } >objects 2>/dev/null
    cd "$root" || exit 2
    said=""
    for key in $(grep -v '^s2' "$scratch/objects" | grep -oE '"[a-z][a-z0-9_]*":' | tr -d '":' | sort -u); do
        grep -q "\`$key\`" docs/json.md || said="$said $key"
    done
    judge "${said:+docs/json.md does not explain$said}"
    grep -qE '[:,[](nan|inf|-nan|-inf|NaN|Infinity)' "$scratch/objects" && judge "a number in JSON is not finite" || judge ""
    [ -s "$scratch/objects" ] && judge "" || judge "no JSON was printed"
}

for page in $pages; do
    run_page "$page"
done
judge "$(python3 tests/recompute.py "$programs" 2>&1 | sed '/ 0 did not$/d')"
judge "$(python3 tests/worth.py "$programs" 2>&1 | sed '/ 0 did not$/d')"
judge "$(python3 tests/mistakes.py "$programs" 2>&1 | sed '/ 0 did not$/d')"
judge "$(python3 tests/pages.py "$programs" 2>&1 | sed '/ 0 did not$/d')"
judge "$(python3 tests/definition.py "$programs" 2>&1 | sed '/ 0 did not$/d')"
check_options
check_targets
check_links
check_functions
check_json
printf '%s passed, %s failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
