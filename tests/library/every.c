/* Every function of s2.h, called rightly and wrongly from a program outside of the tree: C11 and C++ without a warning. */
#include <s2.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 32, HEADS = 2, DIM = 16, SIZE = TOKENS * HEADS * DIM };

static s2_api_error why;
static int wrong;

/* A code that was expected, and where it is not OK a message; where it is, none is needed. */
static void expect(const char *call, int line, int found, int wanted)
{
    if (found == wanted && (found == S2_API_OK || (why.code == found && why.message[0] != 0)))
        return;
    printf("line %d: %s gave %d, not %d: %s\n", line, call, found, wanted, why.message);
    wrong++;
}

#define RIGHT(CALL) expect(#CALL, __LINE__, CALL, S2_API_OK)
#define WRONG(CALL) (memset(&why, 0, sizeof why), expect(#CALL, __LINE__, CALL, S2_API_ARGUMENT))
#define HOLDS(FACT) ((FACT) ? (void)0 : (void)(printf("line %d: %s is false\n", __LINE__, #FACT), wrong++))
/* A structure that begins with its size: refused without one, and where it is longer than the library knows. */
#define SIZED(STRUCTURE, CALL)                                                                               \
    do {                                                                                                     \
        (STRUCTURE).size = 0;                                                                                \
        WRONG(CALL);                                                                                         \
        (STRUCTURE).size = sizeof(STRUCTURE) + 8;                                                            \
        WRONG(CALL);                                                                                         \
        (STRUCTURE).size = sizeof(STRUCTURE);                                                                \
    } while (0)

static const char text[] = "layers 2; heads 2; kv-heads 1; head-dim 16; block 16; layers all: local 2";

