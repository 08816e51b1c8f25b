#include "tests/s2test.h"

#include <sha2.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "pattern/codes.h"
#include "pattern/mask.h"
#include "pattern/parse.h"

static char scratch_path[64];

static int make_scratch(void **state)
{
    (void)state;
    strcpy(scratch_path, "/tmp/s2_test_mask_XXXXXX");
    const int fd = mkstemp(scratch_path);
    return fd < 0 ? -1 : close(fd);
}

static int drop_scratch(void **state)
{
    (void)state;
    return unlink(scratch_path);
}

static void write_scratch(const void *bytes, size_t n)
{
    FILE *const file = fopen(scratch_path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    fclose(file);
}

/* A file with the given dict and n_data bytes of data; version 1, or 2 and 3 with the long length. */
static void write_npy(int version, const char *dict, size_t n_data, uint8_t fill)
{
    s2_buf buf = {0};
    const size_t n_dict = strlen(dict);
    const unsigned char length[4] = {(unsigned char)n_dict, (unsigned char)(n_dict >> 8), 0, 0};
    s2_buf_add(&buf, "\x93NUMPY", 6);
    s2_buf_add(&buf, (const char[]){(char)version, 0}, 2);
    s2_buf_add(&buf, (const char *)length, version == 1 ? 2 : 4);
    s2_buf_puts(&buf, dict);
    for (size_t byte = 0; byte < n_data; byte++)
        s2_buf_add(&buf, (const char *)&fill, 1);
    write_scratch(buf.data, buf.len);
    s2_buf_release(&buf);
}

static s2_status load(s2_mask *mask, s2_diag *diag)
{
    s2_arena arena = {0};
    s2_mask loaded = {0};
    const s2_status status = s2_mask_load(&arena, scratch_path, &loaded, diag);
    if (status == S2_OK) {
        loaded.path = NULL; /* lived in the arena */
        *mask = loaded;
    }
    s2_arena_release(&arena);
    return status;
}

static void masks_of_the_test_data_have_their_shape_and_bits(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_mask mask = {0};
    s2_diag diag = {0};
    assert_int_equal(s2_mask_load(&arena, "tests/data/masks/mask4.npy", &mask, &diag), S2_OK);
    assert_int_equal(mask.n_heads, 4);
    assert_int_equal(mask.n_q_blk, 8);
    assert_int_equal(mask.n_k_blk, 8);
    for (int32_t cell = 0; cell < 4 * 8 * 8; cell++) {
        const int32_t head = cell / 64, q_blk = cell / 8 % 8, k_blk = cell % 8;
        const bool read = k_blk <= q_blk && (q_blk - k_blk < 2 || (k_blk + head) % 4 == 0);
        assert_int_equal(mask.allowed[cell], read);
    }
    s2_mask_unload(&mask);
    assert_null(mask.allowed);
    assert_int_equal(s2_mask_load(&arena, "tests/data/masks/mask1.npy", &mask, &diag), S2_OK);
    assert_int_equal(mask.n_heads, 1);
    s2_mask_unload(&mask);
    s2_arena_release(&arena);
}

static void headers_are_accepted_or_refused_by_content(void **state)
{
    (void)state;
    static const struct {
        const char *label, *dict;
        int version;
        size_t n_data;
        uint8_t fill;
        const char *words; /* NULL: accepted */
    } rows[] = {
        {"plain", "{'descr': '|b1', 'fortran_order': False, 'shape': (2, 3), }\n", 1, 6, 1, NULL},
        {"version 2", "{'descr': '|b1', 'fortran_order': False, 'shape': (2, 3), }\n", 2, 6, 1, NULL},
        {"version 3", "{'descr': '|b1', 'fortran_order': False, 'shape': (2, 3), }\n", 3, 6, 0, NULL},
        {"other order, no last comma", "{\"shape\":(1,2,3),\"fortran_order\":False,\"descr\":\"?\"}", 1, 6, 1,
         NULL},
        {"version 4", "{'descr': '|b1', 'fortran_order': False, 'shape': (2, 3), }\n", 4, 6, 1, "version"},
        {"float", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 1, 24, 1, "neither bool"},
        {"uint8", "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }\n", 1, 6, 1, NULL},
        {"record", "{'descr': [('a', '|b1')], 'fortran_order': False, 'shape': (2, 3), }\n", 1, 6, 1,
         "dtype"},
        {"fortran", "{'descr': '|b1', 'fortran_order': True, 'shape': (2, 3), }\n", 1, 6, 1, "Fortran"},
        {"order is a number", "{'descr': '|b1', 'fortran_order': 0, 'shape': (2, 3), }\n", 1, 6, 1,
         "neither"},
        {"one dimension", "{'descr': '|b1', 'fortran_order': False, 'shape': (6,), }\n", 1, 6, 1, "fewer"},
        {"no dimension", "{'descr': '|b1', 'fortran_order': False, 'shape': (), }\n", 1, 1, 1, "fewer"},
        {"four dimensions", "{'descr': '|b1', 'fortran_order': False, 'shape': (1,1,2,3), }\n", 1, 6, 1,
         "more than 3"},
        {"empty", "{'descr': '|b1', 'fortran_order': False, 'shape': (0, 3), }\n", 1, 0, 1, "dimension is 0"},
        {"negative", "{'descr': '|b1', 'fortran_order': False, 'shape': (-2, 3), }\n", 1, 6, 1, "sizes"},
        {"huge", "{'descr': '|b1', 'fortran_order': False, 'shape': (4096, 16777216, 16777216), }\n", 1, 6, 1,
         "shorter"},
        {"overflow", "{'descr': '|b1', 'fortran_order': False, 'shape': (99999999999999999999, 3), }\n", 1, 6,
         1, "sizes"},
        {"too many blocks", "{'descr': '|b1', 'fortran_order': False, 'shape': (16777217, 3), }\n", 1, 6, 1,
         "2^24"},
        {"too many heads", "{'descr': '|b1', 'fortran_order': False, 'shape': (4097, 1, 1), }\n", 1, 4097, 1,
         "4096 heads"},
        {"short data", "{'descr': '|b1', 'fortran_order': False, 'shape': (2, 3), }\n", 1, 5, 1, "shorter"},
        {"no data", "{'descr': '|b1', 'fortran_order': False, 'shape': (2, 3), }\n", 1, 0, 1, "shorter"},
        {"long data", "{'descr': '|b1', 'fortran_order': False, 'shape': (2, 3), }\n", 1, 7, 1, "longer"},
        {"value 2", "{'descr': '|b1', 'fortran_order': False, 'shape': (2, 3), }\n", 1, 6, 2,
         "other than 0 and 1"},
        {"value 255", "{'descr': '|b1', 'fortran_order': False, 'shape': (2, 3), }\n", 1, 6, 255,
         "other than 0 and 1"},
        {"no shape", "{'descr': '|b1', 'fortran_order': False}\n", 1, 6, 1, "lacks"},
        {"shape twice", "{'shape': (2,3), 'descr': '|b1', 'fortran_order': False, 'shape': (2, 3)}\n", 1, 6,
         1, "repeated"},
        {"unknown key", "{'descr': '|b1', 'fortran_order': False, 'shape': (2, 3), 'x': 1}\n", 1, 6, 1,
         "unknown"},
        {"not a dict", "['descr']\n", 1, 6, 1, "not a dict"},
        {"open dict", "{'descr': '|b1', 'fortran_order': False, 'shape': (2, 3)\n", 1, 6, 1, "damaged"},
        {"open tuple", "{'descr': '|b1', 'fortran_order': False, 'shape': (2, 3\n", 1, 6, 1, "not closed"},
        {"open string", "{'descr", 1, 6, 1, "damaged"},
        {"text behind", "{'descr': '|b1', 'fortran_order': False, 'shape': (2, 3)} x\n", 1, 6, 1, "follows"},
        {"empty dict", "{}", 1, 6, 1, "lacks"},
        {"nothing", "", 1, 6, 1, "not a dict"},
    };
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        write_npy(rows[row].version, rows[row].dict, rows[row].n_data, rows[row].fill);
        s2_mask mask = {.n_heads = 77};
        s2_diag diag = {0};
        const s2_status status = load(&mask, &diag);
        if (rows[row].words == NULL) {
            if (status != S2_OK)
                fail_msg("%s: %s", rows[row].label, diag.msg);
            assert_int_equal(mask.allowed[5], rows[row].fill);
            s2_mask_unload(&mask);
        } else {
            if (status != S2_EPARSE || diag.code != S2P_MASK_FORMAT ||
                strstr(diag.msg, rows[row].words) == NULL)
                fail_msg("%s: status %d, %s", rows[row].label, status, diag.msg);
            assert_int_equal(mask.n_heads, 77);
        }
    }
}

