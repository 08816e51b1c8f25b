#include "cli/measure.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "judge/steady.h"
#include "pattern/parse.h"
#include "sim/layer.h"

s2_measure_options s2_measure_options_default(void)
{
    return (s2_measure_options){.settle_ms = 70, .window_ms = 15};
}

/* The GPU in the table that this device is, else the device's name in lower case. */
static void name_gpu(const char *device, char *out, size_t cap)
{
    const char *const known = s2_gpu_of_device(device);
    snprintf(out, cap, "%.39s", known != NULL ? known : device);
    for (char *c = out; known == NULL && *c != '\0'; c++)
        *c = *c == ' ' ? '-' : (char)tolower((unsigned char)*c);
}

void s2_measure_head(const s2_device *device, const char *gpu, const char *commit, s2_provenance *out)
{
    const time_t now = time(NULL);
    struct tm utc;
    if (gpu != NULL)
        snprintf(out->gpu, sizeof out->gpu, "%.39s", gpu);
    else
        name_gpu(device->name, out->gpu, sizeof out->gpu);
    snprintf(out->device, sizeof out->device, "%.79s", device->name);
    snprintf(out->uuid, sizeof out->uuid, "%s", device->uuid);
    snprintf(out->driver, sizeof out->driver, "%s", device->driver);
    snprintf(out->commit, sizeof out->commit, "%.47s", commit);
    if (gmtime_r(&now, &utc) != NULL)
        strftime(out->date, sizeof out->date, "%Y-%m-%dT%H:%MZ", &utc);
}

static s2_status measure(s2_harness *harness, const s2_measure_options *options, s2_row *row, s2_diag *why)
{
    s2_steady_time time;
    if (options->once)
        return s2_steady_once(harness, why);
    S2_TRY(s2_steady_run(harness, options->settle_ms, options->window_ms, &time, why));
    row->us = time.us;
    row->spread = time.spread;
    row->mhz = time.mhz;
    row->burst_us = time.burst_us;
    row->burst_mhz = time.burst_mhz;
    return S2_OK;
}

static void note_plan(const s2_harness *harness, s2_row *row)
{
    const s2_plan_options *const cut = &harness->whole.options;
    snprintf(row->kernel, sizeof row->kernel, "%s", harness->kernel->traits->name);
    row->tile_tok = cut->tile_tok;
    row->key_tok = cut->key_tok;
    row->pack_heads = cut->pack_heads;
    row->section_bytes = cut->section_bytes;
}

s2_status s2_measure_point(s2_device *device, const s2_measure_options *options, s2_row *row)
{
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_diag why = {0};
    const s2_run_point *const point = &row->point;
    s2_plan_seq *const seqs = S2_NEW(&arena, s2_plan_seq, point->batch);
    for (int32_t seq = 0; seqs != NULL && seq < point->batch; seq++)
        seqs[seq] = (s2_plan_seq){point->q_tok, point->k_tok};
    s2_status status =
        seqs == NULL ? S2_ENOMEM
                     : s2_pattern_parse(&arena, point->pattern, strlen(point->pattern), NULL, &pattern, &why);
    if (status == S2_OK) {
        s2_validate_request request = s2_validate_request_init(device, &pattern, seqs, point->batch);
        request.pass = point->pass;
        request.phase = point->pass == S2_PASS_DECODE ? S2_DECODE : S2_PREFILL;
        request.e4m3 = point->dtype == S2_F8;
        request.dtype = request.e4m3 ? S2_BF16 : point->dtype;
        request.sinks = point->sinks;
        request.budget_flop = 0;
        request.kernel = options->kernel;
        s2_harness harness = {0};
        row->kernel[0] = '\0';
        status = s2_harness_open(&harness, device, &request, &why);
        if (status == S2_OK) {
            note_plan(&harness, row);
            status = measure(&harness, options, row, &why);
        }
        s2_harness_close(&harness);
    }
    if (status != S2_OK) {
        row->kernel[0] = '\0';
        snprintf(row->why, sizeof row->why, "%.119s", s2_diag_text(&why, status));
    }
    s2_arena_release(&arena);
    return status == S2_ECUDA ? status : S2_OK;
}
