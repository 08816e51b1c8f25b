#include "tests/s2test.h"

#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "pattern/codes.h"
#include "pattern/mask.h"

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
    s2_mask_unmap(&mask);
    assert_null(mask.allowed);
    assert_int_equal(s2_mask_load(&arena, "tests/data/masks/mask1.npy", &mask, &diag), S2_OK);
    assert_int_equal(mask.n_heads, 1);
    s2_mask_unmap(&mask);
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
            s2_mask_unmap(&mask);
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
            s2_mask_unmap(&mask);
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
    s2_mask_unmap(&mask);
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
    s2_mask_unmap(&mask);
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
        s2_mask_unmap(&mask);
    }
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
    s2_mask_unmap(&mask);
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
        cmocka_unit_test_setup_teardown(a_bad_value_is_found_wherever_it_is, make_scratch, drop_scratch),
        cmocka_unit_test_setup_teardown(a_mask_of_a_million_tokens_is_opened_quickly, make_scratch,
                                        drop_scratch),
        cmocka_unit_test_setup_teardown(running_out_of_memory_is_reported, make_scratch, drop_scratch),
    };
    return cmocka_run_group_tests_name("mask", tests, NULL, NULL);
}