static void files_that_are_no_arrays_are_refused(void **state)
{
    (void)state;
    s2_mask mask = {0};
    s2_diag diag = {0};
    write_scratch("", 0);
    assert_int_equal(load(&mask, &diag), S2_EPARSE);
    write_scratch("\x93NUMPY\x01\x00\xff\xff", 10);
    assert_int_equal(load(&mask, &diag), S2_EPARSE);
    assert_non_null(strstr(diag.msg, "cut off"));
    write_scratch("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12);
    assert_int_equal(load(&mask, &diag), S2_EPARSE);
    write_scratch("\x93NUMPY\x02\x00\x01\x00", 10);
    assert_int_equal(load(&mask, &diag), S2_EPARSE);
    s2_arena arena = {0};
    assert_int_equal(s2_mask_load(&arena, "/nonexistent/x.npy", &mask, &diag), S2_EIO);
    assert_int_equal(s2_mask_load(&arena, "/tmp", &mask, &diag), S2_EIO);
    assert_int_equal(s2_mask_load(&arena, "/dev/null", &mask, &diag), S2_EIO);
    s2_arena_release(&arena);
    unlink(scratch_path);
    assert_int_equal(mkfifo(scratch_path, 0600), 0);
    assert_int_equal(load(&mask, &diag), S2_EIO); /* and does not wait for a writer */
    assert_non_null(strstr(diag.msg, "regular"));
}

static void every_truncation_and_damage_is_survived(void **state)
{
    (void)state;
    const int64_t shape[] = {2, 3, 4};
    s2_buf buf = {0};
    assert_int_equal(s2_npy_header("|b1", shape, 3, &buf), S2_OK);
    for (int32_t cell = 0; cell < 24; cell++)
        s2_buf_add(&buf, cell % 3 == 0 ? "\1" : "\0", 1);
    s2_mask mask = {0};
    s2_diag diag = {0};
    for (size_t n = 0; n < buf.len; n++) {
        write_scratch(buf.data, n);
        assert_int_equal(load(&mask, &diag), S2_EPARSE);
    }
    s2_rng rng = {s2_test_seed(5)};
    for (int64_t at = 0; at < s2_test_cases(2000); at++) {
        char *const copy = malloc(buf.len);
        memcpy(copy, buf.data, buf.len);
        for (uint64_t hits = s2_rng_below(&rng, 3) + 1; hits > 0; hits--)
            copy[s2_rng_below(&rng, buf.len)] = (char)s2_rng_below(&rng, 256);
        write_scratch(copy, buf.len);
        if (load(&mask, &diag) == S2_OK) {
            assert_int_equal((int64_t)mask.n_heads * mask.n_q_blk * mask.n_k_blk, 24);
            s2_mask_unload(&mask);
        }
        free(copy);
    }
    s2_buf_release(&buf);
}

static void the_written_header_is_aligned_and_read_back(void **state)
{
    (void)state;
    const int64_t shape[] = {3, 5};
    s2_buf buf = {0};
    assert_int_equal(s2_npy_header("|b1", shape, 2, &buf), S2_OK);
    assert_int_equal(buf.len % 128, 0);
    s2_buf_add(&buf, "\1\0\0\0\0\1\1\0\0\0\1\1\1\0\0", 15);
    write_scratch(buf.data, buf.len);
    s2_mask mask = {0};
    s2_diag diag = {0};
    assert_int_equal(load(&mask, &diag), S2_OK);
    assert_int_equal(mask.n_q_blk, 3);
    assert_int_equal(mask.n_k_blk, 5);
    assert_memory_equal(mask.allowed, "\1\0\0\0\0\1\1\0\0\0\1\1\1\0\0", 15);
    s2_mask_unload(&mask);
    s2_buf_release(&buf);
}

/* Bits that are written by hand: np.packbits of a 9 x 9 lower triangle, and padding that is set. */
static void packed_masks_are_read_bit_by_bit(void **state)
{
    (void)state;
    enum { SIDE = 9 };
    const int64_t shape[] = {2, SIDE, 2};
    s2_buf buf = {0};
    assert_int_equal(s2_npy_header("|u1", shape, 3, &buf), S2_OK);
    for (int32_t row = 0; row < 2 * SIDE; row++) {
        const int32_t n_set = row < SIDE ? row + 1 : 1;
        const unsigned bits = 0xffffU << (16 - n_set) | 0x7fU;
        s2_buf_add(&buf, (const char[]){(char)(bits >> 8), (char)bits}, 2);
    }
    write_scratch(buf.data, buf.len);
    s2_mask mask = {0};
    s2_diag diag = {0};
    assert_int_equal(load(&mask, &diag), S2_OK);
    assert_true(mask.packed);
    assert_int_equal(mask.n_heads, 2);
    assert_int_equal(mask.n_k_blk, SIDE);
    for (int32_t cell = 0; cell < 2 * SIDE * SIDE; cell++) {
        const int32_t head = cell / (SIDE * SIDE), q_blk = cell / SIDE % SIDE, k_blk = cell % SIDE;
        assert_int_equal(s2_mask_allows(&mask, head, q_blk, k_blk), k_blk <= (head == 0 ? q_blk : 0));
    }
    s2_mask_unload(&mask);
    write_scratch(buf.data, buf.len - 1);
    assert_int_equal(load(&mask, &diag), S2_EPARSE);
    s2_buf_release(&buf);
}

/* Cells of a key after its query are counted, in bytes and bits, also where a hole ends the file. */
static void keys_after_their_queries_are_counted(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(515)};
    for (int64_t n = s2_test_cases(200); n > 0; n--) {
        const int64_t heads = 1 + (int64_t)s2_rng_below(&rng, 3), side = 1 + (int64_t)s2_rng_below(&rng, 90);
        const bool packed = s2_rng_below(&rng, 2) != 0;
        const int64_t keys = packed ? side : 1 + (int64_t)s2_rng_below(&rng, 90);
        const int64_t shape[] = {heads, side, packed ? (side + 7) / 8 : keys};
        const int64_t n_cells = heads * side * shape[2],
                      n_kept = (int64_t)s2_rng_below(&rng, (uint64_t)n_cells + 1);
        s2_buf buf = {0};
        s2_mask mask = {0};
        s2_diag diag = {0};
        int64_t n_later = 0;
        assert_int_equal(s2_npy_header(packed ? "|u1" : "|b1", shape, 3, &buf), S2_OK);
        const off_t whole = (off_t)buf.len + n_cells;
        for (int64_t cell = 0; cell < n_kept; cell++)
            s2_buf_add(&buf, (const char[]){(char)s2_rng_below(&rng, packed ? 256 : 2)}, 1);
        write_scratch(buf.data, buf.len);
        s2_buf_release(&buf);
        assert_int_equal(truncate(scratch_path, whole), 0);
        assert_int_equal(load(&mask, &diag), S2_OK);
        for (int32_t head = 0; head < mask.n_heads; head++)
            for (int64_t q = 0; q < mask.n_q_blk; q++)
                for (int64_t k = q + 1; k < mask.n_k_blk; k++)
                    n_later += s2_mask_allows(&mask, head, q, k);
        assert_int_equal(mask.n_later, n_later);
        s2_mask_unload(&mask);
    }
}

