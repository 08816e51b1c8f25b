/* s2cert - check a certificate by the theorem of docs/proof.md, sharing no code with the rest. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cert/cert.h"

enum { USAGE = 2, ENVIRONMENT = 5, WAIT_S = 10 };

static const char usage[] =
    "usage: s2cert CERTIFICATE\n\nCheck what s2check --certificate wrote.\nexit codes: 0 verified, 1 not "
    "verified, 2 called wrongly, 3 no certificate to check, 4 not decided, 5 environment\n";

static int say(FILE *to, const char *what, const char *of)
{
    fprintf(to, "%s%s", what, of);
    return fflush(to) == 0 && ferror(to) == 0 ? 0 : ENVIRONMENT;
}

static int fail(int code, const char *what, const char *why)
{
    fprintf(stderr, "s2cert: %s: %s\n", what, why);
    return code;
}

static const char *words_of(s2_cert_verdict verdict)
{
    switch (verdict) {
    case S2_CERT_REFUTED: return "not verified";
    case S2_CERT_MALFORMED: return "malformed certificate";
    case S2_CERT_UNDECIDED: return "not decided";
    case S2_CERT_NO_MEMORY: return "not checked";
    case S2_CERT_VERIFIED: break;
    }
    return "verified";
}

static int say_or_fail(const char *words, const char *more)
{
    const int code = say(stdout, words, more);
    return code == 0 ? 0 : fail(code, "cannot write the answer", strerror(errno));
}

/* A pipe into which nobody writes must not stop a script. */
static void end_of_waiting(int number)
{
    static const char words[] = "s2cert: the file cannot be read: nothing came for 10 seconds\n";
    (void)number;
    if (write(STDERR_FILENO, words, sizeof words - 1) < 0)
        _exit(ENVIRONMENT);
    _exit(S2_CERT_MALFORMED);
}

/* The answer to one file, whose name may hold anything and is not repeated. */
static int check_file(const char *path)
{
    static const char magic[] = "s2cert 1 ";
    static char bytes[S2_CERT_MOST_BYTES + 1];
    static s2_cert_answer answer;
    signal(SIGALRM, end_of_waiting);
    alarm(WAIT_S);
    FILE *const file = fopen(path, "rb");
    const size_t n = file != NULL ? fread(bytes, 1, sizeof bytes, file) : 0;
    if (file == NULL || ferror(file))
        return fail(S2_CERT_MALFORMED, "the file cannot be read", strerror(errno));
    fclose(file);
    alarm(0);
    if (n == sizeof bytes)
        return fail(S2_CERT_MALFORMED, "not a certificate", "the file is longer than any certificate");
    if (n < sizeof magic - 1 || memcmp(bytes, magic, sizeof magic - 1) != 0)
        return fail(S2_CERT_MALFORMED, "not a certificate",
                    n == 0 ? "the file is empty" : "it does not begin with `s2cert 1`");
    s2_cert_check(bytes, n, S2_CERT_MOST_STEPS, &answer);
    if (answer.verdict == S2_CERT_VERIFIED) {
        char text[sizeof answer.claims + sizeof answer.hash + 16];
        snprintf(text, sizeof text, "%s\npattern %s\n", answer.claims, answer.hash);
        return say_or_fail("verified for every context length: ", text);
    }
    return fail((int)answer.verdict, words_of(answer.verdict), answer.reason);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return say_or_fail(usage, "");
    if (argc != 2) {
        fputs(usage, stderr);
        return USAGE;
    }
    return check_file(argv[1]);
}
