#include "judge/plug.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/arith.h"
#include "base/clock.h"
#include "base/hear.h"
#include "base/text.h"
#include "judge/handover.h"
#include "judge/s2_kernel_plug.h"
#include "judge/validate.h"
#include "pattern/blocks.h"
#include "pattern/dense.h"
#include "pattern/parse.h"

/* The child's report: it writes this, and it is read when the child has ended. */
typedef struct s2_plug_words {
    int32_t passes; /* passes that the object exports: bit s2_pass */
    bool returned;  /* the call returned, with this code: an exit code has only eight bits */
    int code;
    double ms;       /* of the call only */
    char rounds[16]; /* what the object says that it rounds; "" where it says nothing */
    char error[400];
} s2_plug_words;

enum { LOOK_MS = 50 };

/* An s2_kernel has no data of its own, so there is one plug per process. */
static struct {
    char path[400];
    char name[40];
    double limit_s;
    int32_t passes;
    s2_plug_words *words; /* shared with children */
    s2_hear hear;
} plug;

static const char *const symbols[S2_N_PASSES] = {
    [S2_PASS_FORWARD] = "s2_plug_forward",
    [S2_PASS_BACKWARD] = "s2_plug_backward",
    [S2_PASS_DECODE] = "s2_plug_decode",
};

/* ------------------------------------------------------------------ in the child */

/* dlsym() gives an object pointer; POSIX says that it may be read as one to a function. */
static void find_symbol(void *object, const char *symbol, void *function, size_t n_bytes)
{
    void *const found = dlsym(object, symbol);
    memcpy(function, &found, n_bytes);
}

static void *open_object(void)
{
    int (*version)(void) = NULL;
    struct stat info;
    if (stat(plug.path, &info) == 0 &&
        !S_ISREG(info.st_mode)) { /* the loader would wait for a pipe's writer */
        snprintf(plug.words->error, sizeof plug.words->error, "%.380s is no file", plug.path);
        return NULL;
    }
    void *const object = dlopen(plug.path, RTLD_NOW | RTLD_LOCAL);
    if (object == NULL) {
        snprintf(plug.words->error, sizeof plug.words->error, "%.380s", dlerror());
        return NULL;
    }
    find_symbol(object, "s2_plug_version", &version, sizeof version);
    if (version != NULL && version() == S2_PLUG_VERSION)
        return object;
    snprintf(plug.words->error, sizeof plug.words->error,
             "%.200s is not of version %d of s2_kernel_plug.h: s2_plug_version() %s", plug.path,
             S2_PLUG_VERSION, version == NULL ? "is missing" : "returns another number");
    return NULL;
}

static int look(const s2_attn_problem *problem)
{
    (void)problem;
    void *const object = open_object();
    if (object == NULL)
        return S2_PLUG_UNSUPPORTED;
    for (int32_t pass = 0; pass < S2_N_PASSES; pass++)
        plug.words->passes |= (dlsym(object, symbols[pass]) != NULL) << pass;
    const char *(*rounds)(void) = NULL;
    find_symbol(object, "s2_plug_rounds", &rounds, sizeof rounds);
    const char *const said = rounds != NULL ? rounds() : NULL;
    snprintf(plug.words->rounds, sizeof plug.words->rounds, "%s", said != NULL ? said : "");
    return S2_PLUG_OK;
}

static int reads(const s2_plug_problem *asked, int32_t seq, int32_t head, int64_t q, int64_t k)
{
    const s2_plan *const plan = ((const s2_attn_problem *)asked->own)->plan;
    const s2_plan_seq lens = plan->seqs[seq];
    return s2_pattern_reads(plan->pattern, plan->phase, plan->layer, head, lens.k_tok,
                            lens.k_tok - lens.q_tok + q, k);
}