static s2_api_pattern *patterns(void)
{
    s2_api_pattern *pattern = NULL, *share = NULL, *same = NULL;
    s2_api_text said = {NULL, 0};
    s2_api_shape shape;
    s2_api_source source;
    uint8_t mask[TOKENS * TOKENS];
    int32_t kinds[2] = {7, 7}, order[2] = {0, 0};
    HOLDS(s2_api_version() >= S2_API_VERSION);
    RIGHT(s2_api_pattern_open(text, sizeof text - 1, NULL, "s2", &pattern, &why));
    WRONG(s2_api_pattern_open(NULL, 1, NULL, NULL, &share, &why));
    WRONG(s2_api_pattern_open(text, sizeof text - 1, NULL, NULL, NULL, &why));
    WRONG(s2_api_pattern_open(text, sizeof text - 1, NULL, "no format", &share, &why));
    expect("a text", __LINE__, s2_api_pattern_open("layers", 6, NULL, "s2", &share, &why), S2_API_REFUSED);
    HOLDS(why.line == 1 && why.column > 0 && share == NULL);
    memset(&source, 0, sizeof source);
    source.text = text;
    source.text_size = sizeof text - 1;
    SIZED(source, s2_api_pattern_read(&source, &same, &why));
    WRONG(s2_api_pattern_read(NULL, &same, &why));
    WRONG(s2_api_pattern_read(&source, NULL, &why));
    RIGHT(s2_api_pattern_read(&source, &same, &why));
    s2_api_pattern_close(same);
    s2_api_pattern_close(NULL);

    memset(&shape, 0, sizeof shape);
    SIZED(shape, s2_api_pattern_shape(pattern, &shape, &why));
    WRONG(s2_api_pattern_shape(NULL, &shape, &why));
    WRONG(s2_api_pattern_shape(pattern, NULL, &why));
    RIGHT(s2_api_pattern_shape(pattern, &shape, &why));
    HOLDS(shape.layers == 2 && shape.heads == HEADS && shape.kv_heads == 1 && strlen(shape.hash) == 64);

    WRONG(s2_api_pattern_text(NULL, &said, &why));
    WRONG(s2_api_pattern_text(pattern, NULL, &why));
    RIGHT(s2_api_pattern_text(pattern, &said, &why));
    HOLDS(said.data != NULL && strlen(said.data) == said.size);
    s2_api_text_free(&said);
    s2_api_text_free(&said);
    s2_api_text_free(NULL);
    WRONG(s2_api_pattern_notes(NULL, &said, &why));
    WRONG(s2_api_pattern_notes(pattern, NULL, &why));
    RIGHT(s2_api_pattern_notes(pattern, &said, &why));
    s2_api_text_free(&said);
    WRONG(s2_api_formats(NULL, &why));
    RIGHT(s2_api_formats(&said, &why));
    s2_api_text_free(&said);

    WRONG(s2_api_pattern_mask(NULL, S2_API_PREFILL, 0, 0, TOKENS, 0, TOKENS, mask, &why));
    WRONG(s2_api_pattern_mask(pattern, S2_API_PREFILL, 2, 0, TOKENS, 0, TOKENS, mask, &why));
    WRONG(s2_api_pattern_mask(pattern, S2_API_PREFILL, 0, -1, TOKENS, 0, TOKENS, mask, &why));
    WRONG(s2_api_pattern_mask(pattern, S2_API_PREFILL, 0, 0, TOKENS, 1, TOKENS + 1, mask, &why));
    WRONG(s2_api_pattern_mask(pattern, S2_API_PREFILL, 0, 0, TOKENS, 0, TOKENS, NULL, &why));
    RIGHT(s2_api_pattern_mask(pattern, S2_API_PREFILL, 0, 0, TOKENS, 0, TOKENS, mask, &why));
    HOLDS(mask[0] == 1 && mask[1] == 0);
    WRONG(s2_api_pattern_kinds(NULL, S2_API_PREFILL, kinds, &why));
    WRONG(s2_api_pattern_kinds(pattern, (s2_api_phase)1000, kinds, &why));
    WRONG(s2_api_pattern_kinds(pattern, S2_API_PREFILL, NULL, &why));
    RIGHT(s2_api_pattern_kinds(pattern, S2_API_PREFILL, kinds, &why));
    HOLDS(kinds[0] == 0 && kinds[1] == 0);
    WRONG(s2_api_pattern_share(NULL, 1, 0, 0, 2, NULL, &share, &why));
    WRONG(s2_api_pattern_share(pattern, 0, 0, 0, 2, NULL, &share, &why));
    WRONG(s2_api_pattern_share(pattern, 1, 1, 0, 2, NULL, &share, &why));
    WRONG(s2_api_pattern_share(pattern, 1, 0, 2, 0, NULL, &share, &why));
    WRONG(s2_api_pattern_share(pattern, 1, 0, 0, 2, NULL, NULL, &why));
    RIGHT(s2_api_pattern_share(pattern, 2, 1, 0, 2, order, &share, &why));
    s2_api_pattern_close(share);
    return pattern;
}

