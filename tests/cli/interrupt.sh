#!/bin/sh
# Run a command and interrupt it once it handles SIGINT, however slow the machine is.
# usage: tests/cli/interrupt.sh COMMAND [ARGUMENT...]    exits as the command does
env --default-signal=INT "$@" & # the shell has the command ignore SIGINT in the background
command=$!
name=$(basename "$1" | cut -c 1-15) # as the kernel keeps it; until then the process is the shell, which may catch SIGINT itself
# the last digit of the signals that a process catches has bit 1 set when SIGINT is among them
until grep -q "^Name:.$name\$" "/proc/$command/status" && grep -q '^SigCgt:.*[2367abef]$' "/proc/$command/status"; do
    sleep 0.05
    kill -0 "$command" || break
done 2>/dev/null
kill -INT "$command" 2>/dev/null
wait "$command"
