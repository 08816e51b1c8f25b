/*
 * libFuzzer on the other files that come from elsewhere, one kind for each name of the program: fuzz_files_cert,
 * fuzz_files_space, fuzz_files_npy, fuzz_files_db. What is taken must be what it says it is; all else is refused.
 */
#include <fcntl.h>
#include <sha2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cert/cert.h"
#include "coverage/prove.h"
#include "db/db.h"
#include "pattern/mask.h"
#include "pattern/parse.h"
#include "search/space.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void require(bool truth)
{
    if (!truth)
        abort();
}

/* ---- certificates: the input is the text, sealed under its own hash */

static void prove_again(const char *text, size_t n)
{
    static const s2_requirement asked[] = {{S2_ROWS, 0, true}, {S2_UNION, 0, true}};
    const s2_parse_options options = {.no_files = true};
    const s2_prove_options open = {.n_tok = S2_OPEN};
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_finding found[2];
    require(s2_pattern_parse(&arena, text, n, &options, &pattern, NULL) == S2_OK);
    require(s2_prove(&arena, &pattern, asked, 2, &open, found) == S2_OK);
    require(found[0].verdict != S2_VIOLATED && found[1].verdict != S2_VIOLATED);
    s2_arena_release(&arena);
}

static void try_cert(const uint8_t *data, size_t n)
{
    char hash[SHA256_DIGEST_STRING_LENGTH];
    s2_buf text = {0};
    s2_cert_answer answer;
    SHA256Data(data, n, hash);
    s2_buf_printf(&text, "s2cert 1 %s %zu\n", hash, n);
    const size_t n_head = text.len;
    s2_buf_add(&text, (const char *)data, n);
    s2_buf_puts(&text, "claims rows union\nend\n");
    s2_cert_check(text.data, text.len, 1e5, &answer);
    for (const char *byte = answer.reason; *byte != '\0'; byte++)
        require(*byte >= ' ' && *byte <= '~');
    if (answer.verdict == S2_CERT_VERIFIED)
        prove_again(text.data + n_head, n);
    s2_buf_release(&text);
    s2_cert_check((const char *)data, n, 1e5, &answer); /* and as a whole certificate */
}

/* ---- spaces, arrays, databases */

/* A candidate has a text, and each of its numbers stands at an edge of its choices or between. */
static void try_candidate(const s2_space *space, int64_t index)
{
    s2_buf text = {0};
    s2_space_expand(space, index, &text);
    require(text.status == S2_OK);
    for (int32_t piece = 0; piece < space->n_pieces; piece++) {
        int64_t value = 0;
        const int32_t edge =
            space->pieces[piece].n_choices > 0 ? s2_space_edge(space, index, piece, &value) : 0;
        require(edge >= -1 && edge <= 1);
    }
    s2_buf_release(&text);
}

/* What is proposed for a shape is a space. */
static void propose(const uint8_t *data, size_t n)
{
    s2_arena arena = {0};
    s2_buf text = {0};
    s2_space space;
    s2_diag diag = {0};
    if (n >= 3 && s2_space_propose(data[0], data[1], (int32_t)(data[2] % 8) - 1, NULL, &text) == S2_OK)
        require(s2_space_parse(&arena, text.data, text.len, &space, &diag) == S2_OK);
    s2_buf_release(&text);
    s2_arena_release(&arena);
}

static void try_space(const uint8_t *data, size_t n)
{
    propose(data, n);
    s2_arena arena = {.limit_bytes = (size_t)512 << 20};
    s2_space space;
    s2_diag diag = {0};
    const s2_status status = s2_space_parse(&arena, (const char *)data, n, &space, &diag);
    require(status == S2_OK || status == S2_ENOMEM ||
            (diag.line >= 1 && diag.col >= 1 && diag.msg[0] != '\0'));
    if (status == S2_OK) {
        require(space.n_candidates >= 1);
        try_candidate(&space, 0);
        try_candidate(&space, space.n_candidates / 2);
        try_candidate(&space, space.n_candidates - 1);
    }
    s2_arena_release(&arena);
}

