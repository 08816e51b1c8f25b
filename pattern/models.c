#include "pattern/models.h"

#include <string.h>

static const s2_model models[] = {
    {"gemma-2-27b", 46, 32, 16, 128, "google/gemma-2-27b"},
    {"gemma-2-2b", 26, 8, 4, 256, "google/gemma-2-2b"},
    {"gemma-2-9b", 42, 16, 8, 256, "google/gemma-2-9b"},
    {"gpt-2", 12, 12, 12, 64, "openai-community/gpt2"},
    {"gpt-oss-120b", 36, 64, 8, 64, "openai/gpt-oss-120b"},
    {"gpt-oss-20b", 24, 64, 8, 64, "openai/gpt-oss-20b"},
    {"llama-2-13b", 40, 40, 40, 128, "meta-llama/Llama-2-13b-hf"},
    {"llama-2-70b", 80, 64, 8, 128, "meta-llama/Llama-2-70b-hf"},
    {"llama-2-7b", 32, 32, 32, 128, "meta-llama/Llama-2-7b-hf"},
    {"llama-3-70b", 80, 64, 8, 128, "meta-llama/Meta-Llama-3-70B"},
    {"llama-3-8b", 32, 32, 8, 128, "meta-llama/Meta-Llama-3-8B"},
    {"llama-3.1-405b", 126, 128, 8, 128, "meta-llama/Llama-3.1-405B"},
    {"llama-3.1-70b", 80, 64, 8, 128, "meta-llama/Llama-3.1-70B"},
    {"llama-3.1-8b", 32, 32, 8, 128, "meta-llama/Llama-3.1-8B"},
    {"llama-3.2-1b", 16, 32, 8, 64, "meta-llama/Llama-3.2-1B"},
    {"llama-3.2-3b", 28, 24, 8, 128, "meta-llama/Llama-3.2-3B"},
    {"longchat-7b", 32, 32, 32, 128, "lmsys/longchat-7b-v1.5-32k"},
    {"mistral-7b", 32, 32, 8, 128, "mistralai/Mistral-7B-v0.1"},
    {"mixtral-8x7b", 32, 32, 8, 128, "mistralai/Mixtral-8x7B-v0.1"},
    {"phi-3-medium", 40, 40, 10, 128, "microsoft/Phi-3-medium-4k-instruct"},
    {"phi-3-mini", 32, 32, 32, 96, "microsoft/Phi-3-mini-4k-instruct"},
    {"phi-3-small", 32, 32, 8, 128, "microsoft/Phi-3-small-8k-instruct"},
    {"qwen2.5-0.5b", 24, 14, 2, 64, "Qwen/Qwen2.5-0.5B"},
    {"qwen2.5-14b", 48, 40, 8, 128, "Qwen/Qwen2.5-14B"},
    {"qwen2.5-32b", 64, 40, 8, 128, "Qwen/Qwen2.5-32B"},
    {"qwen2.5-72b", 80, 64, 8, 128, "Qwen/Qwen2.5-72B"},
    {"qwen2.5-7b", 28, 28, 4, 128, "Qwen/Qwen2.5-7B"},
    {"vicuna-7b", 32, 32, 32, 128, "lmsys/vicuna-7b-v1.5"},
};

int32_t s2_model_count(void)
{
    return (int32_t)(sizeof models / sizeof models[0]);
}

const s2_model *s2_model_at(int32_t nth)
{
    return nth >= 0 && nth < s2_model_count() ? &models[nth] : NULL;
}

const s2_model *s2_model_find(const char *name, size_t n)
{
    for (int32_t m = 0; m < s2_model_count(); m++)
        if (strlen(models[m].name) == n && memcmp(models[m].name, name, n) == 0)
            return &models[m];
    return NULL;
}
