#include "db/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "base/text.h"

enum {
    USUAL_PAGE_BYTES = 4096,
    HEAD_BYTES = 100, /* of the file, on page 1 */
    LOG_HEAD_BYTES = 32,
    FRAME_HEAD_BYTES = 24,
    TABLE_LEAF = 13,
    TABLE_INNER = 5,
    KEY_LEAF = 10,
    KEY_INNER = 2
};

struct s2_pages {
    int fd;
    int log_fd; /* -1: no log */
    uint32_t page_bytes;
    uint32_t usable; /* of a page */
    uint32_t n_pages;
    bool *seen;        /* by page number */
    int64_t *frame_of; /* offset of a page's latest version in the log; 0: it is in the file */
    uint8_t *page;     /* the page at work */
    uint8_t *overflow; /* another, while its cells are put together */
    uint8_t *record;   /* a whole record */
    uint32_t *waiting; /* pages of a tree still to visit */
    uint32_t n_waiting;
};

static uint32_t read2(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 8 | bytes[1];
}

static uint32_t read4(const uint8_t *bytes)
{
    return read2(bytes) << 16 | read2(bytes + 2);
}

/* ---- the write-ahead log */

typedef struct checksum {
    uint32_t a;
    uint32_t b;
    bool big_endian;
} checksum;

static uint32_t word_of(const uint8_t *bytes, bool big_endian)
{
    return big_endian
               ? read4(bytes)
               : (uint32_t)bytes[3] << 24 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[1] << 8 | bytes[0];
}

static void add_to(checksum *sum, const uint8_t *bytes, size_t n)
{
    for (size_t at = 0; at + 8 <= n; at += 8) {
        sum->a += word_of(bytes + at, sum->big_endian) + sum->b;
        sum->b += word_of(bytes + at + 4, sum->big_endian) + sum->a;
    }
}

static bool ends_in(const checksum *sum, const uint8_t *bytes)
{
    return read4(bytes) == sum->a && read4(bytes + 4) == sum->b;
}

/* The log's frames in order; commit() is called for those that end a transaction. */
typedef struct log_walk {
    s2_pages *pages;
    checksum sum;
    uint8_t head[LOG_HEAD_BYTES];
    uint8_t frame[FRAME_HEAD_BYTES];
    int64_t pos;
} log_walk;

static bool begin_log(log_walk *walk)
{
    const s2_pages *const pages = walk->pages;
    if (pread(pages->log_fd, walk->head, LOG_HEAD_BYTES, 0) != LOG_HEAD_BYTES)
        return false;
    const uint32_t magic = read4(walk->head);
    walk->sum = (checksum){.big_endian = (magic & 1) != 0};
    add_to(&walk->sum, walk->head, 24);
    walk->pos = LOG_HEAD_BYTES;
    return (magic | 1) == 0x377f0683 && read4(walk->head + 8) == pages->page_bytes &&
           ends_in(&walk->sum, walk->head + 24);
}

/* Like SQLite, stops at the first frame of another round of the log, or with a wrong checksum. */
static bool next_frame(log_walk *walk)
{
    const s2_pages *const pages = walk->pages;
    const int64_t frame_begin = walk->pos;
    if (pread(pages->log_fd, walk->frame, FRAME_HEAD_BYTES, frame_begin) != FRAME_HEAD_BYTES ||
        pread(pages->log_fd, pages->page, pages->page_bytes, frame_begin + FRAME_HEAD_BYTES) !=
            pages->page_bytes ||
        memcmp(walk->frame + 8, walk->head + 16, 8) != 0)
        return false;
    add_to(&walk->sum, walk->frame, 8);
    add_to(&walk->sum, pages->page, pages->page_bytes);
    walk->pos += FRAME_HEAD_BYTES + (int64_t)pages->page_bytes;
    return ends_in(&walk->sum, walk->frame + 16);
}

/* Where the last whole transaction ends, and how many pages the database then has; 0: there is none. */
static int64_t find_log_end(s2_pages *pages, uint32_t *n_pages)
{
    log_walk walk = {.pages = pages};
    int64_t end = 0;
    if (!begin_log(&walk))
        return 0;
    while (next_frame(&walk))
        if (read4(walk.frame + 4) != 0) {
            end = walk.pos;
            *n_pages = read4(walk.frame + 4);
        }
    return end;
}