static void answers(const s2_api_pattern *pattern)
{
    s2_api_verdict verdict = S2_API_UNKNOWN;
    s2_api_text said = {NULL, 0};
    s2_api_price_options options;
    s2_api_price price;
    WRONG(s2_api_pattern_check(NULL, "rows", 0, &verdict, NULL, &why));
    WRONG(s2_api_pattern_check(pattern, NULL, 0, &verdict, NULL, &why));
    WRONG(s2_api_pattern_check(pattern, "no property", 0, &verdict, NULL, &why));
    WRONG(s2_api_pattern_check(pattern, "rows", -1, &verdict, NULL, &why));
    WRONG(s2_api_pattern_check(pattern, "rows", 0, NULL, NULL, &why));
    RIGHT(s2_api_pattern_check(pattern, "rows", 0, &verdict, &said, &why));
    HOLDS(verdict == S2_API_HOLDS && said.data != NULL && said.data[0] == '{');
    s2_api_text_free(&said);

    memset(&options, 0, sizeof options);
    memset(&price, 0, sizeof price);
    price.size = sizeof price;
    options.dtype = S2_API_BF16;
    options.context_tok = 4096;
    options.batch = 1;
    options.page_tok = 16;
    options.ranks = 1;
    SIZED(options, s2_api_pattern_price(pattern, &options, &price, &why));
    SIZED(price, s2_api_pattern_price(pattern, &options, &price, &why));
    WRONG(s2_api_pattern_price(NULL, &options, &price, &why));
    WRONG(s2_api_pattern_price(pattern, NULL, &price, &why));
    WRONG(s2_api_pattern_price(pattern, &options, NULL, &why));
    options.gpu = "no gpu";
    WRONG(s2_api_pattern_price(pattern, &options, &price, &why));
    options.gpu = NULL;
    RIGHT(s2_api_pattern_price(pattern, &options, &price, &why));
    HOLDS(price.time_us > 0 && price.pairs > 0);

    WRONG(s2_api_pattern_write(NULL, "s2", 4096, "every.s2", NULL, &why));
    WRONG(s2_api_pattern_write(pattern, NULL, 4096, "every.s2", NULL, &why));
    WRONG(s2_api_pattern_write(pattern, "s2", 4096, NULL, NULL, &why));
    WRONG(s2_api_pattern_write(pattern, "no format", 4096, "every.s2", NULL, &why));
    WRONG(s2_api_pattern_write(pattern, "s2", 0, "every.s2", NULL, &why));
    expect("a folder that is not there", __LINE__,
           s2_api_pattern_write(pattern, "s2", 4096, "no/folder/every.s2", NULL, &why), S2_API_FILE);
    RIGHT(s2_api_pattern_write(pattern, "s2", 4096, "every.s2", &said, &why));
    s2_api_text_free(&said);
}

static s2_api_tensor place(float *data, int heads)
{
    s2_api_tensor made;
    made.data = data;
    made.sequence = TOKENS * heads * DIM;
    made.token = heads * DIM;
    made.head = DIM;
    return made;
}

