#!/bin/sh
# Every GPU figure of the documentation, by one command, on one GPU: the steps below in the order of their worth.
#
# usage: tests/bench/record.sh [--plan] [--minutes=N] [--limit=SECONDS] [--only=STEP,...] [--cards=N,...] [--out=FOLDER] BUILD
#
#   BUILD          the folder of the programs, built here or elsewhere: s2, kcheck, kcheck_lanes, bench_gpu, bench_decode, relay; or the
#                  archive of them that `make record-pack` wrote (5 MB), which is unpacked under build/record/
#   --plan         say what would run, with the seconds it is expected to take, and run nothing
#   --minutes=N    leave out what no longer fits into N minutes, and say which
#   --limit=N      end every step after N seconds at most, where its own limit is longer
#   --only=LIST    these steps only
#   --cards=LIST   GPUs of this machine, as CUDA numbers them: the steps run on them side by side, those that are compared
#                  with one another on one card, in a folder for each; build/record/COMMIT gathers what all of them have
#   --out=FOLDER   default: build/record/COMMIT-GPU, of the programs' commit and the GPU's uuid
#
# FOLDER is laid out as docs/results/: GPU-STEP.jsonl and .txt, and GPU-steps.jsonl with a row for each step that ran. A
# step whose file stands there is not run again, so a run that was cut goes on where it ended; a step writes FILE.part
# as it goes, which becomes FILE when it ends well; else its rows are kept in FILE.cut or FILE.failed and it is due again.
# Nothing is built and nothing but sh, coreutils, awk, sed and grep is needed; python3 with torch for the peers, ncu for the
# counters, compute-sanitizer for the sanitizers: a step that misses its tool says so and counts as not possible here.
# Exit codes: 0 every step that is possible here is done, 1 a step failed, 4 some were left out for want of time, 2 called
# wrongly, 5 no GPU or no program, 130 ended by a signal.
set -u
here=$(cd "$(dirname "$0")/../.." && pwd) || exit 2

# step | seconds that it is expected to take | limit | result | what it shows
# The seconds are replaced by those of docs/results/*-steps.jsonl where an earlier run is recorded there.
steps='
forward|110|240|jsonl|forward rows that have a goal: checked, sustained and cool, with the ceilings of the run
forward-peers|120|300|jsonl|cuDNN, FlashAttention-2, FlexAttention and DKernel, interleaved with ours
kcheck|290|500|txt|every GPU kernel on every case, and the faulty kernels that must be convicted
backward|80|200|jsonl|gradients that have a goal, deterministic and fused, to dense 128k
backward-peers|70|200|jsonl|gradients of cuDNN and FlashAttention-2, interleaved with ours
decode|40|120|jsonl|decode steps to 1M tokens and to a batch of 128, contiguous keys
decode-evicted|35|120|jsonl|the same from evicted caches
decode-e4m3|40|120|jsonl|the same over keys and values in e4m3
decode-batches|30|120|jsonl|128 sequences of different lengths, pages of 16 to 256 tokens, graphs that grow
decode-peers|60|200|jsonl|dense decoding by cuDNN and FlashAttention-2, interleaved with ours
quest|15|60|jsonl|pages that the query chooses, beside the same number of pages unchosen
generation|40|150|jsonl|131 071 tokens one by one through an evicting cache
campaign|150|400|jsonl|pairs (over 10^9), values, needles 1k to 128k, the cells that a broken rotation loses
sanitize|200|400|txt|the control for racecheck, then memcheck, racecheck, initcheck and synccheck
designed|90|240|jsonl|the points that the simulator is fitted to
held-out|75|200|jsonl|points drawn by a fresh seed, never fitted, that judge the fit
short-held-out|25|80|jsonl|the same of short windows, which kernels of their own run
ordered-held-out|20|80|jsonl|the same of gradients in order, which a kernel of its own runs
constants|20|240|txt|the fit of the two, for sim/calibration/
search|90|300|jsonl|the best 20 of a search, measured beside predicted, with Kendall tau
counters|200|400|jsonl|bytes by the hardware counters, which also go into the two files of points
campaign-bytes|140|400|jsonl|times, the dense pattern beside, and counted bytes of published patterns
forward-rest|150|400|jsonl|the other forward rows: lengths, blocks, head dimensions, types, the portable kernel
backward-rest|60|200|jsonl|the other rows of gradients
'
# Steps whose figures are compared with one another, or that read one another's rows, stay on one card.
families='forward,forward-peers,backward,backward-peers
designed,held-out,short-held-out,ordered-held-out,constants,counters
decode,decode-evicted,decode-e4m3,decode-batches,decode-peers,quest,generation
search
kcheck
campaign
forward-rest
campaign-bytes
sanitize
backward-rest'
PHI3_KV='name phi3; heads 32; kv-heads 8; head-dim 128; layers all: local 16 | stride 8 phase kv'
SPACE='block {32,64}; layers all: local {1..32} | stride {2..32} phase {head,kv}'
HELD_OUT_SEED=20261212
CORE=L8V16,L16V32,phi3,dense,dense_d64,dense_d256,block16
REST=phi3_small,phi3_small_dense,phi3_batch4,L8V16_d64,L8V16_d96,L8V16_d256,L8V16_f16,L8V16_gqa8,block32,block128,stream,window,dense_d96
UNEVEN=phi3_ramp,phi3_few,dense_ramp,dense_few
GROWN=phi3_grow,dense_ramp_grow
pages() { echo "$1_page16,$1_page32,$1_page64,$1_page128,$1_page256"; }

