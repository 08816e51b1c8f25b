/*
 * Files are whole or not there. The linker puts the functions below before those of the C library, so that a
 * disk can refuse to sync, to close and to rename, and a file can change between two reads of it.
 */
#include "tests/s2test.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arith.h"
#include "base/file.h"
#include "base/rng.h"
#include "pattern/mask.h"

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);
ssize_t __real_read(int fd, void *to, size_t n);
ssize_t __wrap_read(int fd, void *to, size_t n);
ssize_t __real_pread(int fd, void *to, size_t n, off_t from);
ssize_t __wrap_pread(int fd, void *to, size_t n, off_t from);
ssize_t __wrap_pread64(int fd, void *to, size_t n, off_t from);

static struct {
    char dir[64];
    char path[96];
    int fail_fsync, fail_rename; /* errno, or 0 */
    bool synced;
    bool names_all; /* no file can be without a name, as where there is no /proc */
} at;

int __wrap_access(const char *path, int mode)
{
    errno = EACCES;
    return at.names_all ? -1 : __real_access(path, mode);
}

int __wrap_fsync(int fd)
{
    at.synced = true;
    errno = at.fail_fsync;
    return at.fail_fsync != 0 ? -1 : __real_fsync(fd);
}

/* A name is given only to what has been synced. */
int __wrap_rename(const char *from, const char *to)
{
    assert_true(at.synced);
    errno = at.fail_rename;
    return at.fail_rename != 0 ? -1 : __real_rename(from, to);
}

