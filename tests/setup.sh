#!/bin/sh
# What the build and the tests need, as Debian and Ubuntu name it. Installs what is missing where it may
# (root, or sudo without a password), else says exactly what to type. Run by `make demo` and `make check`.
# usage: tests/setup.sh build|check|mpi
#        tests/setup.sh headers|test-headers COMPILER...: installs nothing, names the packages whose headers COMPILER lacks
set -u
case ${1:-build} in
*headers)
    libraries="sqlite3.h:libsqlite3-dev ncurses.h:libncurses-dev jansson.h:libjansson-dev yaml.h:libyaml-dev png.h:libpng-dev zlib.h:zlib1g-dev sha2.h:libmd-dev"
    [ "$1" = test-headers ] && libraries="cmocka.h:libcmocka-dev vterm.h:libvterm-dev"
    shift
    missing=""
    for library in $libraries; do
        # cmocka's header includes nothing that it needs
        printf '#include <setjmp.h>\n#include <stdarg.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <%s>\n' "${library%%:*}" |
            "$@" -E -x c - >/dev/null 2>&1 || missing="$missing ${library#*:}"
    done
    [ -z "$missing" ] && exit 0
    echo "s2: missing packages; please run:  sudo apt-get install$missing" >&2
    exit 5
    ;;
esac
needed="gcc make git libsqlite3-dev libncurses-dev libjansson-dev libyaml-dev libpng-dev zlib1g-dev libmd-dev graphviz"
[ "${1:-build}" = check ] &&
    needed="$needed libcmocka-dev libvterm-dev clang clang-format libclang-rt-dev pkg-config python3 python3-numpy tmux sqlite3 libopenmpi-dev openmpi-bin"
[ "${1:-build}" = mpi ] && needed="$needed libopenmpi-dev openmpi-bin"
missing=""
for package in $needed; do
    status=$(dpkg-query -W -f '${Status} ' "$package" 2>/dev/null)
    case $status in *"ok installed"*) continue ;; esac
    if [ "$package" = libclang-rt-dev ]; then # Debian 12 and Ubuntu name it with clang's version
        version=$(clang -dumpversion 2>/dev/null | cut -d. -f1)
        [ -z "$version" ] && version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p' | head -1)
        package="libclang-rt-${version:-14}-dev"
        status=$(dpkg-query -W -f '${Status} ' "$package" 2>/dev/null)
        case $status in *"ok installed"*) continue ;; esac
    fi
    missing="$missing $package"
done
[ -z "$missing" ] && exit 0
if ! command -v apt-get >/dev/null 2>&1; then
    echo "s2: these packages are needed (Debian names):$missing" >&2
    exit 5
fi
as_root=""
if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        as_root=sudo
    else
        echo "s2: missing packages; please run:  sudo apt-get install$missing" >&2
        exit 5
    fi
fi
echo "s2: installing$missing"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # the list is words on purpose
$as_root apt-get install -y -qq $missing >/dev/null 2>&1 ||
    { $as_root apt-get update -qq && $as_root apt-get install -y -qq $missing >/dev/null; } ||
    { echo "s2: apt-get could not install:$missing" >&2; exit 5; }