static void read_log(s2_pages *pages, int64_t end)
{
    log_walk walk = {.pages = pages};
    if (!begin_log(&walk))
        return;
    while (walk.pos < end) {
        const int64_t frame_begin = walk.pos;
        if (!next_frame(&walk))
            return;
        const uint32_t number = read4(walk.frame);
        if (number >= 1 && number <= pages->n_pages)
            pages->frame_of[number] = frame_begin + FRAME_HEAD_BYTES;
    }
}

/* ---- opening */

static bool fetch(const s2_pages *pages, uint32_t number, uint8_t *out)
{
    if (number < 1 || number > pages->n_pages)
        return false;
    const bool logged = pages->frame_of[number] != 0;
    const int64_t begin = logged ? pages->frame_of[number] : (int64_t)(number - 1) * pages->page_bytes;
    return pread(logged ? pages->log_fd : pages->fd, out, pages->page_bytes, begin) ==
           (ssize_t)pages->page_bytes;
}

/* A damaged first page does not tell the page size; our files have the usual one. */
static void read_page_size(s2_pages *pages)
{
    uint8_t head[HEAD_BYTES];
    pages->page_bytes = USUAL_PAGE_BYTES;
    pages->usable = USUAL_PAGE_BYTES;
    if (pread(pages->fd, head, sizeof head, 0) != sizeof head || memcmp(head, "SQLite format 3", 16) != 0)
        return;
    const uint32_t n = read2(head + 16) == 1 ? 65536 : read2(head + 16);
    if (n < 512 || !s2_is_power_of_two(n))
        return;
    pages->page_bytes = n;
    pages->usable = head[20] <= 32 ? n - head[20] : n;
}

static s2_status allocate(s2_pages *pages)
{
    pages->page = s2_malloc(pages->page_bytes);
    pages->overflow = s2_malloc(pages->page_bytes);
    pages->record = s2_malloc(S2_RECORD_BYTES);
    return pages->page != NULL && pages->overflow != NULL && pages->record != NULL ? S2_OK : S2_ENOMEM;
}

static s2_status allocate_tables(s2_pages *pages)
{
    const size_t n = (size_t)pages->n_pages + 1;
    pages->seen = s2_calloc(n, sizeof *pages->seen);
    pages->frame_of = s2_calloc(n, sizeof *pages->frame_of);
    pages->waiting = s2_malloc(n * sizeof *pages->waiting);
    return pages->seen != NULL && pages->frame_of != NULL && pages->waiting != NULL ? S2_OK : S2_ENOMEM;
}

