#!/bin/sh
# Fetch the code of those who consume exported files, for consumers.py and truth.py: packages into a virtual environment
# in DIR, sources of what pip does not have into DIR/src. Nothing of it belongs into this tree.
#
# usage: fetch.sh DIR        then: make formats CONSUMERS=DIR
set -eu

DIR=${1:?usage: fetch.sh DIR}
mkdir -p "$DIR/src"
DIR=$(cd "$DIR" && pwd)
PIP="$DIR/bin/pip -q --disable-pip-version-check"

say() { echo "fetch.sh: $*" >&2; }

# What is missing is skipped by consumers.py, with its reason.
missing=0
attempt() {
    "$@" && return
    missing=$((missing + 1))
    say "left out: $*"
}

# One folder or file out of a package that is too large, or needs too much, to be installed.
part_of() { # PACKAGE==VERSION FOLDER PATH...
    mkdir -p "$DIR/src/$2"
    $PIP download --no-deps --no-build-isolation -d "$DIR/download" "$1" || return 1
    for file in "$DIR/download/${1%%=*}-"*; do
        case $file in
        *.whl) "$DIR/bin/python" -m zipfile -e "$file" "$DIR/download/unpacked" ;;
        *.tar.gz) tar xzf "$file" -C "$DIR/download" && mv "${file%.tar.gz}" "$DIR/download/unpacked" ;;
        esac
    done
    shift
    folder=$1
    shift
    for path; do
        mkdir -p "$DIR/src/$folder/$(dirname "$path")"
        cp -r "$DIR/download/unpacked/$path" "$DIR/src/$folder/$path"
    done
    rm -rf "$DIR/download/unpacked"
}

clone() { # URL FOLDER PATH...
    rm -rf "${DIR:?}/src/$2"
    git clone -q --depth 1 --filter=blob:none --sparse "$1" "$DIR/src/$2" || return 1
    repository=$DIR/src/$2
    shift 2
    git -C "$repository" sparse-checkout set "$@"
}

[ -x "$DIR/bin/python" ] || python3 -m venv "$DIR"
$PIP install torch transformers numpy psutil setuptools wheel
attempt $PIP install --no-deps --pre flash-attn-4
attempt $PIP install --no-deps flashinfer-python
attempt part_of vllm==0.6.3 vllm vllm/attention/ops/blocksparse_attention vllm/model_executor/models/phi3_small.py
attempt part_of deepspeed==0.14.5 deepspeed deepspeed/ops/sparse_attention
attempt clone https://github.com/linxihui/dkernel dkernel dkernel
attempt clone https://github.com/mit-han-lab/Block-Sparse-Attention Block-Sparse-Attention block_sparse_attn
attempt clone https://github.com/mit-han-lab/duo-attention duo-attention duo_attn
attempt clone https://github.com/NVIDIA/TensorRT-LLM TensorRT-LLM cpp/tensorrt_llm/kernels
rm -rf "$DIR/download"
say "done, $missing left out: make formats CONSUMERS=$DIR"
