/*
 * Each system call and each allocation of each command fails once. The command must end by itself with a stated
 * exit code; what it says it did is done: its output is that of an undisturbed run, files are whole or not there,
 * rows are there, the database is sound, and nothing is left beside. Then the same from a call on, for good: a
 * full disk, a folder that nobody may write; and a command that is killed at a call, or at any moment, after which the
 * same command takes away whatever that one left beside. `make campaign-faults` takes
 * every system call of every command and, of each call stack of an allocation, the first, a middle and the last time
 * that it occurs; make check a few of each. And each command runs on a small stack as on a large one.
 */
#include "tests/s2test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/text.h"
#include "db/db.h"
#include "tests/faulty.h"

/* LIMIT_S of processor time, since a busy machine gives little of it; the clock ends what sleeps. */
enum { MOST_WORDS = 12, LIMIT_S = 60, LIMIT_MS = 600000, SMALL_STACK = 256 << 10 };

#define TEXT                                                                                                 \
    "name a; heads 4; kv-heads 2; layers 2; layers all: local 2 | stride 4 phase head; layers 1: dense"
#define OTHER "name b; heads 4; kv-heads 2; layers 2; layers all: local 3 | stride 2 phase head"

/* Commands write to files named out; those whose output tells a time or a random number print it to nobody. */
static const struct {
    const char *words[MOST_WORDS];
    bool varies;
} COMMANDS[] = {
    {{"check", TEXT}, false},
    {{"check", "p.s2", "--no-db", "--certificate", "out"}, false},
    {{"show", "p.s2", "--canonical"}, false},
    {{"sim", "p.s2", "--gpu", "h200", "--len", "4k"}, false},
    {{"search", "heads 4; head-dim 64; layers all: local {1,2} | stride {2,4} phase head", "--gpu", "h200",
      "--len", "4k", "--jobs", "1", "-o", "out.s2"},
     true},
    {{"draw", "p.s2", "--len", "512", "-o", "out.png"}, false},
    {{"mask", "p.s2", "--len", "512", "--format", "npy", "-o", "out"}, false},
    {{"export", "p.s2", "--to", "c", "--len", "512", "-o", "out"}, false},
    {{"export", "p.s2", "--to", "bsa", "--len", "512", "-o", "out.d"}, false},
    {{"import", "config.json", "-o", "out"}, false},
    {{"ls"}, true},
    {{"pareto"}, true},
    {{"db", "check"}, true},
    {{"db", "stat"}, true},
    {{"db", "backup", "out.db"}, true},
    {{"db", "merge", "other.db"}, true},
    {{"db", "recover", "out.db"}, true},
    {{"tag", "a", "keep"}, true},
    {{"note", "a", "a remark"}, true},
    {{"rm", "a"}, true},
    {{"star", "a"}, true},
    {{"db", "gc"}, true},
    {{"validate", "p.s2", "--device", "cpu", "--len", "128"}, true},
    {{"reach", "p.s2", "--len", "1k"}, false},
    {{"explain", "stride"}, false},
    {{"diff", "p.s2", "q.s2"}, false},
    {{"repro", "1"}, true},
    {{"calibrate", "--from", "times.csv", "--pass", "forward", "--gpu", "h200", "-o", "out"}, false},
    {{"tui", "--dump", "bench", "--no-session", "-o", "out"}, false},
    {{"tui", "--dump", "compare", "--no-session", "-o", "out.png"}, false},
    {{"tui", "--dump", "designs", "--no-session"}, false},
    {{"tui", "--dump", "reach", "--no-session", "-o", "out.ans"}, false},
    {{"tui", "--dump", "pareto", "--no-session"}, false},
    {{"draw", "p.s2", "--what", "shards", "--len", "512", "-o", "out.svg"}, false},
    {{"draw", "p.s2", "--what", "flow", "--len", "512"}, false},
    {{"draw", "p.s2", "--what", "reach", "--len", "512", "--as", "ascii"}, false},
    {{"draw", "p.s2", "--what", "kv", "--len", "512", "-o", "out.svg"}, false},
    {{"draw", "--what", "pareto", "-o", "out.svg"}, false},
    {{"export", "q.s2", "--to", "bsa", "--len", "512", "--force", "-o", "old.d"}, false},
    {{"export", "q.s2", "--to", "c", "--len", "512", "--force", "-o", "old.h"}, false},
    {{"export", "q.s2", "--to", "csr", "--len", "512", "--tp", "2", "-o", "out.tp"}, false},
    {{"import", "mask.npy", "--set", "block=64", "-o", "out"}, false},
    {{"db", "backup", "--force", "other.db"}, true},
    {{"undo"}, true},
};
enum { N_COMMANDS = sizeof COMMANDS / sizeof *COMMANDS };

