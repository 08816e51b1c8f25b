#!/bin/sh
# Which module may include which: tests/lint/layers.txt is the only table, which docs/architecture.md explains and
# README.md lists. Prints each violation as file:line: module may not include module, or the page that says
# otherwise, and exits 1 when there is one.
set -u
cd "$(dirname "$0")/../.." || exit 2
bad=$(
    git ls-files --cached --others --exclude-standard -- '*.c' '*.h' '*.cu' '*.cuh' | while read -r file; do
        [ -f "$file" ] || continue
        module=${file%%/*}
        allowed=$(sed -n "s/^$module:\(.*\)/\1/p" tests/lint/layers.txt)
        if ! grep -q "^$module:" tests/lint/layers.txt; then
            case $module in docs) continue ;; esac
            echo "$file:1: $module is not in tests/lint/layers.txt"
            continue
        fi
        grep -nE '^[[:space:]]*#[[:space:]]*include' "$file" | while IFS= read -r line; do
            at=${line%%:*}
            target=$(printf '%s\n' "$line" | sed -n 's/.*include[[:space:]]*"\([^"]*\)".*/\1/p')
            if [ -n "$target" ]; then
                to=${target%%/*}
                case $target in
                */*) ;;
                *) echo "$file:$at: include \"$target\" from the root (module/file.h)"; continue ;;
                esac
                case " $module $allowed " in
                *" $to "*) ;;
                *) echo "$file:$at: $module may not include $to" ;;
                esac
                if [ "$module" != "$to" ] && [ "$module" != tests ] && grep -q "^private $target " tests/lint/house.txt; then
                    echo "$file:$at: $target is private to $to"
                fi
            fi
            case $line in
            *'<sqlite3'*) case $file in db/*.c | tests/*) ;; *) echo "$file:$at: sqlite3.h belongs in db/*.c" ;; esac ;;
            *'<ncurses'* | *'<curses'*) case $file in tui/terminal_ncurses.c) ;; *) echo "$file:$at: curses belongs in tui/terminal_ncurses.c" ;; esac ;;
            *'<cuda'*) case $file in kernels/cuda/* | tests/kcheck/*.cu) ;; *) echo "$file:$at: CUDA headers belong under kernels/cuda/" ;; esac ;;
            *'<jansson'*) case $file in export/*.c | judge/reply.c) ;; *) echo "$file:$at: jansson belongs in export/*.c and judge/reply.c" ;; esac ;;
            *'<mpi'*) case $file in search/ranks.c) ;; *) echo "$file:$at: mpi.h belongs in search/ranks.c" ;; esac ;;
            *'<yaml'*) case $file in export/*.c) ;; *) echo "$file:$at: libyaml belongs in export/*.c" ;; esac ;;
            *'<png'*) case $file in draw/*.c) ;; *) echo "$file:$at: libpng belongs in draw/*.c" ;; esac ;;
            esac
        done
    done
    while IFS=: read -r module allowed; do
        [ "$module" = tests ] && continue
        [ "$module" = cli ] && allowed=all
        said=$(sed -n "s/^| \`$module\/\` |.*| \([^|]*\) |\$/\1/p" docs/architecture.md | tr -d ,)
        case $said in nothing*) said= ;; esac
        [ "$said" = "$(echo $allowed)" ] ||
            echo "docs/architecture.md: $module/ may include '$said', and tests/lint/layers.txt says '$(echo $allowed)'"
        grep -q "^| \`$module/\`" README.md || echo "README.md: the map of the house lacks $module/"
    done <tests/lint/layers.txt
)
if [ -n "$bad" ]; then
    printf '%s\n' "$bad"
    exit 1
fi
echo "layers: every include is allowed"
