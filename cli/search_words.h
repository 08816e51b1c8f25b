/*
 * cli/search_words.h - a model in words, where `s2 search` expects a space: "32 heads, 8 KV heads, H200,
 * 128k".
 *
 * Phrases between commas: N heads, N KV heads, N layers, N head-dim, a context length, batch N, N GPUs,
 * phases, a GPU, a model by its name or its config.json, a format, N groups of GPUs as dp N, TYPE weights,
 * recompute. Numbers come first or last, as in "8 x H200", "H200x8", "batch size 8", "bs=8".
 */
#ifndef S2_CLI_SEARCH_WORDS_H
#define S2_CLI_SEARCH_WORDS_H

#include "cli/cli.h"

typedef struct s2_search_words {
    int64_t n_heads; /* each is 0 or NULL if not stated */
    int64_t n_kv_heads;
    int64_t n_layers;
    int64_t head_dim;
    int64_t len_tok;
    int64_t batch;
    int64_t n_ranks;                                      /* GPUs that share the heads */
    int64_t n_stages, n_context, n_expert_ranks, n_nodes; /* as in --pp, --cp, --ep, --nodes */
    int64_t n_shards;                                     /* groups of them that train together, as in --dp */
    int64_t recompute;                                    /* 1: as --recompute */
    const char *weights;                                  /* as in --weights */
    const char *phases;                                   /* as in --phase */
    const char *gpu;
    const char *model;
    const char *format; /* a format of s2 export, as in --exportable */
} s2_search_words;

/* Whether the text is words: spaces have rules or choices, words have neither. */
bool s2_search_words_are(const char *text);
/* S2_EXIT_OK, or an exit code after a message. Texts live in cli->arena. */
s2_exit s2_search_words_read(s2_cli *cli, const char *text, s2_search_words *out);

#endif /* S2_CLI_SEARCH_WORDS_H */