# ------------------------------------------------------------------ the steps, each in a process of its own

# Where nothing is timed, several run at once; what each wrote is printed at the end, whatever ended them.
side_by_side() { # side_by_side NAME COMMAND...
    n_sides=$((${n_sides:-0} + 1))
    at=$scratch/rows.$(printf %02d $n_sides)-$1
    shift
    { "$@" >"$at" || echo "exit code $?: $*" >>"$scratch/bad"; } &
}
gather() {
    wait
    [ ! -e "$scratch/bad" ] || { cat "$scratch/bad" >&2 && return 1; }
}

print_sides() {
    for side in "$scratch"/rows*; do
        case $side in *.err) ;; *) grep -v '^skip ' "$side" 2>/dev/null ;; esac
    done
    rm -rf "$scratch"
}

# A kernel has up to 700 cases, judged on the CPU: in pieces, so that every core has work to the end.
check_kernels() {
    echo "$device_row"
    side_by_side sabotage sh -c 'echo "kcheck --sabotage"; "$0" --sabotage' "$build/kcheck"
    parts=7 # types take turns three at a time: a multiple of three leaves pieces without a case that a kernel takes
    for kernel in sm90 sm80 sm80_bwd sm90_bwd decode sm90_bwd_fused sm90_e4m3 sm90_lists sm90_window sm90_bwd_window sm90_bwd_ordered; do
        for part in $(seq $parts); do
            echo "$kernel $part/$parts $scratch/rows-$kernel-$part"
        done
    done | xargs -P "$(nproc)" -n 3 sh -c '{ echo "kcheck --kernel=$1 --part=$2"; "$0" --kernel="$1" --part="$2"; } >"$3" ||
        echo "exit code $?: kcheck --kernel=$1 --part=$2" >>"${3%/*}/bad"' "$build/kcheck"
    gather
}

campaign() {
    PART=$1 "$here/tests/bench/campaign.sh" "$build/s2" "$scratch/rows" gpu >&2
}

