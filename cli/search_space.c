/* The space of a search: read, or proposed for a model, and checked before anything is visited. */
#include "cli/searching.h"

#include <string.h>

#include "cli/input.h"
#include "cli/textfile.h"
#include "reach/worth.h"
#include "sim/machine.h"
#include "sim/share.h"

/* Read the space from a file, if the operand names one. */
static s2_exit read_space_file(s2_searching *r, const char **text)
{
    char *content;
    size_t n_bytes;
    S2_CLI_TRY(s2_textfile_read(r->cli, r->args.operands[0], &content, &n_bytes));
    *text = content;
    return S2_EXIT_OK;
}

/* What the words leave open gets the values of most current models. */
static void put_shape(const s2_search_words *words, s2_buf *buf)
{
    s2_buf_printf(buf, "layers %lld; heads %lld; kv-heads %lld; head-dim %lld; ",
                  (long long)(words->n_layers > 0 ? words->n_layers : 32), (long long)words->n_heads,
                  (long long)(words->n_kv_heads > 0 ? words->n_kv_heads : words->n_heads),
                  (long long)(words->head_dim > 0 ? words->head_dim : 128));
}

/* --dense-layers of a proposed space: the last of every `every` layers is dense. */
static s2_exit find_dense_every(const s2_searching *r, int32_t *every)
{
    const int64_t n_dense = r->restriction.n_dense_layers;
    const int64_t n_layers = r->found.model[0] != '\0' ? r->found.net.n_layers - r->found.n_mixers
                             : r->words.n_layers > 0   ? r->words.n_layers
                                                       : 32;
    *every = n_dense == S2_RESTRICT_ANY ? S2_PROPOSE_ANY : S2_PROPOSE_NONE;
    if (n_dense > 0 && n_layers % n_dense == 0)
        *every = (int32_t)(n_layers / n_dense);
    if (n_dense <= 0 || n_layers % n_dense == 0)
        return S2_EXIT_OK;
    s2_cli_error(
        r->cli,
        "--dense-layers %lld does not divide the %lld layers%s: give a space that says which are dense",
        (long long)n_dense, (long long)n_layers, r->found.n_mixers > 0 ? " with attention" : "");
    return S2_EXIT_USAGE;
}

/* The layers that read keys; attention->n is 0 where all do. */
static s2_status find_attention(const s2_searching *r, s2_space_attention *out)
{
    const s2_found *const found = &r->found;
    int32_t *const layers = S2_NEW(&r->cli->arena, int32_t, found->net.n_layers + 1);
    *out = (s2_space_attention){.layers = layers, .n_layers = found->net.n_layers};
    if (layers == NULL)
        return S2_ENOMEM;
    for (int32_t layer = 0; layer < found->net.n_layers && found->n_mixers > 0; layer++)
        if (!(found->search.mixers[layer / 64] >> (layer % 64) & 1))
            layers[out->n++] = layer;
    return S2_OK;
}

/* Which layers a space is about must not be guessed from those that it does not name. */
static void say_mixers(const s2_searching *r)
{
    s2_buf list = {0};
    if (r->found.n_mixers == 0 || r->quiet)
        return;
    s2_found_put_attention(&r->found, &list);
    s2_buf_add(&list, "", 1);
    if (list.status == S2_OK)
        fprintf(r->cli->err,
                "searched: layers %s, which have attention; the other %d keep a state, the same in every "
                "design, which is in all times and caches\n",
                list.data, (int)r->found.n_mixers);
    s2_buf_release(&list);
}

