#include "cli/netfile.h"

#include <string.h>
#include <unistd.h>

#include "base/arith.h"
#include "base/text.h"
#include "cli/input.h"
#include "cli/textfile.h"
#include "export/stored.h"
#include "export/widths.h"

/* "models/Own-7B/config.json" becomes "Own-7B", "own.json" becomes "own". */
static void name_after(const char *path, char *out, size_t cap)
{
    const char *end = path + strlen(path);
    const char *base = end;
    while (base > path && base[-1] != '/')
        base--;
    if (strcmp(base, "config.json") == 0 && base - path > 1) {
        end = base - 1;
        for (base = end; base > path && base[-1] != '/';)
            base--;
    } else if (end - base > 5 && strcmp(end - 5, ".json") == 0) {
        end -= 5;
    }
    const size_t n = s2_min_size((size_t)(end - base), cap - 1);
    memcpy(out, base, n);
    out[n] = '\0';
}

/* modelopt writes how weights are stored beside a config.json that says nothing of it. */
static s2_exit read_stored_apart(s2_cli *cli, const char *path, s2_net *net)
{
    static const char config[] = "config.json", beside[] = "hf_quant_config.json";
    const size_t n = strlen(path), n_own = sizeof config - 1;
    char *text, *const apart = s2_arena_alloc(&cli->arena, n + sizeof beside, 1);
    size_t n_bytes;
    s2_diag diag = {0};
    if (apart == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "--model");
    if (net->method[0] != '\0' || n < n_own || strcmp(path + n - n_own, config) != 0 ||
        (n > n_own && path[n - n_own - 1] != '/'))
        return S2_EXIT_OK;
    memcpy(apart, path, n - n_own);
    memcpy(apart + n - n_own, beside, sizeof beside);
    if (access(apart, F_OK) != 0)
        return S2_EXIT_OK;
    S2_CLI_TRY(s2_textfile_read(cli, apart, &text, &n_bytes));
    const s2_status status = s2_stored_read_apart(text, n_bytes, net, &diag);
    return status == S2_OK ? S2_EXIT_OK : s2_input_refuse(cli, status, apart, text, n_bytes, &diag);
}

static s2_exit read_config(s2_cli *cli, const char *path, s2_net *out)
{
    char *text, name[sizeof out->name];
    size_t n_bytes;
    s2_net net;
    s2_diag diag = {0};
    S2_CLI_TRY(s2_textfile_read(cli, path, &text, &n_bytes));
    const s2_status status = s2_widths_read(text, n_bytes, &net, &diag);
    if (status != S2_OK)
        return s2_input_refuse(cli, status, path, text, n_bytes, &diag);
    S2_CLI_TRY(read_stored_apart(cli, path, &net));
    *out = net;
    name_after(path, name, sizeof name);
    s2_text_clean(out->name, sizeof out->name, name);
    if (net.assumed[0] != '\0')
        s2_cli_hint(
            cli,
            "%s: model_type %s is not known here, so its layers are taken to be attention of Q, K, V and O "
            "and a feed-forward of three matrices each",
            path, net.assumed);
    if (net.method[0] != '\0' && net.stored == S2_WEIGHTS_PUBLISHED)
        s2_cli_hint(
            cli,
            "%s stores its weights by %s, in a way that has no price here%s%s%s: they are priced in the type "
            "of activations unless --weights says otherwise",
            path, net.method, net.untold[0] != '\0' ? " (it names \"" : "", net.untold,
            net.untold[0] != '\0' ? "\", which is not known)" : "");
    if (net.cache[0] != '\0')
        s2_cli_hint(
            cli,
            "%s says that its KV cache is stored in %s; the cache is priced as --kv-dtype says, without "
            "it as --dtype",
            path, net.cache);
    return S2_EXIT_OK;
}

/* Whether the name can only mean a file; "meta-llama/Llama-3.1-8B" is a name. */
static bool is_path(const char *name)
{
    const size_t n = strlen(name);
    return name[0] == '/' || strncmp(name, "./", 2) == 0 || strncmp(name, "../", 3) == 0 ||
           (n > 5 && strcmp(name + n - 5, ".json") == 0);
}

s2_exit s2_netfile_read(s2_cli *cli, const char *name, s2_net *out, bool *is_file)
{
    s2_diag diag = {0};
    const s2_status status = s2_net_find(name, out, &diag);
    *is_file = status == S2_EINVAL && access(name, F_OK) == 0;
    if (*is_file)
        return read_config(cli, s2_input_path(cli, name), out);
    if (status == S2_OK)
        return S2_EXIT_OK;
    if (is_path(name))
        return s2_input_unreadable(cli, S2_EIO, name); /* errno was set by access() */
    const s2_exit code = s2_cli_refuse(cli, status, &diag);
    if (status == S2_EINVAL)
        s2_cli_hint(
            cli,
            "s2 sim --list shows the built-in ones; a model's own config.json is taken too: --model FILE");
    return code;
}
