#!/bin/sh
# usage: tests/lint/nvcc.sh OBJECT COMPILER ARGUMENT...
# Runs the compiler and passes its words on. Fails, and removes the object, when ptxas says that a kernel
# spills registers, that it serialised wgmma, or that it ignored setmaxnreg: such kernels run, slowly.
# C7519, an arrive that it puts before a wgmma itself, costs an instruction; no forward kernel has it.
set -u
object=$1
shift
said=$("$@" 2>&1)
status=$?
[ -z "$said" ] || printf '%s\n' "$said" >&2
[ $status -eq 0 ] || exit $status
case $object in
*/fwd_*) harmless='^$' ;;
*) harmless='(C7519)' ;;
esac
if printf '%s\n' "$said" | grep -v "$harmless" | grep -qE 'spilled to local memory|\(C75[0-9][0-9]\)'; then
    echo "$object: no kernel may spill or serialise (tests/lint/nvcc.sh)" >&2
    rm -f "$object"
    exit 1
fi