/* --- digests ---------------------------------------------------------------------------------------- */

/* As docs/pattern-language.md defines it, cell by cell; padding is given for packed files. */
static void digest_by_definition(const s2_mask *mask, char hex[S2_HASH_HEX])
{
    const int64_t n_row = (mask->n_k_blk + 7) / 8, n = (int64_t)mask->n_heads * mask->n_q_blk * n_row;
    s2_buf said = {0};
    uint8_t *const bits = calloc((size_t)(n + 63) / 64, 64);
    for (int64_t byte = 0; byte < n; byte++)
        for (int64_t k = byte % n_row * 8; k < mask->n_k_blk && k < byte % n_row * 8 + 8; k++)
            bits[byte] |= (uint8_t)(s2_mask_allows(mask, (int32_t)(byte / n_row / mask->n_q_blk),
                                                   byte / n_row % mask->n_q_blk, k)
                                    << (7 - k % 8));
    if (mask->packed)
        memcpy(bits, mask->allowed, (size_t)n);
    s2_buf_printf(&said, "%d %d %d\n", mask->n_heads, mask->n_q_blk, mask->n_k_blk);
    for (int64_t piece = 0, n_same; piece < (n + 63) / 64; piece += n_same) {
        for (n_same = 1; piece + n_same < (n + 63) / 64; n_same++)
            if (memcmp(bits + 64 * piece, bits + 64 * (piece + n_same), 64) != 0)
                break;
        for (int byte = 0; byte < 8; byte++)
            s2_buf_add(&said, (const char[]){(char)(n_same >> 8 * byte)}, 1);
        s2_buf_add(&said, (const char *)bits + 64 * piece, 64);
    }
    SHA256Data((const uint8_t *)said.data, said.len, hex);
    s2_buf_release(&said);
    free(bits);
}

