/*
 * tests/s2dir.h - a folder of its own for a program of tests, and paths in it.
 *
 * cmocka_run_group_tests_name(name, tests, s2_dir_make, s2_dir_remove)
 */
#ifndef S2_TESTS_S2DIR_H
#define S2_TESTS_S2DIR_H

#include <stdio.h>
#include <stdlib.h>

static char s2_dir[64];

static inline int s2_dir_make(void **state)
{
    (void)state;
    snprintf(s2_dir, sizeof s2_dir, "/tmp/s2-test-XXXXXX");
    return mkdtemp(s2_dir) == NULL ? -1 : 0;
}

static inline int s2_dir_remove(void **state)
{
    char command[80];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", s2_dir);
    return system(command);
}

/* The path of a file in it; the eighth call after this one writes another there. */
static inline const char *s2_dir_path(const char *name)
{
    static char path[8][256];
    static int turn;
    turn = (turn + 1) % 8;
    snprintf(path[turn], sizeof path[turn], "%s/%s", s2_dir, name);
    return path[turn];
}

#endif /* S2_TESTS_S2DIR_H */
