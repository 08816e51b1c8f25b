/*
 * The command line: one table behind parser, help, manual pages and completion; transcripts of the programs.
 */
#include "cli/options.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/completion.h"
#include "cli/explain.h"
#include "cli/help.h"
#include "pattern/spec.h"
#include "tests/s2test.h"

/* A command line with its messages caught in memory. */
typedef struct session {
    s2_cli cli;
    char *err;
    size_t n_err;
} session;

static void open_session(session *s, const char *program)
{
    static char *no_args[] = {NULL};
    s2_cli_init(&s->cli, program, 0, no_args);
    s->err = NULL;
    s->cli.err = open_memstream(&s->err, &s->n_err);
    s->cli.out = fopen("/dev/null", "w");
}

static void close_session(session *s)
{
    fclose(s->cli.err);
    fclose(s->cli.out);
    s2_arena_release(&s->cli.arena);
    free(s->err);
}

static int parse(session *s, const char *command, int argc, const char *const *argv, s2_args *out)
{
    char *copy[16] = {NULL};
    for (int n = 0; n < argc; n++)
        copy[n] = (char *)(uintptr_t)argv[n];
    const int end = s2_args_parse(&s->cli, command, argc, copy, out);
    fflush(s->cli.err);
    return end;
}

static void options_are_read_in_every_spelling(void **state)
{
    (void)state;
    static const char *const lines[][6] = {
        {"mask", "x.s2", "--len", "8k", "--format", "npy"},
        {"mask", "--len=8k", "--format=npy", "x.s2", NULL, NULL},
        {"mask", "-n8k", "-f", "npy", "x.s2", NULL},
        {"mask", "-tn", "8k", "-fnpy", "x.s2", NULL},
        {"mask", "-n", "8k", "-fnpy", "--", "x.s2"},
    };
    for (size_t n = 0; n < sizeof lines / sizeof lines[0]; n++) {
        session s;
        s2_args args;
        int64_t len;
        int argc = 0;
        while (argc < 6 && lines[n][argc] != NULL)
            argc++;
        open_session(&s, "s2");
        assert_int_equal(parse(&s, "mask", argc, lines[n], &args), S2_EXIT_OK);
        assert_int_equal(args.n_operands, 1);
        assert_string_equal(args.operands[0], "x.s2");
        assert_string_equal(s2_args_str(&args, "format"), "npy");
        assert_string_equal(s2_args_str(&args, "layer"), "0"); /* the fallback of the table */
        assert_int_equal(s2_args_int(&s.cli, &args, "len", 1, 1 << 24, &len), S2_EXIT_OK);
        assert_int_equal(len, 8192);
        assert_int_equal(s2_args_has(&args, "tokens"), n == 3);
        close_session(&s);
    }
}

static void s2check_does_not_know_the_database(void **state)
{
    (void)state;
    static const char *const line[] = {"check", "--db", "x.db", "x.s2"};
    session s;
    s2_args args;
    open_session(&s, "s2check");
    assert_int_equal(parse(&s, "check", 4, line, &args), S2_EXIT_USAGE);
    assert_non_null(strstr(s.err, "s2check: unknown option --db"));
    close_session(&s);
    open_session(&s, "s2");
    assert_int_equal(parse(&s, "check", 4, line, &args), S2_EXIT_OK);
    assert_string_equal(s.cli.db_path, "x.db");
    close_session(&s);
}

/* A variable that is not set leaves an empty name, which no system call takes for a file and SQLite for none. */
static void an_empty_name_is_refused_as_any_file(void **state)
{
    (void)state;
    int32_t n_options = 0;
    for (const s2_command *command = s2_command_table; command->name != NULL; command++)
        for (const s2_option *option = command->options; option->name != NULL; option++) {
            char word[64];
            session s;
            s2_args args;
            if (option->arg == NULL || strcmp(option->arg, "FILE") != 0)
                continue;
            snprintf(word, sizeof word, "--%s=", option->name);
            const char *const line[] = {command->name, word, "a"};
            open_session(&s, "s2");
            if (parse(&s, command->name, 3, line, &args) != S2_EXIT_USAGE ||
                strstr(s.err, "empty name") == NULL)
                fail_msg("s2 %s --%s '': %s", command->name, option->name, s.err);
            close_session(&s);
            n_options++;
        }
    assert_true(n_options > 20);
}