static int file_of(const void *bytes, size_t n, char path[32])
{
    const int fd = memfd_create("npy", 0);
    require(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    snprintf(path, 32, "/proc/self/fd/%d", fd);
    return fd;
}

/* A mask that is written cell by cell, without packing, is the same, but for what a packed one holds beyond its rows. */
static void write_again(const s2_mask *mask)
{
    enum { MOST_CELLS = 1 << 16 };
    const int64_t shape[3] = {mask->n_heads, mask->n_q_blk, mask->n_k_blk};
    if (shape[1] > MOST_CELLS || shape[2] > MOST_CELLS || shape[0] * shape[1] > MOST_CELLS ||
        shape[0] * shape[1] * shape[2] > MOST_CELLS)
        return;
    char path[32];
    s2_arena arena = {0};
    s2_buf bytes = {0};
    s2_mask again;
    s2_diag diag = {0};
    require(s2_npy_header("|b1", shape, 3, &bytes) == S2_OK);
    for (int32_t head = 0; head < shape[0]; head++)
        for (int64_t q_blk = 0; q_blk < shape[1]; q_blk++)
            for (int64_t k_blk = 0; k_blk < shape[2]; k_blk++)
                s2_buf_add(&bytes, s2_mask_allows(mask, head, q_blk, k_blk) ? "\1" : "", 1);
    const int fd = file_of(bytes.data, bytes.len, path);
    require(s2_mask_load(&arena, path, &again, &diag) == S2_OK);
    require((mask->packed && mask->n_k_blk % 8 != 0) || strcmp(again.digest, mask->digest) == 0);
    s2_mask_unload(&again);
    close(fd);
    s2_buf_release(&bytes);
    s2_arena_release(&arena);
}

static void try_npy(const uint8_t *data, size_t n)
{
    char path[32];
    const int fd = file_of(data, n, path);
    s2_arena arena = {0};
    s2_mask mask;
    s2_diag diag = {0};
    const s2_status status = s2_mask_load(&arena, path, &mask, &diag);
    if (status == S2_OK) {
        require(mask.n_q_blk >= 1 && mask.n_k_blk >= 1);
        write_again(&mask);
        s2_mask_unload(&mask);
    }
    require(status == S2_OK || status == S2_ENOMEM || diag.msg[0] != '\0');
    close(fd);
    s2_arena_release(&arena);
}

static void write_file(const char *path, const void *bytes, size_t n)
{
    const int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    require(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    close(fd);
}

s2_status __real_s2_db_open(const char *path, s2_db_mode mode, s2_db **out, s2_diag *diag);
s2_status __wrap_s2_db_open(const char *path, s2_db_mode mode, s2_db **out, s2_diag *diag);

/* A database without rows at `path`, or in place of an empty file. */
static void copy_empty(const char *path)
{
    static char empty[1 << 18];
    static size_t n_empty;
    if (n_empty == 0) {
        s2_db *db;
        unlink(path);
        require(__real_s2_db_open(path, S2_DB_WRITE, &db, NULL) == S2_OK);
        s2_db_close(&db);
        FILE *const file = fopen(path, "rb");
        require(file != NULL && (n_empty = fread(empty, 1, sizeof empty, file)) > 0 && fgetc(file) == EOF);
        fclose(file);
    }
    write_file(path, empty, n_empty);
}

/* All steps of the schema take far longer than reading a small file: what is made anew begins as a copy. */
s2_status __wrap_s2_db_open(const char *path, s2_db_mode mode, s2_db **out, s2_diag *diag)
{
    struct stat about;
    if (mode == S2_DB_WRITE && (stat(path, &about) != 0 || about.st_size == 0))
        copy_empty(path);
    return __real_s2_db_open(path, mode, out, diag);
}

/* A file from elsewhere is refused, or merged, and what it was merged into is sound. */
static void merge_into_new(s2_db *other, const char *path)
{
    s2_db *db;
    s2_db_merged merged;
    s2_buf findings = {0};
    unlink(path);
    require(s2_db_open(path, S2_DB_WRITE, &db, NULL) == S2_OK);
    (void)s2_db_merge(db, other, &merged, NULL);
    require(s2_db_verify(db, &findings, NULL) == S2_OK && findings.len == 0);
    s2_buf_release(&findings);
    s2_db_close(&db);
}

/* Bytes of the file, up to the log that follows it at a whole page, as FILE-wal would begin. */
static size_t before_log(const uint8_t *data, size_t n)
{
    static const uint8_t magic[] = {0x37, 0x7f, 0x06, 0x82, 0x00, 0x2d, 0xe2, 0x18};
    enum { PAGE = 512 };
    for (size_t at = PAGE; at + sizeof magic <= n; at += PAGE)
        if (memcmp(data + at, magic, sizeof magic) == 0)
            return at;
    return n;
}

static void try_db(const uint8_t *data, size_t n)
{
    static char path[64], into[64], log[80];
    const size_t n_file = before_log(data, n);
    snprintf(path, sizeof path, "/dev/shm/s2-fuzz-%d.db", (int)getpid());
    snprintf(into, sizeof into, "/dev/shm/s2-fuzz-%d.into.db", (int)getpid());
    snprintf(log, sizeof log, "%s-wal", path);
    write_file(path, data, n_file);
    if (n_file < n)
        write_file(log, data + n_file, n - n_file);
    s2_db *db = NULL;
    s2_db_recovered found;
    s2_diag diag = {0};
    if (s2_db_open(path, S2_DB_UNTRUSTED, &db, &diag) == S2_OK) {
        merge_into_new(db, into);
        s2_db_close(&db);
    } else {
        require(diag.msg[0] != '\0');
        (void)s2_db_recover(path, into, true, &found, NULL);
    }
    if (n_file < n) {
        (void)s2_db_recover(path, into, true, &found, NULL);
        unlink(log);
    }
}

static void (*try_file)(const uint8_t *data, size_t n);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const struct {
        const char *name;
        void (*run)(const uint8_t *data, size_t n);
    } kinds[] = {{"cert", try_cert}, {"space", try_space}, {"npy", try_npy}, {"db", try_db}};
    const char *const name = strstr((*argv)[0], "fuzz_files_");
    (void)argc;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds && name != NULL; k++)
        if (strcmp(name + strlen("fuzz_files_"), kinds[k].name) == 0)
            try_file = kinds[k].run;
    if (try_file == NULL) {
        fprintf(stderr, "fuzz_files_cert, _space, _npy or _db\n");
        exit(2);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    try_file(data, n);
    return 0;
}