# Bytes for the points of one file, which gets them; the counted rows are printed. counted FILE OPTION...
counted() {
    file=$out/$gpu-$1.jsonl
    shift
    [ -s "$file" ] || return 0
    for pass in forward backward decode; do
        ncu --metrics dram__bytes_read.sum,dram__bytes_write.sum,l1tex__m_xbar2l1tex_read_bytes.sum \
            --clock-control none -k 'regex:fwd_|bwd_|decode' --csv --log-file "$scratch/ncu.csv" \
            "$build/s2" calibrate "$@" --pass $pass --once --rows "$scratch/once" >&2 || return 1
        python3 "$here/tests/bench/counters.py" "$scratch/once" "$scratch/ncu.csv" || return 1
        python3 "$here/tests/bench/counters.py" "$scratch/once" "$scratch/ncu.csv" "$file" >"$scratch/joined" || return 1
        mv "$scratch/joined" "$file"
    done
}
counters() {
    command -v ncu >/dev/null || { echo "ncu is not on PATH" >&2 && return 77; }
    command -v python3 >/dev/null || { echo "python3 is not on PATH" >&2 && return 77; }
    [ -s "$out/$gpu-held-out.jsonl" ] || { echo "the step held-out has not run" >&2 && return 77; }
    counted held-out --held-out 24 --seed $HELD_OUT_SEED && counted designed && fit >"$scratch/fit" && mv "$scratch/fit" "$out/$gpu-constants.txt"
}

fit() {
    for part in designed held-out; do
        [ -s "$out/$gpu-$part.jsonl" ] || { echo "the step $part has not run" >&2 && return 77; }
    done
    "$build/s2" calibrate --from "$out/$gpu-designed.jsonl" --judge "$out/$gpu-held-out.jsonl"
}

peers() {
    command -v python3 >/dev/null || { echo "python3 is not on PATH" >&2 && return 77; }
    python3 "$here/tests/peers/peers.py" --headline --json --bench="$build/bench_gpu" --commit="$commit" --driver="$(of_device driver)" \
        --phase="$1"
}

of_device() { printf '%s' "$device_row" | sed -n "s/.*\"$1\": \"\([^\"]*\)\".*/\1/p"; }
bench() { "$build/bench_gpu" --json --commit="$commit" "$@"; }
decode() { "$build/bench_decode" --commit="$commit" "$@"; }

run_step() {
    case $1 in
    forward) bench --phase=forward --only=$CORE --tok=8k,32k,128k ;;
    forward-peers) peers forward ;;
    forward-rest) bench --phase=forward --only=$REST && bench --phase=forward --only=$CORE --tok=2k,4k,16k,64k,256k,512k ;;
    backward) bench --phase=backward --only=$CORE --tok=8k,32k,128k ;;
    backward-peers) peers backward ;;
    backward-rest) bench --phase=backward --only=$REST ;;
    decode) decode --only=phi3,L8V16,dense ;;
    decode-evicted) decode --only=phi3,L8V16 --cached ;;
    decode-e4m3) decode --only=phi3,L8V16,dense --kv-dtype=e4m3 ;;
    decode-batches) decode --only=phi3,dense,$UNEVEN --batch=128 && decode --only=$(pages dense),$(pages dense_ramp),$(pages phi3),$GROWN ;;
    decode-peers) peers decode ;;
    quest) decode --only=quest,dense --tok=4k,32k,128k ;;
    generation) "$build/s2" validate --no-db --device gpu --json --phase decode --len 128k --steps 131071 --runs 20 "$PHI3_KV" ;;
    kcheck) check_kernels ;;
    campaign) campaign pairs ;;
    campaign-bytes) campaign bytes ;;
    sanitize) echo "$device_row" && JOBS=${JOBS:-6} "$here/tests/kcheck/sanitize.sh" "$build/kcheck" "$build/kcheck_lanes" "$build/relay" ;;
    designed) "$build/s2" calibrate ;;
    held-out) "$build/s2" calibrate --held-out 110 --seed $HELD_OUT_SEED ;;
    short-held-out) "$build/s2" calibrate --held-out 44 --seed $HELD_OUT_SEED --family short ;;
    ordered-held-out) "$build/s2" calibrate --held-out 36 --seed $HELD_OUT_SEED --pass backward --family ordered ;;
    counters) counters ;;
    constants) fit ;;
    search) echo "$device_row" && "$build/s2" search "$SPACE" --model llama-3.1-8b --len 32k --phase prefill,decode --minimize us,unread --validate 20 \
        --device gpu --runs 40 --db "$scratch/search.db" --json ;;
    *) return 2 ;;
    esac
}

