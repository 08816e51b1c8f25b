#include "cli/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/input.h"
#include "cli/options.h"
#include "export/files.h"
#include "export/picture.h"

typedef struct request {
    const char *what, *form, *output;
    s2_picture_of of;
    int32_t index;
    int64_t layer, n_tok;
    s2_input input;
} request;

/* By option, else by the ending of the output, else what a terminal shows. */
static const char *form_of(const s2_args *args, const char *what, const char *output)
{
    static const char *const endings[] = {".png", ".svg", ".dot"};
    const char *const stated = s2_args_str(args, "as");
    const char *const dot = output != NULL ? strrchr(output, '.') : NULL;
    for (size_t n = 0; stated == NULL && dot != NULL && n < sizeof endings / sizeof *endings; n++)
        if (strcmp(dot, endings[n]) == 0)
            return endings[n] + 1;
    if (stated != NULL)
        return stated;
    return strcmp(what, "flow") == 0 ? "dot" : strcmp(what, "kv") == 0 ? "svg" : "ansi";
}

/* "union", "kv:G" or a head; without a head the union, because it shows holes. */
static int read_head(s2_cli *cli, const s2_args *args, request *out)
{
    const char *const text = s2_args_str(args, "head");
    out->of = S2_PICTURE_UNION;
    if (text == NULL || strcmp(text, "union") == 0)
        return S2_GO_ON;
    const bool kv = strncmp(text, "kv:", 3) == 0;
    int64_t index;
    if (!s2_number_parse(kv ? text + 3 : text, &index) ||
        index >= (kv ? out->input.pattern.n_kv_heads : out->input.pattern.n_heads)) {
        s2_cli_error(cli, "--head %s: expected union, kv:G or a head of the pattern", text);
        return S2_EXIT_USAGE;
    }
    out->of = kv ? S2_PICTURE_KV : S2_PICTURE_HEAD;
    out->index = (int32_t)index;
    return S2_GO_ON;
}

static int draw_grid(s2_cli *cli, const request *at, s2_buf *buf)
{
    enum { TERMINAL_CELLS = 78, IMAGE_CELLS = 128 };
    s2_picture picture;
    const bool text = strcmp(at->form, "ansi") == 0 || strcmp(at->form, "ascii") == 0;
    const int32_t max_cells = text ? TERMINAL_CELLS : IMAGE_CELLS;
    s2_status status = strcmp(at->what, "shards") == 0
                           ? s2_picture_shards(&cli->arena, &at->input.pattern, (int32_t)at->layer, at->n_tok,
                                               max_cells, &picture)
                           : s2_picture_mask(&cli->arena, &at->input.pattern, at->of, (int32_t)at->layer,
                                             at->index, at->n_tok, max_cells, &picture);
    if (status == S2_OK && strcmp(at->form, "png") == 0)
        status = s2_picture_png(&picture, buf);
    else if (status == S2_OK && strcmp(at->form, "svg") == 0)
        s2_picture_svg(&picture, buf);
    else if (status == S2_OK && text)
        s2_picture_ansi(&picture, strcmp(at->form, "ascii") == 0, buf);
    else if (status == S2_OK) {
        s2_cli_error(cli, "%s is drawn as ansi, ascii, png or svg", at->what);
        return S2_EXIT_USAGE;
    }
    return status == S2_OK ? S2_GO_ON : s2_cli_fail(cli, status, "draw");
}

static s2_status feed(int fd, const s2_buf *from)
{
    for (size_t done = 0; done < from->len;) {
        const ssize_t put = write(fd, from->data + done, from->len - done);
        if (put < 0 && errno != EINTR)
            return S2_EIO;
        done += put > 0 ? (size_t)put : 0;
    }
    return S2_OK;
}

/*
 * Graphviz as a program. Its input goes through an unlinked file, so that a child that writes before it has
 * read everything cannot block against us.
 */
