#!/bin/sh
# The library as somebody else sees it: installed into a scratch folder, found by pkg-config, linked shared and static from
# C and C++ outside of the tree, exporting what library/exports.txt lists, its ABI as tests/library/abi.txt has it.
# usage: tests/library/run.sh MAKE LIBRARY     last line: N passed, N failed    (CC, CXX: of several words, as "ccache gcc")
# shellcheck disable=SC2086 # compilers and flags are words
set -u
cc=${CC:-cc} cxx=${CXX:-c++}
make=$1 library=$(realpath "$2")
cd "$(dirname "$0")/../.." || exit 2
away=$(mktemp -d "${TMPDIR:-/tmp}/s2-library.XXXXXX") || exit 2
trap 'rm -rf "$away"' EXIT
passed=0 failed=0 tree=$PWD

# judge WHAT: what stands in the file `found` is why it fails; nothing: it passes. Not behind a pipe: it counts.
judge() {
    found=$(cat "$away/found")
    if [ -z "$found" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf '%s:\n%s\n' "$1" "$found" | head -40
    fi
}

names() { nm --defined-only "$@" | awk '$2 ~ /[A-Z]/ && $2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u; }
same() { diff "$1" "$2" | grep '^[<>]'; } # LISTED FOUND

sort -u library/exports.txt >"$away/listed"
names -D "$library" >"$away/shared"
same "$away/listed" "$away/shared" >"$away/found"
judge "the shared library exports other names than library/exports.txt"
names "${library%.so.*}.a" >"$away/static"
same "$away/listed" "$away/static" >"$away/found"
judge "the static library exports other names than library/exports.txt"
grep -o '\bs2_api_[a-z_]*(' library/s2.h | tr -d '(' | sort -u >"$away/declared"
same "$away/listed" "$away/declared" >"$away/found"
judge "s2.h declares other names than library/exports.txt"
readelf -d "$library" | grep -E 'TEXTREL|NEEDED' | grep -vE '\[lib(c|m|pthread|dl|rt|gcc_s|stdc\+\+)\.so|\[ld-linux' >"$away/found"
judge "the shared library needs more than the C library"
objects=$(dirname "$library")/..
for room in base pattern coverage words plan sim cache kernels export library; do objdump -t "$objects/$room"/*.c.o; done |
    awk '/ O \.(data|bss|tdata|tbss)(\.rel(\.local)?)?\t/ { sub(/\.[0-9]+$/, "", $NF); print $NF }' | sort -u |
    grep -vxFf tests/library/state.txt >"$away/found"
judge "the library has state that tests/library/state.txt does not explain"
python3 tests/library/abi.py "$cc" library/s2.h >"$away/abi" 2>&1
diff tests/library/abi.txt "$away/abi" >"$away/found"
judge "the ABI changed: append only, count S2_API_VERSION up, and write 'make abi'"

$make -s install DESTDIR="$away/root" PREFIX=/opt/s2 >"$away/install" 2>&1 && : >"$away/install"
cp "$away/install" "$away/found"
judge "make install"
cp docs/examples/library.c "$away/library.c"
cd "$away" || exit 2
export PKG_CONFIG_PATH=$away/root/opt/s2/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$away/root LD_LIBRARY_PATH=$away/root/opt/s2/lib
flags() { pkg-config --cflags --libs "$@" s2; }
run() { # NAME COMPILER...: built and run
    name=$1
    shift
    { "$@" -Wall -Wextra -Werror -o "$name" && "./$name" >"$name.out" && grep -q 'below 1e-5' "$name.out" && : >found; } >found 2>&1 ||
        echo "it did not end well" >>found
    judge "$name"
}
# shellcheck disable=SC2046 # flags are words
{
    run shared $cc -std=c11 library.c $(flags) -lm
    run static $cc -std=c11 library.c $(pkg-config --cflags s2) root/opt/s2/lib/libs2.a \
        $(pkg-config --libs-only-other --libs-only-l --static s2 | sed 's/-ls2//')
}
# Each function of the interface, called rightly and wrongly, in both languages.
# shellcheck disable=SC2046 # flags are words
every() { # FLAG...: in this language
    { "$@" -Wall -Wextra -Wpedantic -Werror $(pkg-config --cflags s2) -c "$tree/tests/library/every.c" -o every.o &&
        $cxx every.o $(pkg-config --libs s2) -o every && ./every >every.out && : >every.out; } >found 2>&1 || echo "it did not end well" >>found
    cat every.out >>found
    judge "tests/library/every.c, $*"
}
every $cc -std=c11
every $cxx -std=c++11 -x c++
sed 's/.*/&(/' listed | while read -r name; do grep -qF "$name" "$tree/tests/library/every.c" || echo "$name"; done >found
judge "functions that tests/library/every.c does not call"
share=$away/root/opt/s2/share/s2
$cc -std=c11 -O2 -shared -fPIC -I"$away/root/opt/s2/include" "$share/examples/plug/mine.c" -o mine.so -lm >found 2>&1
diff -r "$tree/docs/examples/plug" "$share/examples/plug" >>found 2>&1
(cd "$tree/adapters" && ls ./*.py) >here
(cd "$share/adapters" && ls ./*.py) | diff here - >>found 2>&1
judge "the plug's example and the adapters, installed"
$make -s -C "$tree" uninstall DESTDIR="$away/root" PREFIX=/opt/s2 >found 2>&1
find "$away/root" ! -type d >>found
judge "make uninstall leaves a file"
printf '%s passed, %s failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