static s2_status open_log(s2_pages *pages, const char *path)
{
    s2_buf name = {0};
    s2_buf_printf(&name, "%s-wal", path);
    S2_TRY(name.status);
    pages->log_fd = open(name.data, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    s2_buf_release(&name);
    return S2_OK;
}

static s2_status open_steps(s2_pages *pages, const char *path, s2_diag *diag)
{
    struct stat info;
    pages->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (pages->fd < 0)
        return s2_diag_set(diag, S2_EDB, 0, 0, 0, "%s: %s", path, strerror(errno));
    if (fstat(pages->fd, &info) != 0 || !S_ISREG(info.st_mode))
        return s2_diag_set(diag, S2_EPARSE, 0, 0, 0, "%s: not a file that can be a database", path);
    read_page_size(pages);
    S2_TRY(open_log(pages, path));
    S2_TRY(allocate(pages));
    const int64_t in_file = info.st_size / pages->page_bytes;
    uint32_t in_log = 0;
    const int64_t log_end = pages->log_fd >= 0 ? find_log_end(pages, &in_log) : 0;
    const int64_t n = s2_max_i64(in_file, in_log);
    /* a log may claim any number of pages, but holds only as many as it has frames */
    const int64_t most = in_file + log_end / pages->page_bytes;
    if (n == 0 || most >= UINT32_MAX)
        return s2_diag_set(diag, S2_EPARSE, 0, 0, 0, "%s: no page of a database is in it", path);
    pages->n_pages = (uint32_t)s2_min_i64(n, most);
    S2_TRY(allocate_tables(pages));
    if (log_end > 0)
        read_log(pages, log_end);
    return S2_OK;
}

s2_status s2_pages_open(const char *path, s2_pages **out, s2_diag *diag)
{
    s2_pages *pages = s2_calloc(1, sizeof *pages);
    if (pages == NULL)
        return S2_ENOMEM;
    pages->fd = pages->log_fd = -1;
    const s2_status status = open_steps(pages, path, diag);
    if (status != S2_OK) {
        s2_pages_close(&pages);
        return status;
    }
    *out = pages;
    return S2_OK;
}

void s2_pages_close(s2_pages **handle)
{
    s2_pages *const pages = *handle;
    if (pages == NULL)
        return;
    if (pages->fd >= 0)
        close(pages->fd);
    if (pages->log_fd >= 0)
        close(pages->log_fd);
    s2_free(pages->seen);
    s2_free(pages->frame_of);
    s2_free(pages->page);
    s2_free(pages->overflow);
    s2_free(pages->record);
    s2_free(pages->waiting);
    s2_free(pages);
    *handle = NULL;
}

s2_pages_head s2_pages_read_head(s2_pages *pages)
{
    if (!fetch(pages, 1, pages->page) || memcmp(pages->page, "SQLite format 3", 16) != 0)
        return (s2_pages_head){0};
    return (s2_pages_head){true, read4(pages->page + 68), read4(pages->page + 60)};
}

/* ---- records */

/* 7 bits per byte, the ninth byte whole. Returns the bytes consumed; 0: the end came first. */
static size_t read_varint(const uint8_t *bytes, const uint8_t *end, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t n = 0; n < 9 && bytes + n < end; n++) {
        if (n == 8) {
            *out = value << 8 | bytes[n];
            return 9;
        }
        value = value << 7 | (bytes[n] & 0x7f);
        if ((bytes[n] & 0x80) == 0) {
            *out = value;
            return n + 1;
        }
    }
    return 0;
}

static int64_t read_int(const uint8_t *bytes, size_t n)
{
    uint64_t value = n > 0 && (bytes[0] & 0x80) != 0 ? UINT64_MAX : 0;
    for (size_t byte = 0; byte < n; byte++)
        value = value << 8 | bytes[byte];
    return (int64_t)value;
}

static double read_real(const uint8_t *bytes)
{
    const int64_t bits = read_int(bytes, 8);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* One value by its type number; returns the bytes consumed, or SIZE_MAX when it does not fit. */
static size_t read_value(uint64_t type, const uint8_t *bytes, const uint8_t *end, s2_value *out)
{
    static const size_t sizes[] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0};
    const size_t room = (size_t)(end - bytes);
    *out = (s2_value){.kind = S2_VALUE_NULL};
    if (type >= 12) {
        const uint64_t n = (type - 12) / 2;
        if (n > room)
            return SIZE_MAX;
        *out = (s2_value){
            .kind = type % 2 == 0 ? S2_VALUE_BLOB : S2_VALUE_TEXT, .bytes = bytes, .n_bytes = (size_t)n};
        return (size_t)n;
    }
    if (type > 9 || sizes[type] > room)
        return SIZE_MAX;
    if (type == 7)
        *out = (s2_value){.kind = S2_VALUE_REAL, .real = read_real(bytes)};
    else if (type != 0)
        *out = (s2_value){.kind = S2_VALUE_INT,
                          .whole = type >= 8 ? (int64_t)type - 8 : read_int(bytes, sizes[type])};
    return sizes[type];
}

static bool read_record(const uint8_t *bytes, size_t n_bytes, s2_record *out)
{
    const uint8_t *const end = bytes + n_bytes;
    uint64_t head_bytes, type;
    size_t n = read_varint(bytes, end, &head_bytes);
    if (n == 0 || head_bytes > n_bytes || head_bytes < n)
        return false;
    const uint8_t *type_at = bytes + n, *const types_end = bytes + head_bytes, *value_at = types_end;
    for (out->n_values = 0; type_at < types_end; out->n_values++) {
        n = read_varint(type_at, types_end, &type);
        if (n == 0 || out->n_values == S2_RECORD_VALUES)
            return false;
        type_at += n;
        n = read_value(type, value_at, end, &out->values[out->n_values]);
        if (n == SIZE_MAX)
            return false;
        value_at += n;
    }
    return out->n_values > 0;
}