if [ "${1:-}" = --run ]; then # --run STEP BUILD OUT GPU COMMIT DEVICE_ROW: what the loop below starts under a timeout
    build=$3 out=$4 gpu=$5 commit=$6 device_row=$7
    scratch=$out/$2.scratch
    rm -rf "$scratch"
    mkdir -p "$scratch" || exit 5
    trap print_sides EXIT
    trap 'exit 143' TERM
    run_step "$2"
    exit $?
fi

# ------------------------------------------------------------------ what is asked

plan=0 minutes="" most="" only="" out="" build="" cards=""
for arg; do
    case $arg in
    --plan) plan=1 ;;
    --minutes=*) minutes=${arg#*=} ;;
    --limit=*) most=${arg#*=} ;;
    --only=*) only=${arg#*=} ;;
    --cards=*) cards=${arg#*=} ;;
    --out=*) out=${arg#*=} ;;
    -*) echo "record.sh: $arg: not understood; see the head of tests/bench/record.sh" >&2 && exit 2 ;;
    *) build=$arg ;;
    esac
done
for number in "$minutes" "$most"; do
    case $number in *[!0-9.]* | . | *.*.*) echo "record.sh: $number: not a number" >&2 && exit 2 ;; esac
done
names=$(echo "$steps" | sed -n 's/^\([^|]*\)|.*/\1/p')
for step in $(echo "$only" | tr , ' '); do
    echo "$names" | grep -qx "$step" || {
        echo "record.sh: no step $step; there are" $names >&2
        exit 2
    }
done
[ -n "$build" ] || { echo "record.sh: which folder of programs? see the head of tests/bench/record.sh" >&2 && exit 2; }
if [ -f "$build" ]; then
    unpacked=build/record/programs-$(cksum <"$build" | cut -d' ' -f1)
    if [ ! -x "$unpacked/s2" ]; then
        mkdir -p "$unpacked"
        tar xf "$build" -C "$unpacked" 2>/dev/null || python3 -m tarfile -e "$build" "$unpacked" || {
            echo "record.sh: $build cannot be unpacked: neither tar with xz nor python3 does it" >&2
            exit 5
        }
    fi
    build=$unpacked
fi
for program in s2 bench_gpu; do
    [ -x "$build/$program" ] || { echo "record.sh: there is no $build/$program" >&2 && exit 5; }
done
build=$(cd "$build" && pwd)

field() { # field STEP NUMBER
    echo "$steps" | awk -F'|' -v step="$1" -v n="$2" '$1 == step { print $n }'
}
seconds_of() {
    recorded=$(cat "$here"/docs/results/*-steps.jsonl 2>/dev/null |
        sed -n "s/.*\"step\": \"$1\", \"rc\": 0, \"seconds\": \([0-9]*\).*/\1/p" | tail -n 1)
    echo "${recorded:-$(field "$1" 2)}"
}
wanted() { [ -z "$only" ] || echo ",$only," | grep -q ",$1,"; }

commit_of_programs() { "$build/s2" --version | sed -n 's/.*(\(.*\)).*/\1/p'; }

# The families, the longest first, each to the card that has the least to do: "CARD STEP,..." from 0. shares N_CARDS
shares() {
    for family in $families; do
        own="" sum=0
        for step in $(echo "$family" | tr , ' '); do
            wanted "$step" && own=$own,$step && sum=$((sum + $(seconds_of "$step")))
        done
        [ -z "$own" ] || echo "$sum ${own#,}"
    done | sort -rn | awk -v n="$1" '{
        least = 0
        for (card = 1; card < n; card++) if (load[card] + 0 < load[least] + 0) least = card
        load[least] += $1
        print least, $2
    }'
}

