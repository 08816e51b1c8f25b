/*
 * The one table of commands and options. To add a command: an entry here, a file cli/cmd_<name>.c, a
 * line in cli/commands.h and one in cli/main_s2.c.
 */
#include "cli/options.h"

#define OPT(name, letter, arg, fallback, help)                                                               \
    {                                                                                                        \
        name, letter, arg, fallback, help, false, false                                                      \
    }
#define FLAG(name, letter, help) OPT(name, letter, NULL, NULL, help)
#define OPT_JSON                 FLAG("json", '\0', "one JSON object per line instead of text")
#define OPT_DB                                                                                               \
    {                                                                                                        \
        "db", '\0', "FILE", NULL, "the database; default $S2_DB, else s2.db in the working directory",       \
            false, true                                                                                      \
    }
#define OPT_NO_DB                                                                                            \
    {                                                                                                        \
        "no-db", '\0', NULL, NULL, "record nothing", false, true                                             \
    }
#define OPT_LEN(fallback)                                                                                    \
    OPT("len", 'n', "N", fallback, "context length in tokens; k and m multiply by 1024 and 1048576")
#define OPT_SET                                                                                              \
    {                                                                                                        \
        "set", '\0', "KEY=VALUE", NULL,                                                                      \
            "say what a config leaves unsaid; `s2 import --list` shows the keys", true, true                 \
    }
#define OPT_LIST   FLAG("list", '\0', "list the formats, or only the named ones")
#define OPT_OUTPUT OPT("output", 'o', "FILE", NULL, "write there instead of to standard output")
#define OPT_QUIET  FLAG("quiet", 'q', "print no verdict: the exit code is the answer")
#define OPT_COLOR                                                                                            \
    OPT("color", '\0', "auto|always|never", "auto",                                                          \
        "colour the verdicts; auto: on a terminal, unless NO_COLOR is set")
#define OPT_WEIGHTS                                                                                          \
    OPT("weights", '\0', "published|as-dtype|fp8|int8|int4|mxfp4|nvfp4", "published",                        \
        "type of the model's weights; published: as its config says, else, and in training, as --dtype")
#define OPT_KV_DTYPE                                                                                         \
    OPT("kv-dtype", '\0', "as-dtype|bf16|e4m3|int8", "as-dtype",                                             \
        "type of the KV cache, of which training has none")
#define OPT_FUSION                                                                                           \
    OPT("fusion", '\0', "fused|eager", "fused",                                                              \
        "norms, rotary embedding and activations: one kernel each, or PyTorch's operations one by one")
#define OPT_DP OPT("dp", '\0', "N", "1", "train: GPUs that divide weights, gradients and optimizer")
#define OPT_MACHINE                                                                                          \
    OPT("pp", '\0', "N", "1", "stages of a pipeline, each with some of the layers"),                         \
        OPT("micro", '\0', "N", NULL,                                                                        \
            "with --pp: microbatches that the batch is cut into; default: sequences, in decode stages"),     \
        OPT("cp", '\0', "N", "1", "prefill, train: GPUs that share the tokens of each sequence"),            \
        OPT("cut", '\0', "contiguous|zigzag", "contiguous",                                                  \
            "with --cp: an even part each, or the first and the last of 2 N pieces and so on"),              \
        OPT("ep", '\0', "N", "1", "replicas that share the experts of each layer of a mixture"),             \
        OPT("nodes", '\0', "N", "1",                                                                         \
            "nodes that all GPUs are dealt to; groups that span several speak over the network")
#define OPT_MEMORY                                                                                           \
    OPT("gpu-memory-utilization", '\0', "F", "1",                                                            \
        "part of each GPU's memory that weights, cache and activations may take, as in vLLM (0.9 there)")
#define OPT_DEVICE_LISTS                                                                                     \
    FLAG("device-lists", '\0',                                                                               \
         "prefill: blocks are chosen at run time; the pattern says how many, and each launch plans their "   \
         "lists")
#define OPT_RECOMPUTE FLAG("recompute", '\0', "train: keep the input of each layer only")
#define OPT_CONSTANTS                                                                                        \
    OPT("constants", '\0', "FILE", NULL, "what s2 calibrate wrote; default: the GPU's built-in file")
#define OPT_END                                                                                              \
    {                                                                                                        \
        NULL, '\0', NULL, NULL, NULL, false, false                                                           \
    }

#define PATTERN_ABOUT                                                                                        \
    "PATTERN is a pattern file, a foreign config that `s2 import` understands (told by its content), a "     \
    "design in the database (its name or the first 4 or more digits of its hash), an inline text with ';' "  \
    "for line ends, or '-' for standard input."

#define CHECK_ABOUT                                                                                          \
    "Each required property gets a verdict: holds, violated (with the smallest witness) or unknown (with "   \
    "the "                                                                                                   \
    "limit that was hit). With --len all the verdict is a proof for every context length."