static bool has_option(const s2_command *command, const char *name)
{
    for (const s2_option *option = command->options; option->name != NULL; option++)
        if (strcmp(option->name, name) == 0)
            return true;
    return false;
}

/* Asserts that `s2 COMMAND WORD` is called wrongly and that the message says so. */
static void expect_wrong(const s2_command *command, const char *word, const char *said)
{
    session s;
    s2_args args;
    const char *const line[] = {command->name, word, "a"};
    open_session(&s, "s2");
    if (parse(&s, command->name, 3, line, &args) != S2_EXIT_USAGE || strstr(s.err, said) == NULL)
        fail_msg("s2 %s %s: %s", command->name, word, s.err);
    close_session(&s);
}

/* Every option of every command: typed at every other command, too long, and with the dashes of a page. */
static void a_wrong_option_is_answered_with_the_right_one(void **state)
{
    (void)state;
    static const char *const dashes[] = {"\xe2\x80\x94", "\xe2\x80\x93", "\xe2\x88\x92\xe2\x88\x92",
                                         "\xe2\x80\x93-"};
    for (const s2_command *command = s2_command_table; command->name != NULL; command++)
        for (const s2_option *option = command->options; option->name != NULL; option++) {
            char word[80], right[80];
            snprintf(word, sizeof word, "--%s", option->name);
            for (const s2_command *other = s2_command_table; other->name != NULL; other++)
                if (!has_option(other, option->name))
                    expect_wrong(other, word, "; "); /* another of its own, or who has it */
            snprintf(right, sizeof right, "write --%s", option->name);
            for (size_t n = 0; n < sizeof dashes / sizeof dashes[0]; n++) {
                snprintf(word, sizeof word, "%s%s%s", dashes[n], option->name,
                         option->arg != NULL ? "=1" : "");
                expect_wrong(command, word, right);
            }
            snprintf(word, sizeof word, "--%s-of-it", option->name);
            expect_wrong(command, word, "did you mean --");
        }
}

/* `-o=FILE` would write a file of the name "=FILE". */
static void a_letter_takes_no_equals_sign(void **state)
{
    (void)state;
    int32_t n_options = 0;
    for (const s2_command *command = s2_command_table; command->name != NULL; command++)
        for (const s2_option *option = command->options; option->name != NULL; option++) {
            session s;
            s2_args args;
            const char word[] = {'-', option->letter, '=', '1', '\0'};
            const char *const line[] = {command->name, word, "a"};
            if (option->arg == NULL || option->letter == '\0')
                continue;
            open_session(&s, "s2");
            if (parse(&s, command->name, 3, line, &args) != S2_EXIT_USAGE || strstr(s.err, "VALUE") == NULL)
                fail_msg("s2 %s %s: %s", command->name, word, s.err);
            close_session(&s);
            n_options++;
        }
    assert_true(n_options > 20);
}

static void numbers_take_suffixes_and_nothing_else(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value; /* -1: refused */
    } table[] = {{"0", 0},
                 {"8k", 8192},
                 {"1m", 1048576},
                 {"16M", 16777216},
                 {"9007199254740992", INT64_C(1) << 53},
                 {"", -1},
                 {"k", -1},
                 {"-1", -1},
                 {"+1", -1},
                 {" 1", -1},
                 {"1 ", -1},
                 {"1kk", -1},
                 {"0x10", -1},
                 {"1e9", -1},
                 {"9007199254740993", -1},
                 {"99999999999999999999", -1},
                 {"9007199254740992k", -1},
                 {"nan", -1}};
    for (size_t n = 0; n < sizeof table / sizeof table[0]; n++) {
        int64_t value = -1;
        const bool good = s2_number_parse(table[n].text, &value);
        if (good != (table[n].value >= 0) || value != table[n].value)
            fail_msg("\"%s\" gives %lld", table[n].text, (long long)value);
    }
}

