#!/bin/sh
# usage: tests/plug.sh S2
#
# Builds the plug of docs/examples/plug outside the tree, with the installed header and nothing else, and has it
# judged: as it is, and with each fault that it can be built with, which must be convicted and named. Then commands in its
# place, which crash, hang and talk nonsense; and torch's kernels, where python3 has torch.
set -eu
s2=$(realpath "$1")
root=$(cd "$(dirname "$0")/.." && pwd)
away=$(mktemp -d "${TMPDIR:-/tmp}/s2-plug.XXXXXX")
n=0 len=128 step="setting up" finished=""

# Whatever ends this script says where: a command that set -e does not forgive, or a signal.
ended() {
    rc=$?
    [ -n "$finished" ] || echo "plug.sh: ended with exit code $rc after $n checks, at: $step"
    rm -rf "$away"
    exit "$rc"
}
trap ended EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
cp "$root/judge/s2_kernel_plug.h" "$root/docs/examples/plug/mine.c" "$root/docs/examples/plug/one-core.txt" "$away" # and no s2_adapter.py: s2 says where it lies
cd "$away"
design='heads 4; kv-heads 2; block 16; head-dim 32; layers all: local 2 | stride 3 phase head'

# As a user builds it; faulty ones run but once.
opt=-O2
build() { # shellcheck disable=SC2086 # the third word may be missing
    step="building $1"
    ${CC:-cc} -std=c11 $opt -Wall -Wextra -Wno-nonnull -Werror -shared -fPIC -I. ${2:+"-D$2"} "${3:-mine.c}" -o "$1" -lm
}

# expect CODE TEXT FILE OPTION...: exit code and a part of what is said
expect() {
    code=$1 text=$2 file=$3
    shift 3
    rc=0 step="$file $*"
    case $file in *' '*) ;; *) file=./$file ;; esac
    "$s2" validate "$design" --no-db --device cpu --len "$len" --kernel "$file" "$@" >said 2>&1 || rc=$?
    [ "$rc" -eq "$code" ] && grep -qF -- "$text" said && n=$((n + 1)) && return
    cat said
    echo "plug.sh: $file $*: exit code $rc, expected $code and: $text"
    exit 1
}

# silent NAME COMMAND OPTION...: a foreign side that does not answer; the limit grows until it has begun within it
silent() {
    name=$1 file=$2 step=$2
    shift 2
    for limit in 2 8 32 128; do
        rc=0
        "$s2" validate "$design" --no-db --device cpu --len "$len" --kernel "$file" --timeout $limit "$@" >said 2>&1 || rc=$?
        [ "$rc" -eq 1 ] && grep -qF "timeout: $name gave no answer: within $limit s" said && n=$((n + 1)) && return
    done
    cat said
    echo "plug.sh: $file: exit code $rc, expected 1 and a timeout"
    exit 1
}

