/*
 * base/shared.h - memory that another process opens as a file.
 *
 * Threads: as thread-safe as mmap.
 */
#ifndef S2_BASE_SHARED_H
#define S2_BASE_SHARED_H

#include <stddef.h>

#include "base/status.h"

/*
 * Zeroed memory of an unnamed file, which nobody can shorten or extend: a page that another process cut off would
 * end the process that reads it. S2_ENOMEM: neither memory nor file exists.
 */
s2_status s2_shared_open(const char *name, size_t n_bytes, void **memory, int *file);
void s2_shared_close(void *memory, size_t n_bytes, int file);

#endif /* S2_BASE_SHARED_H */
