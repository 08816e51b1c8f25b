#include "search/ranks.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#ifndef S2_HAVE_MPI
#define S2_HAVE_MPI 0
#endif

static void keep_own(const s2_buf *own, s2_buf *out)
{
    s2_buf_add(out, own->data, own->len);
    if (own->status != S2_OK)
        out->status = own->status;
}

#if S2_HAVE_MPI

#include <limits.h>
#include <mpi.h>

enum { TAG_TEXT = 1, EXIT_LOST = 5 };

/* Variables that launchers set; without any of them the program was started by hand. */
static bool was_launched(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++)
        if (getenv(names[n]) != NULL)
            return true;
    return false;
}

int64_t s2_ranks_apart(void)
{
    return 1;
}

s2_ranks s2_ranks_join(void)
{
    s2_ranks ranks = {.n = 1, .n_here = 1};
    if (!was_launched() || MPI_Init(NULL, NULL) != MPI_SUCCESS)
        return ranks;
    MPI_Comm here;
    MPI_Comm_rank(MPI_COMM_WORLD, &ranks.own);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks.n);
    if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here) == MPI_SUCCESS) {
        MPI_Comm_size(here, &ranks.n_here);
        MPI_Comm_free(&here);
    }
    return ranks;
}

void s2_ranks_leave(const s2_ranks *ranks)
{
    int joined = 0;
    (void)ranks;
    MPI_Initialized(&joined);
    if (joined)
        MPI_Finalize();
}

int64_t s2_ranks_most(const s2_ranks *ranks, int64_t value)
{
    long long own = value, most = value;
    if (ranks->n > 1)
        MPI_Allreduce(&own, &most, 1, MPI_LONG_LONG, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

/* MPI counts messages in int. */
static void require(bool good)
{
    if (!good)
        MPI_Abort(MPI_COMM_WORLD, EXIT_LOST);
}

static void receive(int32_t from, s2_buf *out)
{
    MPI_Status status;
    int n_bytes = 0;
    MPI_Probe(from, TAG_TEXT, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_CHAR, &n_bytes);
    char *const bytes = s2_malloc((size_t)n_bytes + 1);
    require(bytes != NULL);
    MPI_Recv(bytes, n_bytes, MPI_CHAR, from, TAG_TEXT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    s2_buf_add(out, bytes, (size_t)n_bytes);
    s2_free(bytes);
    require(out->status == S2_OK);
}

void s2_ranks_gather(const s2_ranks *ranks, const s2_buf *own, s2_buf *all)
{
    if (ranks->n == 1) {
        keep_own(own, &all[0]);
        return;
    }
    require(own->status == S2_OK && own->len <= INT_MAX);
    if (ranks->own != 0) {
        MPI_Send(own->data, (int)own->len, MPI_CHAR, 0, TAG_TEXT, MPI_COMM_WORLD);
        return;
    }
    keep_own(own, &all[0]);
    require(all[0].status == S2_OK);
    for (int32_t rank = 1; rank < ranks->n; rank++)
        receive(rank, &all[rank]);
}

void s2_ranks_share(const s2_ranks *ranks, s2_buf *text)
{
    long long n_bytes = (long long)text->len;
    if (ranks->n == 1)
        return;
    require(text->status == S2_OK && n_bytes <= INT_MAX);
    MPI_Bcast(&n_bytes, 1, MPI_LONG_LONG, 0, MPI_COMM_WORLD);
    char *const bytes = s2_malloc((size_t)n_bytes + 1);
    require(bytes != NULL);
    if (ranks->own == 0 && n_bytes > 0)
        memcpy(bytes, text->data, (size_t)n_bytes);
    MPI_Bcast(bytes, (int)n_bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (ranks->own != 0)
        s2_buf_add(text, bytes, (size_t)n_bytes);
    s2_free(bytes);
    require(text->status == S2_OK);
}

#else

int64_t s2_ranks_apart(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++)
        if (getenv(names[n]) != NULL && strtoll(getenv(names[n]), NULL, 10) > 1)
            return strtoll(getenv(names[n]), NULL, 10);
    return 1;
}

s2_ranks s2_ranks_join(void)
{
    return (s2_ranks){.n = 1, .n_here = 1};
}

void s2_ranks_leave(const s2_ranks *ranks)
{
    (void)ranks;
}

int64_t s2_ranks_most(const s2_ranks *ranks, int64_t value)
{
    (void)ranks;
    return value;
}

void s2_ranks_gather(const s2_ranks *ranks, const s2_buf *own, s2_buf *all)
{
    (void)ranks;
    keep_own(own, &all[0]);
}

void s2_ranks_share(const s2_ranks *ranks, s2_buf *text)
{
    (void)ranks;
    (void)text;
}

#endif