const char s2_s2check_about[] =
    "PATTERN is a pattern file, an inline text with ';' for line ends, or '-' for standard input. Foreign "
    "configs and designs in a database are read by `s2 check`, which prints the same bytes.\n" CHECK_ABOUT;

const char s2_s2check_examples[] =
    "$ s2check phi3.s2\n"
    "$ s2check 'heads 16; layers all: local 16 | stride 16 phase kv' --len 128k\n"
    "$ s2check phi3.s2 --certificate phi3.cert && s2cert phi3.cert\n";

static const s2_option CHECK[] = {
    OPT("require", 'r', "LIST", "rows,union,kv",
        "properties that must hold: rows, union, kv, group, shards, ranks:N, depth:D"),
    OPT("len", 'n', "N|all", "all", "context length in tokens, or every length"),
    OPT("pair", '\0', "Q,K", NULL, "say, head by head, whether query Q reads key K, and why"),
    OPT("query", '\0', "Q", NULL,
        "say which earlier keys query Q reads through no head, per layer and KV head"),
    OPT("engine", '\0', "algebra|enumerate|both", "algebra",
        "prove by residue classes, by enumeration up to a length that suffices, or both and compare"),
    OPT("certificate", '\0', "FILE", NULL,
        "write what s2cert re-checks, when every property holds for all lengths"),
    OPT("explain", '\0', "CODE", NULL,
        "explain a property, a term of the language or a diagnostic code, and end"),
    OPT_QUIET,
    OPT_COLOR,
    OPT_SET,
    OPT_JSON,
    FLAG("version", '\0', "print the version, and end"),
    OPT_DB,
    OPT_NO_DB,
    OPT_END};

static const s2_option SHOW[] = {
    FLAG("canonical", 'c', "print the canonical text, of which the hash is the SHA-256"),
    FLAG("hash", '\0', "print the hash alone"),
    OPT_LEN("8k"),
    OPT_SET,
    OPT_JSON,
    OPT_DB,
    OPT_END};

static const s2_option REACH[] = {
    OPT_LEN("8k"), OPT("phase", '\0', "prefill|decode", "prefill", "the phase whose rules apply"),
    OPT_JSON,      OPT_SET,
    OPT_DB,        OPT_NO_DB,
    OPT_END};

static const s2_option MASK[] = {
    OPT_LEN("8k"),
    OPT("layer", 'l', "L", "0", "the layer"),
    OPT("head", 'H', "H|kv:G|union", NULL,
        "one query head, what the heads of one KV head read together, or what all heads read together"),
    OPT("phase", '\0', "prefill|decode", "prefill", "the phase whose rules apply"),
    FLAG("tokens", 't', "one entry per token instead of per block"),
    OPT("format", 'f', "txt|pbm|npy|csr", "txt", "text, Portable Bitmap, NumPy bool array, or row lists"),
    OPT_SET,
    OPT_OUTPUT,
    OPT_DB,
    OPT_END};

static const s2_option DIFF[] = {OPT_LEN("8k"), OPT_QUIET, OPT_COLOR, OPT_SET, OPT_JSON, OPT_DB, OPT_END};

static const s2_option SIM[] = {
    OPT_LEN("8k"),
    OPT("gpu", 'g', "NAME", "h200", "a built-in GPU, or a file like those of sim/gpus"),
    OPT("model", 'm', "NAME", NULL,
        "price the layers around attention of this model too: a built-in one, or a config.json"),
    FLAG("list", '\0', "list the built-in GPUs and models"),
    OPT("phase", 'p', "prefill|decode|train|all", "prefill", "what is priced; all: a line for each"),
    OPT("new", '\0', "N", NULL,
        "only the last N tokens ask, the others are in the cache; default: all, and one in decode"),
    OPT_DEVICE_LISTS,
    OPT("requests", '\0', "FILE", NULL,
        "serve these instead: text with commas, columns prompt, output and, where they differ, arrival in "
        "seconds"),
    OPT("chunk", '\0', "N", NULL,
        "with --requests: prompts go on in chunks of N beside the tokens of others"),
    OPT("prefix", '\0', "N", NULL, "with --requests: the first N tokens of every prompt are the same"),
    OPT("page", '\0', "N", "16", "tokens in a page of the KV cache"),
    OPT("tp", '\0', "N", "1", "GPUs that share the heads of each layer"),
    OPT_MACHINE,
    FLAG("compare", '\0', "also price the known methods in the same shape"),
    FLAG("bounds", '\0', "lower bounds only, no predictions"),
    OPT_CONSTANTS,
    OPT("kernel-model", '\0', "NAME", NULL,
        "somebody else's kernel instead of ours: a built-in one, or a file of s2 calibrate --from times.csv"),
    FLAG("accuracy", '\0', "judge the constants by measurements that were not fitted"),
    OPT("rows", '\0', "FILE", NULL, "the measurements for --accuracy; default: those built in"),
    OPT("batch", 'b', "N|max", "1", "sequences at once; max: the largest that fits, found for each side"),
    OPT_WEIGHTS,
    OPT_KV_DTYPE,
    OPT_FUSION,
    OPT_DP,
    OPT_MEMORY,
    OPT_RECOMPUTE,
    OPT("dtype", '\0', "bf16|fp16|fp8", "bf16", "type of Q, K and V"),
    OPT("stack", '\0', "NAME", NULL,
        "keep the cache as what reads this format does (vllm, hf, trtllm keep all of it); default: as what "
        "reads the pattern's own file does"),
    OPT_SET,
    OPT_JSON,
    OPT_DB,
    OPT_NO_DB,
    OPT_END};

