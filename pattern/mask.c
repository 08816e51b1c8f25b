#include "pattern/mask.h"

#include <errno.h>
#include <fcntl.h>
#include <sha2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "base/file.h"
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

/* A run of bytes; in a file, or of the data of a mask. */
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

static int64_t count_later(const header *head, const uint8_t *cells, file_part part)
{
    const size_t n_rows = (size_t)head->shape[head->n_dims - 2],
                 n_row = (size_t)head->shape[head->n_dims - 1];
    int64_t n = 0;
    for (size_t cell = part.begin; cell < part.end;) {
        const size_t row = cell / n_row, begin = cell % n_row;
        const size_t rest = part.end - cell;
        const size_t end = rest < n_row - begin ? begin + rest : n_row;
        n += later_in_row(head, cells + row * n_row, begin, end, row % n_rows);
        cell += end - begin;
    }
    return n;
}

/* --- the digest ------------------------------------------------------------------------------------ */

/*
 * Rows as np.packbits writes them, one behind the other, are cut into pieces of 64 bytes; hashed are the shape and
 * each run of equal pieces, as its number of pieces (8 bytes, the lowest first) and the piece. Most masks repeat
 * themselves, and a hash of a GiB takes longer than deciding it.
 */
enum { PIECE = 64 };

typedef struct digest {
    SHA2_CTX sha;
    uint8_t piece[PIECE]; /* that the run repeats */
    uint64_t n_same;
    size_t n_pieces; /* in all */
} digest;

static void end_run(digest *d)
{
    uint8_t n[8];
    for (size_t byte = 0; byte < sizeof n; byte++)
        n[byte] = (uint8_t)(d->n_same >> 8 * byte);
    if (d->n_same > 0) {
        SHA256Update(&d->sha, n, sizeof n);
        SHA256Update(&d->sha, d->piece, PIECE);
    }
    d->n_same = 0;
}

static void add_pieces(digest *d, const uint8_t *piece, size_t n)
{
    if (n > 0 && (d->n_same == 0 || memcmp(d->piece, piece, PIECE) != 0)) {
        end_run(d);
        memcpy(d->piece, piece, PIECE);
    }
    d->n_same += n;
    d->n_pieces += n;
}

/* What nobody wrote. */
static void add_zeros_up_to(digest *d, size_t piece)
{
    static const uint8_t zeros[PIECE];
    if (piece > d->n_pieces)
        add_pieces(d, zeros, piece - d->n_pieces);
}

/* Up to 8 cells in a byte, the first in bit 7. */
static uint8_t pack_cells(const uint8_t *cells, int64_t n)
{
    static const uint8_t zeros[8];
    uint8_t bits = 0;
    if (n >= 8 && memcmp(cells, zeros, sizeof zeros) == 0)
        return 0;
    for (int64_t cell = 0; cell < n && cell < 8; cell++)
        bits |= (uint8_t)(cells[cell] << (7 - cell));
    return bits;
}

/* Bytes of a packed row. */
static size_t packed_row(const s2_mask *mask)
{
    return (size_t)s2_ceil_div(mask->n_k_blk, 8);
}

/* Bytes of all rows, packed. */
static size_t packed_bytes(const s2_mask *mask)
{
    return (size_t)mask->n_heads * (size_t)mask->n_q_blk * packed_row(mask);
}

/* A piece where it lies, or built in `room`. */
static const uint8_t *piece_of(const s2_mask *mask, size_t piece, uint8_t room[PIECE])
{
    const size_t n_row = packed_row(mask), begin = piece * PIECE,
                 n = s2_min_size(packed_bytes(mask) - begin, PIECE);
    if (mask->packed && n == PIECE)
        return mask->allowed + begin;
    memset(room, 0, PIECE);
    if (mask->packed)
        memcpy(room, mask->allowed + begin, n);
    size_t row = begin / n_row, col = begin % n_row;
    for (size_t byte = 0; byte < n && !mask->packed; byte++) {
        const int64_t key = 8 * (int64_t)col;
        room[byte] = pack_cells(mask->allowed + (int64_t)row * mask->n_k_blk + key, mask->n_k_blk - key);
        col = col + 1 < n_row ? col + 1 : 0;
        row += col == 0;
    }
    return room;
}

