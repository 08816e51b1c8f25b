#include "pattern/mask.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "pattern/codes.h"

/*
 * The .npy layout (NumPy's documented format): magic, version, length of the header, a Python dict
 * literal padded so that the data start at a multiple of 64 or 128 bytes, the data.
 */
enum {
    PREFIX_BYTES = 10,      /* magic, version, 16-bit length; two more with a 32-bit length */
    HEADER_LIMIT = 1 << 16, /* far above any header NumPy writes for a boolean array */
    DATA_ALIGN = 128,
    MOST_DIMS = 3,
    SCAN_BYTES = 1 << 20
};
static const char magic[] = "\x93NUMPY";

typedef struct header {
    bool has_dtype, has_order, has_shape;
    bool is_bool, is_packed, fortran;
    int32_t n_dims;
    int64_t shape[MOST_DIMS];
} header;

typedef struct cursor {
    const char *pos;
    const char *end;
} cursor;

static s2_status refuse(s2_diag *diag, const char *path, const char *why)
{
    return s2_diag_set(diag, S2_EPARSE, S2P_MASK_FORMAT, 0, 0, "%.120s: %s", path, why);
}

static void skip_blanks(cursor *c)
{
    while (c->pos < c->end && (*c->pos == ' ' || *c->pos == '\n' || *c->pos == '\t'))
        c->pos++;
}

static bool take(cursor *c, char byte)
{
    skip_blanks(c);
    if (c->pos == c->end || *c->pos != byte)
        return false;
    c->pos++;
    return true;
}

static bool take_text(cursor *c, const char *text)
{
    const size_t n = strlen(text);
    skip_blanks(c);
    if ((size_t)(c->end - c->pos) < n || memcmp(c->pos, text, n) != 0)
        return false;
    c->pos += n;
    return true;
}

/* A Python string literal without escapes, as NumPy writes it. */
static bool take_string(cursor *c, const char **text, size_t *n)
{
    skip_blanks(c);
    if (c->pos == c->end || (*c->pos != '\'' && *c->pos != '"'))
        return false;
    const char *const close = memchr(c->pos + 1, *c->pos, (size_t)(c->end - c->pos - 1));
    if (close == NULL)
        return false;
    *text = c->pos + 1;
    *n = (size_t)(close - *text);
    c->pos = close + 1;
    return true;
}

static bool take_index(cursor *c, int64_t *out)
{
    skip_blanks(c);
    if (c->pos == c->end || *c->pos < '0' || *c->pos > '9')
        return false;
    int64_t value = 0;
    for (; c->pos < c->end && *c->pos >= '0' && *c->pos <= '9'; c->pos++)
        if (!s2_mul_i64(value, 10, &value) || !s2_add_i64(value, *c->pos - '0', &value))
            return false;
    *out = value;
    return true;
}

static const char *read_shape(cursor *c, header *out)
{
    if (!take(c, '('))
        return "the shape in its header is not a tuple";
    while (!take(c, ')')) {
        int64_t extent;
        if (!take_index(c, &extent))
            return "the shape in its header is not a tuple of sizes";
        if (out->n_dims == MOST_DIMS)
            return "it has more than 3 dimensions; expected [heads, nq, nk] or [nq, nk]";
        out->shape[out->n_dims++] = extent;
        if (!take(c, ',')) {
            if (!take(c, ')'))
                return "the shape in its header is not closed";
            break;
        }
    }
    out->has_shape = true;
    return NULL;
}

static const char *read_entry(cursor *c, const char *key, size_t n, header *out)
{
    if (s2_text_is("descr", key, n) && !out->has_dtype) {
        const char *dtype;
        size_t n_dtype;
        if (!take_string(c, &dtype, &n_dtype))
            return "its dtype is not a plain one; expected bool";
        out->has_dtype = true;
        out->is_bool = s2_text_is("|b1", dtype, n_dtype) || s2_text_is("?", dtype, n_dtype) ||
                       s2_text_is("bool", dtype, n_dtype);
        out->is_packed = s2_text_is("|u1", dtype, n_dtype) || s2_text_is("uint8", dtype, n_dtype);
        return NULL;
    }
    if (s2_text_is("fortran_order", key, n) && !out->has_order) {
        out->has_order = true;
        out->fortran = take_text(c, "True");
        return out->fortran || take_text(c, "False")
                   ? NULL
                   : "fortran_order in its header is neither True nor False";
    }
    if (s2_text_is("shape", key, n) && !out->has_shape)
        return read_shape(c, out);
    return "its header has an unknown or repeated key";
}