build mine.so ""
expect 0 "every pair of the layer" mine.so
expect 0 "  ok" mine.so --phase decode
expect 0 "  ok" mine.so --dtype fp32
expect 5 "takes f32 and bf16" mine.so --dtype fp16
expect 0 "  ok" mine.so --phase train
expect 0 "  ok" mine.so --phase train --dtype fp32
sed 's/^int s2_plug_backward/int another_name/' mine.c >forward.c
build forward.so "" forward.c
expect 5 "exports no s2_plug_backward" forward.so --phase train
opt=-O0
for fault in CORNER LATE DENSE GROUPED BEYOND CRASH HANG; do build "$fault.so" "$fault"; done
expect 1 "wrong_pairs: layer 0, length 32: the needle at key 21" CORNER.so
expect 1 "symptom   reads as if the queries were aligned to the first keys" CORNER.so
expect 1 "against the pattern" DENSE.so
expect 1 "symptom   ignores the pattern: every query reads every key that is not later" DENSE.so
expect 1 "symptom   reads as if keys stood one block earlier" LATE.so
expect 1 "by the pattern:" LATE.so
expect 1 "wrong_values" GROUPED.so
expect 1 "symptom   query head 1 reads the values of KV head 1, its own is 0" GROUPED.so
for fault in LOG2 VARIES ONCE; do build "$fault.so" "$fault"; done
expect 1 "wrong_values" LOG2.so
expect 1 "symptom   gives the LSE in base 2" LOG2.so
expect 1 "not_repeatable" VARIES.so --dtype fp32
expect 1 "head 1: dV of key 0 lacks query 0" ONCE.so --phase train --dtype fp32
expect 1 "symptom   leaves the gradients of query head 1 out of KV head 0, which other heads share" ONCE.so --phase train
expect 1 "symptom   puts the gradients of query head 1 into KV head 1, its own is 0" GROUPED.so --phase train
sed 's/^    \*lse_of(p, seq, head, q) = sum > 0/    ((char *)p->v.data)[3] = 18;\n&/' mine.c >scribbles.c
build scribbles.so "" scribbles.c
expect 1 "changed what it may only read: an input tensor" scribbles.so
sed 's/^        put(p, &p->d_q, to + d, d_q\[d\]);/        { put(p, \&p->d_q, to + d, d_q[d]); put(p, \&p->o, o_at + d, 7); }/' mine.c >o.c
build o.so "" o.c
expect 1 "changed what it may only read: an input tensor" o.so --phase train
# what a foreign kernel did is no evidence for or against a pattern: of list, export and file alike
own="name mine; $design+1" step="evidence of a foreign kernel"
"$s2" sim "$own" --len "$len" --db own.db >/dev/null
for file in mine.so DENSE.so; do
    "$s2" validate "$own" --len "$len" --runs 0 --db own.db --kernel "./$file" >/dev/null 2>&1 || true
    "$s2" export mine --to vllm --len "$len" -o own.json --force --db own.db >said 2>&1 || true
    if ! grep -q "no validation of this pattern by s2's own kernels" said || "$s2" ls --columns outcome --db own.db 2>/dev/null | grep -qE 'ok|wrong'; then
        cat said
        echo "plug.sh: $file counts as a validation by s2's own kernels"
        exit 1
    fi
done
n=$((n + 1))
# lists for blocks that there are not
cat >sizes.c <<'EOF'
#include <stdio.h>
#include "s2_kernel_plug.h"
int s2_plug_version(void) { return S2_PLUG_VERSION; }
int s2_plug_forward(const s2_plug_problem *p)
{
    static const int sizes[] = {0, -64, 48, 1, 32};
    s2_plug_blocks lists;
    char *to = p->error;
    for (int n = 0; n < 5; n++)
        to += snprintf(to, 8, "%d ", p->blocks(p, 0, 0, sizes[n], &lists));
    return S2_PLUG_FAILED;
}
EOF
build sizes.so "" sizes.c
expect 1 "sizes.so failed with 2: 1 1 1 0 0" sizes.so
sed 's/logf(sum) : -INFINITY/logf(sum) : 0/' mine.c >empty.c
build empty.so "" empty.c
sed 's/^#ifdef LOG2/#if LOG2 == 1\n    if (head == 1)/' mine.c >one.c
build one.so "LOG2=1" one.c
expect 1 "symptom   gives the LSE in base 2, not the natural logarithm, in head 1 alone" one.so

# mutant SYMPTOM EXPRESSION: what a kernel reads, as C; the rule that explains it must be found
mutant() {
    build mutant.so "READS=($2)"
    expect 1 "symptom   $1" mutant.so
}
mutant "reads as if keys stood one block later" 'k + 16 <= at && p->reads(p, seq, head, q, k + 16)'
mutant "reads as if keys stood one token later" 'k + 1 <= at && p->reads(p, seq, head, q, k + 1)'
mutant "reads by the number of the KV head" 'p->reads(p, seq, head / 2, q, k)'
mutant "every head reads what head 0 has to read" 'p->reads(p, seq, 0, q, k)'
mutant "reads no key from 64 on" 'k < 64 && p->reads(p, seq, head, q, k)'
mutant "ignores the pattern and causality" 'k >= 0'
# of two ways through a kernel the one for few queries drops the mask
mutant "ignores the pattern: every query reads every key that is not later" \
    'p->q_tok[seq] < p->k_tok[seq] ? k <= at : p->reads(p, seq, head, q, k)'