static s2_exit propose(s2_searching *r, const s2_space_attention *attention, const char **text)
{
    s2_cli *const cli = r->cli;
    const s2_search_words *const words = &r->words;
    const bool by_model = r->found.model[0] != '\0';
    if (!by_model && words->n_heads == 0) {
        s2_cli_error(cli, "expected a search space, or a --model or a number of heads to propose one for");
        return S2_EXIT_USAGE;
    }
    s2_buf buf = {0};
    if (!by_model)
        put_shape(words, &buf);
    const int64_t n_heads = by_model ? r->found.net.n_heads : words->n_heads;
    const int64_t n_kv_heads = by_model                ? r->found.net.n_kv_heads
                               : words->n_kv_heads > 0 ? words->n_kv_heads
                                                       : n_heads;
    if (n_heads > S2_LIMIT_HEADS || n_kv_heads > n_heads || n_heads % n_kv_heads != 0) {
        s2_buf_release(&buf);
        s2_cli_error(cli,
                     "%lld heads on %lld KV heads: KV heads must divide the heads, and heads are at most %d",
                     (long long)n_heads, (long long)n_kv_heads, S2_LIMIT_HEADS);
        return S2_EXIT_USAGE;
    }
    int32_t dense_every;
    const s2_exit end = find_dense_every(r, &dense_every);
    if (end != S2_EXIT_OK) {
        s2_buf_release(&buf);
        return end;
    }
    const s2_status status = s2_space_propose((int32_t)n_heads, (int32_t)n_kv_heads, dense_every,
                                              attention->n > 0 ? attention : NULL, &buf);
    *text = status == S2_OK ? s2_arena_strndup(&cli->arena, buf.data, buf.len) : NULL;
    s2_buf_release(&buf);
    if (*text == NULL)
        return s2_cli_fail(cli, status == S2_OK ? S2_ENOMEM : status, "space");
    if (!r->quiet)
        fprintf(cli->err, "proposed space: %s\n", *text);
    return S2_EXIT_OK;
}

/* Exactly one line, as s2_found_choice() expects. */
static void put_model(const s2_searching *r, s2_buf *buf)
{
    const s2_net *const net = &r->found.net;
    if (!r->model_is_file) {
        s2_buf_printf(buf, "model %s\n", net->name);
        return;
    }
    s2_buf layers = {0};
    if (r->found.own_pattern != NULL)
        s2_pattern_print_layers(r->found.own_pattern, &layers);
    s2_buf_add(&layers, "", 1);
    s2_buf_printf(buf, "layers %d; heads %d; kv-heads %d; head-dim %d", net->n_layers, net->n_heads,
                  net->n_kv_heads, net->head_dim);
    for (char *line = strtok(layers.data, "\n"); line != NULL && layers.status == S2_OK;
         line = strtok(NULL, "\n"))
        s2_buf_printf(buf, "; %s", line);
    s2_buf_puts(buf, "\n");
    buf->status = layers.status != S2_OK ? layers.status : buf->status;
    s2_buf_release(&layers);
}

/* Refusals must point into what the user wrote, so put the model's line before it only afterwards. */
s2_exit s2_search_space_read(s2_searching *r)
{
    s2_found *const found = &r->found;
    s2_cli *const cli = r->cli;
    const char *text = r->args.n_operands > 0 && !r->in_words ? r->args.operands[0] : NULL;
    s2_space_attention attention = {0};
    s2_status status = find_attention(r, &attention);
    if (status != S2_OK)
        return s2_cli_fail(cli, status, "model");
    S2_CLI_TRY(r->in_file     ? read_space_file(r, &text)
               : text != NULL ? S2_EXIT_OK
                              : propose(r, &attention, &text));
    say_mixers(r);
    s2_diag diag = {0};
    status = s2_space_parse(&cli->arena, text, strlen(text), &found->space, &diag);
    if (status != S2_OK)
        return s2_input_refuse(cli, status, r->in_file ? r->args.operands[0] : "space", text, strlen(text),
                               &diag);
    found->space_text = text;
    found->search.space = &found->space;
    if (found->model[0] == '\0')
        return S2_EXIT_OK;
    s2_buf whole = {0};
    put_model(r, &whole);
    s2_buf_puts(&whole, text);
    status = whole.status;
    if (status == S2_OK)
        status = s2_space_parse(&cli->arena, whole.data, whole.len, &found->space, &diag);
    s2_buf_release(&whole);
    return status == S2_OK ? S2_EXIT_OK : s2_cli_fail(cli, status, "space");
}

/* Worth is judged for one shape only: refuse a space of another shape before searching it. */
static s2_exit check_worth(s2_searching *r)
{
    s2_cli *const cli = r->cli;
    const s2_search *const search = &r->found.search;
    s2_pattern pattern;
    s2_worth worth;
    s2_diag diag;
    if ((!s2_search_weighs(search, S2_BY_LOSS) && !s2_search_weighs(search, S2_BY_UNRECALLED)) ||
        s2_search_pattern(search, 0, &cli->arena, &pattern, &diag) != S2_OK)
        return S2_EXIT_OK; /* the search counts it as refused and says so */
    const s2_status status = s2_worth_figures(&cli->arena, &pattern, search->options.len_tok, &worth);
    if (status != S2_OK)
        return s2_cli_fail(cli, status, "worth");
    if (worth.not_judged == NULL)
        return S2_EXIT_OK;
    s2_cli_error(cli, "loss and unrecalled cannot be computed for the first candidate: %s", worth.not_judged);
    s2_cli_hint(cli, "docs/worth.md says which shape they were fitted on; s2 reach measures any other");
    return S2_EXIT_USAGE;
}