/* A file of any shape, with holes and repetition; returns where its data begin. */
static size_t write_any(s2_rng *rng, s2_buf *buf, bool *packed)
{
    const int64_t heads = 1 + (int64_t)s2_rng_below(rng, 3), side = 1 + (int64_t)s2_rng_below(rng, 90);
    *packed = s2_rng_below(rng, 2) != 0;
    const int64_t shape[] = {heads, side, *packed ? (side + 7) / 8 : 1 + (int64_t)s2_rng_below(rng, 90)};
    assert_int_equal(s2_npy_header(*packed ? "|u1" : "|b1", shape, 3, buf), S2_OK);
    const size_t begin = buf->len, n = (size_t)(shape[0] * shape[1] * shape[2]);
    char cell = 0;
    for (size_t at = 0; at < n; at++) {
        if (s2_rng_below(rng, 40) == 0)
            cell = (char)s2_rng_below(rng, *packed ? 256 : 2);
        s2_buf_add(buf, &cell, 1);
    }
    write_scratch(buf->data, s2_rng_below(rng, 3) == 0 ? begin + s2_rng_below(rng, n) : buf->len);
    assert_int_equal(truncate(scratch_path, (off_t)buf->len), 0);
    return begin;
}

static void a_digest_is_that_of_its_definition(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(77)};
    for (int64_t n = s2_test_cases(200); n > 0; n--) {
        s2_buf buf = {0};
        s2_mask mask = {0};
        s2_diag diag = {0};
        char hex[S2_HASH_HEX];
        bool packed;
        (void)write_any(&rng, &buf, &packed);
        assert_int_equal(load(&mask, &diag), S2_OK);
        digest_by_definition(&mask, hex);
        assert_string_equal(mask.digest, hex);
        s2_mask_seal(&mask); /* without knowing of holes */
        assert_string_equal(mask.digest, hex);
        s2_mask_unload(&mask);
        s2_buf_release(&buf);
    }
    s2_arena arena = {0};
    s2_mask mask = {0};
    s2_diag diag = {0}; /* by the line of docs/pattern-language.md in Python */
    assert_int_equal(s2_mask_load(&arena, "tests/data/masks/mask4.npy", &mask, &diag), S2_OK);
    assert_string_equal(mask.digest, "8b00a62369de74b3ecd6560407e595affd0c25b5d35e935d32d5daf22a3cdda4");
    s2_mask_unload(&mask);
    s2_arena_release(&arena);
}