/* NULL, or what is wrong with the dict literal. */
static const char *read_header(const char *text, size_t n, header *out)
{
    cursor c = {text, text + n};
    if (!take(&c, '{'))
        return "its header is not a dict";
    while (!take(&c, '}')) {
        const char *key;
        size_t n_key;
        if (!take_string(&c, &key, &n_key) || !take(&c, ':'))
            return "its header is damaged";
        const char *const fault = read_entry(&c, key, n_key, out);
        if (fault != NULL)
            return fault;
        if (!take(&c, ',')) {
            if (!take(&c, '}'))
                return "its header is damaged";
            break;
        }
    }
    skip_blanks(&c);
    if (c.pos != c.end)
        return "text follows the dict in its header";
    if (!out->has_dtype || !out->has_order || !out->has_shape)
        return "its header lacks descr, fortran_order or shape";
    return NULL;
}

static const char *header_fault(header *head)
{
    if (!head->is_bool && !head->is_packed)
        return "its dtype is neither bool nor uint8: save mask.astype(bool)";
    if (head->fortran)
        return "it is in Fortran order; save it with np.ascontiguousarray";
    if (head->n_dims < 2)
        return "it has fewer than 2 dimensions; expected [heads, nq, nk] or [nq, nk]";
    for (int32_t dim = 0; dim < head->n_dims; dim++)
        if (head->shape[dim] < 1 || head->shape[dim] > S2_LIMIT_CONTEXT_TOK)
            return "a dimension is 0 or above 2^24";
    const int64_t *const extent = head->shape + (head->n_dims - 2);
    head->is_packed &= extent[1] == (extent[0] + 7) / 8; /* else uint8 holds 0 and 1 as bool does */
    if (head->n_dims == 3 && head->shape[0] > S2_LIMIT_HEADS)
        return "it has more than 4096 heads";
    return NULL;
}

/* Offset of the data, or 0 with the reason in *fault. */
static size_t read_prefix(const unsigned char *bytes, size_t n, header *head, const char **fault)
{
    *fault = "it is not a .npy file";
    if (n < PREFIX_BYTES || memcmp(bytes, magic, 6) != 0)
        return 0;
    const bool wide = bytes[6] >= 2;
    *fault = "its .npy version is unknown";
    if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0)
        return 0;
    const size_t begin = wide ? PREFIX_BYTES + 2 : PREFIX_BYTES;
    *fault = "its header is cut off or too long";
    if (n < begin)
        return 0;
    size_t n_header = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (wide)
        n_header |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (n_header > HEADER_LIMIT || n_header > n - begin)
        return 0;
    *fault = read_header((const char *)bytes + begin, n_header, head);
    if (*fault == NULL)
        *fault = header_fault(head);
    return *fault == NULL ? begin + n_header : 0;
}

/* NULL, or what is wrong with the size. */
static const char *size_fault(const header *head, size_t n_bytes, size_t data_at)
{
    int64_t n_cells = 1;
    for (int32_t dim = 0; dim < head->n_dims; dim++)
        if (!s2_mul_i64(n_cells, head->shape[dim], &n_cells))
            return "its shape overflows";
    if ((uint64_t)n_cells > n_bytes - data_at)
        return "it is shorter than its shape says";
    return (uint64_t)n_cells < n_bytes - data_at ? "it is longer than its shape says" : NULL;
}

static bool all_zero_or_one(const uint8_t *bytes, size_t n)
{
    for (size_t begin = 0; begin < n; begin += SCAN_BYTES) {
        const size_t end = n - begin < SCAN_BYTES ? n : begin + SCAN_BYTES;
        uint8_t any = 0;
        for (size_t at = begin; at < end; at++)
            any |= bytes[at];
        if (any > 1)
            return false;
    }
    return true;
}

