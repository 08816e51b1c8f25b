#!/bin/sh
# usage: tests/recipes/run.sh NAME [DIR]
#
# Follows a document that says how to add something: applies NAME.patch, which was made from the document and
# nothing else, in a scratch copy of the tree (DIR, or a temporary one that is removed), builds it and runs the
# property tests, which must include what was added. Then each NAME-without-*.undo takes one step back on top
# of it, and that must fail.
#
# NAME.recipe is read by the shell and sets
#   targets   what to build, below build/debug-nocuda
#   tests     which of it to run, each from the root of the copy; its arguments behind colons
#   expect    a text that every test must print, which shows that what was added took part
#   cases     S2_CASES of the tests
# S2_CC=clang builds with it. What an earlier debug build of the tree left is taken along, and only what changes is built.
# A NAME-without-*.undo begins with a line `expect: TEXT`: a text of the failure that it must cause.
set -eu
name=$1
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
unset MAKEFLAGS MFLAGS MAKELEVEL
built=build/debug${S2_CC:+-$S2_CC}-nocuda
. "$here/$name.recipe"

scratch=${2:-$(mktemp -d "${TMPDIR:-/tmp}/s2-recipe.XXXXXX")}
[ $# -gt 1 ] || trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
mkdir -p "$scratch"
tar -C "$root" --format=posix --exclude=./build --exclude=./.git -cf - . | tar -C "$scratch" -xf -
[ ! -d "$root/$built" ] || (cd "$root" && find "$built" -name '*.[oad]' -o -name texts.c -o -name flags -o -name members) |
    tar -C "$root" --format=posix -T - -cf - | tar -C "$scratch" -xf -
cd "$scratch"

fail() {
    tail -n 40 "$scratch/log"
    echo "recipe $name: $1"
    exit 1
}

# Builds and tests; all output goes to the log.
build_and_test() {
    # shellcheck disable=SC2086,SC2046
    make -s -j"${JOBS:-2}" BUILD=debug CUDA=0 CC="${S2_CC:-gcc}" $(printf "$built/%s " $targets) >log 2>&1 || return 1
    for t in $tests; do
        # shellcheck disable=SC2046
        S2_SKIP='*_timed' S2_CASES=$cases S2_CASES_MAX=$cases "$built/"$(printf '%s' "$t" | tr : ' ') >out 2>&1 || { cat out >>log; return 1; }
        cat out >>log
        grep -qF -- "$expect" out || { echo "$t prints nothing about $expect" >>log; return 1; }
    done
}

patch -p1 -s --no-backup-if-mismatch <"$here/$name.patch" || fail "its patch does not apply: repeat the document"
build_and_test || fail "what the document says does not build or does not pass"
echo "ok   recipe $name: built, and its tests include $expect"

for step in "$here/$name"-without-*.undo; do
    [ -e "$step" ] || continue
    wanted=$(sed -n '1s/^expect: //p' "$step")
    patch -p1 -s --no-backup-if-mismatch <"$step" || fail "$(basename "$step") does not apply"
    if build_and_test; then
        fail "$(basename "$step"): a forgotten step passes every test"
    fi
    grep -qF -- "$wanted" log || fail "$(basename "$step") fails, but not with '$wanted'"
    patch -p1 -s -R --no-backup-if-mismatch <"$step"
    echo "ok   recipe $name: $(basename "$step" .undo) fails as it must"
done