/* The hash of the pattern whose text this is, with the scratch file. */
static s2_status hash_of(const char *text, char hash[S2_HASH_HEX], s2_buf *canonical, s2_diag *diag)
{
    s2_arena arena = {0};
    s2_pattern pattern;
    const s2_status status = s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, diag);
    if (status == S2_OK) {
        assert_int_equal(s2_pattern_hash(&pattern, hash), S2_OK);
        canonical->len = 0;
        s2_pattern_print(&pattern, canonical);
        s2_mask_unload((s2_mask *)(uintptr_t)pattern.bodies[0].terms[0].mask);
    }
    s2_arena_release(&arena);
    return status;
}

/*
 * Whatever bit of a file's data changes, the pattern gets another hash, or is refused; and the canonical text that
 * was written before is refused at its digest.
 */
static void a_changed_bit_is_another_design(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(78)};
    int64_t n_read = 0;
    for (int64_t nth = 0; nth < s2_test_cases(150); nth++) {
        s2_buf buf = {0}, text = {0}, canonical = {0}, other = {0};
        s2_diag diag = {0};
        char hash[S2_HASH_HEX], again[S2_HASH_HEX];
        bool packed;
        const size_t begin = write_any(&rng, &buf, &packed);
        s2_mask mask = {0};
        assert_int_equal(load(&mask, &diag), S2_OK);
        s2_buf_printf(&text, "heads %d; block 1; causal no; all: mask \"%s\"", mask.n_heads, scratch_path);
        assert_int_equal(hash_of(text.data, hash, &canonical, &diag), S2_OK);
        assert_int_equal(hash_of(canonical.data, again, &other, &diag), S2_OK);
        assert_string_equal(hash, again);
        assert_string_equal(canonical.data, other.data);
        FILE *const file = fopen(scratch_path, "r+b");
        const size_t at = begin + s2_rng_below(&rng, buf.len - begin);
        assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
        const int was = fgetc(file);
        assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
        fputc(was ^ 1 << s2_rng_below(&rng, nth % 2 == 0 ? 1 : 8), file);
        fclose(file);
        if (hash_of(text.data, again, &other, &diag) == S2_OK) {
            assert_string_not_equal(hash, again);
            assert_int_equal(hash_of(canonical.data, again, &other, &diag), S2_EPARSE);
            assert_int_equal(diag.code, S2P_MASK_CHANGED);
            assert_int_equal(diag.line, 4);
            assert_int_equal(diag.col, strlen("layers all: mask \"\" digest ") + strlen(scratch_path) + 1);
            n_read++;
        } else {
            assert_int_equal(diag.code, S2P_MASK_FORMAT);
            assert_false(packed);
        }
        s2_mask_unload(&mask);
        s2_buf_release(&buf);
        s2_buf_release(&text);
        s2_buf_release(&canonical);
        s2_buf_release(&other);
    }
    assert_true(n_read > 0);
}

