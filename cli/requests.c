#include "cli/requests.h"

#include "base/arith.h"
#include "base/work.h"
#include "cli/input.h"
#include "cli/textfile.h"
#include "report/requests.h"

s2_exit s2_requests_read(s2_cli *cli, const char *path, s2_sim_requests *out)
{
    char *text;
    size_t n_bytes;
    s2_diag diag = {0};
    S2_CLI_TRY(s2_textfile_read(cli, path, &text, &n_bytes));
    const s2_status status = s2_requests_parse(&cli->arena, text, n_bytes, out, &diag);
    return status == S2_OK ? S2_EXIT_OK : s2_input_refuse(cli, status, path, text, n_bytes, &diag);
}

static s2_exit serve(s2_cli *cli, bool dense, const s2_report_subject *subject, const s2_serving *serving,
                     const s2_sim_requests *requests, const s2_limit_pool *pool, s2_served *out)
{
    s2_diag diag = {0};
    const s2_status status = s2_requests_serve(&cli->arena, subject->pattern, dense, subject->options,
                                               serving, requests, out, &diag);
    if (status == S2_OK)
        return S2_EXIT_OK;
    s2_cli_error(cli, "%s%s", dense ? "the dense pattern beside it: " : "", s2_diag_text(&diag, status));
    if (!s2_work_goes_on(subject->options->work_left))
        s2_limit_hint(cli, pool);
    return status == S2_EINVAL ? S2_EXIT_USAGE : s2_exit_of(status);
}

int64_t s2_requests_longest(const s2_sim_requests *requests)
{
    int64_t len_tok = 0;
    for (int32_t at = 0; at < requests->n; at++)
        len_tok = s2_max_i64(len_tok, requests->requests[at].prompt_tok + requests->requests[at].output_tok);
    return len_tok;
}

s2_exit s2_requests_answer(s2_cli *cli, const s2_report_subject *subject, const s2_serving *serving,
                           const s2_sim_requests *requests, s2_limit_pool *pool, bool json)
{
    s2_served own, dense;
    s2_buf buf = {0};
    int64_t work_left = s2_limit_take(pool, pool->left); /* of both sides */
    s2_sim_options options = *subject->options;
    s2_report_subject bounded = *subject;
    options.work_left = &work_left;
    bounded.options = &options;
    s2_exit code = serve(cli, false, &bounded, serving, requests, pool, &own);
    if (code == S2_EXIT_OK)
        code = serve(cli, true, &bounded, serving, requests, pool, &dense);
    s2_limit_spent(pool, work_left);
    S2_CLI_TRY(code);
    if (json)
        s2_requests_json(subject, serving, requests, &own, &dense, &buf);
    else
        s2_requests_text(subject, serving, requests, &own, &dense, &buf);
    return s2_cli_print(cli, &buf);
}