static void attention(const s2_api_pattern *pattern, s2_api_cache *cache, int32_t sequence)
{
    s2_api_device *device = NULL, *none = NULL;
    s2_api_plan *plan = NULL;
    s2_api_plan_options options;
    s2_api_call call;
    const int32_t tokens = TOKENS, one = 1;
    int64_t made = 0;
    float *const data = (float *)aligned_alloc(64, sizeof(float) * 5 * SIZE);
    if (data == NULL)
        exit(2);
    memset(data, 0, sizeof(float) * 5 * SIZE);
    WRONG(s2_api_device_open("cpu", NULL, &why));
    WRONG(s2_api_device_open(NULL, &none, &why));
    WRONG(s2_api_device_open("no device", &none, &why));
    RIGHT(s2_api_device_open("cpu", &device, &why));
    WRONG(s2_api_device_stream(NULL, NULL, &why));
    RIGHT(s2_api_device_stream(device, NULL, &why));
    WRONG(s2_api_device_wait(NULL, &why));
    RIGHT(s2_api_device_wait(device, &why));

    memset(&options, 0, sizeof options);
    options.head_dim = DIM;
    options.n_sequences = 1;
    options.deterministic = 1;
    options.q_tok = &tokens;
    options.k_tok = &tokens;
    SIZED(options, s2_api_plan_open(device, pattern, &options, &plan, &why));
    WRONG(s2_api_plan_open(NULL, pattern, &options, &plan, &why));
    WRONG(s2_api_plan_open(device, NULL, &options, &plan, &why));
    WRONG(s2_api_plan_open(device, pattern, NULL, &plan, &why));
    WRONG(s2_api_plan_open(device, pattern, &options, NULL, &why));
    options.layer = 2;
    WRONG(s2_api_plan_open(device, pattern, &options, &plan, &why));
    options.layer = 0;
    options.k_tok = NULL;
    WRONG(s2_api_plan_open(device, pattern, &options, &plan, &why));
    options.k_tok = &tokens;
    RIGHT(s2_api_plan_open(device, pattern, &options, &plan, &why));
    HOLDS(strlen(s2_api_plan_kernel(plan)) > 0 && strlen(s2_api_plan_kernel(NULL)) == 0);

    memset(&call, 0, sizeof call);
    call.scale = 0.25f;
    call.q = place(data, HEADS);
    call.k = place(data + SIZE, 1);
    call.v = place(data + 2 * SIZE, 1);
    call.o = place(data + 3 * SIZE, HEADS);
    call.lse.data = data + 4 * SIZE;
    call.lse.sequence = TOKENS * HEADS;
    call.lse.head = TOKENS;
    SIZED(call, s2_api_plan_run(plan, &call, &why));
    WRONG(s2_api_plan_run(NULL, &call, &why));
    WRONG(s2_api_plan_run(plan, NULL, &why));
    call.v.data = NULL;
    WRONG(s2_api_plan_run(plan, &call, &why));
    call.v.data = data + 2 * SIZE + 1;
    WRONG(s2_api_plan_run(plan, &call, &why));
    call.v.data = data + 2 * SIZE;
    call.lse.data = NULL;
    WRONG(s2_api_plan_run(plan, &call, &why));
    call.lse.data = data + 4 * SIZE;
    RIGHT(s2_api_plan_run(plan, &call, &why));
    s2_api_plan_close(plan);

    plan = NULL;
    options.pass = S2_API_DECODING;
    options.phase = S2_API_DECODE;
    options.q_tok = &one;
    RIGHT(s2_api_plan_open(device, pattern, &options, &plan, &why));
    call.cache = cache;
    call.sequences = &sequence;
    call.k = place(data + SIZE, 1);
    call.v = place(data + 2 * SIZE, 1);
    SIZED(call, s2_api_plan_follow(plan, &call, &made, &why));
    WRONG(s2_api_plan_follow(NULL, &call, &made, &why));
    WRONG(s2_api_plan_follow(plan, NULL, &made, &why));
    WRONG(s2_api_plan_follow(plan, &call, NULL, &why));
    RIGHT(s2_api_plan_follow(plan, &call, &made, &why));
    RIGHT(s2_api_plan_run(plan, &call, &why));
    call.sequences = NULL;
    WRONG(s2_api_plan_run(plan, &call, &why));
    s2_api_plan_close(plan);
    s2_api_plan_close(NULL);
    s2_api_device_close(device);
    s2_api_device_close(NULL);
    free(data);
}