/* A mask is what its file held when it was read, whatever becomes of the file. */
static void a_file_may_change_after_it_was_read(void **state)
{
    (void)state;
    s2_mask mask = {0};
    s2_diag diag = {0};
    s2_buf buf = {0};
    const int64_t shape[] = {200, 200};
    assert_int_equal(s2_npy_header("|b1", shape, 2, &buf), S2_OK);
    for (int cell = 0; cell < 200 * 200; cell++)
        s2_buf_add(&buf, "\1", 1);
    write_scratch(buf.data, buf.len);
    assert_int_equal(load(&mask, &diag), S2_OK);
    assert_int_equal(truncate(scratch_path, 0), 0);
    for (int64_t cell = 0; cell < 200 * 200; cell++)
        assert_true(s2_mask_allows(&mask, 0, cell / 200, cell % 200));
    s2_mask_unload(&mask);
    s2_buf_release(&buf);
}

/* A bad value anywhere is seen: first, last, around the chunks of the scan. */
static void a_bad_value_is_found_wherever_it_is(void **state)
{
    (void)state;
    enum { SIDE = 1536 };
    static const int64_t places[] = {0, 1, 4095, 4096, (1 << 20) - 1, 1 << 20, (int64_t)SIDE * SIDE - 1};
    const int64_t shape[] = {SIDE, SIDE};
    for (size_t row = 0; row < sizeof places / sizeof places[0]; row++) {
        s2_buf buf = {0};
        assert_int_equal(s2_npy_header("|b1", shape, 2, &buf), S2_OK);
        const size_t begin = buf.len;
        char *const data = calloc(SIDE, SIDE);
        s2_buf_add(&buf, data, (size_t)SIDE * SIDE);
        free(data);
        buf.data[begin + (size_t)places[row]] = 2;
        write_scratch(buf.data, buf.len);
        s2_mask mask = {0};
        s2_diag diag = {0};
        assert_int_equal(load(&mask, &diag), S2_EPARSE);
        s2_buf_release(&buf);
    }
}

