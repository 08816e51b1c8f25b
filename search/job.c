#include "search/job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { STORED_LINE = 21, MOST_FILE_BYTES = 1 << 28 };

void s2_search_job_release(s2_search_job *job)
{
    for (int32_t rank = 0; rank < job->ranks.n; rank++)
        s2_buf_release(&job->states[rank]);
}

void s2_search_job_part(const s2_search_job *job, int32_t rank, s2_search *search)
{
    __extension__ typedef __int128 wide;
    const wide n = job->until - job->begin;
    if (job->ranks.n == 1)
        return;
    search->begin = job->begin + (int64_t)(n * rank / job->ranks.n);
    search->end = job->begin + (int64_t)(n * (rank + 1) / job->ranks.n);
}

s2_status s2_search_job_collect(s2_search_job *job, const s2_search *search, const s2_search_state *state)
{
    s2_buf own = {0};
    s2_search_job_release(job);
    s2_search_state_print(search, state, job->key, &own);
    s2_ranks_gather(&job->ranks, &own, job->states);
    s2_buf_release(&own);
    return job->states[0].status;
}

static void add_state(s2_search_state *sum, const s2_search_state *part)
{
    s2_search_counts_add(&sum->counts, &part->counts);
    if (part->refused_index >= 0 && (sum->refused_index < 0 || part->refused_index < sum->refused_index))
        sum->refused_index = part->refused_index;
}

s2_status s2_search_job_join(const s2_search_job *job, s2_search *search, s2_search_state *state)
{
    s2_search whole = *search;
    s2_search_state sum, part;
    whole.begin = job->begin;
    whole.end = job->end;
    s2_search_state_init(&whole, &sum);
    s2_status status = S2_OK;
    for (int32_t rank = 0; rank < job->ranks.n && status == S2_OK; rank++) {
        const s2_buf *const text = &job->states[rank];
        s2_search own = whole;
        s2_search_job_part(job, rank, &own);
        status = s2_search_state_parse(&own, job->key, text->data, text->len, &part, NULL);
        if (status != S2_OK)
            break;
        add_state(&sum, &part);
        sum.next += part.next - own.begin;
        status = s2_front_add(&sum.front, part.front.points, part.front.n);
        s2_search_state_release(&part);
    }
    s2_search_state_release(status == S2_OK ? state : &sum);
    if (status != S2_OK)
        return status;
    *search = whole;
    *state = sum;
    return S2_OK;
}

/* ---- the file */

s2_status s2_search_job_write(const s2_search_job *job, int64_t stored_us)
{
    s2_output out;
    if (job->path == NULL)
        return S2_OK;
    S2_TRY(s2_output_open(&out, job->path));
    bool good = fprintf(out.file, "%020lld\n", (long long)stored_us) > 0;
    for (int32_t rank = 0; rank < job->ranks.n && good; rank++) {
        const s2_buf *const text = &job->states[rank];
        good = fprintf(out.file, "rank %d of %d: %zu bytes\n", (int)rank, (int)job->ranks.n, text->len) > 0 &&
               fwrite(text->data, 1, text->len, out.file) == text->len;
    }
    const int error = errno;
    S2_TRY(s2_output_close(&out, good));
    errno = error;
    return good ? S2_OK : S2_EIO;
}

/* The text of rank 0's file and a zero byte; nothing if there is no file. */
static s2_status read_file(const s2_search_job *job, s2_arena *arena, s2_buf *text)
{
    char *bytes;
    size_t n;
    const s2_status status = s2_bytes_read(arena, job->path, MOST_FILE_BYTES, &bytes, &n);
    if (status == S2_EIO && errno == ENOENT)
        return S2_OK;
    S2_TRY(status);
    s2_buf_add(text, bytes, n + 1);
    return text->status;
}

/* The state of one rank in the text, which ends in a zero byte; false when it is not there. */
static bool find_state(const char *text, size_t n_bytes, int32_t rank, int32_t n_ranks, const char **state,
                       size_t *n_state)
{
    size_t byte = STORED_LINE;
    for (int32_t now = 0; now <= rank; now++) {
        char line[64];
        const int n_line = snprintf(line, sizeof line, "rank %d of %d: ", (int)now, (int)n_ranks);
        if (byte >= n_bytes || strncmp(text + byte, line, (size_t)n_line) != 0)
            return false;
        char *end;
        const unsigned long long n = strtoull(text + byte + n_line, &end, 10);
        if (strncmp(end, " bytes\n", 7) != 0)
            return false;
        byte = (size_t)(end + 7 - text);
        if (n > n_bytes - byte)
            return false;
        *state = text + byte;
        *n_state = (size_t)n;
        byte += (size_t)n;
    }
    return true;
}

static s2_status take_state(const s2_search_job *job, const s2_search *search, const s2_buf *text,
                            s2_search_state *out, s2_diag *diag)
{
    s2_search_state state;
    const char *own = NULL;
    size_t n_own = 0;
    if (!find_state(text->data, text->len - 1, job->ranks.own, job->ranks.n, &own, &n_own))
        return s2_diag_set(diag, S2_EPARSE, 0, 0, 0, "the file is truncated or was changed");
    S2_TRY(s2_search_state_parse(search, job->key, own, n_own, &state, diag));
    s2_search_state_release(out);
    *out = state;
    return S2_OK;
}

s2_status s2_search_job_resume(const s2_search_job *job, const s2_search *search, s2_arena *arena,
                               s2_search_state *state, s2_search_resumed *out, s2_diag *diag)
{
    s2_buf text = {0};
    s2_search_resumed resumed = {0};
    s2_status status = job->ranks.own == 0 ? read_file(job, arena, &text) : S2_OK;
    /* statuses are negative: if rank 0 cannot read the file, no rank waits for its text */
    if (s2_ranks_most(&job->ranks, -status) == 0) {
        s2_ranks_share(&job->ranks, &text);
        resumed.found = text.len > 0;
        if (resumed.found)
            status = take_state(job, search, &text, state, diag);
        if (resumed.found && status == S2_OK)
            resumed.stored_us = strtoll(text.data, NULL, 10);
    }
    s2_buf_release(&text);
    if (status == S2_OK)
        *out = resumed;
    return status;
}
