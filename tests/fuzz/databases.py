#!/usr/bin/env python3
"""Seeds for the fuzz target of databases, made from a small sound one: with free pages, sound and damaged, of an older and a newer schema, with a text
of another hash, with a row that no s2 wrote, and followed by its log (tests/fuzz/fuzz_files.c, before_log()).
usage: databases.py SMALL.db
"""
import os
import sqlite3
import sys


def changed(small, name, *statements):
    """A copy of the database after these statements, as one file of small pages."""
    path = os.path.join(os.path.dirname(small), name)
    with open(small, "rb") as file, open(path, "wb") as out:
        out.write(file.read())
    base = sqlite3.connect(path, isolation_level=None)
    base.execute("PRAGMA writable_schema = 0")
    for statement in statements:
        base.execute(statement)
    base.close()
    return path


def main():
    small = sys.argv[1]
    version = sqlite3.connect(small).execute("PRAGMA user_version").fetchone()[0]
    changed(small, "free.db", "CREATE TABLE rest AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 60) SELECT x, hex(zeroblob(60)) AS y FROM n",
            "DROP TABLE rest")
    with open(os.path.join(os.path.dirname(small), "free.db"), "rb") as file:
        free = bytearray(file.read())
    free[2 * 512] = 0xff   # the kind of the third page: it must be recovered
    with open(os.path.join(os.path.dirname(small), "free-damaged.db"), "wb") as out:
        out.write(free)
    changed(small, "older.db", "PRAGMA user_version = %d" % (version - 1))
    changed(small, "newer.db", "PRAGMA user_version = %d" % (version + 1))
    tables = sqlite3.connect(small).execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%hash%'").fetchall()
    for (table,) in tables:
        columns = [row[1] for row in sqlite3.connect(small).execute("PRAGMA table_info('%s')" % table)]
        texts = [column for column in columns if column in ("text", "canonical", "body")]
        if texts:
            changed(small, "other-%s.db" % table, "PRAGMA foreign_keys = 0", "PRAGMA ignore_check_constraints = 1",
                    "UPDATE %s SET %s = %s || ' '" % (table, texts[0], texts[0]))
    logged = changed(small, "logged.db", "PRAGMA journal_mode = wal")
    base = sqlite3.connect(logged, isolation_level=None)
    base.execute("PRAGMA wal_autocheckpoint = 0")
    base.execute("CREATE TABLE more (x)")
    base.execute("INSERT INTO more VALUES (1)")
    with open(logged, "rb") as file, open(logged + "-wal", "rb") as log:
        both = file.read() + log.read()
    base.close()
    with open(logged, "wb") as out:
        out.write(both)


main()
