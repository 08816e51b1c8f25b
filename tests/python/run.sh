#!/bin/sh
# The Python package as a user has it: the wheel is installed into a scratch folder, without a compiler and without the net, and
# tested there. NumPy is needed, torch and transformers are tested where they are. usage: tests/python/run.sh FOLDER_OF_WHEELS
# S2_PYTHON names the interpreter; else the first that has NumPy. last line: N passed, N failed, N skipped
set -u
wheels=$(realpath "$1")
cd "$(dirname "$0")/../.." || exit 2
root=$PWD
away=$(mktemp -d "${TMPDIR:-/tmp}/s2-python.XXXXXX") || exit 2
trap 'rm -rf "$away"' EXIT
for python in ${S2_PYTHON:-python3 /usr/bin/python3}; do
    "$python" -c 'import numpy' 2>/dev/null && break
    python=""
done
if [ -z "$python" ]; then
    echo "skipped: the Python package needs NumPy (python3-numpy)"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
# What a wheel carries besides Python: the library without its debugging information, and the licences of what is inside of it.
"$python" -m zipfile -l "$(ls -t "$wheels"/*.whl | head -1)" >"$away/listed" || exit 1
wanted="s2/libs2.so. s2/py.typed"
headers=$(python3 -c 'import sys, sysconfig; print(sysconfig.get_path("include") if sys.version_info >= (3, 10) else "")')
[ -e "$headers/Python.h" ] && wanted="$wanted s2/_again.abi3.so"
for package in libjansson-dev libyaml-dev libmd-dev; do
    [ -e /usr/share/doc/$package/copyright ] && wanted="$wanted .dist-info/licenses/$package.txt"
done
for wanted in $wanted; do
    grep -qF "$wanted" "$away/listed" || { echo "the wheel lacks $wanted"; exit 1; }
done
# An archive of sources has all that its build asks for; packed anew from what it unpacks to, it is the same.
mkdir "$away/packed" "$away/anew" && python3 "$root/python/backend.py" "$away/packed" sdist >/dev/null && tar xzf "$away"/packed/*.gz -C "$away/packed" &&
    make -n -s -C "$away"/packed/*/tree wheel-parts CUDA=0 >/dev/null && python3 "$away"/packed/*/backend.py "$away/anew" sdist >/dev/null &&
    cmp "$away"/packed/*.gz "$away"/anew/*.gz || { echo "the archive of sources is not whole"; exit 1; }
# Where there is no compiler, the build says so.
builder=$(python3 -c 'import sys; print(sys.executable)')
mkdir "$away/tools" && ln -s "$(command -v make)" "$away/tools/make"
for lacking in make:/nowhere gcc:"$away/tools"; do
    env -u S2_WHEEL_LIBRARY -u CC PATH="${lacking#*:}" "$builder" "$root/python/backend.py" "$away/anew" 2>&1 | grep -q "${lacking%%:*} is not here" ||
        { echo "a build without ${lacking%%:*} does not say what is missing"; exit 1; }
done
# What pip would do with a wheel that is pure files; a Debian python3 has no pip.
"$python" -m zipfile -e "$(ls -t "$wheels"/*.whl | head -1)" "$away/site" || exit 1
cd "$away" || exit 2
# Types, of the package and of a program that uses all of it, as a user's checker sees them.
if [ -z "${S2_TEST:-}" ] && "$python" -c 'import mypy, torch, transformers' 2>/dev/null; then
    cp "$root/tests/python/typed.py" . && PYTHONPATH=$away/site "$python" typed.py || exit 1
    MYPYPATH=$away/site "$python" -m mypy --strict --cache-dir "$away/mypy" -p s2 || exit 1
    MYPYPATH=$away/site "$python" -m mypy --strict --cache-dir "$away/mypy" typed.py || exit 1
else
    echo "skipped: types are checked where the interpreter has mypy, torch and transformers, and all is tested"
fi
PYTHONPATH=$away/site:$root/tests/python PYTHONDONTWRITEBYTECODE=1 S2_ROOT=$root LC_ALL=C.UTF-8 \
    "$python" -W error::SyntaxWarning "$root/tests/python/tests.py" ${S2_TEST:+"$S2_TEST"}