static s2_status check_gpus(const s2_searching *r, const s2_pattern *pattern, s2_diag *diag)
{
    S2_TRY(s2_share_check(pattern, r->found.search.options.n_ranks, diag));
    for (int32_t p = 0; p < r->found.n_phases; p++) {
        s2_sim_options own = r->found.search.options;
        own.phase = r->found.phases[p];
        if (s2_machine_asked(&own))
            S2_TRY(s2_machine_check(pattern, &own, diag));
    }
    return S2_OK;
}

/* If no candidate can be shared out to these GPUs, say so before searching. */
static s2_exit check_share(s2_searching *r)
{
    enum { TRIED = 4096 };
    s2_cli *const cli = r->cli;
    const s2_search *const search = &r->found.search;
    s2_diag first = {0};
    for (int64_t index = 0; index < search->space->n_candidates && index < TRIED; index++) {
        const s2_arena_mark_t mark = s2_arena_mark(&cli->arena);
        s2_pattern pattern;
        s2_diag diag = {0};
        const bool built = s2_search_pattern(search, index, &cli->arena, &pattern, &diag) == S2_OK,
                   shared = built && check_gpus(r, &pattern, &diag) == S2_OK;
        s2_arena_rewind(&cli->arena, mark);
        if (shared || (search->options.n_ranks == 1 && !s2_machine_asked(&search->options)))
            return S2_EXIT_OK;
        if (first.msg[0] == '\0' && built)
            first = diag;
    }
    if (first.msg[0] == '\0' || search->space->n_candidates > TRIED)
        return S2_EXIT_OK;
    s2_cli_error(cli, "%s", first.msg);
    return S2_EXIT_USAGE;
}

/* A space may name a shape of its own: candidates of another shape than the model's have no price. */
static s2_exit check_shape(s2_searching *r)
{
    s2_cli *const cli = r->cli;
    const s2_search *const search = &r->found.search;
    const int64_t ends[] = {0, search->space->n_candidates - 1};
    for (int end = 0; end < 2 && search->options.net != NULL; end++) {
        s2_pattern pattern;
        s2_diag diag = {0};
        if (s2_search_pattern(search, ends[end], &cli->arena, &pattern, &diag) != S2_OK ||
            s2_net_check_shape(search->options.net, &pattern, &diag) == S2_OK)
            continue;
        s2_cli_error(cli, "%s", diag.msg);
        s2_cli_hint(cli, "leave layers, heads, kv-heads and head-dim out of the space: --model gives them");
        return S2_EXIT_USAGE;
    }
    return S2_EXIT_OK;
}

/* Beside each design dense attention is priced: refuse what cannot be counted before searching it. */
static s2_exit check_totals(s2_searching *r)
{
    s2_cli *const cli = r->cli;
    const s2_search *const search = &r->found.search;
    const int64_t ends[] = {0, search->space->n_candidates - 1};
    for (int end = 0; end < 2; end++)
        for (int32_t p = 0; p < r->found.n_phases; p++) {
            s2_pattern pattern, dense;
            s2_sim sim;
            s2_diag diag = {0};
            s2_sim_options options = search->options;
            options.phase = r->found.phases[p];
            options.n_ranks = options.n_stages = options.n_context = options.n_expert_ranks = 1; /* of all */
            const s2_arena_mark_t mark = s2_arena_mark(&cli->arena);
            s2_status status = s2_search_pattern(search, ends[end], &cli->arena, &pattern, &diag);
            if (status == S2_OK)
                status = s2_attention_dense(&cli->arena, &pattern, &dense);
            if (status == S2_OK)
                status = s2_price(&cli->arena, &dense, &options, S2_PRICE_PLAN, &sim, &diag);
            s2_arena_rewind(&cli->arena, mark);
            if (status == S2_ELIMIT)
                return s2_cli_refuse(cli, status, &diag);
        }
    return S2_EXIT_OK;
}

s2_exit s2_search_space_check(s2_searching *r)
{
    S2_CLI_TRY(check_shape(r));
    S2_CLI_TRY(check_worth(r));
    S2_CLI_TRY(check_totals(r));
    return check_share(r);
}