static char dir[96], program[300];
static bool has_small_stack;         /* what runs next */
static int64_t killed_after_us = -1; /* likewise; -1: no clock ends it */
static s2_faulty_page *page;
static int page_fd;

/* What happens at a call: it fails, or all that write do from then on, or the command ends there. */
typedef enum trouble { FAILS_ONCE, DISK_FULL, READ_ONLY, KILLED } trouble;

/* What one run did. */
typedef struct outcome {
    int code; /* exit code; 128 + signal; -1: ended by the clock */
    int64_t n_calls, n_allocs;
    int failed_call; /* its number in the kernel's table, 0: none failed */
    int64_t n_runs, n_designs;
    uint64_t rows, copy; /* hashes of all rows of main.db and out.db but those that tell when and where */
    bool rows_vary;      /* they do from one undisturbed run to the next */
} outcome;

static int shell(const char *line)
{
    char whole[3400];
    snprintf(whole, sizeof whole, "cd '%s' && { %s; } >/dev/null 2>&1", dir, line);
    const int status = system(whole);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- files, without a shell: a campaign looks at them several times in each of 400 000 runs */

typedef struct file_name {
    char text[400];
} file_name;

static file_name joined(const char *folder, const char *name)
{
    file_name path;
    assert_true(snprintf(path.text, sizeof path.text, "%s/%s", folder, name) < (int)sizeof path.text);
    return path;
}

/* A file of the folder of this test. */
static file_name in_dir(const char *name)
{
    return joined(dir, name);
}

/* A file of what the undisturbed run of a command left. */
static file_name in_base(int command, const char *name)
{
    char folder[24];
    snprintf(folder, sizeof folder, "base-%d", command);
    return joined(in_dir(folder).text, name);
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

static bool exists(const char *name)
{
    return is_there(in_dir(name).text);
}

/* The bytes of a file; false where it cannot be read. */
static bool read_file(const char *path, s2_buf *out)
{
    char part[1 << 14];
    FILE *const file = fopen(path, "rb");
    size_t n;
    if (file == NULL)
        return false;
    while ((n = fread(part, 1, sizeof part, file)) > 0)
        s2_buf_add(out, part, n);
    const bool whole = ferror(file) == 0 && out->status == S2_OK;
    fclose(file);
    return whole;
}

static bool same_bytes(const char *path, const char *other)
{
    s2_buf bytes = {0}, others = {0};
    const bool same = read_file(path, &bytes) && read_file(other, &others) && bytes.len == others.len &&
                      (bytes.len == 0 || memcmp(bytes.data, others.data, bytes.len) == 0);
    s2_buf_release(&bytes);
    s2_buf_release(&others);
    return same;
}

/* Calls `visit` with each name in a folder and its place in `other`; false where one of them said so, or there is none. */
typedef bool (*visit_fn)(const char *path, const char *other);
static bool visit_folder(const char *path, const char *other, visit_fn visit)
{
    DIR *const folder = opendir(path);
    bool all = folder != NULL;
    for (const struct dirent *entry; all && (entry = readdir(folder)) != NULL;) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            all = visit(joined(path, entry->d_name).text, joined(other, entry->d_name).text);
    }
    if (folder != NULL)
        closedir(folder);
    return all;
}

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static bool remove_path(const char *path, const char *other)
{
    return is_folder(path) ? visit_folder(path, other, remove_path) && rmdir(path) == 0 : unlink(path) == 0;
}

static bool copy_path(const char *path, const char *other)
{
    s2_buf bytes = {0};
    if (is_folder(path))
        return mkdir(other, 0700) == 0 && visit_folder(path, other, copy_path);
    bool copied = read_file(path, &bytes);
    FILE *const file = copied ? fopen(other, "wb") : NULL;
    copied = file != NULL && fwrite(bytes.data != NULL ? bytes.data : "", 1, bytes.len, file) == bytes.len;
    copied = file != NULL && fclose(file) == 0 && copied;
    s2_buf_release(&bytes);
    return copied;
}

/* What stands at `path` stands at `other`, byte for byte. */
static bool is_at_other(const char *path, const char *other)
{
    return is_folder(path) ? visit_folder(path, other, is_at_other) : same_bytes(path, other);
}

static bool same_path(const char *path, const char *other)
{
    return is_at_other(path, other) && is_at_other(other, path);
}

/* Not one of a folder's names, nor of those in it, is that of a draft. */
static bool has_no_draft(const char *path, const char *other)
{
    const char *const name = strrchr(path, '/');
    return strstr(name, "tmp") == NULL && (!is_folder(path) || visit_folder(path, other, has_no_draft));
}

static void renew_work(void)
{
    const file_name work = in_dir("work");
    if (exists("work"))
        assert_true(remove_path(work.text, work.text));
    assert_true(copy_path(in_dir("seed").text, work.text));
}

static bool has_words(const char *name)
{
    struct stat about;
    return stat(in_dir(name).text, &about) == 0 && about.st_size > 0;
}

/* ---- a run whose n-th call fails */

static void start_child(const char *const *words, int socket_fd)
{
    char *arguments[MOST_WORDS + 4] = {program, (char *)(uintptr_t) "--db", (char *)(uintptr_t) "main.db"};
    for (int w = 0; w < MOST_WORDS && words[w] != NULL; w++)
        arguments[3 + w] = (char *)(uintptr_t)words[w];
    char path[160];
    const struct rlimit limit = {LIMIT_S, LIMIT_S};
    const struct rlimit stack = {SMALL_STACK, SMALL_STACK};
    snprintf(path, sizeof path, "%s/work", dir);
    if (has_small_stack && setrlimit(RLIMIT_STACK, &stack) != 0)
        _exit(96);
    if (setrlimit(RLIMIT_CPU, &limit) != 0 || chdir(path) != 0 || freopen("../stdout", "w", stdout) == NULL ||
        freopen("../stderr", "w", stderr) == NULL || freopen("/dev/null", "r", stdin) == NULL ||
        dup2(page_fd, S2_FAULTY_PAGE_FD) < 0 || dup2(socket_fd, S2_FAULTY_SOCKET_FD) < 0)
        _exit(98);
    execv(program, arguments);
    _exit(97);
}

/* The child's listener; -1 where it could not make one, or ended before. */
static int receive_listener(int socket_fd)
{
    char byte;
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.room};
    int listener = -1;
    if (recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC) == 1 &&
        message.msg_controllen >= CMSG_LEN(sizeof(int)))
        memcpy(&listener, CMSG_DATA(&control.head), sizeof listener);
    return listener;
}