mutant "head 3 alone: ignores the pattern: every query reads every key that is not later" \
    'head == 3 ? k <= at : p->reads(p, seq, head, q, k)'
# the same rules where gradients are wrong
trained() {
    build mutant.so "READS=($2)"
    expect 1 "symptom   $1" mutant.so --phase train
}
trained "ignores the pattern: every query reads every key that is not later" 'k <= at'
trained "reads as if keys stood one block later" 'k + 16 <= at && p->reads(p, seq, head, q, k + 16)'
trained "every head reads what head 0 has to read" 'p->reads(p, seq, 0, q, k)'
build PADDED.so PADDED
len=120
expect 1 "symptom   reads on after the last key of a sequence" PADDED.so
expect 1 "symptom   reads on after the last key of a sequence" PADDED.so --batch 2
len=128
expect 0 "the same bits alone and as one of three sequences" mine.so --runs 2
expect 0 "median" mine.so --runs 2
# right on its own pattern, which it reads on the dense one too: a ratio of the two times says nothing
build own.so "READS=(k <= at && (at / 16 - k / 16 < 2 || (k / 16 + head) % 3 == 0))"
expect 0 "dense     not timed, since the kernel is wrong on the dense pattern: wrong_pairs" own.so --runs 2
build BESIDE.so BESIDE
expect 0 "other bits as one of three sequences than alone, first at query 0, head 0" BESIDE.so --dtype fp32
design='heads 4; kv-heads 2; block 16; head-dim 32; layers all: local 2 | sink 1'
mutant "loses the term 'sink 1' from query" '!(at >= 64 && k < 16) && p->reads(p, seq, head, q, k)'
mutant "reads as if 'local 2' were 'local 3'" 'k <= at && (at / 16 - k / 16 < 3 || k < 16)'
mutant "ignores the term 'local 2'" 'k <= at && k < 16'
mutant "ignores the term 'sink 1'" 'k <= at && at / 16 - k / 16 < 2'
design='heads 4; kv-heads 2; block 16; head-dim 32; layers all: columns 3'
expect 1 "symptom   gives rows without keys another LSE than minus infinity" empty.so
# rows of one key say nothing of a scale
sed 's/\*= 1.442695f/*= 1.06f/' mine.c >six.c
build six.so LOG2 six.c
design='heads 4; kv-heads 2; block 16; head-dim 32; layers all: local 1t'
expect 1 "wrong_values" six.so
if grep -q "nan times" said; then
    cat said
    echo "plug.sh: a scale of no number"
    exit 1
fi
design='heads 4; kv-heads 2; block 16; head-dim 32; layers all: local 2 | stride 6 phase 2'
mutant "reads as if 'stride 6 phase 2' were 'stride 6 phase 4': the offset the other way round the stride" \
    'k <= at && (at / 16 - k / 16 < 2 || (k / 16 + 4) % 6 == 0)'
mutant "reads all keys before the first of 'stride 6 phase 2' too, as where a negative remainder" \
    'k <= at && (at / 16 - k / 16 < 2 || (k / 16 - 4) % 6 < 1)'
