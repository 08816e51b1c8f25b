#include "cli/needles.h"

#include <string.h>

#include "cli/store.h"
#include "explorer/result.h"
#include "pattern/parse.h"
#include "report/verdict.h"

enum { RESULTS = 200, LENGTHS = 16 };

/* What a cell of the stored grid means, and its colour: safe for colour-blind readers. */
static const struct {
    char glyph;
    const char *words, *colour;
} kinds[] = {
    {'#', "comes back", "#2f6da8"},
    {'.', "no head reads it", "#e8e3d3"},
    {'!', "lost", "#d1495b"},
    {'?', "leaked", "#edae49"},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

typedef struct s2_needle_grid {
    const char *name;
    const char *text; /* of the validation, as a sentence */
    s2_db_needle rows[LENGTHS];
    int32_t n_rows;
} s2_needle_grid;

static void draw_text(const s2_needle_grid *grid, s2_buf *buf)
{
    s2_buf_printf(buf, "%s: %s\n", grid->name, grid->text);
    s2_needles_heading(buf);
    for (int32_t at = 0; at < grid->n_rows; at++)
        s2_needles_line(grid->rows[at].len_tok, grid->rows[at].cells, buf);
}

static void draw_legend(int32_t y, s2_buf *buf)
{
    int32_t x = 90;
    for (int nth = 0; nth < N_KINDS; nth++) {
        s2_buf_printf(buf, "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" fill=\"%s\"/>", x, y,
                      kinds[nth].colour);
        s2_buf_printf(buf, "<text x=\"%d\" y=\"%d\">%s</text>\n", x + 17, y + 11, kinds[nth].words);
        x += 40 + 7 * (int32_t)strlen(kinds[nth].words);
    }
}

static void put_escaped(const char *text, s2_buf *buf)
{
    for (; *text != '\0'; text++)
        if (*text == '<' || *text == '>' || *text == '&' || *text == '"')
            s2_buf_printf(buf, "&#%d;", *text);
        else
            s2_buf_add(buf, text, 1);
}

static void draw_svg(const s2_needle_grid *grid, s2_buf *buf)
{
    enum { CELL_X = 38, CELL_Y = 24, LEFT = 90, TOP = 46 };
    const int32_t bottom = TOP + grid->n_rows * CELL_Y;
    s2_buf_printf(buf,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"560\" height=\"%d\" "
                  "font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%%\" height=\"100%%\" "
                  "fill=\"white\"/>\n<text x=\"12\" y=\"20\" font-size=\"15\">",
                  bottom + 72);
    put_escaped(grid->name, buf);
    s2_buf_puts(buf, ": needles by context length and depth</text>\n");
    for (int32_t row = 0; row < grid->n_rows; row++) {
        const int32_t y = TOP + row * CELL_Y;
        s2_buf_printf(buf, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%lld</text>\n", LEFT - 8, y + 17,
                      (long long)grid->rows[row].len_tok);
        for (int32_t depth = 0; grid->rows[row].cells[depth] != '\0'; depth++)
            for (int nth = 0; nth < N_KINDS; nth++)
                if (kinds[nth].glyph == grid->rows[row].cells[depth])
                    s2_buf_printf(buf, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n",
                                  LEFT + depth * CELL_X, y, CELL_X - 2, CELL_Y - 2, kinds[nth].colour);
    }
    s2_buf_printf(buf,
                  "<text x=\"%d\" y=\"%d\">0 %%</text><text x=\"%d\" y=\"%d\" text-anchor=\"end\">depth 100 "
                  "%%</text>\n",
                  LEFT, bottom + 18, LEFT + 11 * CELL_X, bottom + 18);
    draw_legend(bottom + 40, buf);
    s2_buf_puts(buf, "</svg>\n");
}

/* Stored text may come from anywhere, so clean it before showing it. */
static const char *cleaned(s2_arena *arena, const s2_db_result *result)
{
    s2_buf text = {0};
    s2_result_print(result, &text);
    s2_buf_add(&text, "", 1);
    char *const clean = text.status == S2_OK ? s2_arena_alloc(arena, 4 * text.len, 1) : NULL;
    if (clean != NULL)
        s2_text_clean(clean, 4 * text.len, text.data);
    s2_buf_release(&text);
    return clean != NULL ? clean : "";
}

static s2_status find_grid(s2_cli *cli, s2_db *db, int64_t design_id, s2_needle_grid *grid, s2_diag *diag)
{
    int32_t n = 0;
    s2_db_result *const results = S2_NEW(&cli->arena, s2_db_result, RESULTS);
    if (results == NULL)
        return S2_ENOMEM;
    S2_TRY(s2_db_results(db, &cli->arena, false, design_id, RESULTS, results, &n, diag));
    for (int32_t row = 0; row < n && grid->n_rows == 0; row++)
        if (results[row].kind == S2_DB_KIND_VALIDATION) {
            S2_TRY(s2_db_needles(db, &cli->arena, results[row].id, LENGTHS, grid->rows, &grid->n_rows, diag));
            grid->text = cleaned(&cli->arena, &results[row]);
        }
    return S2_OK;
}

static s2_status read_grid(s2_cli *cli, s2_db *db, const s2_input *input, s2_needle_grid *grid, s2_diag *diag)
{
    char hash[S2_HASH_HEX];
    s2_db_row rows[1];
    int32_t n = 0;
    S2_TRY(s2_pattern_hash(&input->pattern, hash));
    S2_TRY(s2_db_find(db, &cli->arena, hash, 1, rows, &n, diag));
    return n == 1 ? find_grid(cli, db, rows[0].id, grid, diag) : S2_OK;
}

s2_exit s2_needles_draw(s2_cli *cli, const s2_input *input, const char *form, s2_buf *buf)
{
    s2_db *db;
    s2_diag diag = {0};
    s2_needle_grid grid = {.name = s2_input_name(cli, input), .text = ""};
    const bool svg = strcmp(form, "svg") == 0;
    if (!svg && strcmp(form, "ansi") != 0 && strcmp(form, "ascii") != 0) {
        s2_cli_error(cli, "needles are drawn as ansi, ascii or svg");
        return S2_EXIT_USAGE;
    }
    S2_CLI_TRY(s2_store_open(cli, S2_DB_READ, &db));
    const s2_status status = read_grid(cli, db, input, &grid, &diag);
    s2_db_close(&db);
    if (status != S2_OK)
        return s2_store_report(cli, status, &diag);
    if (grid.n_rows == 0) {
        s2_cli_error(cli, "no validation of %s with needles is stored; s2 validate makes one", grid.name);
        return S2_EXIT_ENVIRONMENT;
    }
    if (svg)
        draw_svg(&grid, buf);
    else
        draw_text(&grid, buf);
    return S2_EXIT_OK;
}