typedef struct file_part {
    size_t begin;
    size_t end;
} file_part;

/*
 * The next data of a file from *from on, which moves behind them; false: there are none. Holes of a sparse file are
 * zeros, so nobody looks at them. Where the file system cannot tell, everything counts as data.
 */
static bool next_data(int fd, size_t n_bytes, size_t *from, file_part *out)
{
    if (*from >= n_bytes)
        return false;
    const off_t data = lseek(fd, (off_t)*from, SEEK_DATA);
    if (data < 0) {
        *out = (file_part){*from, n_bytes};
        *from = n_bytes;
        return errno != ENXIO;
    }
    const off_t hole = lseek(fd, data, SEEK_HOLE);
    out->begin = s2_min_size((size_t)data, n_bytes);
    out->end = hole > data && (size_t)hole < n_bytes ? (size_t)hole : n_bytes;
    *from = out->end;
    return true;
}

static bool data_are_boolean(int fd, const uint8_t *file, size_t data_at, size_t n_bytes)
{
    file_part data;
    for (size_t at = data_at; next_data(fd, n_bytes, &at, &data);)
        if (!all_zero_or_one(file + data.begin, data.end - data.begin))
            return false;
    return true;
}

static int64_t count_bits(const uint8_t *bytes, size_t n)
{
    int64_t n_set = 0;
    size_t byte = 0;
    for (uint64_t word; n - byte >= sizeof word; byte += sizeof word) {
        memcpy(&word, bytes + byte, sizeof word);
        if (word != 0) /* nearly always 0 in a mask of causal attention */
            n_set += __builtin_popcountll(word);
    }
    for (; byte < n; byte++)
        n_set += __builtin_popcount(bytes[byte]);
    return n_set;
}

/* Whether bytes [begin, end) of the row of query q hold a key after q. */
static int64_t later_in_row(const header *head, const uint8_t *row, size_t begin, size_t end, size_t q)
{
    const size_t first = head->is_packed ? (q + 1) / 8 : q + 1;
    const size_t n_keys = (size_t)head->shape[head->n_dims - 2]; /* of a packed mask, which is square */
    const size_t from = s2_max_size(begin, first);
    int64_t n = from < end ? count_bits(row + from, end - from) : 0;
    if (head->is_packed && from < end && from == first) /* keys up to q share its byte */
        n -= __builtin_popcount(row[first] & ~(0xffU >> (q + 1) % 8) & 0xffU);
    if (head->is_packed && from < end && n_keys / 8 >= from && n_keys / 8 < end) /* and padding the last */
        n -= __builtin_popcount(row[n_keys / 8] & 0xffU >> n_keys % 8);
    return n;
}

static int64_t count_later(int fd, const uint8_t *file, size_t data_at, size_t n_bytes, const header *head)
{
    const size_t n_rows = (size_t)head->shape[head->n_dims - 2],
                 n_row = (size_t)head->shape[head->n_dims - 1];
    int64_t n = 0;
    file_part data;
    for (size_t byte = data_at; next_data(fd, n_bytes, &byte, &data);)
        for (size_t cell = data.begin - data_at; cell < data.end - data_at;) {
            const size_t row = cell / n_row, begin = cell % n_row;
            const size_t rest = data.end - data_at - cell;
            const size_t end = rest < n_row - begin ? begin + rest : n_row;
            n += later_in_row(head, file + data_at + row * n_row, begin, end, row % n_rows);
            cell += end - begin;
        }
    return n;
}

/* Check header, size and values before any are trusted; *data_at is where the data begin in the file. */
static s2_status check_file(int fd, const char *path, const uint8_t *file, size_t n_bytes, header *head,
                            size_t *data_at, s2_diag *diag)
{
    const char *fault;
    const size_t data_begin = read_prefix(file, n_bytes, head, &fault);
    if (data_begin == 0)
        return refuse(diag, path, fault);
    fault = size_fault(head, n_bytes, data_begin);
    if (fault != NULL)
        return refuse(diag, path, fault);
    if (!head->is_packed && !data_are_boolean(fd, file, data_begin, n_bytes))
        return refuse(diag, path, "it holds values other than 0 and 1");
    *data_at = data_begin;
    return S2_OK;
}

