#include "cli/commands.h"
#include "pattern/folds.h"
#include "cli/input.h"
#include "cli/options.h"

#include <math.h>
#include <string.h>

#include "pattern/parse.h"
#include "words/size.h"

/* What is shown about one pattern. */
typedef struct facts {
    const s2_input *input;
    const char *name;
    char hash[S2_HASH_HEX];
    int64_t n_tok;
    s2_folds folds;
    s2_density density;
} facts;

/* The layers in which these heads have this body, one line for each distinct list of heads. */
typedef struct line_fn {
    void (*put)(s2_buf *buf, const char *phase, const char *layers, const char *heads, const char *body);
} line_fn;

static bool heads_of_body(const s2_pattern *p, s2_phase phase, int32_t layer, int32_t body, int32_t *heads,
                          int32_t *n)
{
    *n = 0;
    for (int32_t head = 0; head < p->n_heads; head++)
        if (s2_pattern_body(p, phase, layer, head) == body)
            heads[(*n)++] = head;
    return *n > 0;
}

/* The layers from `layer` on that have the same heads; marks them as done. */
static int32_t same_layers(const s2_pattern *p, s2_phase phase, int32_t layer, int32_t body, bool *done,
                           int32_t *layers)
{
    int32_t n = 0;
    for (int32_t other = layer; other < p->n_layers; other++) {
        bool same = !done[other];
        for (int32_t head = 0; head < p->n_heads && same; head++)
            same = (s2_pattern_body(p, phase, other, head) == body) ==
                   (s2_pattern_body(p, phase, layer, head) == body);
        if (same) {
            done[other] = true;
            layers[n++] = other;
        }
    }
    return n;
}

static const char *text_of(s2_buf *buf)
{
    s2_buf_add(buf, "", 1);
    return buf->data != NULL ? buf->data : "";
}

static s2_status add_body(const s2_pattern *p, s2_phase phase, int32_t body, const line_fn *line, s2_buf *out)
{
    s2_arena scratch = {0};
    bool *const done = S2_NEW(&scratch, bool, p->n_layers);
    int32_t *const layers = S2_NEW(&scratch, int32_t, p->n_layers), *const heads =
                                                                        S2_NEW(&scratch, int32_t, p->n_heads);
    const bool whole = done != NULL && layers != NULL && heads != NULL;
    for (int32_t layer = 0; whole && layer < p->n_layers; layer++) {
        int32_t n_heads;
        if (done[layer] || !heads_of_body(p, phase, layer, body, heads, &n_heads))
            continue;
        const int32_t n_layers = same_layers(p, phase, layer, body, done, layers);
        s2_buf layer_text = {0}, head_text = {0}, body_text = {0};
        s2_index_list_print(layers, n_layers, p->n_layers, &layer_text);
        s2_index_list_print(heads, n_heads, p->n_heads, &head_text);
        s2_body_print(&p->bodies[body], &body_text);
        line->put(out, s2_pattern_has_phases(p) ? s2_phase_word(phase) : "", text_of(&layer_text),
                  text_of(&head_text), text_of(&body_text));
        s2_buf_release(&layer_text);
        s2_buf_release(&head_text);
        s2_buf_release(&body_text);
    }
    s2_arena_release(&scratch);
    return whole ? out->status : S2_ENOMEM;
}

static s2_status add_bodies(const s2_pattern *p, const line_fn *line, s2_buf *out)
{
    const int n_phases = s2_pattern_has_phases(p) ? S2_N_RULE_PHASES : 1;
    for (int phase = 0; phase < n_phases; phase++)
        for (int32_t body = 0; body < p->n_bodies; body++)
            S2_TRY(add_body(p, (s2_phase)phase, body, line, out));
    return S2_OK;
}

static void put_text_line(s2_buf *buf, const char *phase, const char *layers, const char *heads,
                          const char *body)
{
    s2_buf_printf(buf, "  %-9s %s%slayers %s heads %s: %s\n", "reads", phase, phase[0] != '\0' ? " " : "",
                  layers, heads, body);
}

static void put_json_line(s2_buf *buf, const char *phase, const char *layers, const char *heads,
                          const char *body)
{
    s2_json_begin(buf, '{');
    if (phase[0] != '\0') {
        s2_json_key_str(buf, "phase", phase);
    }
    s2_json_key_str(buf, "layers", layers);
    s2_json_key_str(buf, "heads", heads);
    s2_json_key_str(buf, "body", body);
    s2_json_end(buf, '}');
}

/* Add one line for each property that layers set for themselves. */
static void add_layers(const s2_pattern *p, s2_buf *buf)
{
    s2_buf lines = {0};
    s2_pattern_print_layers(p, &lines);
    for (char *line = lines.data; line != NULL && *line != '\0';) {
        char *const end = strchr(line, '\n');
        *end = '\0';
        s2_buf_printf(buf, "  own       %s\n", line);
        line = end + 1;
    }
    if (lines.status != S2_OK)
        buf->status = lines.status;
    s2_buf_release(&lines);
}

