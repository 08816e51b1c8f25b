/*
 * cli/front.h - the front (db/front.h) of the designs that a command's conditions list.
 */
#ifndef S2_CLI_FRONT_H
#define S2_CLI_FRONT_H

#include "cli/listing.h"
#include "db/front.h"

/* "us,kv_mib"; S2_EXIT_OK, or 2 after a message. */
s2_exit s2_front_choose(s2_cli *cli, const char *list, s2_front_spec *out);

/*
 * List the designs that meet the command's conditions: at one phase and length if prices are shown, and with
 * prices of one kind if they are compared: *kind names it ("": none is compared). Says what that leaves out, of the
 * objectives too: a training step has no cache.
 * S2_EXIT_OK, or an exit code after a message.
 */
s2_exit s2_front_list(s2_listing *listing, const s2_args *args, s2_front_spec *front, s2_db *db,
                      const char **kind);

/* Reduce the listing to its front, sorted by the first objective. S2_ENOMEM. */
s2_status s2_front_leave(s2_listing *listing, const s2_front_spec *front) S2_MUST_CHECK;

/* How many of the designs that are left violate the union, so that some key has no head that reads it. */
int32_t s2_front_holed(const s2_listing *l);

#endif /* S2_CLI_FRONT_H */
