/* The layers that the searched model was published with: a rival of what is found. */
#include "cli/found.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/foreign.h"
#include "cli/input.h"
#include "cli/netfile.h"
#include "cli/textfile.h"
#include "export/widths.h"
#include "pattern/models.h"

static s2_exit refuse(s2_cli *cli, const char *model, const char *why)
{
    s2_cli_error(cli, "%s: %s", model, why);
    s2_cli_hint(cli, "s2 sim %s prices the model as it is", model);
    return S2_EXIT_USAGE;
}

/* A space gives every layer that reads keys the KV heads of the shape: other attention would be another model's. */
static s2_exit refuse_other_attention(s2_cli *cli, const s2_pattern *own, const char *model)
{
    bool alike = true;
    if (s2_pattern_is_latent(own)) {
        (void)refuse(cli, model,
                     "its attention is latent: all heads read one vector a token, and a search gives each KV "
                     "head keys of its own, which is another model");
        return S2_EXIT_REFUSED;
    }
    for (int32_t layer = 0; layer < own->n_layers; layer++) {
        if (s2_pattern_is_state_layer(own, layer))
            continue;
        alike = alike && s2_pattern_kv_layer(own, layer) == layer &&
                s2_pattern_kv_heads(own, layer) == own->n_kv_heads &&
                s2_pattern_head_dim(own, layer) == own->head_dim;
    }
    if (!s2_pattern_has_attention(own))
        return refuse(cli, model,
                      "all of its layers keep a state and read no keys: there is no attention to search");
    if (!alike)
        return refuse(cli, model,
                      "some of its layers have other KV heads, another head dimension or the keys of another "
                      "layer; a search gives all layers one shape, which is another model");
    return S2_EXIT_OK;
}

/* Layers that keep a state and read no keys stay as they are in every candidate. */
static s2_exit take_mixers(s2_cli *cli, s2_found *found)
{
    const s2_pattern *const own = found->own_pattern;
    if (own->n_layers != found->net.n_layers)
        return refuse(cli, found->net.name, "its attention and its weights are of unlike numbers of layers");
    uint64_t *const bits = S2_NEW(&cli->arena, uint64_t, (own->n_layers + 63) / 64);
    if (bits == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "model");
    for (int32_t layer = 0; layer < own->n_layers; layer++)
        if (s2_pattern_is_state_layer(own, layer)) {
            bits[layer / 64] |= UINT64_C(1) << (layer % 64);
            found->n_mixers++;
        }
    found->search.mixers = found->n_mixers > 0 ? bits : NULL;
    return S2_EXIT_OK;
}

static s2_status parse_published(s2_cli *cli, const s2_found *found, const char *rules, s2_pattern *out)
{
    s2_buf text = {0};
    s2_buf_printf(&text, "model %s\n%s", found->net.name, rules);
    const s2_status status = text.status == S2_OK
                                 ? s2_pattern_parse(&cli->arena, text.data, text.len, NULL, out, NULL)
                                 : text.status;
    s2_buf_release(&text);
    return status;
}

s2_status s2_found_import(s2_cli *cli, const char *path, s2_pattern *out, s2_diag *diag)
{
    enum { MOST_BYTES = 1 << 24 };
    s2_buf notes = {0};
    s2_said said = {0};
    s2_fileset side = {.arena = &cli->arena};
    const s2_format *used = NULL;
    char *text;
    size_t n_bytes;
    S2_TRY(s2_bytes_read(&cli->arena, path, MOST_BYTES, &text, &n_bytes));
    s2_source source = {.arena = &cli->arena,
                        .name = s2_path_title(&cli->arena, path),
                        .bytes = text,
                        .n_bytes = n_bytes,
                        .finder = {.dir = s2_path_dir(&cli->arena, path), .path = path},
                        .notes = &notes,
                        .said = &said,
                        .side = &side,
                        .diag = diag};
    const s2_status status = source.name != NULL && source.finder.dir != NULL
                                 ? s2_import_run(&source, NULL, &used, out)
                                 : S2_ENOMEM;
    if (status == S2_OK)
        s2_foreign_said(cli, path, &said);
    s2_buf_release(&said.warnings);
    s2_buf_release(&notes);
    return status;
}

static s2_exit read_own(s2_cli *cli, s2_found *found, const char *model, bool is_file)
{
    const char *const rules = is_file ? NULL : s2_model_rules(model), *const path = s2_input_path(cli, model);
    s2_pattern *const own = S2_NEW(&cli->arena, s2_pattern, 1);
    s2_diag diag = {0};
    s2_status status = own != NULL ? S2_OK : S2_ENOMEM;
    if (!is_file && rules == NULL)
        return S2_EXIT_OK;
    if (status == S2_OK)
        status = is_file ? s2_found_import(cli, path, own, &diag) : parse_published(cli, found, rules, own);
    if (status == S2_ENOMEM)
        return s2_cli_fail(cli, status, "model");
    if (status != S2_OK) {
        s2_cli_error(cli,
                     "%s: the model's own layers are not known (%s): ratios are to dense attention alone",
                     model, s2_diag_text(&diag, status));
        return S2_EXIT_OK;
    }
    own->name = "";
    found->own_pattern = own;
    S2_CLI_TRY(refuse_other_attention(cli, own, model));
    return take_mixers(cli, found);
}

/* A config without the widths of the whole model still says the shape of its attention. */
static s2_exit read_attention(s2_cli *cli, s2_found *found, const char *path, bool *taken)
{
    s2_pattern *const own = S2_NEW(&cli->arena, s2_pattern, 1);
    s2_net net = {0};
    char *text;
    size_t n_bytes;
    s2_diag diag = {0}, unread = {0};
    if (own == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "model");
    S2_CLI_TRY(s2_textfile_read(cli, path, &text, &n_bytes));
    *taken = s2_widths_read(text, n_bytes, &net, &diag) == S2_EPARSE && net.n_layers > 0 &&
             s2_found_import(cli, path, own, &unread) == S2_OK;
    if (*taken)
        S2_CLI_TRY(refuse_other_attention(cli, own, path));
    if (!*taken)
        return S2_EXIT_OK;
    s2_cli_error(cli, "%s: %s; attention alone is searched", path, diag.msg);
    s2_cli_hint(cli, "tokens a second, what fits beside the weights and the memory of training are those of "
                     "whole models alone");
    found->net = net;
    found->net.n_layers =
        own->n_layers; /* widths end where a file lacks one, so layers may not all be counted */
    s2_text_clean(found->net.name, sizeof found->net.name, own->name[0] != '\0' ? own->name : "model");
    own->name = "";
    found->own_pattern = own;
    return take_mixers(cli, found);
}

s2_exit s2_found_read_model(s2_cli *cli, s2_found *found, const char *model, bool *is_file)
{
    bool alone = false;
    *is_file = s2_net_find(model, &found->net, NULL) != S2_OK && access(model, F_OK) == 0;
    if (*is_file)
        S2_CLI_TRY(read_attention(cli, found, s2_input_path(cli, model), &alone));
    if (!alone)
        S2_CLI_TRY(s2_netfile_read(cli, model, &found->net, is_file));
    found->model = found->net.name;
    found->search.options.net = alone ? NULL : &found->net;
    return alone ? S2_EXIT_OK : read_own(cli, found, model, *is_file);
}