static void caches(const s2_api_pattern *pattern)
{
    s2_api_cache *cache = NULL, *none = NULL;
    s2_api_cache_options options;
    const s2_api_move *moves = NULL;
    s2_api_usage usage;
    int32_t sequence = -1, fork = -1, n_moves = 0, tokens = 0;
    int64_t slots[TOKENS];
    memset(&options, 0, sizeof options);
    memset(&usage, 0, sizeof usage);
    options.cap_pages = 4;
    SIZED(options, s2_api_cache_open(pattern, &options, &none, &why));
    WRONG(s2_api_cache_open(NULL, &options, &none, &why));
    WRONG(s2_api_cache_open(pattern, &options, NULL, &why));
    RIGHT(s2_api_cache_open(pattern, NULL, &none, &why));
    s2_api_cache_close(none);
    s2_api_cache_close(NULL);
    RIGHT(s2_api_cache_open(pattern, &options, &cache, &why));
    WRONG(s2_api_cache_sequence(NULL, &sequence, &why));
    WRONG(s2_api_cache_sequence(cache, NULL, &why));
    RIGHT(s2_api_cache_sequence(cache, &sequence, &why));
    WRONG(s2_api_cache_append(NULL, sequence, 1, &moves, &n_moves, &why));
    WRONG(s2_api_cache_append(cache, sequence + 1, 1, &moves, &n_moves, &why));
    WRONG(s2_api_cache_append(cache, sequence, 0, &moves, &n_moves, &why));
    WRONG(s2_api_cache_append(cache, sequence, 1, NULL, &n_moves, &why));
    WRONG(s2_api_cache_append(cache, sequence, 1, &moves, NULL, &why));
    RIGHT(s2_api_cache_append(cache, sequence, TOKENS, &moves, &n_moves, &why));
    WRONG(s2_api_cache_tokens(NULL, sequence, &tokens, &why));
    WRONG(s2_api_cache_tokens(cache, -1, &tokens, &why));
    WRONG(s2_api_cache_tokens(cache, sequence, NULL, &why));
    RIGHT(s2_api_cache_tokens(cache, sequence, &tokens, &why));
    HOLDS(tokens == TOKENS);
    SIZED(usage, s2_api_cache_usage(cache, &usage, &why));
    WRONG(s2_api_cache_usage(NULL, &usage, &why));
    WRONG(s2_api_cache_usage(cache, NULL, &why));
    RIGHT(s2_api_cache_usage(cache, &usage, &why));
    HOLDS(usage.pages > 0 && usage.pool_slots <= SIZE / DIM);
    WRONG(s2_api_cache_slots(NULL, sequence, 0, 0, 0, TOKENS, slots, &why));
    WRONG(s2_api_cache_slots(cache, sequence, 2, 0, 0, TOKENS, slots, &why));
    WRONG(s2_api_cache_slots(cache, sequence, 0, 1, 0, TOKENS, slots, &why));
    WRONG(s2_api_cache_slots(cache, sequence, 0, 0, 1, 0, slots, &why));
    WRONG(s2_api_cache_slots(cache, sequence, 0, 0, 0, TOKENS, NULL, &why));
    RIGHT(s2_api_cache_slots(cache, sequence, 0, 0, 0, TOKENS, slots, &why));
    WRONG(s2_api_cache_places(NULL, &sequence, 1, 0, 1, 1, slots, &why));
    WRONG(s2_api_cache_places(cache, NULL, 1, 0, 1, 1, slots, &why));
    WRONG(s2_api_cache_places(cache, &sequence, 0, 0, 1, 1, slots, &why));
    WRONG(s2_api_cache_places(cache, &sequence, 1, 0, 3, 1, slots, &why));
    WRONG(s2_api_cache_places(cache, &sequence, 1, 0, 1, 0, slots, &why));
    WRONG(s2_api_cache_places(cache, &sequence, 1, 0, 1, 1, NULL, &why));
    RIGHT(s2_api_cache_places(cache, &sequence, 1, 0, 1, 1, slots, &why));
    attention(pattern, cache, sequence);
    WRONG(s2_api_cache_fork(NULL, sequence, &fork, &why));
    WRONG(s2_api_cache_fork(cache, sequence + 1, &fork, &why));
    WRONG(s2_api_cache_fork(cache, sequence, NULL, &why));
    RIGHT(s2_api_cache_fork(cache, sequence, &fork, &why));
    expect("more pages than there are", __LINE__,
           s2_api_cache_append(cache, fork, 16 * TOKENS, &moves, &n_moves, &why), S2_API_MEMORY);
    WRONG(s2_api_cache_drop(NULL, sequence, &why));
    RIGHT(s2_api_cache_drop(cache, sequence, &why));
    WRONG(s2_api_cache_drop(cache, sequence, &why));
    s2_api_cache_close(cache);
}

int main(void)
{
    s2_api_pattern *const pattern = patterns();
    if (pattern == NULL)
        return 2;
    answers(pattern);
    caches(pattern);
    s2_api_pattern_close(pattern);
    printf("%d wrong; all errors came by value\n", wrong);
    return wrong != 0;
}