/* The lists stay until the process ends, which is right after the call. */
static int blocks(const s2_plug_problem *asked, int32_t seq, int32_t head, int32_t block_tok,
                  s2_plug_blocks *out)
{
    static s2_arena arena;
    const s2_plan *const plan = ((const s2_attn_problem *)asked->own)->plan;
    s2_view view;
    s2_blocks lists;
    if (!s2_is_power_of_two(block_tok))
        return 1;
    if (s2_view_build(&arena, plan->pattern, plan->phase, plan->layer, head, S2_AT_MOST, &view) != S2_OK ||
        s2_blocks_build(&arena, &view, plan->seqs[seq].k_tok, block_tok, NULL, &lists) != S2_OK)
        return 1;
    *out = (s2_plug_blocks){lists.n_q_blk, lists.n_k_blk, lists.row_begin, lists.k_blk, lists.full};
    return 0;
}

static s2_plug_tensor tensor_of(const s2_tensor *tensor)
{
    return (s2_plug_tensor){tensor->data, tensor->seq, tensor->tok, tensor->head};
}

/* q_tok, then k_tok of every sequence. */
static void fill_lengths(const s2_plan *plan, int32_t *lengths)
{
    for (int32_t seq = 0; seq < plan->n_seqs; seq++) {
        lengths[seq] = plan->seqs[seq].q_tok;
        lengths[plan->n_seqs + seq] = plan->seqs[seq].k_tok;
    }
}

static s2_plug_problem describe(const s2_attn_problem *p, const int32_t *lengths, const char *pattern)
{
    static const int32_t dtypes[S2_N_DTYPES] = {
        [S2_F32] = S2_PLUG_F32, [S2_BF16] = S2_PLUG_BF16, [S2_F16] = S2_PLUG_F16};
    return (s2_plug_problem){.dtype = dtypes[p->dtype],
                             .n_seqs = p->n_seqs,
                             .n_heads = p->n_heads,
                             .n_kv_heads = p->n_kv_heads,
                             .head_dim = p->head_dim,
                             .causal = p->plan->pattern->causal,
                             .scale = p->scale,
                             .q_tok = lengths,
                             .k_tok = lengths + p->n_seqs,
                             .q_begin = p->q_begin_tok,
                             .k_begin = p->k_begin_tok,
                             .q = tensor_of(&p->q),
                             .k = tensor_of(&p->k),
                             .v = tensor_of(&p->v),
                             .o = tensor_of(&p->o),
                             .lse = {p->lse.data, p->lse.seq, p->lse.head},
                             .d_o = tensor_of(&p->d_o),
                             .d_q = tensor_of(&p->d_q),
                             .d_k = tensor_of(&p->d_k),
                             .d_v = tensor_of(&p->d_v),
                             .pattern = pattern,
                             .layer = p->plan->layer,
                             .reads = reads,
                             .blocks = blocks,
                             .own = p,
                             .error = plug.words->error,
                             .error_cap = sizeof plug.words->error};
}

static int compute(const s2_attn_problem *problem)
{
    int (*function)(const s2_plug_problem *) = NULL;
    s2_arena arena = {0};
    s2_buf pattern = {0};
    void *const object = open_object();
    if (object == NULL)
        return S2_PLUG_UNSUPPORTED;
    int32_t *const lengths = S2_NEW(&arena, int32_t, 2 * (int64_t)problem->n_seqs);
    s2_pattern_print(problem->plan->pattern, &pattern);
    find_symbol(object, symbols[problem->pass], &function, sizeof function);
    if (lengths == NULL || pattern.status != S2_OK || function == NULL)
        return S2_PLUG_FAILED;
    fill_lengths(problem->plan, lengths);
    const s2_plug_problem asked = describe(problem, lengths, pattern.data);
    const double begin_ms = s2_steady_s() * 1e3;
    const int code = function(&asked);
    plug.words->ms = s2_steady_s() * 1e3 - begin_ms;
    return code;
}

/* ------------------------------------------------------------------ around it */