static int make_dir(void **state)
{
    (void)state;
    memset(&at, 0, sizeof at);
    snprintf(at.dir, sizeof at.dir, "/tmp/s2-file-XXXXXX");
    if (mkdtemp(at.dir) == NULL)
        return -1;
    snprintf(at.path, sizeof at.path, "%s/f", at.dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", at.dir);
    return system(command);
}

static void assert_holds(const char *path, const char *text)
{
    s2_arena arena = {0};
    char *data;
    size_t n;
    assert_int_equal(s2_bytes_read(&arena, path, 1000, &data, &n), S2_OK);
    assert_string_equal(data, text);
    s2_arena_release(&arena);
}

/* Nothing lies beside: the names in the folder are so many. */
static void assert_names(size_t n)
{
    char pattern[96];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/*", at.dir);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, n);
    globfree(&found);
}

static s2_status write_text(const char *path, const char *text, bool whole)
{
    s2_output out;
    at.synced = false;
    const s2_status status = s2_output_open(&out, path);
    if (status != S2_OK)
        return status;
    assert_int_not_equal(fputs(text, out.file), EOF);
    return s2_output_close(&out, whole);
}

static void what_is_whole_takes_the_place_and_keeps_the_mode(void **state)
{
    (void)state;
    struct stat info;
    char link[96];
    snprintf(link, sizeof link, "%s/l", at.dir);
    assert_int_equal(write_text(at.path, "first", true), S2_OK);
    assert_int_equal(chmod(at.path, 0600), 0);
    assert_int_equal(symlink("f", link), 0);
    assert_int_equal(write_text(link, "second", true), S2_OK);
    assert_holds(at.path, "second");
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(stat(at.path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_names(2);
}

/* A link to where nothing is yet stays a link, and the file comes to be where it leads. */
static void a_link_that_leads_nowhere_yet_is_followed(void **state)
{
    (void)state;
    struct stat info;
    char link[96], chain[96], loop[96];
    snprintf(link, sizeof link, "%s/l", at.dir);
    snprintf(chain, sizeof chain, "%s/c", at.dir);
    snprintf(loop, sizeof loop, "%s/o", at.dir);
    assert_int_equal(symlink("f", link), 0);
    assert_int_equal(symlink(link, chain), 0);
    assert_int_equal(symlink("o", loop), 0);
    assert_int_equal(write_text(chain, "text", true), S2_OK);
    assert_holds(at.path, "text");
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(write_text(loop, "text", true), S2_EIO);
    assert_int_equal(errno, ELOOP);
    assert_names(4);
}

/* Rows are written as they are measured: to a file from its beginning, and not for ever to a pipe that nobody reads. */
static void a_stream_begins_anew_and_waits_for_no_reader(void **state)
{
    (void)state;
    FILE *out = NULL;
    char pipe[96];
    snprintf(pipe, sizeof pipe, "%s/p", at.dir);
    for (int32_t nth = 0; nth < 2; nth++) {
        assert_int_equal(s2_stream_open(at.path, &out), S2_OK);
        fputs(nth == 0 ? "what was longer" : "rows", out);
        assert_int_equal(fclose(out), 0);
    }
    assert_holds(at.path, "rows");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    alarm(20);
    assert_int_equal(s2_stream_open(pipe, &out), S2_EIO);
    alarm(0);
    assert_int_equal(errno, ENXIO);
    assert_names(2);
}

/* While a file is written nothing lies in the folder, so a killed process leaves nothing. */
static void what_is_being_written_has_no_name(void **state)
{
    (void)state;
    s2_output out;
    assert_int_equal(write_text(at.path, "first", true), S2_OK);
    assert_int_equal(s2_output_open(&out, at.path), S2_OK);
    assert_true(out.unnamed);
    assert_names(1);
    assert_int_equal(s2_output_close(&out, false), S2_OK);
    assert_holds(at.path, "first");
}

static void what_is_not_whole_leaves_the_old_one(void **state)
{
    (void)state;
    assert_int_equal(write_text(at.path, "first", true), S2_OK);
    assert_int_equal(write_text(at.path, "half", false), S2_OK);
    assert_holds(at.path, "first");
    assert_names(1);
}

static void a_disk_that_fails_leaves_the_old_one_and_is_said(void **state)
{
    (void)state;
    assert_int_equal(write_text(at.path, "first", true), S2_OK);
    at.fail_fsync = EIO;
    assert_int_equal(write_text(at.path, "second", true), S2_EIO);
    assert_int_equal(errno, EIO);
    at.fail_fsync = 0;
    at.fail_rename = ENOSPC;
    assert_int_equal(write_text(at.path, "second", true), S2_EIO);
    assert_int_equal(errno, ENOSPC);
    at.fail_rename = 0;
    assert_holds(at.path, "first");
    assert_names(1);
    assert_int_equal(write_text("/dev/full", "text", true), S2_EIO);
    assert_int_equal(errno, ENOSPC);
}

/*
 * A process that is killed just before it renames leaves its draft's name, and one whose file system has no files
 * without a name leaves it whenever it is killed. The next that writes the file takes it away; one that is still at
 * work is waited for.
 */
static void try_drafts(bool names_all)
{
    at.names_all = names_all;
    char draft[112];
    snprintf(draft, sizeof draft, "%s.s2-tmp", at.path);
    for (int nth = 0; nth < 3; nth++) { /* beside nothing, then beside a file */
        FILE *const left = fopen(draft, "w");
        assert_non_null(left);
        fputs("a half", left);
        fclose(left);
        assert_int_equal(write_text(at.path, nth % 2 == 0 ? "even" : "odd", true), S2_OK);
        assert_holds(at.path, nth % 2 == 0 ? "even" : "odd");
        assert_names(1);
    }
    const int fd = open(draft, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(write_text(at.path, "second", true), S2_EIO);
    assert_int_equal(errno, EALREADY);
    assert_holds(at.path, "even");
    assert_names(2);
    close(fd);
    assert_int_equal(write_text(at.path, "second", true), S2_OK);
    assert_names(1);
    remove(at.path);
}

static void a_draft_that_was_left_goes_and_one_at_work_stays(void **state)
{
    (void)state;
    try_drafts(false);
    try_drafts(true);
}

/* All succeed, and no draft is left. */
static void write_at_once(bool names_all)
{
    at.names_all = names_all;
    enum { WRITERS = 6, ROUNDS = 60 };
    pid_t writers[WRITERS];
    for (int w = 0; w < WRITERS; w++) {
        writers[w] = fork();
        assert_true(writers[w] >= 0);
        for (int n = 0; writers[w] == 0 && n < ROUNDS; n++)
            if (write_text(at.path, w % 2 == 0 ? "even" : "odd", true) != S2_OK)
                _exit(1);
        if (writers[w] == 0)
            _exit(0);
    }
    for (int w = 0; w < WRITERS; w++) {
        int ended;
        assert_int_equal(waitpid(writers[w], &ended, 0), writers[w]);
        assert_int_equal(ended, 0);
    }
    assert_names(1);
}

static void many_may_write_one_file_at_once(void **state)
{
    (void)state;
    write_at_once(false);
    write_at_once(true);
}

static void no_more_is_read_than_asked_for(void **state)
{
    (void)state;
    s2_arena arena = {0};
    char *data;
    size_t n;
    assert_int_equal(write_text(at.path, "0123456789", true), S2_OK);
    assert_int_equal(s2_bytes_read(&arena, at.path, 10, &data, &n), S2_OK);
    assert_int_equal(n, 10);
    assert_int_equal(s2_bytes_read(&arena, at.path, 4, &data, &n), S2_OK);
    assert_int_equal(n, 5);
    assert_string_equal(data, "01234");
    assert_int_equal(s2_bytes_read(&arena, at.dir, 4, &data, &n), S2_EIO);
    assert_int_equal(errno, EISDIR);
    s2_arena_release(&arena);
}

/* One of two readers of such a file can wait in the kernel for ever; a link to what is open is no such file. */
static void what_the_kernel_makes_up_is_not_read(void **state)
{
    (void)state;
    static const char *const made_up[] = {"/proc/self/status", "/proc/self/environ", "/proc/version"};
    s2_arena arena = {0};
    char *data;
    size_t n;
    for (size_t f = 0; f < sizeof made_up / sizeof made_up[0]; f++) {
        assert_int_equal(s2_bytes_read(&arena, made_up[f], 1 << 20, &data, &n), S2_EIO);
        assert_int_equal(errno, EMEDIUMTYPE);
    }
    assert_int_equal(write_text(at.path, "0123456789", true), S2_OK);
    const int fd = open(at.path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    assert_int_equal(s2_bytes_read(&arena, link, 10, &data, &n), S2_OK);
    assert_int_equal(n, 10);
    close(fd);
    s2_arena_release(&arena);
}

/* ---- files that change while they are read */

enum { MOST_STATES = 40, MOST_LEN = 3000 };

/* All that a file has held since reading began, as somebody changes it between two reads of a few bytes. */
static struct {
    s2_rng *rng;
    int32_t percent;  /* of reads before which it changes; 0: nobody watches */
    int32_t n_left;   /* changes */
    size_t most_read; /* bytes of a read */
    int32_t n;
    s2_buf states[MOST_STATES];
    void (*change)(s2_buf *to);
} moving;

static void put_bytes(int fd, const s2_buf *bytes, size_t from)
{
    assert_int_equal(pwrite(fd, bytes->data + from, bytes->len - from, (off_t)from), bytes->len - from);
}

/* In place, at once and in the order of an editor or a shell, or beside and renamed. */
static void put_state(const s2_buf *bytes)
{
    char beside[100];
    const bool replaces = s2_rng_below(moving.rng, 8) == 0;
    snprintf(beside, sizeof beside, "%s%s", at.path, replaces ? "-new" : "");
    const int fd = open(beside, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes->len), 0);
    put_bytes(fd, bytes, 0);
    close(fd);
    if (replaces)
        assert_int_equal(__real_rename(beside, at.path), 0);
}

static void add_state(void)
{
    assert_true(moving.n < MOST_STATES);
    s2_buf *const state = &moving.states[moving.n];
    if (moving.n > 0)
        s2_buf_add(state, moving.states[moving.n - 1].data, moving.states[moving.n - 1].len);
    moving.change(state);
    assert_int_equal(state->status, S2_OK);
    moving.n++;
    put_state(state);
}

static void move(void)
{
    const int32_t percent = moving.percent;
    moving.percent = 0; /* what this does itself is not watched */
    if (moving.n_left > 0 && (int32_t)s2_rng_below(moving.rng, 100) < percent) {
        moving.n_left--;
        add_state();
    }
    moving.percent = percent;
}

ssize_t __wrap_read(int fd, void *to, size_t n)
{
    if (moving.percent == 0)
        return __real_read(fd, to, n);
    move();
    return __real_read(fd, to, s2_min_size(n, moving.most_read));
}

ssize_t __wrap_pread(int fd, void *to, size_t n, off_t from)
{
    if (moving.percent == 0)
        return __real_pread(fd, to, n, from);
    move();
    return __real_pread(fd, to, s2_min_size(n, moving.most_read), from);
}

ssize_t __wrap_pread64(int fd, void *to, size_t n, off_t from)
{
    return __wrap_pread(fd, to, n, from);
}

static void begin_moving(s2_rng *rng, void (*change)(s2_buf *))
{
    memset(&moving, 0, sizeof moving);
    moving.rng = rng;
    moving.change = change;
    moving.most_read = 1 + s2_rng_below(rng, 700);
    add_state();
    moving.n_left = (int32_t)s2_rng_below(rng, MOST_STATES);
    moving.percent = 1 + (int32_t)s2_rng_below(rng, 40);
}

static void end_moving(void)
{
    for (int32_t n = 0; n < moving.n; n++)
        s2_buf_release(&moving.states[n]);
    moving.n = 0;
}

/* Longer, shorter, or other bytes; each state differs from all others. */
static void change_bytes(s2_buf *to)
{
    const size_t len = s2_rng_below(moving.rng, MOST_LEN), same = s2_rng_below(moving.rng, len + 1);
    char bytes[8];
    to->len = s2_min_size(to->len, s2_rng_below(moving.rng, 2) == 0 ? same : 0);
    while (to->len < len || to->len == 0) {
        for (size_t b = 0; b < sizeof bytes; b++)
            bytes[b] = (char)s2_rng_below(moving.rng, 256);
        s2_buf_add(to, bytes, sizeof bytes);
    }
}

static bool is_a_state(const char *data, size_t n)
{
    for (int32_t state = 0; state < moving.n; state++)
        if (moving.states[state].len == n && memcmp(moving.states[state].data, data, n) == 0)
            return true;
    return false;
}

static void what_changes_while_it_is_read_is_one_state_of_it_or_refused(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(1)};
    int64_t n_read = 0, n_refused = 0, n_moved = 0;
    for (int64_t nth = 0; nth < s2_test_cases(3000); nth++) {
        s2_arena arena = {0};
        char *data;
        size_t n;
        begin_moving(&rng, change_bytes);
        const s2_status status = s2_bytes_read(&arena, at.path, 2 * MOST_LEN, &data, &n);
        moving.percent = 0;
        n_moved += moving.n > 1;
        n_read += status == S2_OK;
        n_refused += status == S2_EIO && errno == ETXTBSY && moving.n > 4;
        if (status == S2_OK ? !is_a_state(data, n) : errno != ETXTBSY)
            fail_msg("case %lld: %s, and the file held no such thing", (long long)nth,
                     s2_status_text(status));
        s2_arena_release(&arena);
        end_moving();
    }
    assert_true(s2_test_sampled() || (n_refused > 0 && n_read > n_refused && n_moved > n_read / 4));
}

/* A mask of one of two shapes, as bytes of 0 and 1 or packed, some of them cut; or what was there, and more. */
static void change_mask(s2_buf *to)
{
    const bool packed = s2_rng_below(moving.rng, 2) == 0;
    const int64_t n = s2_rng_below(moving.rng, 2) == 0 ? 40 : 48, shape[2] = {n, packed ? (n + 7) / 8 : n};
    if (to->len > 0 && s2_rng_below(moving.rng, 4) == 0) {
        for (size_t more = 1 + s2_rng_below(moving.rng, 40); more > 0; more--)
            s2_buf_puts(to, "\1");
        return;
    }
    to->len = 0;
    assert_int_equal(s2_npy_header(packed ? "|u1" : "|b1", shape, 2, to), S2_OK);
    for (int64_t cell = 0; cell < shape[0] * shape[1]; cell++) {
        const char byte = (char)s2_rng_below(moving.rng, packed ? 256 : 2);
        s2_buf_add(to, &byte, 1);
    }
    if (s2_rng_below(moving.rng, 6) == 0)
        to->len -= s2_rng_below(moving.rng, 100); /* cut */
}

static void assert_one_of_the_masks(const char *digest)
{
    for (int32_t state = 0; state < moving.n; state++) {
        s2_arena arena = {0};
        s2_mask mask = {0};
        put_state(&moving.states[state]);
        const bool same =
            s2_mask_load(&arena, at.path, &mask, NULL) == S2_OK && strcmp(mask.digest, digest) == 0;
        s2_mask_unload(&mask);
        s2_arena_release(&arena);
        if (same)
            return;
    }
    fail_msg("no state of the file was this mask");
}

static void a_mask_that_changes_while_it_is_read_is_one_state_of_it_or_refused(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(1)};
    int64_t n_read = 0, n_refused = 0;
    for (int64_t nth = 0; nth < s2_test_cases(1000); nth++) {
        s2_arena arena = {0};
        s2_mask mask = {0};
        s2_diag diag = {0};
        begin_moving(&rng, change_mask);
        const s2_status status = s2_mask_load(&arena, at.path, &mask, &diag);
        moving.percent = 0;
        assert_true(status == S2_OK || (status == S2_EPARSE && diag.msg[0] != '\0'));
        if (status == S2_OK)
            assert_one_of_the_masks(mask.digest);
        n_read += status == S2_OK && moving.n > 1;
        n_refused += strstr(diag.msg, "changed while it was read") != NULL;
        s2_mask_unload(&mask);
        s2_arena_release(&arena);
        end_moving();
    }
    assert_true(s2_test_sampled() || (n_read > 20 && n_refused > 20));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_whole_takes_the_place_and_keeps_the_mode, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(a_link_that_leads_nowhere_yet_is_followed, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_stream_begins_anew_and_waits_for_no_reader, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(what_is_being_written_has_no_name, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(what_is_not_whole_leaves_the_old_one, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_disk_that_fails_leaves_the_old_one_and_is_said, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(a_draft_that_was_left_goes_and_one_at_work_stays, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(many_may_write_one_file_at_once, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(no_more_is_read_than_asked_for, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(what_the_kernel_makes_up_is_not_read, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(what_changes_while_it_is_read_is_one_state_of_it_or_refused, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(a_mask_that_changes_while_it_is_read_is_one_state_of_it_or_refused,
                                        make_dir, remove_dir),
    };
    return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