static int run_dot(s2_cli *cli, const char *form, s2_buf *graph, s2_buf *out)
{
    char flag[16], bytes[4096];
    int result[2] = {-1, -1};
    FILE *const source = tmpfile();
    snprintf(flag, sizeof flag, "-T%s", form);
    if (source == NULL || feed(fileno(source), graph) != S2_OK || lseek(fileno(source), 0, SEEK_SET) != 0 ||
        pipe(result) != 0) {
        s2_cli_error(cli, "dot: %s", strerror(errno));
        return S2_EXIT_ENVIRONMENT;
    }
    const pid_t child = fork();
    if (child == 0) {
        dup2(fileno(source), STDIN_FILENO);
        dup2(result[1], STDOUT_FILENO);
        close(result[0]);
        execlp("dot", "dot", flag, (char *)NULL);
        _exit(127);
    }
    close(result[1]);
    ssize_t got;
    while ((got = read(result[0], bytes, sizeof bytes)) > 0 || (got < 0 && errno == EINTR))
        if (got > 0)
            s2_buf_add(out, bytes, (size_t)got);
    close(result[0]);
    fclose(source);
    int ended = 1;
    while (child > 0 && waitpid(child, &ended, 0) < 0 && errno == EINTR)
        continue;
    if (child > 0 && WIFEXITED(ended) && WEXITSTATUS(ended) == 0)
        return S2_GO_ON;
    s2_cli_error(cli, "the program dot (Graphviz) is needed for %s, and did not run", form);
    s2_cli_hint(cli, "apt-get install graphviz, or --as dot");
    return S2_EXIT_ENVIRONMENT;
}

static int draw_flow(s2_cli *cli, const request *at, s2_buf *buf)
{
    s2_buf graph = {0};
    const s2_status status = s2_picture_flow_dot(&at->input.pattern, at->n_tok, &graph);
    int end = status == S2_OK ? S2_GO_ON : s2_cli_fail(cli, status, "draw");
    if (end == S2_GO_ON && strcmp(at->form, "dot") == 0)
        s2_buf_add(buf, graph.data, graph.len);
    else if (end == S2_GO_ON && (strcmp(at->form, "svg") == 0 || strcmp(at->form, "png") == 0))
        end = run_dot(cli, at->form, &graph, buf);
    else if (end == S2_GO_ON) {
        s2_cli_error(cli, "flow is drawn as dot, svg or png");
        end = S2_EXIT_USAGE;
    }
    s2_buf_release(&graph);
    return end;
}

static int draw_kv(s2_cli *cli, const request *at, s2_buf *buf)
{
    if (strcmp(at->form, "svg") != 0) {
        s2_cli_error(cli, "kv is drawn as svg");
        return S2_EXIT_USAGE;
    }
    const s2_status status = s2_picture_kv_svg(&at->input.pattern, at->n_tok, buf);
    return status == S2_OK ? S2_GO_ON : s2_cli_fail(cli, status, "draw");
}

static int deliver(s2_cli *cli, const request *at, s2_buf *buf)
{
    s2_diag diag = {0};
    if (at->output == NULL)
        return s2_cli_print(cli, buf);
    s2_status status = buf->status;
    if (status == S2_OK)
        status = s2_file_write(at->output, buf->data, buf->len, &diag);
    s2_buf_release(buf);
    if (status == S2_OK)
        return S2_GO_ON;
    s2_cli_error(cli, "%s", diag.msg[0] != '\0' ? diag.msg : s2_status_text(status));
    return s2_exit_of(status);
}

static int read_request(s2_cli *cli, const s2_args *args, request *at)
{
    int end = s2_args_int(cli, args, "len", 1, 1 << 20, &at->n_tok);
    if (end == S2_GO_ON)
        end = s2_input_read(cli, args->operands[0], &at->input);
    if (end == S2_GO_ON)
        end = s2_args_int(cli, args, "layer", 0, at->input.pattern.n_layers - 1, &at->layer);
    if (end == S2_GO_ON)
        end = read_head(cli, args, at);
    at->what = s2_args_str(args, "what");
    at->output = s2_args_str(args, "output");
    at->form = form_of(args, at->what, at->output);
    return end;
}

int s2_cmd_draw(s2_cli *cli, int argc, char **argv)
{
    s2_args args;
    request at = {0};
    s2_buf buf = {0};
    int end = s2_args_parse(cli, "draw", argc, argv, &args);
    if (end == S2_GO_ON)
        end = read_request(cli, &args, &at);
    else
        return end;
    if (end == S2_GO_ON && strcmp(at.what, "flow") == 0)
        end = draw_flow(cli, &at, &buf);
    else if (end == S2_GO_ON && strcmp(at.what, "kv") == 0)
        end = draw_kv(cli, &at, &buf);
    else if (end == S2_GO_ON)
        end = draw_grid(cli, &at, &buf);
    if (end == S2_GO_ON)
        end = deliver(cli, &at, &buf);
    s2_buf_release(&buf);
    return end == S2_GO_ON ? S2_EXIT_OK : end;
}
