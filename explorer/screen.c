/* Writes screens to files, as text, ANSI or PNG. */
#include "explorer/internal.h"

#include <string.h>

#include "base/alloc.h"
#include "export/files.h"
#include "draw/screen.h"

static s2_status as_png(const s2_canvas *canvas, s2_palette palette, s2_buf *buf)
{
    const size_t n = (size_t)canvas->rows * (size_t)canvas->cols;
    s2_screen_cell *const cells = s2_calloc(n, sizeof *cells);
    if (cells == NULL)
        return S2_ENOMEM;
    for (size_t cell = 0; cell < n; cell++) {
        const s2_look *const look = s2_look_of(palette, (s2_style)canvas->cells[cell].style);
        cells[cell] = (s2_screen_cell){.glyph = canvas->cells[cell].glyph,
                                       .ink = s2_palette_rgb(palette, look->fg256, false),
                                       .paper = s2_palette_rgb(palette, look->bg256, true),
                                       .bold = (look->attr & S2_LOOK_BOLD) != 0};
    }
    const s2_status status = s2_screen_png(cells, canvas->rows, canvas->cols, buf);
    s2_free(cells);
    return status;
}

static s2_status render(const s2_explorer *e, const char *as, s2_buf *buf)
{
    const s2_canvas *const canvas = &e->session.canvas;
    S2_TRY(canvas->status);
    if (strcmp(as, "png") == 0)
        return as_png(canvas, e->options->palette, buf);
    if (strcmp(as, "ansi") == 0)
        s2_canvas_ansi(canvas, e->options->palette, buf);
    else
        s2_canvas_dump(canvas, e->options->styles, buf);
    return buf->status;
}

static const char *kind_of(const char *path)
{
    const char *const dot = strrchr(path, '.');
    return dot == NULL                ? "text"
           : strcmp(dot, ".png") == 0 ? "png"
           : strcmp(dot, ".ans") == 0 ? "ansi"
                                      : "text";
}

s2_status s2_explorer_dump(s2_explorer *e, s2_diag *diag)
{
    s2_buf buf = {0};
    const char *const path = e->options->output;
    const char *const as = e->options->as != NULL ? e->options->as : path != NULL ? kind_of(path) : "text";
    s2_status status = render(e, as, &buf);
    if (status == S2_OK && path == NULL)
        fwrite(buf.data, 1, buf.len, e->options->out);
    else if (status == S2_OK)
        status = s2_file_write(path, buf.data, buf.len, diag);
    s2_buf_release(&buf);
    return status;
}

/* Redraws the screen first, so that the prompt for the name is not on it. */
void s2_explorer_dump_prompted(s2_explorer *e)
{
    s2_buf buf = {0};
    s2_diag diag = {0};
    const char *const path = e->session.state.prompt;
    s2_session_draw(&e->session);
    s2_status status = path[0] != '\0' ? render(e, kind_of(path), &buf)
                                       : s2_diag_set(&diag, S2_EINVAL, 0, 0, 0, "give the name of a file");
    if (status == S2_OK)
        status = s2_file_write(path, buf.data, buf.len, &diag);
    s2_buf_release(&buf);
    if (status == S2_OK)
        s2_explorer_say(e, "written to %s", path);
    else
        s2_explorer_say_failure(e, status, &diag);
}
