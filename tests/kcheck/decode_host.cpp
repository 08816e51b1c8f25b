/*
 * decode_host - the device code of a decode step (decode.cuh and decode_sm90.cuh), run on the host as select_host is:
 * every lane of every warp, with matrix products, transposed loads and copies as the hardware defines them,
 * under the address and undefined-behaviour sanitizers, over memory of exactly the size that is needed.
 *
 * Each case is compared with fp64 over the stored numbers: e4m3 keys and 16-bit ones, queries in registers and
 * in shared memory, lists over several parts, parts over several lists, masks, caps, sinks, head dimensions below the
 * instance's. Some cases are directed; of parts and lists of any length some are drawn.
 *
 * Not shown: what hardware adds (launches that overlap, the memory model), and the host's code in decode.cu.
 * usage: decode_host [SEED]    last line: N passed, N failed
 */
#include "tests/kcheck/fibers.hpp"

#include <stdio.h>
#include <stdlib.h>

#include <memory>

#include "kernels/cuda/decode.cuh"
#include "kernels/cuda/decode_sm90.cuh"

struct Case {
    int head_dim, n_rows, group, n_parts;
    bool masked, capped, sinks, early;
    std::vector<int> n_slabs; /* [list] */
};

static uint64_t drawn;
static uint32_t draw(uint32_t below)
{
    drawn = drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((drawn >> 33) % below);
}
static float draw_normal()
{
    static uint64_t n;
    return s2_input_value(drawn, n++);
}

enum { KEYS = 16, NAN_CODE = 0x7f };
static const float SCALE = 0.3f, CAP = 3.f, K_SCALE = 0.02f, V_SCALE = 0.013f;

struct Memory {
    int dim, n_lists, n_slabs = 0, row_cap, n_masks = 0;
    s2_dtype dtype, stored;
    std::vector<s2::DecodeList> lists;
    std::vector<s2::DecodeSlab> slabs;
    std::vector<int4> parts;
    std::vector<uint16_t> bits;
    std::vector<float> sink, k_scale, v_scale;
    std::unique_ptr<uint8_t[]> k, v;
    std::unique_ptr<uint16_t[]> q, o;
    std::unique_ptr<float[]> lse;
};

/* Mostly numbers of everyday size, now and then any that the type has. */
static void draw_number(const Memory &m, uint8_t *to, int64_t at)
{
    if (m.stored != S2_F8)
        return s2_float_store(to, m.stored, at, draw_normal());
    s2_float_store(to, S2_F8, at, draw_normal() * 40.f);
    if (draw(8) == 0)
        to[at] = (uint8_t)(draw(127) | draw(2) << 7);
    if (draw(8) == 0)
        to[at] = (uint8_t)(draw(8) | draw(2) << 7);
}

/* A slab's keys, and who reads them. What nobody reads is NaN. */
static void draw_slab(const Case &c, Memory *m, int slab, int place)
{
    s2::DecodeSlab *const own = &m->slabs[(size_t)slab];
    const int64_t bytes = s2_dtype_bytes(m->stored), at = (int64_t)place * KEYS * m->dim;
    *own = {(uint32_t)(at * bytes / 16), (uint32_t)(at * bytes / 16), -1, s2::DECODE_ALL_LIVE};
    if (c.masked && draw(3) > 0) {
        own->mask = m->n_masks++;
        own->live = 0;
        for (int row = 0; row < m->row_cap; row++) {
            m->bits.push_back((uint16_t)(draw(3) == 0 ? 0 : draw(1 << 16) & draw(1 << 16)));
            own->live |= row < c.n_rows ? m->bits.back() : 0u;
        }
    }
    for (int key = 0; key < KEYS; key++)
        for (int d = 0; d < m->dim; d++) {
            const int64_t to = at + key * m->dim + d;
            draw_number(*m, m->k.get(), to);
            draw_number(*m, m->v.get(), to);
            if (!(own->live >> key & 1u)) {
                memset(m->k.get() + to * bytes, m->stored == S2_F8 ? NAN_CODE : 0xff, (size_t)bytes);
                memset(m->v.get() + to * bytes, m->stored == S2_F8 ? NAN_CODE : 0xff, (size_t)bytes);
            }
        }
    own->live |= draw(2) == 0 ? s2::DECODE_NEW : 0u;
}

