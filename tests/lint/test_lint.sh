#!/bin/sh
# Plants each fault that the checks of tests/lint are there for, and wants each check to name it.
# usage: tests/lint/test_lint.sh OBJECTS
set -u
cd "$(dirname "$0")/../.." || exit 2
objects=$(realpath "$1")
cc=${CC:-gcc}
tree=$(mktemp -d) || exit 2
wanted=$(mktemp) || exit 2
trap 'rm -rf "$tree" "$wanted"' EXIT
git ls-files -co --exclude-standard -- '*.c' '*.h' '*.cu' '*.cuh' tests/lint library/exports.txt README.md 'docs/*.md' | xargs cp --parents -t "$tree"
(cd "$objects" && find . -name '*.c.o' | xargs cp --parents -t "$tree" && cd "$tree" && git init -q)
passed=0 failed=0

# FILE CODE: a planted source, and its object
plant() {
    printf '%b\n' "$2" >"$tree/$1"
    (cd "$tree" && $cc -std=c11 -w -I. -c "$1" -o "$1.o")
}

# WORDS: what the next check must say
wants() {
    printf '%s\n' "$1" >>"$wanted"
}

# COMMAND...: the check fails in the planted tree and says all that is wanted; then the tree is whole again
check() {
    out=$(cd "$tree" && "$@" 2>&1) && out="passed: $*"
    while IFS= read -r words; do
        if [ "$out" != "passed: $*" ] && printf '%s\n' "$out" | grep -qF -- "$words"; then
            passed=$((passed + 1))
        else
            printf 'not said: %s\n%s\n' "$words" "$out" | head -50
            failed=$((failed + 1))
        fi
    done <"$wanted"
    : >"$wanted"
    rm -f "$tree"/*/planted*
}

plant base/planted.c 'int planted_name;'
wants 'base/planted.c: planted_name is exported without the prefix s2_'
plant base/planted1.c '#include <stdio.h>\nvoid s2_planted_print(int n) { printf("%d", n); }'
wants 'base/planted1.c: printf belongs in cli/'
plant db/planted.c '#include <stdlib.h>\nvoid s2_planted_exit(void) { exit(1); }'
wants 'db/planted.c: exit belongs in cli/'
plant sim/planted.c 'void s2_planted_say(void *b) { s2_buf_printf(b, "%d kernels wait for memory\\n", 3); }'
wants 'sim/planted.c:1: a sentence is composed outside'
plant tui/planted.c 'void s2_planted_round(void *b) { s2_buf_printf(b, "100 %% of %.3g ms", 3.0); }'
wants 'tui/planted.c:1: a format with an exponent'
plant sim/planted1.c 'int s2_planted(void) { return 1; }'
wants 'sim/planted1.c: s2_planted is exported, and no other file of the product uses it'
plant plan/planted1.c 'int s2_planted_two(void); int s2_planted_one(void) { return s2_planted_two(); }'
plant plan/planted2.c 'int s2_planted_one(void); int s2_planted_two(void) { return s2_planted_one(); }'
wants 'circle: plan/planted1.c plan/planted2.c'
plant pattern/planted.c '#include "pattern/view.h"\nint s2_planted_oracle(void) { return s2_view_build(0, 0, 0, 0, 0, 0, 0); }'
echo 'oracle pattern/planted.c' >>"$tree/tests/lint/house.txt"
wants 'pattern/planted.c: an oracle uses s2_view_build of pattern/view.c'
wants 'pattern/planted.c: an oracle includes pattern/view.h'
check python3 tests/lint/house.py symbols .
sed -i '$d' "$tree/tests/lint/house.txt"

plant search/planted.c "int s2_planted(int n)\n{\n$(yes '    n++;' | head -61)\n    return n;\n}"
wants 'search/planted.c:2: a function of 62 lines'
plant search/planted1.c "/* $(yes word | head -30 | tr '\n' ' ')*/\nint s2_planted;"
wants 'search/planted1.c:1: a line of 155 columns'
sed -n '/^static.*capability_of(/,/^}/p' sim/calibration.c >"$tree/plan/planted.c"
wants 'the same body of '
sed -n '/ s2_assert_sound(/,/^}/p' tests/s2db.h >"$tree/tests/planted.c"
wants 'tests/planted.c:2: the same body of '
plant draw/planted.c 'int s2_planted(int n, int size);\nint s2_planted(int n, int size) { return (n + size - 1) / size; }'
wants 'draw/planted.c:2: a quotient is rounded up by hand'
plant draw/planted1.c 'int s2_planted(int n, int size);\nint s2_planted(int n, int size) { return n + 1 <= size ? size : n + 1; }'
wants 'draw/planted1.c:2: a smaller or larger value is chosen by hand'
plant plan/planted1.c 'int s2_planted(const int *list);\nint s2_planted(const int *list)\n{\n    int at = 0;\n    while (list[at] > 0)\n        at++;\n    return at;\n}'
wants 'plan/planted1.c:4: `at` outside a loop of three lines'
loop='    int sum = 0;\n    for (int at = 0; at < 4; at++) {\n'
plant plan/planted2.c "int s2_planted(const int *list);\nint s2_planted(const int *list)\n{\n$loop$(yes '        sum += list[at];' | head -4)\n    }\n    return sum;\n}"
wants 'plan/planted2.c:8: `at` outside a loop of three lines'
printf '/* A header. */\n\nint s2_told(void); /* so it says */\n\nint s2_planted(void);\n' >"$tree/plan/planted.h"
wants 'plan/planted.h:5: s2_planted() has no comment'
yes '/* */' | head -99999 >"$tree/draw/planted.h"
wants 'draw/ holds '
for n in $(seq 1000); do printf '{\n%s\n}\n' "$(seq 26)"; done >"$tree/reach/planted.c"
wants 'one function in ten has more than 25 lines'
check python3 tests/lint/house.py lengths

plant base/planted.c '#include "db/db.h"'
wants 'base/planted.c:1: base may not include db'
plant search/planted.c '#include "sim/fast.h"'
wants 'search/planted.c:1: sim/fast.h is private to sim'
sed -i 's/^draw: base pattern$/draw: base/; $a planted: base' "$tree/tests/lint/layers.txt"
wants "docs/architecture.md: draw/ may include 'base pattern', and tests/lint/layers.txt says 'base'"
wants 'README.md: the map of the house lacks planted/'
echo '# A page' >"$tree/docs/planted.md"
wants 'docs/README.md: the list of pages lacks planted.md'
n=0
for header in sqlite3:db/ ncurses:tui/ cuda:kernels/cuda/ jansson:export/ mpi:search/ yaml:export/ png:draw/; do
    echo "#include <${header%:*}.h>" >>"$tree/reach/planted.c"
    n=$((n + 1))
    wants "reach/planted.c:$n: "
done
check python3 tests/lint/house.py layers
cp tests/lint/layers.txt "$tree/tests/lint"

# Headers of the base room alone: as many as show that the check can fail.
headers="ls base/*.h | tests/lint/headers.sh '$cc' g++ -D_GNU_SOURCE -I."
echo 'size_t s2_planted(void);' >"$tree/base/planted.h"
wants 'base/planted.h'
check sh -c "$headers"
printf 'typedef struct s2_rng { int other; } s2_rng;\n' >"$tree/base/planted.h"
wants 's2_rng'
check sh -c "$headers"
printf 'typedef struct s2_planted { int class; } s2_planted;\n' >"$tree/base/planted.h"
wants 'base/planted.h'
check sh -c "$headers"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