static void codes_of_several_inputs_combine_worst_first(void **state)
{
    (void)state;
    static const int order[] = {6, 5, 3, 1, 4, 0};
    for (size_t a = 0; a < 6; a++)
        for (size_t b = 0; b < 6; b++)
            assert_int_equal(s2_exit_combine(order[a], order[b]), order[a < b ? a : b]);
}

/* Whatever the language or a refusal says can be asked for. */
static void every_term_and_code_is_explained(void **state)
{
    (void)state;
    session s;
    open_session(&s, "s2");
    for (int kind = 0; kind < S2_N_TERM_KINDS; kind++)
        assert_int_equal(s2_explain_print(&s.cli, s2_term_word((s2_term_kind)kind)), S2_EXIT_OK);
    static const char *const others[] = {"phase", "when", "S2P400", "S2P700", "S2P703", "S2P705"};
    for (size_t n = 0; n < sizeof others / sizeof others[0]; n++)
        assert_int_equal(s2_explain_print(&s.cli, others[n]), S2_EXIT_OK);
    assert_int_equal(s2_explain_print(&s.cli, "S2P999"), S2_EXIT_USAGE);
    assert_int_equal(s2_explain_print(&s.cli, "stride:2"), S2_EXIT_USAGE);
    close_session(&s);
}

static void the_table_is_sound_and_everything_is_made_from_it(void **state)
{
    (void)state;
    s2_buf bash = {0}, zsh = {0};
    s2_completion_print("bash", &bash);
    s2_completion_print("zsh", &zsh);
    s2_buf_add(&bash, "", 1);
    s2_buf_add(&zsh, "", 1);
    for (const s2_command *command = s2_command_table; command->name != NULL; command++) {
        assert_ptr_equal(s2_command_find(command->name), command);
        s2_buf page = {0};
        s2_help_man("s2", command, &page);
        s2_buf_add(&page, "", 1);
        assert_non_null(strstr(page.data, command->name));
        assert_non_null(strstr(bash.data, command->name));
        assert_non_null(strstr(zsh.data, command->name));
        for (const s2_option *option = command->options; option->name != NULL; option++) {
            char word[64];
            snprintf(word, sizeof word, "--%s", option->name);
            assert_non_null(strstr(bash.data, word));
            assert_non_null(option->help);
            for (const s2_option *other = option + 1; other->name != NULL; other++) {
                assert_string_not_equal(option->name, other->name);
                assert_true(option->letter == '\0' || option->letter != other->letter);
            }
            assert_true(!s2_arg_is_words(option->arg) || option->fallback == NULL ||
                        s2_word_in(option->arg, option->fallback));
        }
        s2_buf_release(&page);
    }
    s2_buf_release(&bash);
    s2_buf_release(&zsh);
}

/* Behind `from`, on the same line. */
static bool offers(const char *script, const char *from, const char *values)
{
    const size_t n = strcspn(from, "\n");
    for (const char *at = strstr(script, from); at != NULL; at = strstr(at + n, from)) {
        const char *const found = strstr(at, values);
        if (found != NULL && found < at + strcspn(at, "\n"))
            return true;
    }
    return false;
}

static void every_shell_offers_the_same_values(void **state)
{
    (void)state;
    static const char *const shells[] = {"bash", "zsh", "fish"};
    s2_buf script[3] = {{0}, {0}, {0}};
    int n_listed = 0;
    for (int shell = 0; shell < 3; shell++) {
        s2_completion_print(shells[shell], &script[shell]);
        s2_buf_add(&script[shell], "", 1);
    }
    for (const s2_command *command = s2_command_table; command->name != NULL; command++)
        for (const s2_option *option = command->options; option->name != NULL; option++) {
            char word[64];
            s2_buf values = {0};
            s2_completion_values(option, &values);
            s2_buf_add(&values, "", 1);
            n_listed += values.len > 1;
            snprintf(word, sizeof word, "--%s", option->name);
            assert_true(values.len == 1 || offers(script[0].data, word, values.data + 1));
            assert_true(offers(script[1].data, word, values.data + (values.len > 1)));
            snprintf(word, sizeof word, "seen_subcommand_from %s\" -l %s", command->name, option->name);
            assert_true(offers(script[2].data, word, values.data + (values.len > 1)));
            s2_buf_release(&values);
        }
    assert_true(n_listed > 40);
    static const char *const known[] = {"h200 ",      "llama-3.1-8b",
                                        "flashinfer", "cpu_decode",
                                        "shards",     " check backup recover stat dump gc merge"};
    for (int shell = 0; shell < 3; shell++) {
        for (size_t n = 0; n < sizeof known / sizeof *known; n++)
            assert_non_null(strstr(script[shell].data, known[n]));
        assert_null(strstr(script[shell].data, "SPACE"));
        s2_buf_release(&script[shell]);
    }
}