static const s2_option CALIBRATE[] = {
    OPT("device", 'd', "NAME", "gpu", "the GPU: gpu, or gpu:N"),
    OPT("gpu", 'g', "NAME", NULL, "its name in the table of GPUs; default: by the device's own"),
    OPT("pass", 'p', "all|forward|backward|decode", "all", "which kernels"),
    OPT("kernel", 'k', "NAME", NULL,
        "the kernel; default: the best that takes each point. A file or a command (./mine.so, 'python3 "
        "mine.py') is somebody else's: it is timed on designed launches, and laws are fitted to its times"),
    OPT("minutes", '\0', "N", "5", "with --kernel FILE: minutes to spend on timing it, such as 5 or 0.5"),
    OPT("timeout", '\0', "SECONDS", "60", "with --kernel FILE: the most that a call may take"),
    OPT("family", 'f', "WORD", NULL, "only the points of this family (--dry-run shows them)"),
    OPT("held-out", '\0', "N", "0", "measure N drawn points of each pass instead, and fit nothing"),
    OPT("seed", '\0', "N", "1", "seed of the draw"),
    OPT("rows", 'r', "FILE", NULL, "write the measurements there; default: standard output"),
    OPT("from", '\0', "FILE", NULL,
        "fit these measurements, or a table of another kernel's times; runs nothing"),
    OPT("name", '\0', "WORD", NULL, "the name of somebody else's kernel; default: that of its table or file"),
    OPT("leave-out", '\0', "SEED", NULL,
        "with --from: do not fit the third of the points that SEED draws; write them to --rows"),
    OPT("keep", '\0', "FILE", NULL,
        "fit the kernels that have rows alone, and leave all else as these constants are"),
    OPT("only", '\0', "WORD", NULL,
        "with --keep: fit this constant alone, of the kernels that have rows; dims: what the rows' head "
        "dimensions cost"),
    OPT("judge", '\0', "FILE", NULL, "state the errors on these held-out measurements in the file"),
    OPT("out", 'o', "FILE", NULL, "fit, and write the constants there"),
    FLAG("once", '\0', "one launch a point and no timing: for a profiler that counts bytes"),
    FLAG("dry-run", '\0', "list the points, measure nothing"),
    OPT_END};

static const s2_option VALIDATE[] = {
    OPT("device", 'd', "NAME", "cpu", "where the kernel runs: cpu, gpu, or gpu:N"),
    OPT("len", 'n', "N,...", "1k",
        "context lengths in tokens; k and m multiply by 1024 and 1048576; default: 1k, or up to 4k where a "
        "shorter context does not tell a head from a dense one"),
    OPT("layer", 'l', "N", "auto", "one layer; auto: one of each kind of layer"),
    OPT("kernel", 'k', "NAME", NULL,
        "the kernel, or your own: ./FILE.so or 'COMMAND ...'; default: the best that takes the pattern"),
    OPT("phase", 'p', "prefill|decode|train", "prefill",
        "forward of the whole context, one token, or the gradients"),
    OPT("batch", 'b', "N", "1", "sequences at once"),
    OPT("dtype", '\0', "fp32|bf16|fp16|fp8", NULL, "type of Q, K and V; default: the kernel's own"),
    OPT("soft-cap", '\0', "C", NULL,
        "scores become C tanh(score / C); 0: they do not; default: what the pattern's model does"),
    OPT("sink-logits", '\0', "yes|no", NULL,
        "a learned logit a head in the softmax's denominator; default: what the pattern's model has"),
    OPT("seed", '\0', "N", "1", "seed of the input data"),
    OPT("runs", '\0', "N", "5", "timed repetitions"),
    OPT("pairs", '\0', "N", NULL,
        "(query, key) pairs compared at most; default: 100 million, on a CPU 40 million"),
    FLAG("light", '\0', "look at a few heads and windows only: for times of what was judged before"),
    OPT("steps", '\0', "N", NULL,
        "decode: tokens generated one by one; default: 4096 on a GPU, 512 on a CPU"),
    OPT("cache", '\0', "pages|ring|shared", "pages", "decode: the layout of the cache"),
    OPT("kv-dtype", '\0', "as-dtype|e4m3", "as-dtype",
        "type of keys and values, in a prefill of queries too"),
    OPT("page", '\0', "N", "0", "decode: tokens of a cache page; 0: the pattern's block"),
    OPT("threads", 'j', "N", NULL, "CPU threads; default: all cores"),
    FLAG("counters", '\0', "bytes moved, from the hardware's counters (needs ncu on PATH)"),
    OPT("timeout", '\0', "SECONDS", "120",
        "end with outcome timeout after so long without progress; 0: never"),
    FLAG("once", '\0', "launch twice and judge nothing; a profiler sees the second launch"),
    OPT_QUIET,
    OPT_COLOR,
    OPT_SET,
    OPT_JSON,
    OPT_DB,
    OPT_NO_DB,
    OPT_END};