/* ---- cells */

/* How much of a payload is in its cell; the rest is in a chain of pages. */
static size_t local_bytes(const s2_pages *pages, uint64_t n_bytes, bool key)
{
    const uint64_t usable = pages->usable;
    const uint64_t most = key ? (usable - 12) * 64 / 255 - 23 : usable - 35;
    const uint64_t least = (usable - 12) * 32 / 255 - 23;
    if (n_bytes <= most)
        return (size_t)n_bytes;
    const uint64_t fitting = least + (n_bytes - least) % (usable - 4);
    return (size_t)(fitting <= most ? fitting : least);
}

/*
 * The payload's length bounds the chain. Its pages are not marked as seen: a broken chain leads to pages that
 * are not its own, and the first byte of a page that is says that it holds no rows.
 */
static bool read_chain(s2_pages *pages, uint32_t number, size_t have, size_t n_bytes)
{
    while (have < n_bytes) {
        if (!fetch(pages, number, pages->overflow))
            return false;
        const size_t room = pages->usable - 4, rest = n_bytes - have, n = s2_min_size(rest, room);
        memcpy(pages->record + have, pages->overflow + 4, n);
        have += n;
        number = read4(pages->overflow);
    }
    return true;
}

/* The record of a cell whose payload begins at `payload`. */
static bool read_payload(s2_pages *pages, const uint8_t *payload, uint64_t n_bytes, bool key, s2_record *out)
{
    const uint8_t *const end = pages->page + pages->usable;
    const size_t local = local_bytes(pages, n_bytes, key);
    if (n_bytes > S2_RECORD_BYTES || local > (size_t)(end - payload))
        return false;
    memcpy(pages->record, payload, local);
    if (local < n_bytes) {
        if (end - payload < (ptrdiff_t)local + 4 ||
            !read_chain(pages, read4(payload + local), local, (size_t)n_bytes))
            return false;
    }
    return read_record(pages->record, (size_t)n_bytes, out);
}

static bool read_cell(s2_pages *pages, const uint8_t *bytes, uint8_t kind, s2_record *out)
{
    const uint8_t *const end = pages->page + pages->usable;
    uint64_t n_bytes, rowid = 0;
    if (kind == KEY_INNER)
        bytes += 4;
    size_t n = bytes < end ? read_varint(bytes, end, &n_bytes) : 0;
    if (n == 0)
        return false;
    bytes += n;
    if (kind == TABLE_LEAF) {
        n = read_varint(bytes, end, &rowid);
        if (n == 0)
            return false;
        bytes += n;
    }
    out->rowid = (int64_t)rowid;
    return read_payload(pages, bytes, n_bytes, kind != TABLE_LEAF, out);
}

/* ---- pages */

/* The page at work, read as a page of a tree. */
typedef struct tree_page {
    uint8_t kind;
    uint32_t n_cells;
    const uint8_t *head; /* after the file's own head on page 1 */
    const uint8_t *cells;
} tree_page;

static bool is_inner(uint8_t kind)
{
    return kind == TABLE_INNER || kind == KEY_INNER;
}

static bool read_node(s2_pages *pages, uint32_t number, tree_page *out)
{
    if (!fetch(pages, number, pages->page))
        return false;
    const uint32_t skip = number == 1 ? HEAD_BYTES : 0;
    out->head = pages->page + skip;
    out->kind = out->head[0];
    out->n_cells = read2(out->head + 3);
    out->cells = out->head + (is_inner(out->kind) ? 12 : 8);
    const bool known = out->kind == TABLE_LEAF || out->kind == KEY_LEAF || is_inner(out->kind);
    return known && out->n_cells <= (pages->usable - skip - 12) / 2;
}

