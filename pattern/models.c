#include "pattern/models.h"

#include <ctype.h>
#include <string.h>

#include "pattern/spec.h"

/*
 * How weights are stored, and whether those of attention are not; no layers beside experts; attention that is not
 * latent; layers that are alike.
 */
#define STORED(type, method, kept)                                                                           \
    type, 0, method, "", {kept, kept, 0, 0, 0, 1}, {0}, {0}, "", "", 0, {0}, {0}, {0}, 0, 0, 0, {{0}},       \
        false, false, false,                                                                                 \
    {                                                                                                        \
        {                                                                                                    \
            0                                                                                                \
        }                                                                                                    \
    }
#define PLAIN STORED(S2_WEIGHTS_PUBLISHED, "", 0)
#define MXFP4 STORED(S2_WEIGHTS_MXFP4, "mxfp4", 1)

/*
 * name, layers, hidden, heads, KV heads, head dim, ffn, vocab, gated, tied, experts, active, cap, sinks, weights.
 * Caps are attn_logit_softcapping of Gemma 2's configs; the sinks of gpt-oss are in its weights.
 */
static const s2_model models[] = {
    {{"gemma-2-27b", 46, 4608, 32, 16, 128, 36864, 256000, true, true, 1, 1, 50, false, PLAIN},
     "google/gemma-2-27b"},
    {{"gemma-2-2b", 26, 2304, 8, 4, 256, 9216, 256000, true, true, 1, 1, 50, false, PLAIN},
     "google/gemma-2-2b"},
    {{"gemma-2-9b", 42, 3584, 16, 8, 256, 14336, 256000, true, true, 1, 1, 50, false, PLAIN},
     "google/gemma-2-9b"},
    {{"gpt-2", 12, 768, 12, 12, 64, 3072, 50257, false, true, 1, 1, 0, false, PLAIN},
     "openai-community/gpt2"},
    {{"gpt-3-175b", 96, 12288, 96, 96, 128, 49152, 50257, false, true, 1, 1, 0, false, PLAIN},
     "Brown et al. 2020, table 2.1"},
    {{"gpt-oss-120b", 36, 2880, 64, 8, 64, 2880, 201088, true, false, 128, 4, 0, true, MXFP4},
     "openai/gpt-oss-120b"},
    {{"gpt-oss-20b", 24, 2880, 64, 8, 64, 2880, 201088, true, false, 32, 4, 0, true, MXFP4},
     "openai/gpt-oss-20b"},
    {{"llama-2-13b", 40, 5120, 40, 40, 128, 13824, 32000, true, false, 1, 1, 0, false, PLAIN},
     "meta-llama/Llama-2-13b-hf"},
    {{"llama-2-70b", 80, 8192, 64, 8, 128, 28672, 32000, true, false, 1, 1, 0, false, PLAIN},
     "meta-llama/Llama-2-70b-hf; Vidur model_config.py"},
    {{"llama-2-7b", 32, 4096, 32, 32, 128, 11008, 32000, true, false, 1, 1, 0, false, PLAIN},
     "meta-llama/Llama-2-7b-hf; Vidur model_config.py"},
    {{"llama-3-70b", 80, 8192, 64, 8, 128, 28672, 128256, true, false, 1, 1, 0, false, PLAIN},
     "meta-llama/Meta-Llama-3-70B"},
    {{"llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256, true, false, 1, 1, 0, false, PLAIN},
     "meta-llama/Meta-Llama-3-8B"},
    {{"llama-3.1-405b", 126, 16384, 128, 8, 128, 53248, 128256, true, false, 1, 1, 0, false, PLAIN},
     "meta-llama/Llama-3.1-405B; AIConfigurator model configs"},
    {{"llama-3.1-70b", 80, 8192, 64, 8, 128, 28672, 128256, true, false, 1, 1, 0, false, PLAIN},
     "meta-llama/Llama-3.1-70B; AIConfigurator model configs"},
    {{"llama-3.1-8b", 32, 4096, 32, 8, 128, 14336, 128256, true, false, 1, 1, 0, false, PLAIN},
     "meta-llama/Llama-3.1-8B; AIConfigurator model configs"},
    {{"llama-3.2-1b", 16, 2048, 32, 8, 64, 8192, 128256, true, true, 1, 1, 0, false, PLAIN},
     "meta-llama/Llama-3.2-1B"},
    {{"llama-3.2-3b", 28, 3072, 24, 8, 128, 8192, 128256, true, true, 1, 1, 0, false, PLAIN},
     "meta-llama/Llama-3.2-3B"},
    {{"longchat-7b", 32, 4096, 32, 32, 128, 11008, 32000, true, false, 1, 1, 0, false, PLAIN},
     "lmsys/longchat-7b-v1.5-32k"},
    {{"mistral-7b", 32, 4096, 32, 8, 128, 14336, 32000, true, false, 1, 1, 0, false, PLAIN},
     "mistralai/Mistral-7B-v0.1"},
    {{"mixtral-8x7b", 32, 4096, 32, 8, 128, 14336, 32000, true, false, 8, 2, 0, false, PLAIN},
     "mistralai/Mixtral-8x7B-v0.1"},
    {{"phi-2", 32, 2560, 32, 32, 80, 10240, 51200, false, false, 1, 1, 0, false, PLAIN},
     "Vidur model_config.py"},
    {{"phi-3-medium", 40, 5120, 40, 10, 128, 17920, 32064, true, false, 1, 1, 0, false, PLAIN},
     "microsoft/Phi-3-medium-4k-instruct"},
    {{"phi-3-mini", 32, 3072, 32, 32, 96, 8192, 32064, true, false, 1, 1, 0, false, PLAIN},
     "microsoft/Phi-3-mini-4k-instruct"},
    {{"phi-3-small", 32, 4096, 32, 8, 128, 14336, 100352, true, true, 1, 1, 0, false, PLAIN},
     "microsoft/Phi-3-small-8k-instruct"},
    {{"qwen2.5-0.5b", 24, 896, 14, 2, 64, 4864, 151936, true, true, 1, 1, 0, false, PLAIN},
     "Qwen/Qwen2.5-0.5B"},
    {{"qwen2.5-14b", 48, 5120, 40, 8, 128, 13824, 152064, true, false, 1, 1, 0, false, PLAIN},
     "Qwen/Qwen2.5-14B"},
    {{"qwen2.5-32b", 64, 5120, 40, 8, 128, 27648, 152064, true, false, 1, 1, 0, false, PLAIN},
     "Qwen/Qwen2.5-32B"},
    {{"qwen2.5-72b", 80, 8192, 64, 8, 128, 29568, 152064, true, false, 1, 1, 0, false, PLAIN},
     "Qwen/Qwen2.5-72B"},
    {{"qwen2.5-7b", 28, 3584, 28, 4, 128, 18944, 152064, true, false, 1, 1, 0, false, PLAIN},
     "Qwen/Qwen2.5-7B"},
    {{"qwen3-0.6b", 28, 1024, 16, 8, 128, 3072, 151936, true, true, 1, 1, 0, false, PLAIN},
     "AIConfigurator model configs"},
    {{"qwen3-1.7b", 28, 2048, 16, 8, 128, 6144, 151936, true, true, 1, 1, 0, false, PLAIN},
     "AIConfigurator model configs"},
    {{"qwen3-235b-a22b", 94, 4096, 64, 4, 128, 1536, 151936, true, false, 128, 8, 0, false, PLAIN},
     "AIConfigurator model configs"},
    {{"qwen3-30b-a3b", 48, 2048, 32, 4, 128, 768, 151936, true, false, 128, 8, 0, false, PLAIN},
     "AIConfigurator model configs"},
    {{"qwen3-32b", 64, 5120, 64, 8, 128, 25600, 151936, true, false, 1, 1, 0, false, PLAIN},
     "AIConfigurator model configs"},
    {{"qwen3-4b", 36, 2560, 32, 8, 128, 9728, 151936, true, true, 1, 1, 0, false, PLAIN},
     "AIConfigurator model configs"},
    {{"qwen3-8b", 36, 4096, 32, 8, 128, 12288, 151936, true, false, 1, 1, 0, false, PLAIN},
     "AIConfigurator model configs"},
    {{"vicuna-7b", 32, 4096, 32, 32, 128, 11008, 32000, true, false, 1, 1, 0, false, PLAIN},
     "lmsys/vicuna-7b-v1.5"},
};

s2_model_scores s2_model_scores_of(const char *name)
{
    for (size_t n = 0; n < sizeof models / sizeof models[0]; n++)
        if (strcmp(models[n].net.name, name) == 0)
            return (s2_model_scores){models[n].net.cap, models[n].net.sinks};
    return (s2_model_scores){0.0, false};
}

/* From the config.json of each entry's source; `dense` is in the names of versions whose layers are dense. */
static const struct {
    const char *name;
    const char *dense[2];
    const char *rules;
} published[] = {
    {"gemma-2-27b", {NULL}, "layers 0::2: local 4096t; layers 1::2: dense"},
    {"gemma-2-2b", {NULL}, "layers 0::2: local 4096t; layers 1::2: dense"},
    {"gemma-2-9b", {NULL}, "layers 0::2: local 4096t; layers 1::2: dense"},
    {"gpt-oss-120b", {NULL}, "layers 0::2: local 128t; layers 1::2: dense"},
    {"gpt-oss-20b", {NULL}, "layers 0::2: local 128t; layers 1::2: dense"},
    {"mistral-7b", {"v0.2", "v0.3"}, "layers all: local 4096t"},
    {"phi-3-medium", {"128k"}, "layers all: local 2047t"},
    {"phi-3-mini", {"128k"}, "layers all: local 2047t"},
    {"phi-3-small", {NULL}, "layers 0::2: local 16 | stride 8 phase head+1; layers 1::2: dense"},
};

const char *s2_model_rules(const char *name)
{
    const s2_model *const model = s2_model_find(name, strlen(name));
    for (size_t n = 0; model != NULL && n < sizeof published / sizeof published[0]; n++) {
        if (strcmp(published[n].name, model->net.name) != 0)
            continue;
        bool dense = false;
        for (int v = 0; v < 2 && published[n].dense[v] != NULL; v++)
            dense |= strcasestr(name, published[n].dense[v]) != NULL;
        return dense ? NULL : published[n].rules;
    }
    return NULL;
}

int32_t s2_model_count(void)
{
    return (int32_t)(sizeof models / sizeof models[0]);
}

const s2_model *s2_model_at(int32_t nth)
{
    return nth >= 0 && nth < s2_model_count() ? &models[nth] : NULL;
}

/* "-instruct", "-8k", "-v0.1": the length of a suffix here that says nothing about a model's shape. */
static size_t variant_bytes(const char *text)
{
    static const char *const words[] = {"-instruct", "-chat", "-base", "-hf", "-it"};
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++)
        if (strncmp(text, words[w], strlen(words[w])) == 0)
            return strlen(words[w]);
    const bool version = strncmp(text, "-v", 2) == 0;
    const size_t begin = version ? 2 : 1, n = strspn(text + begin, version ? "0123456789." : "0123456789");
    if (text[0] != '-' || n == 0)
        return 0;
    return version ? begin + n : text[begin + n] == 'k' ? begin + n + 1 : 0;
}

static bool is_called(const char *known, const char *word, size_t n)
{
    char spelled[S2_LIMIT_NAME_BYTES];
    const char *const slash = memrchr(word, '/', n);
    const size_t skipped = slash != NULL ? (size_t)(slash + 1 - word) : 0;
    if (n - skipped >= sizeof spelled)
        return false;
    for (size_t at = skipped; at < n; at++)
        spelled[at - skipped] =
            (char)(strchr("_ ", word[at]) != NULL ? '-' : tolower((unsigned char)word[at]));
    spelled[n - skipped] = '\0';
    const char *rest = strncmp(spelled, "meta-", 5) == 0 ? spelled + 5 : spelled;
    if (strncmp(rest, known, strlen(known)) != 0)
        return false;
    rest += strlen(known);
    for (size_t more = variant_bytes(rest); more > 0; more = variant_bytes(rest))
        rest += more;
    return *rest == '\0';
}

const s2_model *s2_model_find(const char *name, size_t n)
{
    for (int32_t m = 0; m < s2_model_count(); m++)
        if (is_called(models[m].net.name, name, n))
            return &models[m];
    return NULL;
}
