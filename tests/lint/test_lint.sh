#!/bin/sh
# Plants each fault that the checks of tests/lint are there for, and wants each check to name it.
# usage: tests/lint/test_lint.sh OBJECTS
set -u
cd "$(dirname "$0")/../.." || exit 2
objects=$(realpath "$1")
cc=${CC:-gcc}
tree=$(mktemp -d) || exit 2
trap 'rm -rf "$tree"' EXIT
git ls-files -co --exclude-standard -- '*.c' '*.h' '*.cu' '*.cuh' tests/lint library/exports.txt README.md 'docs/*.md' | xargs cp --parents -t "$tree"
(cd "$objects" && find . -name '*.c.o' | xargs cp --parents -t "$tree" && cd "$tree" && git init -q)
passed=0 failed=0

# FILE CODE: a planted source, and its object
plant() {
    printf '%b\n' "$2" >"$tree/$1"
    (cd "$tree" && "$cc" -std=c11 -w -I. -c "$1" -o "$1.o")
}

# WORDS COMMAND...: the command fails in the planted tree and names the fault; then the tree is whole again
wants() {
    words=$1
    shift
    if out=$(cd "$tree" && "$@" 2>&1); then
        echo "passed, and should name: $words"
        failed=$((failed + 1))
    elif printf '%s\n' "$out" | grep -qF -- "$words"; then
        passed=$((passed + 1))
    else
        printf 'failed without naming: %s\n%s\n' "$words" "$out"
        failed=$((failed + 1))
    fi
    rm -f "$tree"/*/planted*
}
symbols="python3 tests/lint/house.py symbols ."
layers="python3 tests/lint/house.py layers"
# Headers of the base room alone: as many as show that the check can fail.
headers="ls base/*.h | tests/lint/headers.sh $cc g++ -D_GNU_SOURCE -I."

plant base/planted.c 'int planted_name;'
wants 'base/planted.c: planted_name is exported without the prefix s2_' $symbols
plant base/planted.c '#include <stdio.h>\nvoid s2_planted(int n) { printf("%d", n); }'
wants 'base/planted.c: printf belongs in cli/' $symbols
plant db/planted.c '#include <stdlib.h>\nvoid s2_planted(void) { exit(1); }'
wants 'db/planted.c: exit belongs in cli/' $symbols
plant sim/planted.c 'void s2_planted(void *b) { s2_buf_printf(b, "%d kernels wait for memory\\n", 3); }'
wants 'sim/planted.c:1: a sentence is composed outside' $symbols
plant tui/planted.c 'void s2_planted(void *b) { s2_buf_printf(b, "100 %% of %.3g ms", 3.0); }'
wants 'tui/planted.c:1: a format with an exponent' $symbols
plant sim/planted.c 'int s2_planted(void) { return 1; }'
wants 'sim/planted.c: s2_planted is exported, and no other file of the product uses it' $symbols
plant plan/planted1.c 'int s2_planted_two(void); int s2_planted_one(void) { return s2_planted_two(); }'
plant plan/planted2.c 'int s2_planted_one(void); int s2_planted_two(void) { return s2_planted_one(); }'
wants 'circle: plan/planted1.c plan/planted2.c' $symbols
plant pattern/planted.c 'int s2_view_build(void); int s2_planted(void) { return s2_view_build(); }'
echo 'oracle pattern/planted.c' >>"$tree/tests/lint/house.txt"
wants 'pattern/planted.c: an oracle uses s2_view_build of pattern/view.c' $symbols
plant pattern/planted.c '#include "pattern/view.h"'
wants 'pattern/planted.c: an oracle includes pattern/view.h' $symbols
sed -i '$d' "$tree/tests/lint/house.txt"
plant search/planted.c "int s2_planted(int n)\n{\n$(yes '    n++;' | head -61)\n    return n;\n}"
wants 'search/planted.c:2: a function of 62 lines' python3 tests/lint/house.py lengths
plant search/planted.c "/* $(yes word | head -30 | tr '\n' ' ')*/\nint s2_planted;"
wants 'search/planted.c:1: a line of 155 columns' python3 tests/lint/house.py lengths
sed -n '/^static.*capability_of(/,/^}/p' sim/calibration.c >"$tree/plan/planted.c"
wants 'the same body of ' python3 tests/lint/house.py lengths
plant draw/planted.c 'int s2_planted(int n, int size);\nint s2_planted(int n, int size) { return (n + size - 1) / size; }'
wants 'draw/planted.c:2: a quotient is rounded up by hand' python3 tests/lint/house.py lengths
plant draw/planted.c 'int s2_planted(int n, int size);\nint s2_planted(int n, int size) { return n + 1 <= size ? size : n + 1; }'
wants 'draw/planted.c:2: a smaller or larger value is chosen by hand' python3 tests/lint/house.py lengths
plant plan/planted.c 'int s2_planted(const int *list);\nint s2_planted(const int *list)\n{\n    int at = 0;\n    while (list[at] > 0)\n        at++;\n    return at;\n}'
wants 'plan/planted.c:4: `at` outside a loop of three lines' python3 tests/lint/house.py lengths
loop='    int sum = 0;\n    for (int at = 0; at < 4; at++) {\n'
plant plan/planted.c "int s2_planted(const int *list);\nint s2_planted(const int *list)\n{\n$loop$(yes '        sum += list[at];' | head -4)\n    }\n    return sum;\n}"
wants 'plan/planted.c:8: `at` outside a loop of three lines' python3 tests/lint/house.py lengths
yes '/* */' | head -99999 >"$tree/draw/planted.h"
wants 'draw/ holds ' python3 tests/lint/house.py lengths
plant base/planted.c '#include "db/db.h"'
wants 'base/planted.c:1: base may not include db' $layers
plant search/planted.c '#include "sim/fast.h"'
wants 'search/planted.c:1: sim/fast.h is private to sim' $layers
sed -i 's/^draw: base pattern$/draw: base/; $a planted: base' "$tree/tests/lint/layers.txt"
wants "docs/architecture.md: draw/ may include 'base pattern', and tests/lint/layers.txt says 'base'" $layers
wants 'README.md: the map of the house lacks planted/' $layers
cp tests/lint/layers.txt "$tree/tests/lint"
echo '# A page' >"$tree/docs/planted.md"
wants 'docs/README.md: the list of pages lacks planted.md' $layers
echo '#include <sqlite3.h>' >"$tree/sim/planted.c"
wants 'sim/planted.c:1: sqlite3.h belongs in db/' $layers
echo 'size_t s2_planted(void);' >"$tree/base/planted.h"
wants 'base/planted.h' sh -c "$headers"
printf 'typedef struct s2_rng { int other; } s2_rng;\n' >"$tree/base/planted.h"
wants 's2_rng' sh -c "$headers"
printf 'typedef struct s2_planted { int class; } s2_planted;\n' >"$tree/base/planted.h"
wants 'base/planted.h' sh -c "$headers"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
