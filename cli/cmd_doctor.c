#include "cli/commands.h"
#include "cli/options.h"
#include "cli/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

enum { FACT_BYTES = 512 };

/* The report: facts one after another, as text or as one JSON object. */
typedef struct doctor {
    s2_cli *cli;
    bool json;
    s2_buf buf;
    s2_exit code;
} doctor;

static void add(doctor *d, const char *key, const char *value)
{
    char clean[FACT_BYTES];
    s2_text_clean(clean, sizeof clean, value);
    if (d->json) {
        s2_json_key_str(&d->buf, key, clean);
    } else {
        s2_buf_printf(&d->buf, "  %-10s %s\n", key, clean);
    }
}

/* Find a program in $PATH; false if it is not there. */
static bool find_program(const char *name, char *out, size_t cap)
{
    const char *path = getenv("PATH");
    while (path != NULL && *path != '\0') {
        const int n = (int)strcspn(path, ":");
        snprintf(out, cap, "%.*s/%s", n, path, name);
        if (access(out, X_OK) == 0)
            return true;
        path += n + (path[n] == ':');
    }
    return false;
}

static void add_program(doctor *d, const char *name, const char *missing)
{
    char where[FACT_BYTES];
    add(d, name, find_program(name, where, sizeof where) ? where : missing);
}

/* The first line of a file, or false. */
static bool first_line(const char *path, char *out, int cap)
{
    FILE *const file = fopen(path, "re");
    const bool good = file != NULL && fgets(out, cap, file) != NULL;
    if (file != NULL)
        fclose(file);
    if (good)
        out[strcspn(out, "\n")] = '\0';
    return good;
}

static void add_gpu(doctor *d)
{
    char line[FACT_BYTES];
    const bool driver = first_line("/proc/driver/nvidia/version", line, sizeof line);
    const bool device = access("/dev/nvidia0", R_OK | W_OK) == 0;
    add(d, "gpu", driver && device ? line : driver ? "driver without a device that may be used" : "none");
    add(d, "kernels",
        S2_HAVE_CUDA ? "built for CPU and CUDA" : "built for the CPU only (no nvcc when s2 was built)");
}

static void add_terminal(doctor *d)
{
    const char *const term = getenv("TERM"), *const colours = getenv("COLORTERM");
    const char *locale = getenv("LC_ALL");
    if (locale == NULL || locale[0] == '\0')
        locale = getenv("LC_CTYPE");
    if (locale == NULL || locale[0] == '\0')
        locale = getenv("LANG");
    char text[FACT_BYTES];
    snprintf(text, sizeof text, "%s, TERM=%.60s, COLORTERM=%.60s, locale %.60s",
             isatty(STDOUT_FILENO) ? "a terminal" : "not a terminal", term != NULL ? term : "",
             colours != NULL ? colours : "", locale != NULL && locale[0] != '\0' ? locale : "C");
    add(d, "terminal", text);
}

static void add_database(doctor *d)
{
    const char *const path = s2_store_path(d->cli);
    char text[FACT_BYTES];
    s2_diag diag = {0};
    s2_db *db = NULL;
    int64_t n_designs = 0;
    if (s2_file_is_missing(path)) {
        snprintf(text, sizeof text, "%.300s: not there yet", path);
    } else if (s2_db_open(path, S2_DB_READ, &db, &diag) != S2_OK ||
               s2_db_count(db, "design", &n_designs, &diag) != S2_OK) {
        snprintf(text, sizeof text, "%.300s", diag.msg);
        d->code = S2_EXIT_ENVIRONMENT;
    } else {
        snprintf(text, sizeof text, "%.300s: %s, %s", path, s2_count_text(n_designs, "design").text,
                 access(path, W_OK) == 0 ? "writable" : "read-only");
    }
    s2_db_close(&db);
    add(d, "database", text);
    add(d, "sqlite", s2_db_library_version());
}

s2_exit s2_cmd_doctor(s2_cli *cli, int argc, char **argv)
{
    s2_args args;
    S2_CLI_TRY(s2_args_parse(cli, "doctor", argc, argv, &args));
    doctor d = {.cli = cli, .json = s2_args_has(&args, "json"), .code = S2_EXIT_OK};
    char version[FACT_BYTES];
    snprintf(version, sizeof version, "%s (%s), %s", s2_version(), s2_version_commit(), s2_version_build());
    if (d.json) {
        s2_json_begin(&d.buf, '{');
        s2_json_key_str(&d.buf, "schema", "s2doctor/1");
    }
    add(&d, "s2", version);
    add_database(&d);
    add_gpu(&d);
    add_program(&d, "nvcc", "not in PATH: needed to build the CUDA kernels, not to use s2");
    add_program(&d, "ncu", "not in PATH: s2 validate --counters then has no bytes from the hardware");
    add_program(&d, "dot", "not in PATH: `apt install graphviz` for s2 draw --what flow as svg or png");
    add_terminal(&d);
    if (d.json) {
        s2_json_end(&d.buf, '}');
        s2_buf_puts(&d.buf, "\n");
    }
    S2_CLI_TRY(s2_cli_print(cli, &d.buf));
    return d.code;
}