static const s2_option IMPORT[] = {
    OPT("from", '\0', "NAME", NULL, "the format; default: told by the content"),
    FLAG("terms", 't',
         "write a mask as terms of the language, without a mask file; refused if no few terms say it"),
    OPT_SET,
    OPT_LIST,
    OPT_OUTPUT,
    OPT_DB,
    OPT_NO_DB,
    OPT_END};

static const s2_option EXPORT[] = {
    OPT("to", '\0', "NAME", NULL, "the format: hf, vllm, dkernel, ..."),
    OPT_SET,
    OPT_LIST,
    OPT_OUTPUT,
    FLAG("force", '\0', "overwrite FILE"),
    FLAG("dry-run", '\0', "compare and say what would be lost; write nothing"),
    OPT("tp", '\0', "N", "1",
        "GPUs that share the heads; where each builds its own attention, -o DIR has rank0, rank1, ..."),
    OPT_LEN("8k"),
    OPT("phase", '\0', "prefill|decode", NULL,
        "only the rules of this phase, for files that hold one mask; default: both"),
    OPT_DB,
    OPT_NO_DB,
    OPT_END};

static const s2_option DRAW[] = {
    OPT("what", 'w', "mask|shards|flow|reach|kv|pareto|needles", "mask", "the picture"),
    OPT("as", '\0', "ansi|ascii|png|svg|dot", NULL,
        "the form; default: by FILE, else ansi on a terminal, ascii elsewhere"),
    OPT("len", 'n', "N", "8k", "context length in tokens; of a front by default the most common one"),
    OPT("layer", 'l', "L", NULL, "mask, shards: the layer; default: the first that is not dense"),
    OPT("head", 'H', "H|kv:G|union", NULL, "mask: the head"),
    OPT("page", '\0', "N", "16", "kv: tokens in a page of the cache"),
    OPT("minimize", 'm', "X,Y", "us,kv_bytes",
        "pareto: two of us, kv_bytes, unread, gpu_us, density, loss, unrecalled, hops, fading"),
    OPT("phase", 'p', "prefill|decode|train", NULL,
        "pareto: the phase that is priced; default: the most common"),
    OPT("filter", '\0', "EXPR", NULL, "pareto: conditions as in s2 ls; the operands are joined to it"),
    OPT_SET,
    OPT_OUTPUT,
    OPT_DB,
    OPT_END};

static const s2_option LS[] = {
    OPT("filter", '\0', "EXPR", NULL, "conditions that must all hold; the operands are joined to it"),
    OPT("sort", 's', "COLUMN", "-created", "order by a column; -COLUMN: largest first"),
    OPT("view", '\0', "NAME", NULL, "the filter and order that are kept under this name"),
    OPT("keep-view", '\0', "NAME", NULL, "keep this filter and order under a name, also for s2 tui"),
    OPT("drop-view", '\0', "NAME", NULL, "forget what is kept under this name, and list nothing"),
    OPT("limit", 'L', "N", "50", "rows at most"),
    OPT("after", '\0', "CURSOR", NULL, "continue after a page; the cursor is printed below it"),
    OPT("columns", '\0', "A,B,...",
        "name,hash,family,rows,union,kv,phase,len,gpu,batch,tp,us,priced,kv_bytes,unread,density,gpu_us,tags",
        "what is shown"),
    OPT("format", 'f', "table|csv|json|md", "table", "json: one object per line; md: Markdown"),
    OPT_JSON,
    FLAG("trash", '\0', "show removed designs instead"),
    OPT("phase", 'p', "prefill|decode|train", NULL,
        "the phase that is shown; default: each design's most common"),
    OPT("len", 'n', "N", NULL, "their context length in tokens; default: likewise"),
    OPT_DB,
    OPT_END};

static const s2_option PARETO[] = {
    OPT("minimize", 'm', "A,B,...", "us,kv_bytes,unread",
        "up to four of us, kv_bytes, unread, gpu_us, density, loss, unrecalled, hops, fading"),
    OPT("filter", '\0', "EXPR", NULL,
        "conditions that must all hold, as in s2 ls; the operands are joined to it"),
    OPT("phase", 'p', "prefill|decode|train", NULL,
        "the phase that is compared; default: the most common of all"),
    OPT("len", 'n', "N", NULL, "their context length in tokens; default: likewise"),
    FLAG("distinct", '\0', "list only the first by name of designs with equal values"),
    OPT("columns", '\0', "A,B,...",
        "name,hash,family,union,kv,phase,len,gpu,batch,tp,us,priced,kv_bytes,unread,density,gpu_us",
        "what is shown"),
    OPT("format", 'f', "table|csv|json|md", "table", "json: one object per line; md: Markdown"),
    OPT_JSON,
    OPT_DB,
    OPT_END};

