/*
 * Linked with the program s2: before main() it hands the system calls that can fail to whoever started it
 * (seccomp's user notification: works on every architecture, and in threads and children). From main() on it counts
 * allocations, and says from where each was called.
 */
#include "tests/faulty.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

void *__real_malloc(size_t n_bytes);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t n_bytes);
void *__wrap_malloc(size_t n_bytes);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t n_bytes);

int __real_main(int argc, char **argv);
int __wrap_main(int argc, char **argv);

static s2_faulty_page *page;
static bool counting; /* from main() on: what libraries allocate before it is not the program's */

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *frame, void *user)
{
    uint64_t *const hash = user;
    *hash = (*hash ^ (uint64_t)_Unwind_GetIP(frame)) * 0x100000001b3;
    *hash ^= *hash >> 29;
    return _URC_NO_REASON;
}

static uint64_t hash_stack(void)
{
    uint64_t hash = 0xcbf29ce484222325;
    _Unwind_Backtrace(add_frame, &hash);
    return hash;
}

static bool may_allocate(void)
{
    if (page == NULL || !counting)
        return true;
    const int64_t at = atomic_fetch_add(&page->n_allocs, 1);
    if (page->record_stacks != 0 && at < S2_FAULTY_STACKS)
        page->stacks[at] = hash_stack();
    return at != page->failing_alloc;
}

void *__wrap_malloc(size_t n_bytes)
{
    return may_allocate() ? __real_malloc(n_bytes) : NULL;
}

void *__wrap_calloc(size_t n, size_t size)
{
    return may_allocate() ? __real_calloc(n, size) : NULL;
}

void *__wrap_realloc(void *old, size_t n_bytes)
{
    return may_allocate() ? __real_realloc(old, n_bytes) : NULL;
}

static const uint32_t WATCHED[] = {SYS_openat,   SYS_write,     SYS_writev,    SYS_pwrite64,  SYS_pread64,
                                   SYS_read,     SYS_fsync,     SYS_fdatasync, SYS_close,     SYS_mmap,
                                   SYS_mremap,   SYS_ftruncate, SYS_unlinkat,  SYS_renameat2, SYS_linkat,
                                   SYS_mkdirat,  SYS_flock,
#ifdef SYS_open
                                   SYS_open,     SYS_rename,    SYS_link,      SYS_unlink,    SYS_mkdir,
#endif
#ifdef SYS_renameat
                                   SYS_renameat,
#endif
                                   SYS_getrandom};
enum { N_WATCHED = sizeof WATCHED / sizeof *WATCHED };

static int install_filter(void)
{
    struct sock_filter code[N_WATCHED + 3];
    code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (uint8_t at = 0; at < N_WATCHED; at++)
        code[1 + at] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, WATCHED[at],
                                                    (uint8_t)(N_WATCHED - at), 0);
    code[N_WATCHED + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[N_WATCHED + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    const struct sock_fprog program = {N_WATCHED + 3, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

/* The listener, or nothing but a byte where there can be none. */
static void send_listener(int listener)
{
    char byte = 0;
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    memset(&control, 0, sizeof control);
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (listener >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control.room;
        control.head = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.head), &listener, sizeof listener);
    }
    if (sendmsg(S2_FAULTY_SOCKET_FD, &message, 0) != 1)
        _exit(99);
}

__attribute__((constructor)) static void hand_over(void)
{
    void *const shared = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, S2_FAULTY_PAGE_FD, 0);
    if (shared == MAP_FAILED)
        return; /* started by hand */
    page = shared;
    close(S2_FAULTY_PAGE_FD);
    if (page->watch_calls)
        send_listener(install_filter());
    syscall(SYS_close_range, S2_FAULTY_SOCKET_FD, S2_FAULTY_SOCKET_FD, 0);
}

int __wrap_main(int argc, char **argv)
{
    counting = true;
    return __real_main(argc, argv);
}
