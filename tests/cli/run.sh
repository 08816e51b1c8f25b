#!/bin/sh
# Replay transcripts: in tests/cli/*.txt a line "$ COMMAND" is run in an empty directory, and what
# follows up to the next one must be its output (stdout and stderr together) and, where it is not 0,
# its exit code as [N]. Lines before the first command are a comment.
# A command may take 30 minutes, so that only one that hangs is ended: its processor time has a limit of its own (S2_CPU_SECONDS).
# interrupt.sh interrupts a command. Where $S2_CASES_MAX is set, as under sanitizers, a command that ends with
# "# long" is not run and stands for its output: it takes long, leaves nothing that a later one needs, and does with
# more what others do.
# usage: tests/cli/run.sh DIR_OF_PROGRAMS [--write] [NAME...]    exits 1 on a difference
set -u
programs=$(cd "$1" && pwd) || exit 2
shift
write=0
[ "${1:-}" = --write ] && { write=1; shift; }
root=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
ln -s "$root/tests/data" "$scratch/data" # a name without the blanks that the path to the tree may have
export PATH="$programs:$PATH" DATA="$scratch/data" LC_ALL=C.UTF-8 TERM=dumb
unset S2_DB NO_COLOR
bad=0
for file in "$root"/tests/cli/*.txt; do
    name=$(basename "$file" .txt)
    [ $# -gt 0 ] && case " $* " in *" $name "*) ;; *) continue ;; esac
    mkdir "$scratch/$name" && cd "$scratch/$name" || exit 2
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in
        '$ '*'# long')
            [ -n "${S2_CASES_MAX:-}" ] && seen=1 left=1 && printf '%s\n' "$line" && continue
            ;;
        esac
        case $line in
        '$ '*)
            seen=1 left=""
            printf '%s\n' "$line"
            timeout 1800 sh -c "${line#\$ }" </dev/null 2>&1
            code=$?
            [ $code -ne 0 ] && printf '[%s]\n' $code
            ;;
        *) { [ -z "${seen:-}" ] || [ -n "${left:-}" ]; } && printf '%s\n' "$line" ;;
        esac
    done <"$file" >"$scratch/$name.out"
    unset seen left
    # what a slow run says now and then, that its log shows life
    sed -i '/^layer [0-9]*, [0-9]* tokens: /d' "$scratch/$name.out"
    cmp -s "$file" "$scratch/$name.out" && continue
    if [ $write = 1 ]; then
        cp "$scratch/$name.out" "$file"
        echo "rewritten: tests/cli/$name.txt"
    else
        diff -u "$file" "$scratch/$name.out"
        diff "$file" "$scratch/$name.out" | grep '^[<>]' | head -n 6 | sed "s|^|FAIL tests/cli/$name.txt: |"
        bad=1
    fi
done
exit $bad