static const s2_option SEARCH[] = {
    OPT("model", 'm', "NAME", NULL,
        "the model whose shape the candidates have: a built-in one, or a config.json"),
    OPT("gpu", 'g', "NAME", "h200", "a built-in GPU, or a file like those of sim/gpus"),
    OPT_LEN("128k"),
    OPT("phase", 'p', "LIST", "prefill", "which times `us` stands for: prefill, decode, train"),
    OPT("require", 'r', "LIST", "rows,union,kv", "properties that must be proved, as in s2 check"),
    OPT("minimize", '\0', "LIST", "us,kv_bytes,unread",
        "up to six of us, prefill_us, decode_us, train_us, kv_bytes, density, imbalance, unread, redundancy, "
        "depth, dilution, hops, fading, loss, unrecalled; a proposed space is searched for dilution too"),
    OPT("at-most", '\0', "LIST", NULL,
        "limits by the same names: kv_bytes=30% of a dense cache, or =2GiB; unread=50%; decode_us=3ms"),
    OPT("exportable", '\0', "LIST", NULL, "only what these formats can hold exactly: vllm, hf, ..."),
    OPT("dense-layers", '\0', "N", NULL, "only designs with N dense layers"),
    OPT("tp", '\0', "N", "1", "GPUs that share the heads of each layer"),
    OPT_MACHINE,
    OPT_DEVICE_LISTS,
    OPT("page", '\0', "N", "16", "tokens in a page of the KV cache"),
    OPT("batch", 'b', "N", "1", "sequences at once"),
    OPT("dtype", '\0', "bf16|fp16|fp8", "bf16", "type of Q, K and V"),
    OPT_WEIGHTS,
    OPT_KV_DTYPE,
    OPT_FUSION,
    OPT_DP,
    OPT_MEMORY,
    OPT_RECOMPUTE,
    OPT_CONSTANTS,
    FLAG("bounds", '\0', "compare times at peak rates, not predictions: much faster"),
    OPT("limit", 'L', "N", NULL, "visit at most N candidates, drawn by the seed"),
    OPT("seed", '\0', "N", "1", "order of the visits; the front of a whole space is the same for all"),
    OPT("jobs", 'j', "N", NULL, "threads; default: all cores"),
    OPT("validate", '\0', "N", "0", "afterwards run the N best of the front, as s2 validate does"),
    OPT("device", 'd', "NAME", "cpu", "where they run: cpu, gpu, or gpu:N"),
    OPT("runs", '\0', "N", "5", "timed repetitions of each"),
    OPT("output", 'o', "FILE", NULL,
        "write the best design there: the pattern as FILE.s2, or in the format of --exportable"),
    FLAG("force", '\0', "overwrite FILE"),
    FLAG("dry-run", '\0', "say what would be searched; search nothing"),
    FLAG("quiet", 'q', "print no progress"),
    FLAG("resume", '\0', "continue where this search was stopped"),
    OPT("shard", '\0', "I/N", "1/1", "visit the I-th of N parts; merge with s2 db merge"),
    OPT_JSON,
    OPT_DB,
    OPT_NO_DB,
    OPT_END};

static const s2_option DB[] = {FLAG("force", '\0', "overwrite the file that backup or recover writes"),
                               OPT_QUIET,
                               OPT_COLOR,
                               OPT_JSON,
                               OPT_DB,
                               OPT_END};

static const s2_option TUI[] = {
    OPT("dump", '\0', "VIEW", NULL,
        "print a view and end: bench, designs, design, compare, pareto, reach, record, runs, output, log, "
        "help, tour"),
    OPT("as", '\0', "text|ansi|png", NULL,
        "what a dump is: glyphs, with colours, or a picture; default: by FILE, else text"),
    OPT_OUTPUT,
    OPT("script", '\0', "FILE", NULL,
        "read keys from a file instead of the terminal; `dump` prints the screen"),
    OPT("size", '\0', "COLSxROWS", "80x24", "of dumps and scripts"),
    FLAG("styles", '\0', "dumps show what each cell means below the glyphs"),
    FLAG("ascii", '\0', "no glyphs beyond ASCII"),
    FLAG("mono", '\0', "no colours"),
    OPT("palette", '\0', "dark|light|contrast", "dark",
        "colours for a dark or light background, or the fewest"),
    FLAG("no-session", '\0',
         "begin with the usual workbench and list, not as they were left, and keep nothing of this session"),
    FLAG("mouse", '\0', "clicks choose, the wheel scrolls; shift selects text then"),
    OPT_DB,
    OPT_NO_DB,
    OPT_END};