design='heads 4; kv-heads 2; block 16; head-dim 32; layers all: local 20t'
mutant "reads as if 'local 20t' were 'local 19t'" 'k <= at && at - k < 19'
mutant "reads as if 'local 20t' were 'local 21t'" 'k <= at && at - k < 21'
mutant "reads whole blocks of 16 tokens" 'k <= at && at / 16 * 16 - (k / 16 * 16 + 15) < 20'
expect 1 "wrong_" LATE.so --phase train --dtype fp32
expect 1 "out_of_bounds: byte -1 of the output" BEYOND.so
expect 1 "launch_failed: CRASH.so was ended by signal 11" CRASH.so
expect 1 "timeout" HANG.so --timeout 1
# rude STATEMENT CODE TEXT OPTION...: a right kernel that does this besides, before (%%) or after it computes
rudely() {
    statement=$1
    { printf '#define _GNU_SOURCE\n#include <signal.h>\n#include <unistd.h>\n'
      awk -v s="$statement" '/^int s2_plug_forward/ { own = 1 }
          own && /^    for \(int32_t seq/ { if (sub(/^%%/, "", s)) { print s; s = "" } }
          own && /^    return S2_PLUG_OK/ { print s; own = 0 } { print }' mine.c; } >rude.c
    build rude.so "" rude.c
}
rude() {
    rudely "$1"
    code=$2 text=$3
    shift 3
    expect "$code" "$text" rude.so "$@"
}
rude 'return 256;' 1 "launch_failed: rude.so failed with 256: it does not say why"
rude 'memset(p->error, 65, 3000); return 2;' 1 "launch_failed: rude.so failed with 2: AAAA"
rude '_exit(0);' 1 "launch_failed: rude.so ended its process with exit code 0 inside of the call"
rude 'exit(7);' 1 "launch_failed: rude.so ended its process with exit code 7 inside of the call"
rude 'kill(0, SIGTERM);' 1 "launch_failed: rude.so was ended by signal 15"
rude 'raise(SIGSTOP);' 1 "timeout" --timeout 1
rude '{ for (int fd = 3; fd < 200; fd++) { close(fd); } } pause();' 1 "timeout" --timeout 1
rude 'for (int fd = 3; fd < 200; fd++) close(fd);' 0 "  ok"
rude 'for (int fd = 3; fd < 200; fd++) (void)!ftruncate(fd, 0);' 0 "  ok"
rude 'if (fork() == 0) for (;;) pause();' 0 "  ok"
rude '%%char c; if (read(0, &c, 1) != 0) return 2;' 0 "  ok"
rudely 'memset((char *)p->o.data - 8192, 255, 64);' # whatever lies there, nothing of s2's own does
rc=0
"$s2" validate "$design" --no-db --device cpu --len "$len" --kernel ./rude.so --runs 0 >said 2>&1 || rc=$?
[ "$rc" -le 1 ] || { cat said; echo "plug.sh: a write far before an output ended s2 with $rc"; exit 1; }
n=$((n + 1))
# times of a kernel, and laws fitted to them; what fails is named and left out
priced() {
    codes=$1 text=$2 # a busy machine may not time enough: codes are as many as may be
    shift 2
    rc=0 step="calibrate $*"
    "$s2" calibrate --gpu ./one-core.txt --pass decode "$@" >said 2>&1 || rc=$?
    case " $codes " in *" $rc "*) grep -qF -- "$text" said && n=$((n + 1)) && return ;; esac
    cat said
    echo "plug.sh: calibrate $*: exit code $rc, expected one of $codes and: $text"
    exit 1
}
for minutes in 0.5 2 8; do # a busy machine times fewer launches in them than a law takes
    rm -f rows.csv
    priced "0 4" "launches" --kernel ./mine.so --minutes $minutes --rows rows.csv --out mine.txt
    [ "$rc" -ne 0 ] || break
done
grep -qF "errors on rows that were not fitted" said || { cat said; echo "plug.sh: calibrate fits no law in $minutes minutes"; exit 1; }
priced 0 "mine.so on one core of a CPU" --from rows.csv --name mine.so --out again.txt
sed "/^source/d" mine.txt >one.txt; sed "/^source/d" again.txt >other.txt
cmp one.txt other.txt || { echo "plug.sh: the rows that were kept give other laws"; exit 1; }
"$s2" sim --gpu ./one-core.txt --kernel-model ./mine.txt --phase decode --len 256 'heads 8; head-dim 64; all: dense' >said
grep -q "predicted (mine.so; caches warm)" said || { cat said; echo "plug.sh: no price by mine.txt"; exit 1; }
priced 3 "launch_failed: CRASH.so was ended by signal 11" --kernel ./CRASH.so
priced 3 "0 of 24 launches were timed, 24 skipped: a law takes at least 9" --kernel ./CRASH.so
priced 4 "timeout" --kernel ./HANG.so --timeout 1 --minutes 0.1
priced "0 4" "wrong_pairs: ignores the pattern: every query reads every key" --kernel ./DENSE.so --minutes 0.2
sed 's/^int s2_plug_decode/int another_name/' mine.c >prefill.c
build prefill.so "" prefill.c
priced 3 "prefill.so has no pass that could be timed: --pass decode" --kernel ./prefill.so
# what a shared object says of its rounding is what it may be off by
for word in output weights sums scores; do
    { cat mine.c; echo "const char *s2_plug_rounds(void) { return \"$word\"; }"; } >rounds.c
    build rounds.so "" rounds.c
    expect 0 "  ok" rounds.so
done
{ cat mine.c; echo 'const char *s2_plug_rounds(void) { return "some"; }'; } >rounds.c
build rounds.so "" rounds.c
expect 5 "returns 'some', expected output, weights, sums or scores" rounds.so
sed 's/^        sum = sum \* decay + weight;/        { put(p, \&p->o, o_at, weight); sum = sum * decay + get(p, \&p->o, o_at); }/' mine.c >sums.c
build sums.so "" sums.c
expect 1 "wrong_" sums.so
echo 'const char *s2_plug_rounds(void) { return "sums"; }' >>sums.c
build sums.so "" sums.c
expect 0 "  ok" sums.so
rc=0
"$s2" calibrate --gpu ./no-such.txt --pass decode --kernel ./mine.so --minutes 5 >said 2>&1 || rc=$?
if [ "$rc" -eq 0 ] || ! grep -q "no-such.txt" said || grep -q "launches" said; then
    cat said
    echo "plug.sh: calibrate --gpu no-such.txt: exit code $rc"
    exit 1
fi
n=$((n + 1))
printf 'not an object\n' >text.so
expect 5 "text.so" text.so
expect 5 "cannot open" missing.so
if command -v python3 >/dev/null; then
    cat >fake.py <<'EOF'
import os, sys, time
import s2_adapter
def answer(request):
    word = sys.argv[1]
    if word == "crash":
        os.abort()
    if word == "hang":
        time.sleep(1000)
    if word == "leave":
        sys.exit(3)
    if word == "nonsense":
        os.write(s2_adapter._answers.fileno(), b"Traceback\\n")
    if word == "list":
        os.write(s2_adapter._answers.fileno(), b'["outcome", "ok"]\\n')
    if word == "twice":
        os.write(s2_adapter._answers.fileno(), b'{"id": 1, "outcome": "failed", "outcome": "ok"}\\n')
    if word == "endless":
        os.write(s2_adapter._answers.fileno(), b"x" * 100000)
    return {"outcome": word, "reason": "so it says"}
s2_adapter.raw("fake", ["forward"], answer)
EOF
    expect 1 "launch_failed: fake ended without an answer: signal 6" "python3 fake.py crash"
    expect 1 "launch_failed: fake ended without an answer: exit code 3" "python3 fake.py leave"
    silent fake "python3 fake.py hang"
    expect 1 "bad_reply: fake answers with a line that is not of the protocol" "python3 fake.py nonsense"
    expect 1 "bad_reply" "python3 fake.py list"
    expect 1 "bad_reply" "python3 fake.py twice"
    expect 1 "bad_reply" "python3 fake.py endless"
    expect 1 "bad_reply" "python3 fake.py another_word"
    expect 1 "launch_failed: fake failed: so it says" "python3 fake.py failed"
    expect 1 "wrong_shape: fake gives a result of another shape" "python3 fake.py wrong_shape"
    expect 4 "out_of_memory: fake is out of memory" "python3 fake.py out_of_memory"
    expect 5 "unsupported: so it says" "python3 fake.py unsupported"
    expect 1 "nan" "python3 fake.py ok" # writes nothing
    expect 5 "the command ended without an answer: exit code 127" "no-such-program at all"
    # a request that no pipe holds, for somebody who does not read
    cat >deaf.py <<'EOF'
import time
print('{"s2": 1, "name": "deaf", "passes": "forward"}', flush=True)
time.sleep(1000)
EOF
    len=16
    silent deaf "python3 deaf.py" --batch 4096
    len=128
    step=strangers.py
    python3 "$root/tests/strangers.py" "$s2" 40 >said || { cat said; exit 1; }
    n=$((n + 40))
    step="tracing a mask"
    cat >mods.py <<'EOF'
def sharded(b, h, q, k):
    return (q >= k) & ((q // 16 - k // 16 < 3) | ((k // 16 + h) % 4 == 0))
EOF
    python3 "$root/adapters/trace_mask.py" mods.py:sharded traced.npy --heads=4 --len=160
    "$s2" import traced.npy --terms --set block=1 --no-db >said
    grep -qx "layers all: local 3 | stride 4 phase head" said && grep -qx "block 16" said || {
        cat said
        echo "plug.sh: a traced mask_mod is not the pattern that it must be"
        exit 1
    }
    # an option's value behind a blank, and lengths in k
    python3 "$root/adapters/trace_mask.py" mods.py:sharded other.npy --heads 4 --len 160
    cmp traced.npy other.npy
    python3 "$root/adapters/trace_mask.py" mods.py:sharded long.npy --heads 1 --len=1k
    [ "$(wc -c <long.npy)" -eq $((128 + 1024 * 1024)) ] || { echo "plug.sh: a mask of 1k has $(wc -c <long.npy) bytes"; exit 1; }
    for wrong in "mods.py:sharded no.npy --len" "mods.py:sharded no.npy --len 1kb" "mods.py:sharded no.npy --len=0" \
        "mods.py:sharded no.npy --length=3" "mods.py:shard no.npy" "mods.py: no.npy" "mod.py:sharded no.npy" \
        "mods.py:sharded no/folder.npy --len=16"; do
        # shellcheck disable=SC2086 # words
        if python3 "$root/adapters/trace_mask.py" $wrong 2>said || grep -q Traceback said; then
            cat said
            echo "plug.sh: trace_mask.py takes $wrong"
            exit 1
        fi
    done
    n=$((n + 1))
else
    echo "skipped: a kernel behind a command needs python3"
fi
python=${S2_PYTHON:-python3}
if "$python" -c 'import numpy' 2>/dev/null; then
    # the page's adapter without torch, and the same with the other corner
    awk '/^```python/ { n++; on = n == 2; next } /^```/ { on = 0 } on' "$root/docs/judging-your-kernel.md" >arrays.py
    sed 's/p.mask()/np.tril(np.ones((p.q_tok, p.k_tok), bool))/' arrays.py >corner.py
    for dtype in fp32 bf16 fp16; do
        expect 0 "right too: batch chunk lengths mixed high low" "$python arrays.py" --dtype "$dtype"
        expect 0 "  ok" "$python arrays.py" --phase decode --dtype "$dtype"
        expect 1 "wrong_pairs" "$python corner.py" --dtype "$dtype"
    done
else
    echo "skipped: an adapter of arrays needs numpy, which $python has not"
fi
if "$python" -c 'import torch' 2>/dev/null; then
    for adapter in "sdpa.py math" "sdpa.py flash" "flex.py eager"; do
        expect 0 "  ok" "env OMP_NUM_THREADS=1 $python $root/adapters/$adapter"
    done
    # gradients that torch makes of a forward of its own
    expect 0 "  ok" "env OMP_NUM_THREADS=1 $python $root/adapters/sdpa.py math" --phase train
    expect 0 "  ok" "env OMP_NUM_THREADS=1 $python $root/adapters/sdpa.py flash" --phase train --dtype fp32
else
    echo "skipped: the adapters need torch, which $python has not"
fi
finished=1
echo "$n plugs judged as they must be"
