#include "judge/counters.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DRAM_READ  "dram__bytes_read.sum"
#define DRAM_WRITE "dram__bytes_write.sum"
#define L2_SECTORS "lts__t_sectors_srcunit_tex.sum"
#define DURATION   "gpu__time_duration.sum"

const char s2_counters_metrics[] = DRAM_READ "," DRAM_WRITE "," L2_SECTORS "," DURATION;

/* Cut off the next field of a CSV line, dropping quotes and the commas between digits. NULL at the end. */
static char *next_field(char **rest)
{
    char *const field = *rest;
    char *to = field, *from = field;
    bool quoted = false;
    if (field == NULL)
        return NULL;
    for (; *from != '\0' && (quoted || *from != ','); from++) {
        if (*from == '"')
            quoted = !quoted;
        else if (*from != ',')
            *to++ = *from;
    }
    *rest = *from == ',' ? from + 1 : NULL;
    *to = '\0';
    return field;
}

typedef struct s2_columns {
    int32_t read, write, l2, duration;
} s2_columns;

static bool find_columns(char *line, s2_columns *out)
{
    const struct {
        const char *name;
        int32_t *column;
    } wanted[] = {{DRAM_READ, &out->read},
                  {DRAM_WRITE, &out->write},
                  {L2_SECTORS, &out->l2},
                  {DURATION, &out->duration}};
    uint32_t found = 0;
    int32_t column = 0;
    for (char *field; (field = next_field(&line)) != NULL; column++)
        for (size_t nth = 0; nth < sizeof wanted / sizeof *wanted; nth++)
            if (strcmp(field, wanted[nth].name) == 0) {
                *wanted[nth].column = column;
                found |= 1u << nth;
            }
    return found == (1u << sizeof wanted / sizeof *wanted) - 1;
}

/* Add a kernel's line; the line of units has words instead of numbers and is skipped. */
static void add_line(char *line, const s2_columns *columns, s2_counters *out)
{
    const int32_t wanted[] = {columns->read, columns->write, columns->l2, columns->duration};
    enum { N_WANTED = sizeof wanted / sizeof *wanted };
    double value[N_WANTED];
    int32_t n_found = 0, column = 0;
    for (char *field; (field = next_field(&line)) != NULL; column++)
        for (int32_t nth = 0; nth < N_WANTED; nth++) {
            char *end;
            if (column != wanted[nth])
                continue;
            value[nth] = strtod(field, &end);
            n_found += end != field && *end == '\0' && isfinite(value[nth]) && value[nth] >= 0;
        }
    if (n_found < N_WANTED)
        return;
    out->dram_read_bytes += value[0];
    out->dram_write_bytes += value[1];
    out->l2_bytes += 32.0 * value[2];
    out->kernel_us += value[3] * 1e-3;
    out->n_kernels++;
}

s2_status s2_counters_parse(char *text, s2_counters *out)
{
    s2_counters sum = {0};
    s2_columns columns = {0};
    bool known = false;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        if (known)
            add_line(line, &columns, &sum);
        else if (strstr(line, DRAM_READ) != NULL && line[0] == '"')
            known = find_columns(line, &columns);
    }
    if (sum.n_kernels == 0)
        return S2_EPARSE;
    *out = sum;
    return S2_OK;
}