static const s2_option PEOPLE[] = {OPT_DB, OPT_END};
static const s2_option STAR[] = {FLAG("off", '\0', "remove the star"), OPT_DB, OPT_END};
static const s2_option NONE[] = {OPT_END};
static const s2_option DOCTOR[] = {OPT_JSON, OPT_DB, OPT_END};
static const s2_option HELP[] = {
    FLAG("list", '\0', "print the names of the commands, one a line"),
    FLAG("man", '\0', "print the manual page as groff source"),
    OPT("completion", '\0', "bash|zsh|fish", NULL, "print a completion script for this shell"), OPT_END};

const s2_command s2_command_table[] = {
    {"check", "PATTERN...", 0, -1, "prove that every query still reaches every key, or show where not",
     PATTERN_ABOUT "\n" CHECK_ABOUT,
     "$ s2 check phi3.s2\n"
     "$ s2 check 'heads 16; layers all: local 16 | stride 16 phase kv' --len 128k\n"
     "$ s2 check phi3.s2 --pair 1088,64\n",
     CHECK},
    {"show", "PATTERN...", 1, -1, "print shape, hash, distinct bodies and density", PATTERN_ABOUT,
     "$ s2 show phi3.s2\n$ s2 show config.json --canonical > phi3.s2\n", SHOW},
    {"reach", "PATTERN...", 1, -1, "say how far information gets: hops, heads by distance, flow, worth",
     PATTERN_ABOUT
     "\nCounted in blocks, at most 4096 of them; docs/worth.md defines each measure. hops: "
     "layers until every key has reached every later query. flow: what would arrive at the last query if "
     "every head gave equal weight to all that it reads. worth: what models of 4 layers "
     "learned under patterns like this; not judged for other shapes.",
     "$ s2 reach phi3.s2 --len 8k\n", REACH},
    {"mask", "PATTERN", 1, 1, "write the mask itself, for other tools",
     PATTERN_ABOUT
     "\nRows are queries, columns are keys, in blocks or with --tokens in tokens; a block is set when any of "
     "its pairs is read.\n"
     "txt: '#' and '.', one line per row. pbm: binary Portable Bitmap, black is read. npy: a NumPy bool "
     "array [rows, columns], or [heads, rows, columns] when no head is named. csr: a NumPy int32 array file "
     "of crow ([rows + 1] or [heads, rows + 1]) followed in the same file by one of col ([nnz] or [heads, "
     "largest nnz], padded with -1); numpy.load on the open file reads one after the other.\n"
     "Without --head, txt and pbm show the union of the heads.",
     "$ s2 mask phi3.s2 --len 2k --head 3\n$ s2 mask phi3.s2 --len 8k --format npy -o mask.npy\n", MASK},
    {"diff", "A B", 2, 2, "say whether two patterns read the same pairs, or the first that differs",
     PATTERN_ABOUT
     "\nCompared for every layer, head and phase at one context length. Exit code 1: they differ.",
     "$ s2 diff phi3.s2 config.json --len 8k\n", DIFF},
    {"sim", "PATTERN...", 0, -1, "predict work, traffic, time and KV cache on a GPU",
     PATTERN_ABOUT "\nTimes are predictions where the GPU was calibrated (s2 calibrate), with the error that "
                   "such predictions had on points that were not fitted; else they are guessed from the data "
                   "sheet, and the error is wide. The bound that no kernel beats always stands beside them.",
     "$ s2 sim phi3.s2 --len 128k --gpu h200\n$ s2 sim a.s2 b.s2 --compare --model llama-3.1-8b\n"
     "$ s2 sim --list\n$ s2 sim --accuracy\n",
     SIM},
    {"calibrate", "", 0, 0, "measure this GPU and its kernels, and fit the simulator's constants",
     "Runs microbenchmarks and designed points (about a minute), and fits the constants of the time model; "
     "s2 sim --constants FILE uses them, and a file kept as sim/calibration/NAME.txt is built into the "
     "program. --from times.csv fits laws to a table of another kernel's times (docs/simulator.md), leaves a "
     "third out to judge them, and writes what s2 sim --kernel-model FILE takes. --kernel with a shared "
     "object or a command (docs/judging-your-kernel.md) measures such a table, which --rows keeps. "
     "--held-out measures points that the seed draws and fits nothing: s2 sim --accuracy --rows FILE judges "
     "by them. Rows are JSON, one a line.",
     "$ s2 calibrate --rows points.jsonl --out h200.txt\n"
     "$ s2 calibrate --held-out 200 --seed 7 --rows held-out.jsonl\n"
     "$ s2 calibrate --from points.jsonl --judge held-out.jsonl --out h200.txt\n"
     "$ s2 calibrate --from times.csv --pass forward --gpu h200 --out mine.txt\n"
     "$ s2 calibrate --kernel 'python3 adapters/flex.py compiled' --out flex.txt\n"
     "$ s2 sim --kernel-model ./mine.txt 'heads 32; all: dense'\n",
     CALIBRATE},
    {"validate", "PATTERN...", 1, -1, "run real kernels on it: pairs read, numerics, needles, time",
     PATTERN_ABOUT
     "\nOne verdict for each kind of layer and each length: which keys were read (every pair, or samples), "
     "values against fp64, planted keys that must come back, time with a warm and a cold cache beside the "
     "dense pattern of the same shapes and beside the simulator's bound. Failures are stored like successes. "
     "Exit code 1: a wrong result, a fault or a timeout; 5: no device or kernel for it.",
     "$ s2 validate phi3.s2 --device cpu --len 2k\n"
     "$ s2 validate phi3.s2 --device gpu --len 8k,128k --counters --json\n",
     VALIDATE},
    {"search", "[SPACE|WORDS]", 0, 1, "find the best patterns of a whole space, every one proved and priced",
     "SPACE is a pattern, inline or in a file, with choices in braces: {16,32,64}, {4..32:4} (up to and "
     "including 32), {head,kv}, {,sink 1 |} (or nothing). Without it one is proposed from the model, which "
     "may also "
     "be said in words: '32 heads, 8 KV heads, H200, 128k'.\n"
     "Candidates that are not proved for every context length are dropped, and so is what a design of the "
     "front beats by its bounds alone; the others are priced exactly: by what the kernels are predicted to "
     "take where constants for the GPU exist (not in training), else, or with --bounds, at peak rates. The "
     "front is stored with checks and prices: s2 ls and s2 pareto show it. unread is the share of causal "
     "(head, query, key) that is not read, density that of block pairs that are read in layers that are not "
     "dense, both of all queries whatever the phase; redundancy the heads that read a pair, on average; "
     "depth the "
     "layers within which all heads of one together are sure to read everything; hops the layers within "
     "which every key reaches every later query; dilution how many times weaker than in dense attention the "
     "signal of a key is at the head that reads it best; fading the same for what reaches the last query "
     "from the key that arrives weakest "
     "(docs/worth.md).\n"
     "--validate runs the best by the geometric mean of value / best value, stores what was measured beside "
     "what was predicted, and prints Kendall's tau between the two orders.\n"
     "The table has the best first, by the geometric mean of value / best value; names end in the digits of "
     "the design's hash. How well a model works with a pattern is not judged.\n"
     "Ctrl-C ends and stores what whole batches found; exit code 4 says that the space was not finished. "
     "Exit code 1: no candidate has the required properties, lies within --at-most, and beats dense "
     "attention and the model's own layers.",
     "$ s2 search 'layers all: local {4..32:4} | stride {2..16} phase {head,kv}' \\\n"
     "      --model llama-3.1-8b\n"
     "$ s2 search --model llama-3.1-8b --len 128k --phase decode,prefill\n"
     "$ s2 search '32 heads, 8 KV heads, H200, 128k'\n"
     "$ s2 search --model llama-3.1-8b --len 128k --batch 32 --phase decode \\\n"
     "      --minimize us,unread --at-most kv_bytes=30%\n"
     "$ s2 search 'phi-3-small, H200, 32k, vLLM' -o vllm.json\n"
     "$ s2 search --model llama-3.1-8b --len 128k --validate 20 --device gpu\n",
     SEARCH},
    {"import", "FILE...", 0, -1, "read another stack's config and print it as a pattern",
     "The format is told by the content. The pattern is stored in the database.",
     "$ s2 import config.json\n$ s2 import --terms --set block=64 mask.npy\n", IMPORT},
    {"export", "PATTERN", 0, 1, "write a config for another stack, re-imported and compared first",
     PATTERN_ABOUT "\nRefused when the format cannot say what the pattern reads. Lists of whole blocks hold "
                   "a block of which only some pairs are read; how many pairs that adds is said.",
     "$ s2 export phi3.s2 --to hf -o config.json\n", EXPORT},
    {"draw", "PATTERN|[CONDITION...]", 0, -1, "draw the mask, the shards, the flow, the KV cache, or a front",
     PATTERN_ABOUT
     "\nmask: who reads what, holes crossed out. shards: which KV head holds which part. flow: "
     "how information moves over layers (Graphviz). reach: what queries know after each layer, "
     "heads and flow by distance, as `s2 reach` counts them. kv: the cache over the context in "
     "three layouts. pareto: the designs of the database, those that no other one beats "
     "joined; its operands are conditions as in `s2 ls`. Masks, shards, flow and reach are those of "
     "prefill.",
     "$ s2 draw phi3.s2 --len 4k --head union\n$ s2 draw --what pareto union=holds -o front.svg\n", DRAW},
    {"ls", "[CONDITION...]", 0, -1, "list the designs of the database",
     "Conditions: COLUMN=VALUE, !=, <, <=, >, >= on the columns below; name~TEXT contains; tag:WORD has the "
     "tag; a leading ! negates. Numbers take k and m, bytes also GiB and GB, shares %, times us, ms and s; "
     "one with a point equals all that rounds to it. A row without a value never satisfies a comparison.\n"
     "Columns: name hash family model layers heads kv_heads block created rows union kv group shards phase "
     "len llm gpu batch dtype kv_dtype weights tp kernel settings us priced kv_bytes unread density recall "
     "unrecalled loss gpu_us outcome star tags.\n"
     "us is the latest prediction of the attention of all layers (priced says where it is only a bound), "
     "kv_bytes its cache in pages per KV head, unread the share of causal (head, query, key) that is not "
     "read, density that of the block pairs that are read in layers that are not dense, gpu_us the latest "
     "timing of all layers on that GPU, recall and loss what small models learned with such a pattern, where "
     "that is judged. They are always of the phase, len and kind (llm to settings) in the same row; s2 "
     "explain says what each means. A design without a price has the density of 8192 tokens. A table shows "
     "them with units, and beside the usual columns those in which its prices differ; csv and json have "
     "microseconds, bytes and parts of one. --len and --phase list the designs that have a prediction or "
     "timing of these, and conditions such as gpu=h200 tp=2 the latest of that kind.",
     "$ s2 ls union=holds 'kv_bytes<4g' '!tag:rejected' --sort us\n$ s2 ls --phase decode --len 128k\n$ s2 "
     "ls --format csv > designs.csv\n",
     LS},
    {"pareto", "[CONDITION...]", 0, -1, "list the designs that no other one beats everywhere",
     "A design is on the front when no other is at least as good in every --minimize column and better in "
     "one. Designs without a value in one of them are left out. Designs are compared at one phase and "
     "length, which is said; --phase and --len choose another. No bound is compared with a prediction, and "
     "no model, GPU, batch, type, number of GPUs (tp) or kernel with another: the kind of price that most "
     "designs have competes and is named, and conditions such as priced=bound tp=4 choose another. "
     "Conditions and columns as in `s2 ls`.",
     "$ s2 pareto union=holds kv=holds\n$ s2 pareto --minimize gpu_us,density --format csv\n", PARETO},
    {"db", "check|backup FILE|recover FILE|stat|dump|gc|merge FILE", 1, 2, "look after the database",
     "check: every page, key and hash. backup FILE: a consistent copy while others write. recover FILE: read "
     "a damaged database page by page and write what makes sense to a new one. stat: what it holds. dump: "
     "all of it as SQL text. gc: remove what is in the trash for good. merge FILE: bring in what another "
     "machine found; the other file is not trusted, and merging twice changes nothing.",
     "$ s2 db backup designs.db\n$ s2 db merge h200.db\n$ s2 db recover saved.db --db damaged.db\n", DB},
    {"tag", "DESIGN TAG...", 2, -1, "tag a design; -TAG after -- takes a tag away", NULL,
     "$ s2 tag phi3 keep\n", PEOPLE},
    {"note", "DESIGN TEXT", 2, 2, "write a note on a design",
     "The record of a design shows its notes (r in s2 tui). s2 undo takes the last one back.",
     "$ s2 note phi3 'the baseline'\n", PEOPLE},
    {"star", "DESIGN...", 1, -1, "star a design, or take its star away", NULL, "$ s2 star phi3\n", STAR},
    {"rm", "DESIGN...", 1, -1, "move a design to the trash", NULL, "$ s2 rm old-design\n", PEOPLE},
    {"undo", "", 0, 0, "take back the last tag, note, star or rm", NULL, "$ s2 undo\n", PEOPLE},
    {"repro", "[RUN]", 0, 1,
     "print a recorded command, and what is different now; without RUN the latest runs", NULL,
     "$ s2 repro\n$ s2 repro 17\n", PEOPLE},
    {"tui", "", 0, 0, "explore designs on the screen: list, masks with holes, workbench",
     "Without a database it opens on sample designs and a tour. ? shows the keys, = the command that prints "
     "what is on screen. Validations, searches and exports run beside the screen. A script has words for "
     "keys (up, enter, esc, x), `type TEXT`, `size 80x24`, `wait` (until nothing runs) and `dump`, one kind "
     "a line.",
     "$ s2 tui\n$ s2 tui --dump bench --size 132x50\n", TUI},
    {"explain", "[WORD...]", 0, -1,
     "explain a property, a term of the language or a code; without WORD list them", NULL,
     "$ s2 explain S2P012\n$ s2 explain union stride\n", NONE},
    {"doctor", "", 0, 0, "say what this machine has: versions, GPU, database, terminal", NULL,
     "$ s2 doctor\n", DOCTOR},
    {"help", "[COMMAND]", 0, 1, "explain a command; also prints manual pages and completion", NULL,
     "$ s2 help mask\n$ s2 help --man check | man -l -\n$ source <(s2 help --completion bash)\n", HELP},
    {NULL, NULL, 0, 0, NULL, NULL, NULL, NULL}};
