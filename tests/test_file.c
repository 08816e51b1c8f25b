/*
 * Files are whole or not there. The linker puts the functions below before those of the C library, so that a
 * disk can refuse to sync, to close and to rename.
 */
#include "tests/s2test.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);

static struct {
    char dir[64];
    char path[96];
    int fail_fsync, fail_rename; /* errno, or 0 */
    bool synced;
} at;

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_whole_takes_the_place_and_keeps_the_mode, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(a_link_that_leads_nowhere_yet_is_followed, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(what_is_being_written_has_no_name, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(what_is_not_whole_leaves_the_old_one, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_disk_that_fails_leaves_the_old_one_and_is_said, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(no_more_is_read_than_asked_for, make_dir, remove_dir),
    };
    return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