/* The child's output goes to stderr: stdout is for the report, and stdin may hold designs. It ends with its parent. */
static void become_child(int (*work)(const s2_attn_problem *), const s2_attn_problem *problem)
{
    setpgid(0, 0);           /* a signal to its group must not reach ours */
    signal(SIGBUS, SIG_DFL); /* its end is told as any other signal's */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(plug.hear.child, STDERR_FILENO);
    dup2(plug.hear.child, STDOUT_FILENO);
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
    plug.words->code = work(problem);
    plug.words->returned = true;
    fflush(NULL);
    _exit(0);
}

static s2_status conclude(int ended, s2_diag *why)
{
    char said[sizeof plug.words->error];
    plug.words->error[sizeof plug.words->error - 1] = '\0';
    s2_text_clean(said, sizeof said, plug.words->error);
    if (WIFSIGNALED(ended))
        return s2_diag_set(why, S2_ECUDA, 0, 0, 0, "%s was ended by signal %d (%s)", plug.name,
                           WTERMSIG(ended), strsignal(WTERMSIG(ended)));
    if (!plug.words->returned)
        return s2_diag_set(why, S2_ECUDA, 0, 0, 0,
                           "%s ended its process with exit code %d inside of the call", plug.name,
                           WEXITSTATUS(ended));
    if (plug.words->code == S2_PLUG_OK)
        return S2_OK;
    if (plug.words->code == S2_PLUG_UNSUPPORTED)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "%.200s",
                           said[0] != '\0' ? said : "the plug does not take this problem");
    return s2_diag_set(why, S2_ECUDA, 0, 0, 0, "%s failed with %d: %.180s", plug.name, plug.words->code,
                       said[0] != '\0' ? said : "it does not say why");
}

static bool has_ended(pid_t child)
{
    siginfo_t about = {0};
    return waitid(P_PID, (id_t)child, &about, WEXITED | WNOHANG | WNOWAIT) == 0 && about.si_pid == child;
}

/*
 * The pipe closes when the child ends. It says no more than that it is time to look: the child may have closed it by
 * itself, and what the child started may hold it open.
 */
static bool is_late(pid_t child, int alive)
{
    const double deadline = plug.limit_s > 0.0 ? s2_steady_s() + plug.limit_s : INFINITY;
    struct pollfd fd = {.fd = alive};
    while (!has_ended(child)) {
        if (s2_steady_s() >= deadline)
            return true;
        const bool closed = (fd.revents & POLLHUP) != 0;
        poll(&fd, closed ? 0 : 1, closed ? 1 : (int)fmin(LOOK_MS, ceil((deadline - s2_steady_s()) * 1e3)));
    }
    return false;
}

static s2_status in_child(int (*work)(const s2_attn_problem *), const s2_attn_problem *problem, s2_diag *why)
{
    int ended = 0, alive[2];
    if (pipe2(alive, O_CLOEXEC) != 0)
        return s2_diag_set(why, S2_ENOMEM, 0, 0, 0, "no pipe for %s", plug.name);
    memset(plug.words, 0, sizeof *plug.words);
    fflush(NULL); /* buffered output would be written twice */
    const pid_t child = s2_hear_open(&plug.hear, plug.name, STDERR_FILENO) == S2_OK ? fork() : -1;
    if (child < 0) {
        s2_hear_close(&plug.hear);
        close(alive[0]);
        close(alive[1]);
        return s2_diag_set(why, S2_ENOMEM, 0, 0, 0, "no process for %s", plug.name);
    }
    if (child == 0)
        become_child(work, problem);
    close(alive[1]);
    setpgid(child, child); /* whichever comes first */
    const bool late = is_late(child, alive[0]);
    close(alive[0]);
    kill(-child, SIGKILL); /* with all that it started */
    if (late)
        kill(child, SIGKILL);
    pid_t gone;
    while ((gone = waitpid(child, &ended, 0)) < 0 && errno == EINTR) {
    }
    s2_hear_close(&plug.hear);
    if (gone < 0)
        return s2_diag_set(why, S2_EIO, 0, 0, 0, "the process of %s was lost", plug.name);
    if (late)
        return s2_diag_set(why, S2_ECUDA, S2_OUTCOME_TIMEOUT, 0, 0, "%s did not come back within %s s",
                           plug.name, s2_decimal(plug.limit_s, 6).text);
    return conclude(ended, why);
}

