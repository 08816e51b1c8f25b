#include "explorer/samples.h"

#include <stddef.h>

const char *const s2_samples[] = {
    "name phi-3-small\nlayers 32\nheads 32\nkv-heads 8\nblock 64\nlocal 16 | stride 8 phase head+1\n"
    "layers 1::2: dense\n",
    /* half of the residues of 16 belong to no KV head */
    "name dkernel-llama-v16\nlayers 32\nheads 32\nkv-heads 8\nblock 64\nlocal 16 | stride 16 phase kv\n",
    "name dkernel-llama-v16-dense\nlayers 32\nheads 32\nkv-heads 8\nblock 64\nlocal 16 | stride 16 phase kv\n"
    "kv 7: dense\n",
    "name duo-attention-like\nlayers 32\nheads 32\nkv-heads 8\nsink 64t | local 256t\nkv 0::2: dense\n",
    "name streaming-llm\nlayers 32\nheads 32\nsink 4t | local 2000t\n",
    "name longformer\nlayers 12\nheads 12\nhead-dim 64\nlocal 512t | columns 0 | rows 0\n",
    "name bigbird-causal\nlayers 12\nheads 12\nhead-dim 64\nlocal 3 | columns 0,1 | rows 0,1 | random 3 seed "
    "1\n",
    /* one residue of eight belongs to no head: the smallest way to be wrong */
    "name one-hole\nlayers 1\nheads 7\nblock 64\nlocal 4 | stride 8 phase head\n", NULL};