static void cut(const Case &c, Memory *m)
{
    for (int part = 0; part < c.n_parts; part++) {
        const int begin = m->n_slabs * part / c.n_parts, end = m->n_slabs * (part + 1) / c.n_parts;
        int first = 0;
        while (m->lists[(size_t)first].slab_end <= begin)
            first++;
        m->parts.push_back({begin, end, first, 0});
        for (s2::DecodeList &list : m->lists) {
            if (max(list.slab_begin, begin) >= min(list.slab_end, end))
                continue;
            list.first_part = list.n_parts == 0 ? part : list.first_part;
            list.n_parts++;
        }
    }
}

static void lay_out(const Case &c, Memory *m)
{
    m->dim = c.head_dim;
    m->n_lists = (int)c.n_slabs.size();
    for (int n : c.n_slabs)
        m->n_slabs += n;
    const size_t n_numbers = (size_t)m->n_slabs * KEYS * (size_t)m->dim;
    const size_t n_rows = (size_t)m->n_lists * (size_t)c.n_rows;
    m->k.reset(new uint8_t[n_numbers * (size_t)s2_dtype_bytes(m->stored)]);
    m->v.reset(new uint8_t[n_numbers * (size_t)s2_dtype_bytes(m->stored)]);
    m->q.reset(new uint16_t[n_rows * (size_t)m->dim]);
    m->o.reset(new uint16_t[n_rows * (size_t)m->dim]);
    m->lse.reset(new float[n_rows]);
    for (size_t at = 0; at < n_rows * (size_t)m->dim; at++)
        s2_float_store(m->q.get(), m->dtype, (int64_t)at, draw_normal());
    std::vector<int> place;
    for (int at = 0; at < m->n_slabs; at++)
        place.insert(place.begin() + draw((uint32_t)at + 1), at);
    m->slabs.resize((size_t)m->n_slabs + 1);
    for (int list = 0, slab = 0; list < m->n_lists; list++) {
        s2::DecodeList made = {};
        made.q = made.o = (int64_t)list * c.n_rows * m->dim;
        made.lse = (int64_t)list * c.n_rows;
        made.n_rows = c.n_rows;
        made.head = list * c.group;
        made.slab_begin = slab;
        for (; slab < made.slab_begin + c.n_slabs[(size_t)list]; slab++)
            draw_slab(c, m, slab, place[(size_t)slab]);
        made.slab_end = slab;
        m->lists.push_back(made);
        m->k_scale.push_back(K_SCALE * (float)(1 + list % 3));
        m->v_scale.push_back(V_SCALE * (float)(1 + list % 4));
    }
    for (int head = 0; head < m->n_lists * c.group; head++)
        m->sink.push_back(head % 3 == 2 ? -INFINITY : draw_normal());
    cut(c, m);
}

/* ------------------------------------------------------------------ a launch */

static s2::DecodeParams params;

static void fill_params(const Case &c, const Memory &m)
{
    const uint32_t row_bytes = (uint32_t)(m.dim * s2_dtype_bytes(m.stored));
    params = {};
    params.slabs = m.slabs.data();
    params.lists = m.lists.data();
    params.parts = m.parts.data();
    params.bits = m.bits.data();
    params.k = m.k.get();
    params.v = m.v.get();
    params.q = m.q.get();
    params.o = m.o.get();
    params.lse = m.lse.get();
    params.q_tok = params.o_tok = (int64_t)c.group * m.dim;
    params.q_head = params.o_head = m.dim;
    params.lse_head = c.n_rows / c.group; /* rows are tokens times heads */
    params.k_row_bytes = params.v_row_bytes = row_bytes;
    params.n_lists = m.n_lists;
    params.n_parts = c.n_parts;
    params.row_cap = m.row_cap;
    params.group = c.group;
    params.head_dim = m.dim;
    params.early = params.paced = c.early;
    for (const s2::DecodeList &list : m.lists)
        params.n_empty += list.n_parts == 0;
    params.scale_log2 = SCALE * s2::LOG2_E;
    if (c.capped)
        params.cap = {2.f * SCALE / CAP * s2::LOG2_E, CAP * s2::LOG2_E};
    params.sink = c.sinks ? m.sink.data() : nullptr;
    params.k_scale = m.k_scale.data();
    params.v_scale = m.v_scale.data();
}

/* All blocks of the step, the last first, and those that combine many rows. */
typedef void (*Kernel)(s2::DecodeParams);

