#include "cli/explain.h"

#include <stdlib.h>
#include <string.h>

#include "pattern/codes.h"

/* A property: its definition, an example that violates it, and the usual repair. */
typedef struct property {
    const char *name;
    const char *summary;
    const char *text;
} property;

static const property PROPERTIES[] = {
    {"rows", "every query reads at least one key",
     "A row without a key has nothing to attend: its output is defined as 0 and its log-sum-exp as -inf, "
     "which is "
     "seldom meant.\n"
     "Violated by: heads 1; layers all: sink 4 when distance 8..\n"
     "Repair: a `local 1` term, so that a query reads its own block."},
    {"union", "in every layer, every query sees every key up to it through some head",
     "For every query q and key k <= q some head of the layer reads k from q: no information is lost, "
     "however long the "
     "context.\n"
     "Violated by: heads 8; layers all: local 16 | stride 16 phase head (8 of 16 phases have a head)\n"
     "Repair: as many phases as the stride has, or one dense head."},
    {"kv", "a key that was once not read is never read again by that head",
     "Only then may its entry in the KV cache be freed the first time it goes unread. In blocks: for j <= i "
     "- 1, "
     "reads(i, j) implies reads(i - 1, j).\n"
     "Violated by: heads 1; layers all: local 4 | stride 8 when distance 16..\n"
     "Repair: let restrictions on the distance begin where the terms beside them end, and prefer `stride` "
     "(fixed keys) "
     "to `dilated` (keys that move with the query)."},
    {"group", "the query heads of a KV head share one pattern",
     "Otherwise the cache of a KV head must hold the union of what its query heads read, and nothing is "
     "saved by each "
     "head reading less.\n"
     "Repair: write phases with `kv` instead of `head`."},
    {"shards", "each far block is read by exactly one KV head",
     "Perfect sharding: outside the window that every head reads, the KV heads divide the context among them "
     "without "
     "overlap and without gap."},
    {"ranks", "ranks:N - each of N tensor-parallel ranks of heads is union-complete by itself",
     "The heads of the layer are split into N consecutive, equal parts, as tensor parallelism does, and each "
     "part must "
     "satisfy `union`."},
    {"depth", "depth:D - every key reaches every later query within D layers",
     "Information may take several hops: a query reads a token that in an earlier layer has read the key. "
     "Counted over "
     "any D consecutive layers."},
};

static int print_property(s2_cli *cli, const property *p)
{
    fprintf(cli->out, "%s: %s\n\n%s\n", p->name, p->summary, p->text);
    return S2_EXIT_OK;
}

/* "S2P012", "s2p12", "12": the number; -1 for anything else. */
static int32_t code_of(const char *text)
{
    if (strncmp(text, "S2P", 3) == 0 || strncmp(text, "s2p", 3) == 0)
        text += 3;
    const size_t n = strlen(text);
    if (n == 0 || n > 4 || strspn(text, "0123456789") != n)
        return -1;
    return (int32_t)strtol(text, NULL, 10);
}

int s2_explain_print(s2_cli *cli, const char *what)
{
    const size_t n = strcspn(what, ":");
    for (size_t at = 0; at < sizeof PROPERTIES / sizeof PROPERTIES[0]; at++)
        if (strlen(PROPERTIES[at].name) == n && strncmp(PROPERTIES[at].name, what, n) == 0)
            return print_property(cli, &PROPERTIES[at]);
    const int32_t code = code_of(what);
    const char *const text = code >= 0 ? s2_code_explain(code) : NULL;
    if (text == NULL) {
        s2_cli_error(cli, "%s: neither a property nor a code; s2 explain lists them", what);
        return S2_EXIT_USAGE;
    }
    fprintf(cli->out, "S2P%03d: %s\n", (int)code, text);
    return S2_EXIT_OK;
}

int s2_explain_list(s2_cli *cli)
{
    for (size_t at = 0; at < sizeof PROPERTIES / sizeof PROPERTIES[0]; at++)
        fprintf(cli->out, "%-7s %s\n", PROPERTIES[at].name, PROPERTIES[at].summary);
    for (int32_t nth = 0; nth < S2_N_CODES; nth++)
        fprintf(cli->out, "S2P%03d  %s\n", (int)s2_code_at(nth), s2_code_explain(s2_code_at(nth)));
    return S2_EXIT_OK;
}