/* 32 heads at one million tokens, as a sparse file: the holes are not read. */
static void a_mask_of_a_million_tokens_is_opened_quickly(void **state)
{
    (void)state;
    const int64_t shape[] = {32, 16384, 16384};
    s2_buf buf = {0};
    assert_int_equal(s2_npy_header("|b1", shape, 3, &buf), S2_OK);
    write_scratch(buf.data, buf.len);
    if (truncate(scratch_path, (off_t)buf.len + 32LL * 16384 * 16384) != 0)
        skip();
    struct timespec begin, end;
    s2_mask mask = {0};
    s2_diag diag = {0};
    clock_gettime(CLOCK_MONOTONIC, &begin);
    assert_int_equal(load(&mask, &diag), S2_OK);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("# s2: a sparse mask of 32 x 16384 x 16384 blocks opened in %.1f ms\n",
           1e3 * (double)(end.tv_sec - begin.tv_sec) + 1e-6 * (double)(end.tv_nsec - begin.tv_nsec));
    s2_mask_unload(&mask);
    s2_buf_release(&buf);
}

static bool fail_always(void *user, size_t n_bytes)
{
    (void)user;
    (void)n_bytes;
    return false;
}

static void running_out_of_memory_is_reported(void **state)
{
    (void)state;
    s2_mask mask = {.n_heads = 77};
    s2_diag diag = {0};
    s2_alloc_set_hook(fail_always, NULL);
    const s2_status status = load(&mask, &diag);
    s2_alloc_set_hook(NULL, NULL);
    assert_int_equal(status, S2_ENOMEM);
    assert_int_equal(mask.n_heads, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_of_the_test_data_have_their_shape_and_bits),
        cmocka_unit_test_setup_teardown(headers_are_accepted_or_refused_by_content, make_scratch,
                                        drop_scratch),
        cmocka_unit_test_setup_teardown(files_that_are_no_arrays_are_refused, make_scratch, drop_scratch),
        cmocka_unit_test_setup_teardown(every_truncation_and_damage_is_survived, make_scratch, drop_scratch),
        cmocka_unit_test_setup_teardown(the_written_header_is_aligned_and_read_back, make_scratch,
                                        drop_scratch),
        cmocka_unit_test_setup_teardown(keys_after_their_queries_are_counted, make_scratch, drop_scratch),
        cmocka_unit_test_setup_teardown(packed_masks_are_read_bit_by_bit, make_scratch, drop_scratch),
        cmocka_unit_test_setup_teardown(a_digest_is_that_of_its_definition, make_scratch, drop_scratch),
        cmocka_unit_test_setup_teardown(a_changed_bit_is_another_design, make_scratch, drop_scratch),
        cmocka_unit_test_setup_teardown(a_file_may_change_after_it_was_read, make_scratch, drop_scratch),
        cmocka_unit_test_setup_teardown(a_bad_value_is_found_wherever_it_is, make_scratch, drop_scratch),
        cmocka_unit_test_setup_teardown(a_mask_of_a_million_tokens_is_opened_quickly, make_scratch,
                                        drop_scratch),
        cmocka_unit_test_setup_teardown(running_out_of_memory_is_reported, make_scratch, drop_scratch),
    };
    return cmocka_run_group_tests_name("mask", tests, NULL, NULL);
}