static s2_status map_file(int fd, const char *path, s2_mask *out, s2_diag *diag)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return s2_diag_set(diag, S2_EIO, S2P_MASK_FILE, 0, 0, "%.120s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return s2_diag_set(diag, S2_EIO, S2P_MASK_FILE, 0, 0, "%.120s: not a regular file", path);
    if (info.st_size < PREFIX_BYTES)
        return refuse(diag, path, "it is not a .npy file");
    const size_t n_bytes = (size_t)info.st_size;
    uint8_t *const file = mmap(NULL, n_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (file == MAP_FAILED)
        return s2_diag_set(diag, S2_EIO, S2P_MASK_FILE, 0, 0, "%.120s: %s", path, strerror(errno));
    header head = {0};
    size_t data_at = 0;
    const s2_status status = check_file(fd, path, file, n_bytes, &head, &data_at, diag);
    if (status != S2_OK) {
        munmap(file, n_bytes);
        return status;
    }
    const int64_t *const extent = head.shape + (head.n_dims - 2);
    *out = (s2_mask){.path = out->path,
                     .n_heads = head.n_dims == 3 ? (int32_t)head.shape[0] : 1,
                     .n_q_blk = (int32_t)extent[0],
                     .n_k_blk = (int32_t)extent[head.is_packed ? 0 : 1],
                     .allowed = file + data_at,
                     .n_later = count_later(fd, file, data_at, n_bytes, &head),
                     .packed = head.is_packed};
    return S2_OK;
}

s2_status s2_mask_load(s2_arena *arena, const char *path, s2_mask *out, s2_diag *diag)
{
    const char *const copy = s2_arena_strndup(arena, path, strlen(path));
    if (copy == NULL)
        return S2_ENOMEM;
    /* a FIFO must not make the caller wait for a writer */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return s2_diag_set(diag, S2_EIO, S2P_MASK_FILE, 0, 0, "%.120s: %s", path, strerror(errno));
    s2_mask mask = {.path = copy};
    const s2_status status = map_file(fd, path, &mask, diag);
    close(fd);
    if (status == S2_OK)
        *out = mask;
    return status;
}

/* The header is at most a few pages, so the mapping starts at a page boundary that it determines. */
static uint8_t *mapping_start(const s2_mask *mask)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)mask->allowed & ~(page - 1);
    if (start == (uintptr_t)mask->allowed)
        start -= page;
    while (memcmp((const void *)start, magic, 6) != 0)
        start -= page;
    return (uint8_t *)start;
}

void s2_mask_unmap(s2_mask *mask)
{
    if (mask->allowed == NULL)
        return;
    uint8_t *const file = mapping_start(mask);
    const size_t n_data = (size_t)mask->n_heads * (size_t)mask->n_q_blk * (size_t)s2_mask_row_bytes(mask);
    munmap(file, (size_t)(mask->allowed - file) + n_data);
    mask->allowed = NULL;
}

s2_status s2_npy_header(const char *dtype, const int64_t *shape, int32_t n_dims, s2_buf *out)
{
    const size_t start = out->len;
    s2_buf_add(out, "\x93NUMPY\x01\x00\x00\x00", PREFIX_BYTES);
    s2_buf_printf(out, "{'descr': '%s', 'fortran_order': False, 'shape': (", dtype);
    for (int32_t dim = 0; dim < n_dims; dim++)
        s2_buf_printf(out,
                      n_dims == 1        ? "%lld,"
                      : dim + 1 < n_dims ? "%lld, "
                                         : "%lld",
                      (long long)shape[dim]);
    s2_buf_puts(out, "), }");
    const size_t used = out->len - start + 1; /* the line end closes the header */
    for (size_t pad = (DATA_ALIGN - used % DATA_ALIGN) % DATA_ALIGN; pad > 0; pad--)
        s2_buf_puts(out, " ");
    s2_buf_puts(out, "\n");
    if (out->status != S2_OK)
        return out->status;
    const size_t n_header = out->len - start - PREFIX_BYTES;
    out->data[start + 8] = (char)(n_header & 0xff);
    out->data[start + 9] = (char)(n_header >> 8);
    return S2_OK;
}
