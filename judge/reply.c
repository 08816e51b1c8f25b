#include "judge/reply.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"

/* What is not a text, or is missing, is "". */
static void take_text(const json_t *line, const char *key, char *out, size_t cap)
{
    const char *const text = json_string_value(json_object_get(line, key));
    s2_text_clean(out, cap, text != NULL ? text : "");
}

/* What is not a whole number that fits becomes -1, which is not a valid version or id. */
static int64_t whole_of(const json_t *value)
{
    const double number = json_is_number(value) ? json_number_value(value) : -1.0;
    return fabs(number) < 0x1p53 && number == floor(number) ? (int64_t)number : -1;
}

static void take_samples(const json_t *samples, s2_reply *out)
{
    for (size_t at = 0; at < json_array_size(samples) && out->n_samples < S2_LIMIT_REPLY_SAMPLES; at++) {
        const float ms = (float)json_number_value(json_array_get(samples, at));
        if (ms > 0.0F && ms < 1e9F)
            out->samples_ms[out->n_samples++] = ms;
    }
}

s2_status s2_reply_read(const char *line, s2_reply *out)
{
    s2_json_watch();
    json_t *const read = s2_json_load(line, strlen(line), JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(read)) {
        json_decref(read);
        return s2_json_ran_out() ? S2_ENOMEM : S2_EPARSE;
    }
    *out = (s2_reply){.s2 = whole_of(json_object_get(read, "s2")),
                      .id = whole_of(json_object_get(read, "id")),
                      .lse = json_is_true(json_object_get(read, "lse")),
                      .deterministic = json_is_true(json_object_get(read, "deterministic")),
                      .batch_invariant = json_is_true(json_object_get(read, "batch_invariant")),
                      .recomputes = json_is_true(json_object_get(read, "recomputes"))};
    take_text(read, "outcome", out->outcome, sizeof out->outcome);
    take_text(read, "reason", out->reason, sizeof out->reason);
    take_text(read, "name", out->name, sizeof out->name);
    take_text(read, "passes", out->passes, sizeof out->passes);
    take_text(read, "versions", out->versions, sizeof out->versions);
    take_text(read, "rounds", out->rounds, sizeof out->rounds);
    take_text(read, "device", out->device, sizeof out->device);
    take_samples(json_object_get(read, "samples_ms"), out);
    json_decref(read);
    return S2_OK;
}