static const uint8_t *cell_at(const s2_pages *pages, const tree_page *node, uint32_t n)
{
    const uint32_t offset = read2(node->cells + (size_t)2 * n);
    return offset + 4 <= pages->usable ? pages->page + offset : NULL;
}

static void wait_for(s2_pages *pages, uint32_t number)
{
    if (number < 1 || number > pages->n_pages || pages->seen[number])
        return;
    pages->seen[number] = true;
    pages->waiting[pages->n_waiting++] = number;
}

static void wait_for_children(s2_pages *pages, const tree_page *node)
{
    for (uint32_t n = 0; n < node->n_cells; n++) {
        const uint8_t *const cell = cell_at(pages, node, n);
        if (cell != NULL)
            wait_for(pages, read4(cell));
    }
    wait_for(pages, read4(node->head + 8));
}

/* Reading a record does not overwrite cells: chains have their own buffer. */
static bool take_cells(s2_pages *pages, const tree_page *node, s2_record_fn take, void *user, int64_t *n_bad)
{
    s2_record record;
    for (uint32_t n = 0; n < node->n_cells; n++) {
        const uint8_t *const cell = cell_at(pages, node, n);
        if (cell == NULL || !read_cell(pages, cell, node->kind, &record))
            (*n_bad)++;
        else if (!take(user, &record))
            return false;
    }
    return true;
}

s2_status s2_pages_tree(s2_pages *pages, uint32_t root, bool by_key, s2_record_fn take, void *user,
                        int64_t *n_bad)
{
    const uint8_t leaf = by_key ? KEY_LEAF : TABLE_LEAF, inner = by_key ? KEY_INNER : TABLE_INNER;
    tree_page node;
    pages->n_waiting = 0;
    wait_for(pages, root);
    while (pages->n_waiting > 0) {
        const uint32_t number = pages->waiting[--pages->n_waiting];
        if (!read_node(pages, number, &node) || (node.kind != leaf && node.kind != inner)) {
            (*n_bad)++;
            continue;
        }
        if (node.kind == inner)
            wait_for_children(pages, &node);
        if (node.kind != TABLE_INNER && !take_cells(pages, &node, take, user, n_bad))
            return S2_EDB;
    }
    return S2_OK;
}

void s2_pages_skip_free(s2_pages *pages)
{
    if (!s2_pages_read_head(pages).is_sqlite)
        return;
    uint32_t trunk = read4(pages->page + 32);
    while (trunk >= 1 && trunk <= pages->n_pages && !pages->seen[trunk] && fetch(pages, trunk, pages->page)) {
        pages->seen[trunk] = true;
        const uint32_t n = read4(pages->page + 4), most = pages->usable / 4 - 2;
        for (uint32_t leaf = 0; leaf < n && leaf < most; leaf++) {
            const uint32_t number = read4(pages->page + 8 + (size_t)4 * leaf);
            if (number >= 1 && number <= pages->n_pages)
                pages->seen[number] = true;
        }
        trunk = read4(pages->page);
    }
}

/* The first page behind this one that is not in a hole of the file. A few bytes on a disk can claim terabytes. */
static uint32_t page_behind_hole(const s2_pages *pages, uint32_t number)
{
    const off_t data = lseek(pages->fd, (off_t)number * pages->page_bytes, SEEK_DATA);
    if (data >= 0)
        return (uint32_t)s2_min_i64(data / pages->page_bytes, pages->n_pages) + 1;
    return errno == ENXIO ? pages->n_pages + 1 : number + 1;
}

s2_status s2_pages_orphans(s2_pages *pages, s2_record_fn take, void *user, int64_t *n_bad)
{
    tree_page node;
    uint32_t with_data = 2;
    for (uint32_t number = 2; number <= pages->n_pages; number++) {
        if (pages->seen[number] || (number < with_data && pages->frame_of[number] == 0))
            continue;
        if (!read_node(pages, number, &node)) {
            with_data = page_behind_hole(pages, number);
            continue;
        }
        if (node.kind != TABLE_LEAF)
            continue;
        pages->seen[number] = true;
        if (!take_cells(pages, &node, take, user, n_bad))
            return S2_EDB;
    }
    return S2_OK;
}