static s2_status add_text(const facts *f, s2_buf *buf)
{
    const s2_pattern *const p = &f->input->pattern;
    s2_buf_printf(buf, "%s\n  hash      %s\n", f->name, f->hash);
    s2_buf_puts(buf, "  shape     ");
    s2_pattern_print_size(p, buf);
    s2_buf_printf(buf, ", head dimension %d, blocks of %s%s\n", (int)p->head_dim,
                  s2_count_text(p->block_tok, "token").text, p->causal ? "" : ", not causal");
    add_layers(p, buf);
    s2_buf_printf(buf, "  distinct  %d of %s\n", (int)f->folds.n_classes,
                  s2_count_text((int64_t)p->n_layers * p->n_heads, "head").text);
    if (!s2_pattern_has_attention(p))
        s2_buf_puts(buf, "  density   of nothing: no layer reads keys\n");
    if (!isnan(f->density.tokens))
        s2_buf_printf(buf, "  density   %.5f of the %spairs at %s", f->density.tokens,
                      p->causal ? "causal " : "", s2_count_text(f->n_tok, "token").text);
    if (!isnan(f->density.sparse_blocks))
        s2_buf_printf(buf, "; %.5f of the block pairs in layers that are not dense",
                      f->density.sparse_blocks);
    if (!isnan(f->density.tokens))
        s2_buf_puts(buf, s2_pattern_dynamic(p) != NULL ? ", of what is read for certain\n" : "\n");
    static const line_fn line = {put_text_line};
    return add_bodies(p, &line, buf);
}

static s2_status add_json(const facts *f, s2_buf *buf)
{
    const s2_pattern *const p = &f->input->pattern;
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "schema", "s2show/1");
    s2_json_key_str(buf, "name", f->name);
    s2_json_key_str(buf, "hash", f->hash);
    s2_json_key_int(buf, "layers", p->n_layers);
    s2_json_key_int(buf, "heads", p->n_heads);
    s2_json_key_int(buf, "kv_heads", p->n_kv_heads);
    s2_json_key_int(buf, "head_dim", p->head_dim);
    s2_json_key_int(buf, "block", p->block_tok);
    s2_json_key_bool(buf, "causal", p->causal);
    s2_json_key_int(buf, "distinct", f->folds.n_classes);
    s2_json_key_int(buf, "len", f->n_tok);
    s2_json_key_num(buf, "token_density", f->density.tokens);
    s2_json_key_num(buf, "density", f->density.sparse_blocks);
    s2_json_key_begin(buf, "bodies", '[');
    static const line_fn line = {put_json_line};
    S2_TRY(add_bodies(p, &line, buf));
    s2_json_end(buf, ']');
    s2_json_end(buf, '}');
    s2_buf_puts(buf, "\n");
    return S2_OK;
}

static s2_status gather(s2_cli *cli, const s2_input *input, int64_t n_tok, facts *f)
{
    *f = (facts){.input = input, .n_tok = n_tok, .name = s2_input_name(cli, input)};
    S2_TRY(s2_pattern_hash(&input->pattern, f->hash));
    S2_TRY(s2_folds_build(&cli->arena, &input->pattern, S2_PREFILL, S2_AT_LEAST, &f->folds));
    S2_TRY(s2_density_count(&input->pattern, &f->folds, n_tok, true, &f->density));
    if (!s2_pattern_has_attention(&input->pattern))
        f->density.tokens = f->density.sparse_blocks = (double)NAN;
    return S2_OK;
}

/* The short forms need no folds and no counts. */
static s2_status add_short(const s2_input *input, bool canonical, s2_buf *buf)
{
    if (canonical) {
        s2_pattern_print(&input->pattern, buf);
        return buf->status;
    }
    char hash[S2_HASH_HEX];
    S2_TRY(s2_pattern_hash(&input->pattern, hash));
    s2_buf_printf(buf, "%s\n", hash);
    return buf->status;
}

static s2_exit show_one(s2_cli *cli, const s2_args *args, const char *operand)
{
    s2_input input;
    int64_t n_tok;
    S2_CLI_TRY(s2_input_read(cli, operand, &input));
    S2_CLI_TRY(s2_input_len(cli, args, &input.pattern, &n_tok));
    s2_buf buf = {0};
    facts f;
    s2_status status;
    if (s2_args_has(args, "canonical") || s2_args_has(args, "hash"))
        status = add_short(&input, s2_args_has(args, "canonical"), &buf);
    else if ((status = gather(cli, &input, n_tok, &f)) == S2_OK)
        status = s2_args_has(args, "json") ? add_json(&f, &buf) : add_text(&f, &buf);
    if (status != S2_OK) {
        s2_buf_release(&buf);
        return s2_cli_fail(cli, status, operand);
    }
    return s2_cli_print(cli, &buf);
}

s2_exit s2_cmd_show(s2_cli *cli, int argc, char **argv)
{
    s2_args args;
    S2_CLI_TRY(s2_args_parse(cli, "show", argc, argv, &args));
    static const char *const not_canonical[] = {"hash", "json", NULL};
    if (s2_args_has(&args, "canonical"))
        S2_CLI_TRY(s2_args_exclude(cli, &args, "--canonical", not_canonical));
    if (s2_args_has(&args, "hash"))
        S2_CLI_TRY(s2_args_exclude(cli, &args, "--hash", not_canonical + 1));
    s2_exit code = S2_EXIT_OK;
    for (int32_t n = 0; n < args.n_operands; n++) {
        const s2_arena_mark_t mark = s2_arena_mark(&cli->arena);
        code = s2_exit_combine(code, show_one(cli, &args, args.operands[n]));
        s2_arena_rewind(&cli->arena, mark);
    }
    return code;
}
