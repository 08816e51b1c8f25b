#include "library/internal.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* The library's codes are the internal ones, so no mapping is needed. */
_Static_assert((int)S2_API_ARGUMENT == (int)S2_EINVAL && (int)S2_API_MEMORY == (int)S2_ENOMEM &&
                   (int)S2_API_REFUSED == (int)S2_EPARSE && (int)S2_API_LIMIT == (int)S2_ELIMIT &&
                   (int)S2_API_UNSUPPORTED == (int)S2_EUNSUPPORTED && (int)S2_API_FILE == (int)S2_EIO &&
                   (int)S2_API_GPU == (int)S2_ECUDA && (int)S2_API_INTERNAL == (int)S2_EINTERNAL,
               "the codes of s2.h are those of base/status.h");

int32_t s2_api_version(void)
{
    return S2_API_VERSION;
}

void s2_api_text_free(s2_api_text *text)
{
    if (text == NULL)
        return;
    s2_free(text->data);
    *text = (s2_api_text){0};
}

s2_locale s2_locale_enter(void)
{
    s2_locale entered = {.own = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    if (entered.own != (locale_t)0)
        entered.before = uselocale(entered.own);
    return entered;
}

void s2_locale_leave(s2_locale *locale)
{
    if (locale->own == (locale_t)0)
        return;
    uselocale(locale->before);
    freelocale(locale->own);
}

int s2_answer(s2_status status, const s2_diag *diag, s2_api_error *why)
{
    if (status == S2_OK || why == NULL)
        return (int)status;
    *why = (s2_api_error){.code = (int32_t)status, .line = diag->line, .column = diag->col};
    s2_text_clean(why->message, sizeof why->message, s2_diag_text(diag, status));
    return (int)status;
}

s2_status s2_answer_names(const char *argument, s2_status status, s2_diag *diag)
{
    const s2_diag told = *diag;
    return status == S2_OK ? status
                           : s2_diag_set(diag, status, told.code, told.line, told.col, "%s: %s", argument,
                                         s2_diag_text(&told, status));
}

int s2_answer_argument(s2_api_error *why, const char *fmt, ...)
{
    s2_diag diag = {0};
    va_list args;
    va_start(args, fmt);
    vsnprintf(diag.msg, sizeof diag.msg, fmt, args);
    va_end(args);
    return s2_answer(S2_EINVAL, &diag, why);
}

s2_status s2_answer_text(s2_buf *buf, s2_api_text *out)
{
    if (buf->data == NULL)
        s2_buf_puts(buf, "");
    if (buf->status != S2_OK || buf->data == NULL) {
        const s2_status status = buf->status != S2_OK ? buf->status : S2_ENOMEM;
        s2_buf_release(buf);
        return status;
    }
    *out = (s2_api_text){buf->data, buf->len};
    return S2_OK;
}

bool s2_struct_in(void *ours, uint32_t our_size, const void *theirs)
{
    uint32_t size = 0;
    if (theirs == NULL)
        return false;
    memcpy(&size, theirs, sizeof size);
    if (size < sizeof size || size > our_size)
        return false;
    memset(ours, 0, our_size);
    memcpy(ours, theirs, size);
    return true;
}

bool s2_struct_out(void *theirs, const void *ours, uint32_t our_size)
{
    uint32_t size = 0;
    if (theirs == NULL)
        return false;
    memcpy(&size, theirs, sizeof size);
    if (size < sizeof size || size > our_size)
        return false;
    memcpy(theirs, ours, size);
    memcpy(theirs, &size, sizeof size);
    return true;
}