/* ------------------------------------------------------------------ the contract */

static s2_status supports(const s2_device *device, const s2_attn_problem *problem, s2_diag *why)
{
    (void)device;
    if ((plug.passes >> problem->pass & 1) == 0)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "%s exports no %s", plug.name,
                           symbols[problem->pass]);
    if (problem->cached != NULL || problem->select_pages > 0)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "a plug reads no cache");
    return S2_OK;
}

static s2_status prepare(s2_device *device, const s2_attn_problem *problem, void **state, s2_diag *why)
{
    S2_TRY(s2_problem_check(problem, why));
    S2_TRY(supports(device, problem, why));
    *state = &plug;
    return S2_OK;
}

static s2_status run(s2_device *device, const s2_attn_problem *problem, void *state, s2_diag *why)
{
    (void)state;
    const uint64_t inputs = s2_handover_inputs(device, problem);
    S2_TRY(in_child(compute, problem, why));
    if (inputs != s2_handover_inputs(device, problem))
        return s2_diag_set(why, S2_ECUDA, S2_OUTCOME_OUT_OF_BOUNDS, 0, 0,
                           "%s changed what it may only read: an input tensor", plug.name);
    return S2_OK;
}

static s2_status time_there(s2_device *device, const s2_attn_problem *problem, void *state, int32_t n,
                            float *ms, int32_t *n_made, s2_diag *why)
{
    for (*n_made = 0; *n_made < n; ++*n_made) {
        S2_TRY(run(device, problem, state, why));
        ms[*n_made] = (float)plug.words->ms;
    }
    return S2_OK;
}

static void finish(s2_device *device, void *state)
{
    (void)device;
    (void)state;
}

s2_status s2_plug_open(const char *path, double limit_s, const s2_kernel **out, s2_diag *why)
{
    static const s2_kernel_elsewhere elsewhere = {.versions = "", .time = time_there};
    static const s2_kernel_traits traits = {.name = plug.name,
                                            .tile_tok = 64,
                                            .pack_heads = 1,
                                            .key_tok = 64,
                                            .wide_key_tok = 64,
                                            .column_tok = 64};
    static s2_kernel kernel = {.traits = &traits,
                               .summary = "a kernel of somebody else",
                               .device = S2_DEVICE_CPU,
                               .tolerance = S2_TOL_ROUNDED_P,
                               .deterministic = true,
                               .supports = supports,
                               .prepare = prepare,
                               .run = run,
                               .finish = finish,
                               .elsewhere = &elsewhere};
    const char *const slash = strrchr(path, '/');
    char said[sizeof plug.words->rounds];
    if (strlen(path) >= sizeof plug.path)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "the path of the shared object is too long");
    s2_text_clean(plug.name, sizeof plug.name, slash != NULL ? slash + 1 : path);
    memcpy(plug.path, path, strlen(path) + 1);
    plug.limit_s = limit_s;
    plug.words = mmap(NULL, sizeof *plug.words, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (plug.words == MAP_FAILED)
        return S2_ENOMEM;
    S2_TRY(in_child(look, NULL, why));
    plug.passes = plug.words->passes;
    if (plug.passes == 0)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0,
                           "%s exports none of s2_plug_forward, s2_plug_backward and s2_plug_decode",
                           plug.name);
    plug.words->rounds[sizeof plug.words->rounds - 1] = '\0';
    s2_text_clean(said, sizeof said, plug.words->rounds);
    if (said[0] != '\0' && !s2_handover_tolerance(said, &kernel.tolerance))
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0,
                           "s2_plug_rounds() of %s returns '%s', expected output, weights, sums or scores",
                           plug.name, said);
    *out = &kernel;
    return S2_OK;
}