# One run of this script for each card, with the families that fall to it.
if [ -n "$cards" ]; then
    case $cards in *[!0-9,]*) echo "record.sh: --cards=$cards is no list of cards" >&2 && exit 2 ;; esac
    [ -z "$out" ] || { echo "record.sh: several cards have a folder each: --cards and --out exclude one another" >&2 && exit 2; }
    said=$(mktemp -d) || exit 5
    trap 'rm -rf "$said"' EXIT
    trap 'kill -TERM $pids 2>/dev/null; wait; exit 130' INT TERM HUP
    pids="" nth=0 n_cards=$(echo "$cards" | tr , ' ' | wc -w)
    for card in $(echo "$cards" | tr , ' '); do
        own=$(shares "$n_cards" | sed -n "s/^$nth //p" | paste -sd, -)
        nth=$((nth + 1))
        [ -n "$own" ] || continue
        CUDA_VISIBLE_DEVICES=$card sh "$0" --only="$own" --limit="$most" --minutes="$minutes" $([ $plan -eq 0 ] || echo --plan) "$build" >"$said/$card" 2>&1 &
        pids="$pids $!"
    done
    worst=0
    for pid in $pids; do
        wait "$pid"
        rc=$?
        [ $rc -eq 0 ] || [ $worst -eq 1 ] || worst=$rc
    done
    for card in $(echo "$cards" | tr , ' '); do
        [ -e "$said/$card" ] && echo "card $card" && cat "$said/$card"
    done
    [ $plan -eq 0 ] || exit $worst
    commit=$(commit_of_programs)
    gathered=build/record/$commit
    mkdir -p "$gathered" && rm -f "$gathered"/*
    for result in "$gathered"-*/*.jsonl "$gathered"-*/*.txt; do
        case $result in
        *-steps.jsonl) cat "$result" >>"$gathered/${result##*/}" ;;
        *) [ -e "$result" ] && cp "$result" "$gathered" ;;
        esac
    done
    echo "all of them: $gathered"
    exit $worst
fi

commit=$(commit_of_programs)
device_row=$("$build/bench_gpu" --only=none --no-ceilings --json --commit="$commit" 2>/dev/null)
uuid=$(of_device uuid) name=$(of_device name) driver=$(of_device driver)
# h200 from "NVIDIA H200", as in docs/results/ and sim/gpus/
gpu=$(printf '%s' "$name" | sed 's/^NVIDIA //' | tr 'A-Z ' 'a-z-')
short=$(printf '%s' "$uuid" | cut -c1-12)
[ -n "$uuid" ] && out=${out:-build/record/$commit-$short}
result_of() { echo "$out/$gpu-$1.$(field "$1" 4)"; }

show_plan() {
    sum=0
    printf '%-16s %8s %8s %8s  %s\n' step seconds sum limit "what it shows"
    for step in $names; do
        wanted "$step" || continue
        seconds=$(seconds_of "$step")
        if [ -n "$uuid" ] && [ -e "$(result_of "$step")" ]; then
            printf '%-16s %8s %8s %8s  %s\n' "$step" done - - "$(result_of "$step")"
            continue
        fi
        sum=$((sum + seconds))
        fits=""
        [ -n "$minutes" ] && awk "BEGIN { exit !($sum > 60 * $minutes) }" && fits="(not in $minutes minutes) " && sum=$((sum - seconds))
        printf '%-16s %8s %8s %8s  %s%s\n' "$step" "$seconds" "$sum" "$(field "$step" 3)" "$fits" "$(field "$step" 5)"
    done
    [ -n "$uuid" ] && echo "on $name, $uuid, driver $driver; programs of commit $commit; into $out" || echo "no GPU here"
}
if [ $plan -eq 1 ]; then
    show_plan
    exit 0
fi
if [ -z "$uuid" ]; then
    "$build/bench_gpu" --only=none --no-ceilings >/dev/null
    echo "record.sh: no GPU to measure" >&2
    exit 5
fi
mkdir -p "$out" || exit 5
identity="$commit $uuid"
if [ -e "$out/identity" ] && [ "$(cat "$out/identity")" != "$identity" ]; then
    echo "record.sh: $out holds results of $(cat "$out/identity"), not of $identity: take another folder" >&2
    exit 2
fi
echo "$identity" >"$out/identity"
out=$(cd "$out" && pwd)

# ------------------------------------------------------------------ the loop