static int error_for(int call, int64_t n)
{
    switch (call) {
    case SYS_mmap:
    case SYS_mremap: return ENOMEM;
    case SYS_flock: return ENOLCK;
    case SYS_openat: return n % 2 == 0 ? EMFILE : EACCES;
    case SYS_write:
    case SYS_pwrite64:
    case SYS_ftruncate: return n % 2 == 0 ? ENOSPC : EIO;
    default: return EIO;
    }
}

/* The error of a call from which on the disk is full, or the folder read-only; 0: the call goes on. */
static int lasting_error(trouble kind, const struct seccomp_data *call)
{
    switch (call->nr) {
    case SYS_write:
    case SYS_writev:
    case SYS_pwrite64: return kind == DISK_FULL && call->args[0] > STDERR_FILENO ? ENOSPC : 0;
    case SYS_ftruncate: return kind == DISK_FULL ? ENOSPC : 0;
    case SYS_openat: return kind == READ_ONLY && (call->args[2] & O_CREAT) != 0 ? EROFS : 0;
    case SYS_rename:
    case SYS_renameat2:
    case SYS_link:
    case SYS_linkat:
    case SYS_mkdir:
    case SYS_mkdirat:
    case SYS_unlink:
    case SYS_unlinkat: return kind == READ_ONLY ? EROFS : 0;
    default: return 0;
    }
}