static void help_fits_a_terminal_of_80_columns(void **state)
{
    (void)state;
    static const char *const programs[] = {"s2", "s2check"};
    for (size_t p = 0; p < 2; p++)
        for (const s2_command *command = s2_command_table; command->name != NULL; command++) {
            session s;
            char *text = NULL;
            size_t n = 0;
            open_session(&s, programs[p]);
            fclose(s.cli.out);
            s.cli.out = open_memstream(&text, &n);
            assert_int_equal(s2_help_print(&s.cli, command), S2_EXIT_OK);
            fflush(s.cli.out);
            for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1)
                if (strcspn(line, "\n") > 80)
                    fail_msg("%s: %.*s", command->name, (int)strcspn(line, "\n"), line);
            close_session(&s);
            free(text);
        }
}

static void random_command_lines_end_with_a_code(void **state)
{
    (void)state;
    static const char *const words[] = {
        "--len", "8k", "-", "--", "--format=npy", "-t", "-fx", "--head", "", "-n", "--le=", "x", "-h"};
    uint64_t x = s2_test_seed(3);
    for (int64_t n = s2_test_cases(2000); n > 0; n--) {
        const char *line[8] = {"mask"};
        int argc = 1;
        for (; argc < 8; argc++) {
            x = x * UINT64_C(6364136223846793005) + 1442695040888963407U;
            line[argc] = words[(x >> 33) % (sizeof words / sizeof words[0])];
        }
        session s;
        s2_args args;
        open_session(&s, "s2");
        const int end = parse(&s, "mask", argc, line, &args);
        assert_true(end == S2_EXIT_OK || end == S2_EXIT_ANSWERED || end == S2_EXIT_USAGE);
        assert_true(end != S2_EXIT_USAGE || s.n_err > 0);
        close_session(&s);
    }
}

/* Programs lie one directory above the test: build/KIND/s2 and build/KIND/tests/test_cli. */
static void transcripts_replay_to_the_byte(void **state)
{
    (void)state;
    char path[1024], command[1200];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    assert_true(n > 0);
    path[n] = '\0';
    for (int up = 0; up < 2; up++)
        *strrchr(path, '/') = '\0';
    snprintf(command, sizeof command, "tests/cli/run.sh '%s'", path);
    const int status = system(command);
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_read_in_every_spelling),
        cmocka_unit_test(s2check_does_not_know_the_database),
        cmocka_unit_test(an_empty_name_is_refused_as_any_file),
        cmocka_unit_test(a_wrong_option_is_answered_with_the_right_one),
        cmocka_unit_test(a_letter_takes_no_equals_sign),
        cmocka_unit_test(numbers_take_suffixes_and_nothing_else),
        cmocka_unit_test(codes_of_several_inputs_combine_worst_first),
        cmocka_unit_test(every_term_and_code_is_explained),
        cmocka_unit_test(the_table_is_sound_and_everything_is_made_from_it),
        cmocka_unit_test(every_shell_offers_the_same_values),
        cmocka_unit_test(help_fits_a_terminal_of_80_columns),
        cmocka_unit_test(random_command_lines_end_with_a_code),
        cmocka_unit_test(transcripts_replay_to_the_byte),
    };
    return cmocka_run_group_tests_name("cli", tests, NULL, NULL);
}