log=$out/$gpu-steps.jsonl
began=$(date +%s)
running=""
note() { # note STEP RC SECONDS ROWS WORD
    printf '{"row": "step", "step": "%s", "rc": %s, "seconds": %s, "rows": %s, "outcome": "%s", "device": "%s", "uuid": "%s", "driver": "%s", "commit": "%s", "date": "%s"}\n' \
        "$1" "$2" "$3" "$4" "$5" "$name" "$uuid" "$driver" "$commit" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" >>"$log"
    printf '%-16s %-14s rc %-4s %6s s  %s rows\n' "$1" "$5" "$2" "$3" "$4"
}
rows_in() { cat "$1" 2>/dev/null | grep -c .; }

# Rows of a run that did not end well are kept beside, until one does.
set_aside() { # set_aside RESULT WORD
    [ -e "$1.part" ] || return 0
    cat "$1.part" >>"$1.$2"
    rm -f "$1.part"
}

one_step() {
    result=$(result_of "$1") limit=$2
    started=$(date +%s)
    set_aside "$result" cut
    timeout -k 5 "$limit" sh "$0" --run "$1" "$build" "$out" "$gpu" "$commit" "$device_row" >"$result.part" 2>"$result.err" &
    running=$!
    wait $running
    rc=$?
    running=""
    took=$(($(date +%s) - started)) n=$(rows_in "$result.part")
    case $rc in
    0) word=done && mv "$result.part" "$result" && rm -f "$result.cut" "$result.failed" "$result.err" ;;
    77) word="not possible" && rm -f "$result.part" ;;
    124 | 137) word="out of time" && set_aside "$result" cut ;;
    *) word=failed && set_aside "$result" failed ;;
    esac
    note "$1" $rc $took "$n" "$word"
    [ "$word" = "done" ] || tail -n 3 "$result.err" 2>/dev/null | cut -c1-200
}

ended() {
    trap '' INT TERM HUP
    [ -n "$running" ] && kill -TERM "$running" 2>/dev/null && wait "$running"
    [ -n "$running" ] && note "$step" 130 $(($(date +%s) - started)) "$(rows_in "$result.part")" "ended" && set_aside "$result" cut
    exit 130
}
trap ended INT TERM HUP

left_out="" bad=0
for step in $names; do
    wanted "$step" || continue
    [ -e "$(result_of "$step")" ] && continue
    limit=$(field "$step" 3)
    [ "${most%%.*}" ] && [ "${most%%.*}" -lt "$limit" ] && limit=${most%%.*}
    if [ -n "$minutes" ]; then
        left=$(awk "BEGIN { printf \"%d\", 60 * $minutes - ($(date +%s) - $began) }")
        if [ "$left" -lt "$(seconds_of "$step")" ]; then
            left_out="$left_out $step"
            continue
        fi
        [ "$left" -lt "$limit" ] && limit=$left
    fi
    one_step "$step" "$limit"
    [ "$word" = "failed" ] || [ "$word" = "out of time" ] && bad=1
done

# ------------------------------------------------------------------ the summary

echo
echo "$name, $uuid, driver $driver, commit $commit: $out"
printf '%-16s %-14s %5s %8s %7s\n' step outcome rc seconds rows
for step in $names; do
    wanted "$step" || continue
    line=$(grep "\"step\": \"$step\"" "$log" 2>/dev/null | tail -n 1)
    if [ -z "$line" ]; then
        printf '%-16s %-14s %5s %8s %7s\n' "$step" "not run" - - -
        continue
    fi
    printf '%s\n' "$line" | sed 's/.*"rc": \([^,]*\), "seconds": \([^,]*\), "rows": \([^,]*\), "outcome": "\([^"]*\)".*/\4|\1|\2|\3/' |
        awk -F'|' -v step="$step" '{ printf "%-16s %-14s %5s %8s %7s\n", step, $1, $2, $3, $4 }'
done
[ -n "$left_out" ] && echo "left out, $minutes minutes are too short for them:$left_out"
command -v python3 >/dev/null && echo "python3 tests/bench/table.py --into=docs/kernels.md $out/*.jsonl   writes them into the documentation"
[ $bad -eq 0 ] || exit 1
[ -z "$left_out" ] || exit 4
exit 0