template <class Shape, Kernel KERNEL> void launch(const Memory &m, int n_chunks)
{
    const size_t n_slots = (size_t)n_chunks * 2 * (size_t)params.n_parts * Shape::ROWS;
    std::vector<float> part_o(n_slots * Shape::D, NAN);
    std::vector<float2> part_l(n_slots, float2{NAN, NAN});
    std::vector<int32_t> arrived((size_t)n_chunks * (size_t)m.n_lists * s2::DECODE_WARPS);
    params.part_o = part_o.data();
    params.part_l = part_l.data();
    params.arrived = arrived.data();
    int n_rows = 1;
    bool cut = false;
    for (const s2::DecodeList &list : m.lists) {
        cut |= list.n_parts > 1;
        n_rows = std::max(n_rows, std::min(list.n_rows, (int)Shape::ROWS));
    }
    params.merged = cut && Shape::ROWS > 8 ? (n_rows + s2::DECODE_WARPS - 1) / s2::DECODE_WARPS : 0;
    for (int chunk = 0; chunk < n_chunks; chunk++)
        for (int part = params.n_parts - 1; part >= 0; part--) {
            blockIdx = {part, chunk};
            memset(s2::raw, 0xff, sizeof s2::raw);
            run_block(s2::DECODE_THREADS, [] { KERNEL(params); });
        }
    for (int chunk = 0; chunk < n_chunks && params.merged; chunk++)
        for (int block = 0; block < m.n_lists * params.merged; block++) {
            blockIdx = {block, chunk};
            run_block(s2::DECODE_THREADS,
                      [] { s2::merge_parts<Shape::D, Shape::ROWS, Shape::FP16, Shape::EXTRA>(params); });
        }
}

/* ------------------------------------------------------------------ the definition */

/* The row's output into o, in fp64; returns its log-sum-exp. *size: what rounded weights may add up to. */
static double define(const Case &c, const Memory &m, int index, int row, std::vector<double> *o, double *size)
{
    const s2::DecodeList &list = m.lists[(size_t)index];
    const double k_scale = m.stored == S2_F8 ? (double)m.k_scale[(size_t)index] : 1.0;
    const double v_scale = m.stored == S2_F8 ? (double)m.v_scale[(size_t)index] : 1.0;
    double sum = c.sinks ? exp((double)m.sink[(size_t)(list.head + row % c.group)]) : 0.0;
    o->assign((size_t)m.dim, 0.0);
    *size = 0.0;
    for (int slab = list.slab_begin; slab < list.slab_end; slab++) {
        const s2::DecodeSlab &own = m.slabs[(size_t)slab];
        const int64_t at = (int64_t)own.k * 16 / s2_dtype_bytes(m.stored);
        const uint32_t bits = own.mask < 0 ? 0xffffu : m.bits[(size_t)(own.mask * m.row_cap + row)];
        for (int key = 0; key < KEYS; key++) {
            if (!(bits >> key & 1u))
                continue;
            double s = 0.0, peak = 0.0;
            for (int d = 0; d < m.dim; d++)
                s += (double)s2_float_load(m.q.get(), m.dtype, list.q + (int64_t)row * m.dim + d) *
                     (double)s2_float_load(m.k.get(), m.stored, at + key * m.dim + d) * k_scale;
            s = c.capped ? CAP * tanh(s * (double)SCALE / CAP) : s * (double)SCALE;
            const double weight = exp(s);
            sum += weight;
            for (int d = 0; d < m.dim; d++) {
                const double v = v_scale * (double)s2_float_load(m.v.get(), m.stored, at + key * m.dim + d);
                (*o)[(size_t)d] += weight * v;
                peak = fmax(peak, fabs(v));
            }
            *size += weight * peak;
        }
    }
    for (double &x : *o)
        x = sum > 0.0 ? x / sum : 0.0;
    *size = sum > 0.0 ? *size / sum : 0.0;
    return sum > 0.0 ? log(sum) : -INFINITY;
}

static bool agrees(const Case &c, const Memory &m, int index, int row)
{
    const s2::DecodeList &list = m.lists[(size_t)index];
    const double unit = m.dtype == S2_F16 ? 0x1p-12 : 0x1p-9;
    std::vector<double> o;
    double size = 0.0;
    const double lse = define(c, m, index, row, &o, &size);
    const int64_t lse_at = list.lse + row / c.group + (int64_t)(row % c.group) * (c.n_rows / c.group);
    const double got_lse = (double)m.lse[(size_t)lse_at];
    if (!(lse == got_lse || fabs(lse - got_lse) < 3e-5 * (1.0 + fabs(lse)))) {
        printf("FAIL list %d, row %d: LSE %.7g, due %.7g\n", index, row, got_lse, lse);
        return false;
    }
    for (int d = 0; d < m.dim; d++) {
        const double got = (double)s2_float_load(m.o.get(), m.dtype, list.o + (int64_t)row * m.dim + d);
        if (!(fabs(got - o[(size_t)d]) <= 2.0 * unit * (size + fabs(o[(size_t)d])) + 1e-5)) {
            printf("FAIL list %d, row %d, d %d: %.6g, due %.6g\n", index, row, d, got, o[(size_t)d]);
            return false;
        }
    }
    return true;
}