/* The piece that holds a byte of the data. */
static size_t piece_at(const s2_mask *mask, size_t byte)
{
    const size_t n_row = (size_t)s2_mask_row_bytes(mask);
    return (mask->packed ? byte : byte / n_row * packed_row(mask) + byte % n_row / 8) / PIECE;
}

/* All data outside the parts, which are in order, are zero. */
static void seal(s2_mask *mask, const file_part *parts, int64_t n_parts)
{
    digest d = {0};
    char shape[64];
    uint8_t room[PIECE];
    const int n = snprintf(shape, sizeof shape, "%d %d %d\n", mask->n_heads, mask->n_q_blk, mask->n_k_blk);
    SHA256Init(&d.sha);
    SHA256Update(&d.sha, (const uint8_t *)shape, (size_t)n);
    for (int64_t p = 0; p < n_parts; p++) {
        add_zeros_up_to(&d, piece_at(mask, parts[p].begin));
        const size_t last = piece_at(mask, parts[p].end - 1);
        while (d.n_pieces <= last)
            add_pieces(&d, piece_of(mask, d.n_pieces, room), 1);
    }
    add_zeros_up_to(&d, (size_t)s2_ceil_div((int64_t)packed_bytes(mask), PIECE));
    end_run(&d);
    SHA256End(&d.sha, mask->digest);
}

void s2_mask_seal(s2_mask *mask)
{
    const size_t n_rows = (size_t)mask->n_heads * (size_t)mask->n_q_blk;
    seal(mask, &(file_part){0, n_rows * (size_t)s2_mask_row_bytes(mask)}, 1);
}

/* --- files ----------------------------------------------------------------------------------------- */

static s2_status fail(s2_diag *diag, const char *path)
{
    return s2_diag_set(diag, S2_EIO, S2P_MASK_FILE, 0, 0, "%.120s: %s", path, strerror(errno));
}

/* Fewer bytes only where the file ends. */
static bool read_bytes(int fd, size_t from, size_t n, uint8_t *to, size_t *n_read)
{
    *n_read = 0;
    while (*n_read < n) {
        const ssize_t got = pread(fd, to + *n_read, n - *n_read, (off_t)(from + *n_read));
        if (got == 0)
            return true;
        if (got < 0 && errno != EINTR)
            return false;
        *n_read += got > 0 ? (size_t)got : 0;
    }
    return true;
}

/* An open file whose header is understood. */
typedef struct source {
    int fd;
    const char *path;
    s2_diag *diag;
    s2_arena arena;
    size_t n_bytes;
    struct stat info; /* before anything was read */
    uint8_t *first;   /* bytes, the header among them */
    size_t n_first;
    header head;
    size_t data_at;
    file_part *parts; /* of the data that are not in holes */
    int64_t n_parts;
    int64_t cap_parts;
} source;

static s2_status read_head(source *s)
{
    if (fstat(s->fd, &s->info) != 0)
        return fail(s->diag, s->path);
    if (!S_ISREG(s->info.st_mode))
        return s2_diag_set(s->diag, S2_EIO, S2P_MASK_FILE, 0, 0, "%.120s: not a regular file", s->path);
    s->n_bytes = (size_t)s->info.st_size;
    const size_t most = s2_min_size(s->n_bytes, PREFIX_BYTES + 2 + HEADER_LIMIT);
    s->first = S2_NEW(&s->arena, uint8_t, most + 1);
    const char *fault;
    if (s->first == NULL)
        return S2_ENOMEM;
    if (!read_bytes(s->fd, 0, most, s->first, &s->n_first))
        return fail(s->diag, s->path);
    s->data_at = read_prefix(s->first, s->n_first, &s->head, &fault);
    if (s->data_at > 0)
        fault = size_fault(&s->head, s->n_bytes, s->data_at);
    return fault != NULL ? refuse(s->diag, s->path, fault) : S2_OK;
}