/* Answers each call until the program ends: it goes on until the one where the trouble begins. */
static void supervise(int listener, trouble kind, int64_t from, outcome *out)
{
    for (;;) {
        struct pollfd ready = {listener, POLLIN, 0};
        struct seccomp_notif asked;
        memset(&asked, 0, sizeof asked);
        if (poll(&ready, 1, LIMIT_MS) <= 0 || (ready.revents & POLLIN) == 0)
            return;
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0)
            continue;
        struct seccomp_notif_resp answer = {.id = asked.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
        const int64_t at = out->n_calls++;
        int error = 0;
        if (from >= 0 && at >= from && kind != FAILS_ONCE && kind != KILLED)
            error = lasting_error(kind, &asked.data);
        else if (at == from && kind == FAILS_ONCE)
            error = error_for(asked.data.nr, from);
        else if (at == from && kind == KILLED)
            kill((pid_t)asked.pid, SIGKILL);
        if (error != 0) {
            out->failed_call = kind == READ_ONLY ? SYS_unlink : asked.data.nr;
            answer = (struct seccomp_notif_resp){.id = asked.id, .error = -error};
        }
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
}

/* -1 by the clock: a child that does not end is killed. */
static int end_code(pid_t child)
{
    int status;
    const int64_t limit_ms = s2_steady_ms() + LIMIT_MS;
    while (waitpid(child, &status, WNOHANG) != child) {
        if (s2_steady_ms() > limit_ms) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return -1;
        }
        usleep(200);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* False where this machine cannot watch calls. */
static bool run_command(const char *const *words, trouble kind, int64_t failing_call, int64_t failing_alloc,
                        outcome *out)
{
    int ends[2];
    *out = (outcome){.code = -1};
    renew_work();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    atomic_store(&page->n_allocs, 0);
    page->failing_alloc = failing_alloc;
    page->watch_calls = failing_alloc < 0 && killed_after_us < 0;
    page->record_stacks = page->watch_calls && failing_call < 0;
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        start_child(words, ends[1]);
    close(ends[1]);
    if (killed_after_us >= 0) {
        usleep((useconds_t)killed_after_us);
        kill(child, SIGKILL);
    }
    const int listener = page->watch_calls ? receive_listener(ends[0]) : -1;
    if (listener >= 0)
        supervise(listener, kind, failing_call, out);
    out->code = end_code(child);
    out->n_allocs = atomic_load(&page->n_allocs);
    close(ends[0]);
    if (listener >= 0)
        close(listener);
    return listener >= 0 || !page->watch_calls;
}

/* ---- what is true after it */

/* A campaign goes on after a fault, so that one run lists them all; the sweep fails at its end. */
static int64_t n_faults;

__attribute__((format(printf, 1, 2))) static void report(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("# fault: ");
    vprintf(format, args);
    va_end(args);
    printf("\n");
    n_faults++;
}

/* A time in microseconds is a column of 16 digits. */
static size_t time_at(const char *text, size_t n)
{
    const size_t digits = n > 17 && (*text == ',' || *text == '(') ? strspn(text + 1, "0123456789") : 0;
    return digits == 16 && text[17] == ',' ? 17 : 0;
}

static bool begins(const char *text, size_t n, const char *with)
{
    return n > strlen(with) && memcmp(text, with, strlen(with)) == 0;
}

static bool hash_line(void *user, const char *text, size_t n)
{
    uint64_t *const hash = user;
    if (begins(text, n, "INSERT INTO run "))
        return true;
    if (begins(text, n, "INSERT INTO chk ")) /* its last column is how long the proof took */
        while (n > 0 && text[n - 1] != ',')
            n--;
    for (size_t at = 0; at < n; at++) {
        at += time_at(text + at, n - at);
        *hash = (*hash ^ (unsigned char)text[at]) * 0x100000001b3;
    }
    return true;
}

/* A database of the folder can be read and is sound; NULL and a report where it cannot. */
static s2_db *open_sound(const char *name, const char *what)
{
    s2_db *db;
    s2_buf findings = {0};
    s2_diag diag = {0};
    if (s2_db_open(in_dir(name).text, S2_DB_READ, &db, &diag) != S2_OK) {
        report("%s: %s cannot be read: %s", what, name, diag.msg);
        return NULL;
    }
    assert_int_equal(s2_db_verify(db, &findings, NULL), S2_OK);
    if (findings.len > 0)
        report("%s: %s: %.*s", what, name, (int)findings.len, findings.data);
    s2_buf_release(&findings);
    return db;
}

static uint64_t hash_rows(s2_db *db)
{
    uint64_t hash = 0xcbf29ce484222325;
    assert_int_equal(s2_db_dump(db, hash_line, &hash, NULL), S2_OK);
    return hash;
}

/* before: what the seed's rows are, NULL where they are not known yet; a file that is still the seed's is not read again. */
static void look_at_rows(outcome *out, const outcome *before, const char *what)
{
    struct stat log;
    const bool logged = stat(in_dir("work/main.db-wal").text, &log) == 0 && log.st_size > 0;
    if (before != NULL && !logged && same_bytes(in_dir("seed/main.db").text, in_dir("work/main.db").text)) {
        out->n_runs = before->n_runs;
        out->n_designs = before->n_designs;
        out->rows = before->rows;
        return;
    }
    s2_db *db = open_sound("work/main.db", what);
    if (db == NULL)
        return;
    assert_int_equal(s2_db_count(db, "run", &out->n_runs, NULL), S2_OK);
    assert_int_equal(s2_db_count(db, "design", &out->n_designs, NULL), S2_OK);
    out->rows = hash_rows(db);
    s2_db_close(&db);
}

/* A copy that a command made, if it is there. */
static void look_at_copy(outcome *out, const char *what)
{
    s2_db *db = exists("work/out.db") ? open_sound("work/out.db", what) : NULL;
    if (db == NULL)
        return;
    out->copy = hash_rows(db);
    s2_db_close(&db);
}

/* The rows of an undisturbed run; of a command that says that it failed, none of them, or those of its own run alone. */
static bool rows_are_right(const outcome *seen, const outcome *before, const outcome *after, bool succeeded)
{
    if (seen->n_runs == after->n_runs && seen->n_designs == after->n_designs)
        return true;
    return !succeeded && seen->n_runs >= before->n_runs && seen->n_runs <= after->n_runs &&
           (seen->n_designs == before->n_designs || seen->n_designs == after->n_designs);
}

/*
 * What commands write; the last are folders. A killed command may leave a part of one, and so may one in whose folder
 * nothing can be removed any more, or that fails while it writes over one: the list of hashes in it says so.
 */
static const char *const WRITTEN[] = {"out",   "out.png", "out.svg", "out.ans", "out.s2",
                                      "old.h", "out.d",   "out.tp",  "old.d"};
enum { N_WRITTEN = sizeof WRITTEN / sizeof *WRITTEN, N_MADE = N_WRITTEN - 1, N_FILES = N_WRITTEN - 3 };

/* Each of the first n is that of the undisturbed run, or, where that may lack, what was there before. */
static bool written_is_whole(int command, int n, bool may_lack)
{
    for (int at = 0; at < n; at++) {
        const file_name base = joined(in_base(command, "work").text, WRITTEN[at]);
        const file_name work = joined(in_dir("work").text, WRITTEN[at]);
        const file_name seed = joined(in_dir("seed").text, WRITTEN[at]);
        const bool is_new = is_there(base.text) && is_there(work.text) && same_path(base.text, work.text);
        const bool is_old = is_there(seed.text) ? is_there(work.text) && same_path(seed.text, work.text)
                                                : !is_there(work.text);
        if (!is_new && !(is_old && (may_lack || !is_there(base.text))))
            return false;
    }
    return true;
}

static void judge_files(int command, const outcome *seen, bool succeeded, const char *what)
{
    const bool varies = COMMANDS[command].varies, keeps = seen->failed_call == SYS_unlink;
    if (seen->failed_call != SYS_unlink && seen->failed_call != SYS_unlinkat &&
        !visit_folder(in_dir("work").text, "", has_no_draft))
        report("%s: something is left beside", what);
    const int n_whole = succeeded ? N_WRITTEN : keeps ? N_FILES : N_MADE;
    if (!varies && !written_is_whole(command, n_whole, !succeeded))
        report("%s: exit %d, and what it wrote is neither whole nor not there", what, seen->code);
    if (!varies && succeeded && !same_bytes(in_base(command, "stdout").text, in_dir("stdout").text))
        report("%s: exit %d, and its output is another", what, seen->code);
}

static void judge_run(int command, const outcome *before, const outcome *after, outcome *seen,
                      const char *what)
{
    if (seen->code < 0 || seen->code > 5)
        report("%s: ended with %d", what, seen->code);
    if (seen->code != after->code && !has_words("stderr") && shell("grep -q out_of_memory stdout") != 0)
        report("%s: exit %d without a word", what, seen->code);
    look_at_rows(seen, before, what);
    look_at_copy(seen, what);
    const bool warned =
        has_words("stderr") && !same_bytes(in_dir("stderr").text, in_base(command, "stderr").text);
    const bool succeeded = seen->code == after->code && !warned;
    if (!rows_are_right(seen, before, after, succeeded))
        report("%s: exit %d with %lld runs and %lld designs", what, seen->code, (long long)seen->n_runs,
               (long long)seen->n_designs);
    const bool differs = seen->rows != after->rows || seen->copy != after->copy;
    /* recovering goes on behind a page that the disk does not give, and counts it */
    if (succeeded && !after->rows_vary && differs && shell("grep -q 'could not be read' stdout") != 0)
        report("%s: exit %d, and a row says something else", what, seen->code);
    judge_files(command, seen, succeeded, what);
}

/* ---- the sweeps */

static void make_seed(void)
{
    char line[3200], root[300];
    assert_non_null(getcwd(root, sizeof root));
    snprintf(
        line, sizeof line,
        "mkdir seed && cp '%s/tests/data/foreign/hf/config.json' seed/ && "
        "for n in 1024 2048 4096 8192 16384; do echo 32,8,128,1,$n,$((n * n / 8192 + 20)); done | "
        "sed '1iheads,kv_heads,head_dim,batch,n_tok,us' >seed/times.csv && echo '%s' >seed/p.s2 && echo '%s' "
        ">seed/q.s2 && "
        "%s --db seed/main.db check seed/p.s2 && %s --db seed/main.db sim seed/p.s2 --len 4k && { %s --db "
        "seed/other.db check seed/q.s2; rm seed/*-lock; } && "
        "%s --db no.db mask seed/p.s2 --len 512 --format npy -o seed/mask.npy && "
        "%s export seed/p.s2 --no-db --to bsa --len 512 -o seed/old.d && "
        "%s export seed/p.s2 --no-db --to c --len 512 -o seed/old.h",
        root, TEXT, OTHER, program, program, program, program, program, program);
    assert_int_equal(shell(line), 0);
}

/* What a command does undisturbed, and where it allocates: of each call stack the first, a middle and the last time. */
typedef struct basis {
    bool known, watched; /* watched: this machine lets a process watch the system calls of another */
    outcome before, after;
    int64_t n_stacks, n_picked;
    int64_t *picked; /* ascending */
} basis;
static basis bases[N_COMMANDS];

typedef struct stack_at {
    uint64_t stack;
    int64_t at;
} stack_at;

static int by_stack(const void *a, const void *b)
{
    const stack_at *const x = a, *const y = b;
    return x->stack != y->stack ? (x->stack < y->stack ? -1 : 1) : x->at < y->at ? -1 : x->at > y->at;
}

static int by_place(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* From what the last run recorded. */
static void pick_of_each_stack(basis *base)
{
    const int64_t n = base->after.n_allocs;
    assert_true(n > 0 && n <= S2_FAULTY_STACKS);
    stack_at *const all = calloc((size_t)n, sizeof *all);
    base->picked = calloc((size_t)n, sizeof *base->picked);
    assert_true(all != NULL && base->picked != NULL);
    for (int64_t at = 0; at < n; at++)
        all[at] = (stack_at){page->stacks[at], at};
    qsort(all, (size_t)n, sizeof *all, by_stack);
    for (int64_t begin = 0, end; begin < n; begin = end, base->n_stacks++) {
        for (end = begin + 1; end < n && all[end].stack == all[begin].stack;)
            end++;
        const int64_t picks[3] = {begin, (begin + end) / 2, end - 1};
        for (int p = 0; p < 3; p++)
            if (p == 0 || picks[p] > picks[p - 1])
                base->picked[base->n_picked++] = all[picks[p]].at;
    }
    qsort(base->picked, (size_t)base->n_picked, sizeof *base->picked, by_place);
    free(all);
}

/* Two undisturbed runs, the first kept to compare with; made once for all sweeps. */
static const basis *basis_of(int command)
{
    const char *const *const words = COMMANDS[command].words;
    basis *const base = &bases[command];
    outcome again;
    char line[100];
    if (base->known)
        return base;
    renew_work();
    look_at_rows(&base->before, NULL, "before");
    base->watched = run_command(words, FAILS_ONCE, -1, -1, &base->after);
    if (base->after.code != (strcmp(words[0], "diff") == 0 ? 1 : 0))
        fail_msg("s2 %s undisturbed: exit %d", words[0], base->after.code);
    pick_of_each_stack(base);
    look_at_rows(&base->after, NULL, "undisturbed");
    look_at_copy(&base->after, "undisturbed");
    snprintf(line, sizeof line, "mkdir base-%d && cp -r work stdout stderr base-%d", command, command);
    assert_int_equal(shell(line), 0);
    run_command(words, FAILS_ONCE, -1, -1, &again);
    look_at_rows(&again, NULL, "undisturbed again");
    look_at_copy(&again, "undisturbed again");
    base->after.rows_vary = again.rows != base->after.rows || again.copy != base->after.copy;
    base->known = true;
    return base;
}

/* The command once more, where the killed one left off; with --force where it refuses to write over what is there. */
static void run_again(int command, const char *what)
{
    const char *words[MOST_WORDS + 1];
    int n = 0, ends[2];
    bool forced = false;
    for (; n < MOST_WORDS && COMMANDS[command].words[n] != NULL; n++) {
        words[n] = COMMANDS[command].words[n];
        forced = forced || strcmp(words[n], "--force") == 0;
    }
    const bool refuses = strcmp(words[0], "export") == 0 || strcmp(words[n - 1], "out.db") == 0;
    if (refuses && !forced && n < MOST_WORDS)
        words[n++] = "--force";
    words[n] = NULL;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    page->failing_alloc = -1;
    page->watch_calls = page->record_stacks = 0;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        start_child(words, ends[1]);
    const int code = end_code(child);
    close(ends[0]);
    close(ends[1]);
    if (code < 0 || code > 5)
        report("%s: once more it ends with %d", what, code);
    if (!visit_folder(in_dir("work").text, "", has_no_draft))
        report("%s: once more (exit %d), and something is left beside", what, code);
}

/* A killed command leaves a part of its rows, sound databases, and files that are whole or not there. */
static void judge_killed(int command, const outcome *before, const outcome *after, outcome *seen,
                         const char *what)
{
    look_at_rows(seen, before, what);
    if (seen->n_runs < before->n_runs || seen->n_runs > after->n_runs ||
        seen->n_designs < (before->n_designs < after->n_designs ? before->n_designs : after->n_designs))
        report("%s: killed, with %lld runs and %lld designs", what, (long long)seen->n_runs,
               (long long)seen->n_designs);
    look_at_copy(seen, what);
    if (!written_is_whole(command, N_FILES, true))
        report("%s: killed, and a file is neither whole nor not there", what);
    run_again(command, what);
}

/* $S2_PART is I/N: every N-th of what a sweep tries, from the I-th on, so that N processes share a campaign. */
static void part_of_sweep(int64_t *part, int64_t *n_parts)
{
    const char *const text = getenv("S2_PART");
    char *end = NULL;
    *part = text != NULL ? strtoll(text, &end, 10) : 0;
    *n_parts = text != NULL && *end == '/' ? strtoll(end + 1, NULL, 10) : 1;
    assert_true(*part >= 0 && *part < *n_parts);
}

/* Where the trouble is: at a system call, at any allocation, or at those that stand for a call stack. */
typedef enum place { SYSTEM_CALL, ALLOCATION, STACK } place;

/* How many calls were tried, of how many there are in the undisturbed runs. */
typedef struct tally {
    int64_t n_failed, n_all, n_stacks;
} tally;

static void try_at(int command, place where, trouble kind, int64_t at)
{
    const char *const *const words = COMMANDS[command].words;
    const basis *const base = &bases[command];
    const bool calls = where == SYSTEM_CALL;
    const int64_t n = calls ? base->after.n_calls : base->after.n_allocs;
    outcome seen;
    char what[200];
    run_command(words, kind, calls ? at : -1, calls ? -1 : at, &seen);
    snprintf(what, sizeof what, "s2 %s %s, %s %lld of %lld (%d, %d)", words[0],
             words[1] != NULL ? words[1] : "", calls ? "system call" : "allocation", (long long)at,
             (long long)n, seen.failed_call, (int)kind);
    if (!calls && seen.n_allocs <= at && at < n - n / 100) /* of the last, a run may make a few fewer */
        report("%s: was not reached", what);
    if (kind == KILLED)
        judge_killed(command, &base->before, &base->after, &seen, what);
    else
        judge_run(command, &base->before, &base->after, &seen, what);
}

static bool sweep(int command, place where, trouble kind, s2_rng *rng, int64_t most, tally *count)
{
    int64_t part, n_parts;
    part_of_sweep(&part, &n_parts);
    const basis *const base = basis_of(command);
    if (where == SYSTEM_CALL && !base->watched)
        return false;
    const int64_t n = where == SYSTEM_CALL  ? base->after.n_calls
                      : where == ALLOCATION ? base->after.n_allocs
                                            : base->n_picked;
    const int64_t stride = n > most ? n / most : 1;
    const int64_t first = stride > 1 ? (int64_t)s2_rng_below(rng, (uint64_t)stride) : 0;
    count->n_all += n;
    count->n_stacks += base->n_stacks;
    for (int64_t at = first + part * stride; at < n; at += n_parts * stride) {
        try_at(command, where, kind, where == STACK ? base->picked[at] : at);
        count->n_failed++;
    }
    return true;
}

/* cases: how many calls of each command where $S2_CASES does not say. */
static void sweep_all(place where, trouble kind, int64_t cases, const char *what_happened)
{
    const uint64_t seed = s2_test_seed(1);
    const int64_t most = s2_test_cases(cases);
    tally count = {0};
    n_faults = 0;
    s2_rng rng = {seed};
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* the sanitizers' own calls would fail too */
#endif
    const char *const only = getenv("S2_COMMAND"); /* its first word */
    for (int command = 0; command < N_COMMANDS; command++)
        if ((only == NULL || strcmp(only, COMMANDS[command].words[0]) == 0) &&
            !sweep(command, where, kind, &rng, most, &count)) {
            printf("# s2: this machine does not let a process watch the system calls of another\n");
            skip();
        }
    assert_int_equal(n_faults, 0);
    printf("# s2: %d commands, %lld times %s, at one of %lld calls", (int)N_COMMANDS,
           (long long)count.n_failed, what_happened, (long long)count.n_all);
    if (where == STACK)
        printf(" that stand for %lld call stacks", (long long)count.n_stacks);
    printf(": stated exit codes, whole files, no lost row; seed %llu\n", (unsigned long long)seed);
}

static void system_calls_of_every_command_may_fail(void **state)
{
    (void)state;
    sweep_all(SYSTEM_CALL, FAILS_ONCE, 3, "a system call failed");
}

static void each_stack_that_allocates_may_fail(void **state)
{
    (void)state;
    sweep_all(STACK, FAILS_ONCE, 2, "an allocation failed");
}

static void allocations_of_every_command_may_fail(void **state)
{
    (void)state;
    sweep_all(ALLOCATION, FAILS_ONCE, 1, "an allocation failed");
}

static void the_disk_of_every_command_may_be_full_for_good(void **state)
{
    (void)state;
    sweep_all(SYSTEM_CALL, DISK_FULL, 1, "the disk was full from a call on");
}

static void the_folder_of_every_command_may_be_read_only(void **state)
{
    (void)state;
    sweep_all(SYSTEM_CALL, READ_ONLY, 1, "nothing could be created from a call on");
}

static void every_command_may_be_killed_at_any_call(void **state)
{
    (void)state;
    sweep_all(SYSTEM_CALL, KILLED, 1, "killed at a call");
}

/* Between two calls, too: as the clock has it. */
static void every_command_may_be_killed_at_any_moment(void **state)
{
    (void)state;
    outcome seen;
    char what[80];
    s2_rng rng = {s2_test_seed(1)};
    const int64_t most = s2_test_cases(2 * N_COMMANDS) / N_COMMANDS + 1; /* of each */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* what is killed is the same program, slower */
#endif
    int64_t n_killed = 0;
    n_faults = 0;
    for (int command = 0; command < N_COMMANDS; command++) {
        const basis *const base = basis_of(command);
        const int64_t began_us = s2_unix_us();
        run_command(COMMANDS[command].words, FAILS_ONCE, -1, INT64_MAX, &seen); /* nobody watches its calls */
        const int64_t takes_us = s2_unix_us() - began_us;
        for (int64_t n = 0; n < most; n++) {
            killed_after_us = (int64_t)s2_rng_below(&rng, (uint64_t)takes_us);
            run_command(COMMANDS[command].words, KILLED, -1, -1, &seen);
            snprintf(what, sizeof what, "s2 %s, after %lld us", COMMANDS[command].words[0],
                     (long long)killed_after_us);
            killed_after_us = -1;
            n_killed += seen.code == 128 + SIGKILL;
            judge_killed(command, &base->before, &base->after, &seen, what);
        }
    }
    assert_int_equal(n_faults, 0);
    printf("# s2: %d commands killed %lld times, at any moment: whole files, sound databases, nothing left "
           "beside\n",
           (int)N_COMMANDS, (long long)n_killed);
}

/* What reads nested text calls itself for each level, so one that is nested as deep as anything is read is tried too. */
static void every_command_runs_on_a_small_stack(void **state)
{
    (void)state;
    outcome seen;
    char what[60], line[600];
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* whose frames are larger */
#endif
    n_faults = 0;
    for (int command = 0; command < N_COMMANDS; command++) {
        const basis *const base = basis_of(command);
        has_small_stack = true;
        run_command(COMMANDS[command].words, FAILS_ONCE, -1, -1, &seen);
        has_small_stack = false;
        snprintf(what, sizeof what, "s2 %s, a stack of 256 KiB", COMMANDS[command].words[0]);
        if (seen.code != base->after.code)
            report("%s: exit %d", what, seen.code);
        judge_run(command, &base->before, &base->after, &seen, what);
    }
    snprintf(line, sizeof line,
             "ulimit -s 256; awk 'BEGIN { for (n = 0; n < 4094; n++) printf n < 2047 ? \"[\" : \"]\" }' "
             ">deep.json; "
             "%s import deep.json; [ $? -eq 3 ]",
             program);
    assert_int_equal(shell(line), 0);
    assert_int_equal(n_faults, 0);
}

static int set_up(void **state)
{
    (void)state;
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 16);
    if (n < 0)
        return 1;
    program[n] = '\0';
    snprintf(strrchr(program, '/'), 16, "/faulty");
    const char *const tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%.60s/s2-every.XXXXXX", tmp != NULL ? tmp : "/tmp");
    page_fd = memfd_create("page", MFD_CLOEXEC);
    if (mkdtemp(dir) == NULL || page_fd < 0 || ftruncate(page_fd, sizeof *page) != 0)
        return 1;
    page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, page_fd, 0);
    if (page == MAP_FAILED)
        return 1;
    make_seed();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char line[160];
    snprintf(line, sizeof line, "rm -rf '%s'", dir);
    for (int command = 0; command < N_COMMANDS; command++)
        free(bases[command].picked);
    return system(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(system_calls_of_every_command_may_fail),
        cmocka_unit_test(each_stack_that_allocates_may_fail),
        cmocka_unit_test(allocations_of_every_command_may_fail),
        cmocka_unit_test(the_disk_of_every_command_may_be_full_for_good),
        cmocka_unit_test(the_folder_of_every_command_may_be_read_only),
        cmocka_unit_test(every_command_may_be_killed_at_any_call),
        cmocka_unit_test(every_command_may_be_killed_at_any_moment),
        cmocka_unit_test(every_command_runs_on_a_small_stack),
    };
    return cmocka_run_group_tests_name("everycall", tests, set_up, tear_down);
}