static int passed, failed;

template <class Shape, Kernel KERNEL> void check_shape(const Case &c, bool e4m3)
{
    Memory m;
    m.dtype = Shape::FP16 ? S2_F16 : S2_BF16;
    m.stored = e4m3 ? S2_F8 : m.dtype;
    m.row_cap = (c.n_rows + 7) / 8 * 8;
    lay_out(c, &m);
    memset(m.o.get(), 0xff, (size_t)m.n_lists * (size_t)c.n_rows * (size_t)m.dim * 2);
    fill_params(c, m);
    launch<Shape, KERNEL>(m, (m.row_cap + Shape::ROWS - 1) / Shape::ROWS);
    bool good = true;
    for (int list = 0; list < m.n_lists; list++)
        for (int row = 0; row < c.n_rows; row++)
            good = good && agrees(c, m, list, row);
    (good ? passed : failed)++;
    if (good)
        return;
    printf("     in D %d, %d rows of %d, fp16 %d, e4m3 %d, head dimension %d, %d parts, masked %d, slabs",
           Shape::D, c.n_rows, Shape::ROWS, Shape::FP16, e4m3, c.head_dim, c.n_parts, c.masked);
    for (int n : c.n_slabs)
        printf(" %d", n);
    printf("\n");
}

template <int D, int TILES, bool FP16, bool EXTRA, bool E4M3> void check(const Case &c)
{
    typedef s2::DecodeShape<D, TILES, FP16, EXTRA, E4M3> Shape;
    check_shape<Shape, s2::decode<Shape>>(c, E4M3);
}

/* More than 16 rows on Hopper. */
template <int D, bool FP16, bool EXTRA> void check_wide(const Case &c)
{
    typedef s2::WideShape<D, FP16, EXTRA> Shape;
    check_shape<Shape, s2::decode_wide<Shape>>(c, false);
}

/* Lists of no slabs and of more than a ring's groups, and parts that begin and end anywhere in them. */
static Case draw_case(int head_dim, int n_rows, int group)
{
    Case c = {head_dim, n_rows, group, 1, draw(2) == 0, false, draw(2) == 0, draw(2) == 0, {}};
    int n_slabs = 1;
    for (int list = (int)draw(8); list >= 0; list--) {
        c.n_slabs.push_back(draw(4) == 0 ? (int)draw(30) : (int)draw(10));
        n_slabs += c.n_slabs.back();
    }
    c.n_slabs.push_back(1);
    c.n_parts = 1 + (int)draw((uint32_t)n_slabs < 8 ? (uint32_t)n_slabs : 8);
    return c;
}

int main(int argc, char **argv)
{
    drawn = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    const Case lists = {128, 4, 4, 2, false, false, false, true, {31, 30}}; /* whole slabs, in the fast way */
    const Case small = {112, 7, 7, 5, true, false, true, true, {17, 0, 3, 1}};
    check<128, 1, false, true, false>(lists);
    check<128, 1, false, true, true>(lists);
    check<128, 1, false, true, true>(small);
    check<128, 1, false, true, true>({128, 8, 4, 3, true, true, false, false, {9, 0, 14}});
    check<64, 2, true, true, true>({64, 12, 4, 2, true, true, true, false, {5, 4}});
    check<64, 2, true, true, true>({48, 20, 4, 1, false, false, false, true, {9, 2}});
    check<128, 4, false, true, true>({128, 40, 8, 3, true, true, false, false, {13, 2}});
    check<256, 2, true, true, true>({208, 18, 6, 2, true, false, true, true, {5, 4}});
    check_wide<64, false, true>({64, 20, 4, 1, false, false, false, true, {3, 0, 6, 8, 1}});
    check_wide<128, true, true>({112, 66, 33, 3, true, true, true, false, {29, 5}});
    check_wide<96, false, true>({96, 17, 17, 4, true, false, true, true, {1, 1, 2, 3, 5, 1}});
    for (int nth = 0; nth < 6; nth++) {
        check<64, 1, false, true, false>(draw_case(64, 3, 3));
        check_wide<64, false, true>(draw_case(64, 18, 6));
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