static s2_status read_cells(source *s, uint8_t *cells, int64_t *n_later)
{
    file_part data;
    for (size_t byte = s->data_at; next_data(s->fd, s->n_bytes, &byte, &data);) {
        const file_part part = {data.begin - s->data_at, data.end - s->data_at};
        size_t n;
        if (!read_bytes(s->fd, data.begin, part.end - part.begin, cells + part.begin, &n))
            return fail(s->diag, s->path);
        if (n < part.end - part.begin)
            return refuse(s->diag, s->path, "it changed while it was read");
        if (!s->head.is_packed && !all_zero_or_one(cells + part.begin, n))
            return refuse(s->diag, s->path, "it holds values other than 0 and 1");
        *n_later += count_later(&s->head, cells, part);
        S2_TRY(S2_ARENA_ROOM(&s->arena, s->parts, s->n_parts, s->cap_parts));
        s->parts[s->n_parts++] = part;
    }
    return S2_OK;
}

/*
 * Whether header and cells stood in the file together. Data may have come where holes were, and the other way round;
 * behind its end a file that became shorter looks like a hole.
 */
static bool still_holds(const source *s, const uint8_t *cells)
{
    file_part data;
    if (s2_file_is_unchanged(s->fd, &s->info))
        return true;
    struct stat now;
    bool same = fstat(s->fd, &now) == 0 && now.st_size == s->info.st_size &&
                s2_file_still_holds(s->fd, 0, s->first, s->n_first);
    for (int64_t p = 0; p < s->n_parts && same; p++)
        same = s2_file_still_holds(s->fd, (int64_t)(s->data_at + s->parts[p].begin),
                                   cells + s->parts[p].begin, s->parts[p].end - s->parts[p].begin);
    for (size_t byte = s->data_at; same && next_data(s->fd, s->n_bytes, &byte, &data);)
        same = s2_file_still_holds(s->fd, (int64_t)data.begin, cells + (data.begin - s->data_at),
                                   data.end - data.begin);
    return same;
}

static s2_status read_mask(source *s, s2_mask *out)
{
    S2_TRY(read_head(s));
    const size_t n_data = s->n_bytes - s->data_at;
    uint8_t *const cells =
        mmap(NULL, n_data, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (cells == MAP_FAILED)
        return errno == ENOMEM ? S2_ENOMEM : fail(s->diag, s->path);
    int64_t n_later = 0;
    s2_status status = read_cells(s, cells, &n_later);
    if (status == S2_OK && !still_holds(s, cells))
        status = refuse(s->diag, s->path, "it changed while it was read");
    if (status != S2_OK) {
        munmap(cells, n_data);
        return status;
    }
    const int64_t *const extent = s->head.shape + (s->head.n_dims - 2);
    *out = (s2_mask){.path = out->path,
                     .n_heads = s->head.n_dims == 3 ? (int32_t)s->head.shape[0] : 1,
                     .n_q_blk = (int32_t)extent[0],
                     .n_k_blk = (int32_t)extent[s->head.is_packed ? 0 : 1],
                     .allowed = cells,
                     .n_later = n_later,
                     .packed = s->head.is_packed};
    seal(out, s->parts, s->n_parts);
    return S2_OK;
}

s2_status s2_mask_load(s2_arena *arena, const char *path, s2_mask *out, s2_diag *diag)
{
    s2_mask mask = {.path = s2_arena_strndup(arena, path, strlen(path))};
    if (mask.path == NULL)
        return S2_ENOMEM;
    /* a FIFO must not make the caller wait for a writer */
    source s = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), .path = path, .diag = diag};
    if (s.fd < 0)
        return fail(diag, path);
    const s2_status status = read_mask(&s, &mask);
    close(s.fd);
    s2_arena_release(&s.arena);
    if (status == S2_OK)
        *out = mask;
    return status;
}

void s2_mask_unload(s2_mask *mask)
{
    if (mask->allowed != NULL)
        munmap((void *)(uintptr_t)mask->allowed,
               (size_t)mask->n_heads * (size_t)mask->n_q_blk * (size_t)s2_mask_row_bytes(mask));
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
