#include "cli/words.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

const s2_word_entry s2_word_entries[] = {
    {"unread", "The share of all causal (head, query, key), over all layers, that is not read: what a "
               "pattern gives up. 0 is dense. How much a model loses by it is not measured by it."},
    {"loss",
     "The loss in nats a byte that a small language model of the pattern's shape is expected to reach, by a "
     "fit on models that were trained with 4 layers, 8 query heads on 4 KV heads and 64 blocks of context. "
     "It ranks patterns of that shape; other shapes are refused. s2 reach prints it with its error."},
    {"unrecalled|recall",
     "The share of planted associations that such a small model is expected to answer wrongly, mean over its "
     "training, by the same fit: 1 - recall. Smaller is better, as of every column that a search minimizes."},
    {"dilution",
     "How many times weaker the signal of a pattern is than that of dense attention. The signal of a layer "
     "is the mean, over pairs of a query in the second half of the context and a key in the first, of what "
     "the best reader of the pair has for it: the root of the share of such pairs that it reads, times the "
     "part of its reading that they are. Recall of small trained models followed the signal; a stride "
     "rotated over many heads dilutes it, one dense head does not. docs/worth.md has the experiment."},
    {"fading",
     "How many times less of the key that arrives least gets to the last query than through dense attention, "
     "if every head attends alike to all that it reads and each layer passes on half of its input. 1 is "
     "dense, 1e6 means that nothing arrives. It is 1 / the least flow of s2 reach, and a column of lists "
     "where that was measured."},
    {"density", "Block pairs read / causal block pairs, mean over the heads of the layers that are not "
                "dense, at the length of the row or page. Token density is pairs read / causal pairs over "
                "all layers; executed density counts whole tiles, which is what a kernel computes."},
    {"bound|bound_us", "The least time that any kernel could take on this GPU at its peak rates: work, bytes "
                       "and exponentials each need so long, and the largest counts. A time marked `bound` is "
                       "no prediction: the real one is above it."},
    {"bound by|by", "Which resource the time is spent on: mma (matrix units), exp (exponentials), hbm "
                    "(memory bandwidth), l2 (the L2 cache), link (to the host), launch (starting kernels)."},
    {"mma", "The GPU's matrix units (tensor cores); a kernel bound by them computes all the time."},
    {"exp|exponential|exponentials",
     "The GPU's exponential units, one exponential for each score of the softmax."},
    {"hbm|hbm_read|hbm_write|bytes",
     "Bytes moved between the GPU's memory and its chips. The floor is each input read once and each output "
     "written once; what tiles load again mostly comes from L2."},
    {"l2", "The GPU's second-level cache; bytes that tiles load through it."},
    {"link|links",
     "What connects GPUs with one another, or a GPU with the host's memory, which is read over it where a "
     "cache does not fit. Of a training step on several GPUs the line says what a GPU sends, one way, what "
     "is assumed, and what is not counted; docs/simulator.md derives each figure."},
    {"launch|launches", "The time that starting a kernel takes, whatever it computes."},
    {"head pages|head_pages", "The KV cache in pages (of 16 tokens by default) for each KV head: a page is "
                              "freed when none of its keys is needed by any query head of that KV head."},
    {"shared pages|shared_pages",
     "The KV cache in pages that all KV heads share, as paged attention allocates them today: a page is "
     "freed only when no head needs any of its keys, which rotated strides never allow."},
    {"ring + stripes|ring_stripes|ring|stripes",
     "The KV cache as a ring buffer for the window and one stripe of blocks for each residue of a stride."},
    {"kv cache|kv_bytes|kv_mib|kv_head_pages",
     "Bytes of keys and values that must be held after the context, all layers, in head pages unless said "
     "otherwise. kv_mib is kv_bytes in MiB."},
    {"needed|needed keys|used", "The keys that some later query still reads, whatever the page size."},
    {"resident set", "The keys that the cache of a KV head must still hold: the union over the query heads "
                     "that share it, not what one query head reads."},
    {"cases|right too",
     "What else s2 validate asked of the kernel beside the call that was asked for, such as "
     "several sequences or fewer queries than keys, and found right."},
    {"fits", "How many sequences, and which longest context, fit the GPU's memory beside the weights."},
    {"host memory", "The part of the cache that lies in the host's memory because it does not fit the GPU."},
    {"dp", "--dp N of s2 sim --phase train: N groups of GPUs train on sequences of their own, and divide "
           "weights, gradients and optimizer among them."},
    {"gpus|each gpu|tp|rank",
     "With --tp: what each GPU computes and holds of the heads; the slowest sets the time."},
    {"pp|stage|stages|microbatch|bubble",
     "--pp N of s2 sim: N stages in a row, each with some of the layers, work on microbatches one after "
     "another; what they wait for one another is called a bubble."},
    {"cp|ring|context parallelism", "--cp N of s2 sim: N GPUs share the tokens of each sequence, and keys "
                                    "and values go round among them, or are "
                                    "sent where they are read (--cut)."},
    {"cut|contiguous|zigzag", "--cut of s2 sim, with --cp N: contiguous gives each GPU an even part of the "
                              "tokens, as s2.parallel.cut does, so "
                              "the last reads most; zigzag the first and the last of 2 N pieces, the second "
                              "and the last but one, and so on."},
    {"nodes|network", "--nodes N of s2 sim: how many hosts the GPUs are in; hosts are linked by a network."},
    {"us|time|time_us|prefill_us|decode_us|train_us",
     "The time of the attention of all layers in microseconds, predicted for the kernels of this repository "
     "where the GPU was measured, else a bound; `priced` says which. Tables print it with its unit."},
    {"priced|prices|priced_as|guessed",
     "predicted: the time is a prediction with a stated error; guessed: computed from the constants of other "
     "GPUs, or for a machine that nobody measured, so that an error is an allowance or not known; bound: no "
     "kernel can be faster, and real ones are slower. The list on the screens marks bounds with >= and "
     "guesses with ~. unknown, or ?: of an older s2, which did not tell predictions from guesses."},
    {"predicted|prediction", "Computed from constants that were fitted to measured kernels; how far off it "
                             "may be stands beside it: see mean error."},
    {"mean error|error|error_pct|error_is|error_p90_pct|error_largest_pct|error_points|points held out",
     "How far off predictions of attention were on points that were measured and not fitted: the mean, never "
     "a limit; with it what nine in ten were within, and the largest. Where no such launch was measured "
     "there is no error, and a percentage is an allowance. The error of a kernel's outputs is another: see "
     "numerics."},
    {"gpu_us|measured", "The latest time measured by s2 validate, all layers: on the GPU of the same row, by "
                        "the kernels that the row's price is of, for the same batch and type on one GPU."},
    {"llm",
     "The model that a price is for. A pattern without one has its number of layers instead: "
     "none (32-layers) in a table, llm=32-layers in a condition. Prices of two models are not compared."},
    {"kv_dtype|cache type", "The type of the stored KV cache that a price assumes (--kv-dtype)."},
    {"weights", "The type of the stored weights that a price assumes (--weights)."},
    {"published|mxfp4|nvfp4",
     "The type in which the weights of a model were published, by the quantization_config of its "
     "config.json or by the hf_quant_config.json beside it, unless --weights names another; modules that it "
     "leaves alone keep the type of activations. mxfp4 stores those of the feed-forward layers in 4 bits "
     "with a scale of 8 bits for each 32, as gpt-oss is published; nvfp4 all of a layer, with one for each "
     "16."},
    {"kernel", "Whose kernels a price is for. s2: those of this repository; another name is a kernel model's "
               "(--kernel-model), digits behind a name those of a file of your own."},
    {"settings|usual|keeps=all|keeps|gpu-file|memory-permille|device-lists",
     "What else a price depends on, where that is not usual. page: tokens of a KV page; dp, recompute: of "
     "training; device-lists: blocks are chosen at run time; keeps=all: the cache frees no page; "
     "memory-permille: the thousandths of the memory that --gpu-memory-utilization allows; gpu-file: a GPU "
     "of your own with the name of a built-in one."},
    {"no ratio|no_ratio|dense_spills|no_room|no_weights",
     "Why two times are not divided: a cache does not fit the GPU's memory (the pattern's own, or that of "
     "dense attention beside it), the weights do not, or a training step does not. Any pattern would look "
     "fast beside such a time. Nor are tokens a second made of what does not fit."},
    {"projections|feed-forward|lm head|norms|rotary|rotary, cache|activation|embedding|copies",
     "Parts of a time around attention: making Q, K, V and taking in O; the two or three products of each "
     "layer behind attention; the product that gives logits; normalisation; the rotary embedding, in "
     "inference with writing the cache; the function between the feed-forward products; mixing several "
     "copies of the hidden state (Gemma 3n). docs/simulator.md "
     "has what each moves."},
    {"all-to-all|all_to_all|experts",
     "With --ep: sending tokens, over the link, to the GPUs that have the experts they pick, and the results "
     "back. Each replica has as many experts; picks are taken to be equally likely."},
    {"all-reduce|all-reduces|all_reduce",
     "With --tp: adding up, over the link, what each GPU has of the hidden state, behind attention and "
     "behind the feed-forward of each layer: twice a layer forward, in training twice backward for its "
     "gradient, and with --recompute twice more."},
    {"gather, scatter|gather|gathering|scatter|scattering|gathered",
     "With --dp in training: fetching the weights of a layer that others keep, forward and again backward, "
     "and handing its gradients to those who keep them."},
    {"sum over contexts|sum over copies|sum of embeddings|gradients",
     "In training, once a step: adding up the gradients of weights that several GPUs hold: with --cp of all, "
     "where --tp copies KV heads of theirs, with --pp of an embedding that is input and output."},
    {"sends|sent_bytes", "What a GPU sends to others in a whole step, one way."},
    {"buffers", "Memory that links and an allocator take besides; no figure counts it."},
    {"not counted", "What a training step on several GPUs does besides, and no figure of the page holds."},
    {"micro|microbatches", "--micro N of s2 sim --pp: how many microbatches a batch is cut into."},
    {"between stages|waiting for stages",
     "Parts of a step with --pp: the hidden state on its way over the links between stages, and what the "
     "slowest stage waits for the others."},
    {"attention backward|attention again|backward|bwd",
     "Parts of a training step: the backward pass of attention; with --recompute its forward pass once "
     "more."},
    {"latency", "As what a time is bound by: blocks of threads take longest although they compute less than "
                "their bytes take; they wait, for memory or for one another."},
    {"spread", "The slowest measured run less the fastest, as a share of the median."},
    {"work items|items",
     "The pieces of work of a plan that a GPU hands out to its multiprocessors, such as a tile of queries."},
    {"kernel model|kernel models|kernel-model",
     "Somebody else's kernel as s2 sim --kernel-model prices it: a law fitted to a table of its times, "
     "published (s2 calibrate --from) or measured here (s2 calibrate --kernel), with the mean error on rows "
     "that were held out (docs/simulator.md)."},
    {"request|requests|prompt|prompts|server",
     "In s2 sim --requests a request is a prompt and the tokens of output that follow it; the server that is "
     "modelled runs many at a time (docs/simulator.md)."},
    {"mhz|clock|clock_mhz",
     "The clock of the multiprocessors; a prediction takes the one that the power of its kernel leaves."},
    {"bandwidth", "Bytes a second that a memory or a link moves."},
    {"query|queries|key|keys|token|tokens|causal",
     "Each token of a context asks as a query and is read as a key, with its value. Causal: a query reads no "
     "key behind it."},
    {"block|blocks",
     "A run of tokens (block N of a pattern) that terms count in; a key block is one of keys."},
    {"kib|mib|gib|tib|pib", "Bytes: 1024, and 1024 times more for each."},
    {"sm|sms|worker", "A multiprocessor of a GPU; blocks of threads run on them."},
    {"optimizer|gradients",
     "In a training step gradients say how each weight should change, and the optimizer changes it."},
    {"offset", "The residue at which a stride begins; the language's word for it is phase."},
    {"objective|objectives", "What a search or a front minimizes: --minimize us,kv_bytes,unread and others."},
    {"workbench", "The screen of s2 tui on which keys turn the knobs of a design."},
    {"dtype|kv-dtype", "The type of Q, K, V and O (--dtype), and that of the stored cache (--kv-dtype)."},
    {"indexer|indexers",
     "What scores keys so that topk can choose: small heads of their own (docs/simulator.md)."},
    {"rms error|rms|recall_error|loss_error",
     "Root mean square error: the root of the mean of the squared errors, of what s2 reach says of small "
     "models, on patterns that were not fitted. It is not a limit."},
    {"chunk|chunks", "A part of a prompt that is computed at once, beside the tokens of others (--chunk N)."},
    {"speed-up|over dense|faster",
     "Dense attention of the same shape divided by this one, by the same kind of kernel and prediction."},
    {"end to end", "Attention and everything around it (projections, feed-forward, norms) for the whole "
                   "model, as tokens a second; needs --model."},
    {"states|state", "What layers of linear attention, Mamba or convolution keep for a sequence, whatever "
                     "its length: their bytes are counted and moved, their computation is in no time."},
    {"around|fusion", "How norms, rotary embedding and activations of a model are priced: fused, one kernel "
                      "each, or eager, PyTorch's operations one by one (--fusion)."},
    {"parts", "What a time is made of: attention first, then, with --model, the layers around it."},
    {"work|useful|executed|executed density|flop|kflop|mflop|gflop|tflop|pflop",
     "Useful counts the visible pairs; executed counts whole tiles, which is what the GPU computes."},
    {"tiles",
     "The rows and columns of scores that a kernel computes at once, and how many steps that makes."},
    {"imbalance", "The longest worker's work / the mean: 1 is perfectly even."},
    {"redundancy",
     "How many heads read a (query, key) pair, mean over all causal pairs; at least 1 where union holds."},
    {"phase", "prefill: the whole prompt at once; decode: one new token after len others; train: forward and "
              "backward. In a pattern, `phase P` is the offset of a stride."},
    {"prefill", "Attention of the whole context at once, as when a prompt is read."},
    {"decode", "Attention of one new token to the cached keys of the context."},
    {"train", "Forward and backward (dQ, dK, dV) of the whole context."},
    {"len|length|context", "The context length in tokens. k and m multiply by 1024 and 1048576."},
    {"batch", "Sequences at once."},
    {"head|query head", "A query head. With grouped-query attention several share one KV head."},
    {"layer", "Layers count from 0. In a pattern, `layers N` says how many there are and `layers LIST: BODY` "
              "what some of "
              "them read; in a phase, `layer` is the number of the layer."},
    {"kv-layer", "`layers LIST: kv-layer N`: these layers keep no keys and values and read those of layer N, "
                 "which is below."},
    {"width", "`stride V width W`: of every V blocks, W in a row are read; 1 where it is left out."},
    {"seed", "The number that fixes what is drawn: of `random`, 64 bits, the lists of blocks; of a search, "
             "the order of "
             "visits."},
    {"digest", "The SHA-256 of what a mask file holds; with it in the text, a file that holds something else "
               "is refused."},
    {"distance", "Of a pair: query minus key, in blocks or, with t, in tokens; where a pattern is not "
                 "causal, its magnitude."},
    {"list",
     "Indices from 0: `3`, `2-5` with 5, `0::2` every second, `4:8` without 8, `all`, joined by commas."},
    {"kv head|kv_heads|group", "A head of keys and values, shared by heads / kv-heads query heads."},
    {"block",
     "Consecutive tokens that a pattern takes together; query block i and key block j count from 0."},
    {"page", "Consecutive tokens of a KV cache that are allocated and freed together."},
    {"shard", "What one head reads outside of the window that all heads share."},
    {"witness", "The smallest place where a property fails: in the shortest context, then lowest query, key, "
                "layer, head."},
    {"extent", "How many pairs no head reads, at a length a little beyond the witness."},
    {"replay", "The command that shows the witness again."},
    {"repair", "A change that was proved to mend the violation."},
    {"holds|violated|unknown|verdict",
     "holds: proved. violated: there is a witness. unknown: a limit was hit, or it depends on data."},
    {"complete to|complete_to", "The longest context for which a violated property still holds."},
    {"scope", "For which contexts a verdict was decided: every length, or up to so many tokens."},
    {"hash", "The SHA-256 of a pattern's canonical text; 4 or more of its digits name the design."},
    {"family", "The terms that a pattern is made of."},
    {"name", "What a design is called; a search names designs by model and hash."},
    {"tags|star|created|model|gpu|layers|heads|outcome",
     "Columns of s2 ls: what was written to a design (tags, star), when it was first stored (created), its "
     "shape (model, layers, heads), the GPU of its price (gpu), the latest result of s2 validate of s2's own "
     "kernels (outcome)."},
    {"shape", "Layers, heads, KV heads, head dimension and block of a pattern."},
    {"distinct", "How many heads of all layers read differently."},
    {"reads", "Which layers and heads have which terms."},
    {"generated|steps_checked|bytes_checked",
     "s2 validate --phase decode prints the tokens that were made one by one, the steps whose output was "
     "compared with fp64, and the steps whose cache was compared with the count."},
    {"rows_dq|rows_dk_dv|from_definition",
     "s2 validate --phase train prints the rows of dQ, and of dK and dV, that were compared with fp64; "
     "from_definition is 1 where these were computed from the definition of the pattern itself."},
    {"cache_bytes|cache_peak_bytes|dense_cache_bytes",
     "What the cache of a validation held at its end, at most, and what a dense one would hold."},
    {"touch", "The (query, key) pairs that the kernel really read, compared with those of the pattern."},
    {"numerics", "The kernel's outputs against the same attention in fp64, with the error that is allowed."},
    {"needles", "Keys with a value of their own, planted at eleven depths of the context (0 to 100 %), that "
                "must come back exactly where some head reads them. A pattern with a violated union can "
                "pass: the depths are samples, the proof is not."},
    {"rate|tflops", "Visible or executed work over the measured time."},
    {"dense", "The same shapes with every key read, by the same kernel: what a sparse pattern is compared "
              "with. As a term: every key."},
    {"left out", "Of a validation: what was not done, and why. Of a search: designs of the front that dense "
                 "attention or the model's own layers beat; they are counted and not shown."},
    {"plan",
     "What a kernel is asked to do for a pattern: tiles, steps and their order. \"At least T for this plan\" "
     "is its time at peak rates, a bound of this way of computing; real kernels are slower."},
    {"any kernel",
     "A bound that holds however attention is computed: useful pairs and each byte once, at peak rates."},
    {"step|steps|key blocks", "On a price: a tile of queries times a few keys, which a kernel computes at "
                              "once; its key blocks are what it loads for them. In decode and training: one "
                              "new token of each sequence; one update of the weights."},
    {"busiest|busiest sm|mean|dealt by work",
     "The multiprocessor (SM) or GPU with the most work, relative to the mean of all: all wait for it. Dealt "
     "by work: KV heads given to GPUs so that the slowest has less."},
    {"guess|guessed|guessed from the data sheet",
     "No kernel was measured on this GPU: the constants of another were scaled by its data sheet, and a wide "
     "error is allowed for. Of several GPUs with --pp, --cp, --ep or --nodes: no such machine was measured, "
     "and no error is known."},
    {"runs_on",
     "The kernels that run some layers, of short windows or gradients of dense ones, faster than they are "
     "priced: they have no constants for this GPU, so the kernel for any layer stands for them "
     "(docs/kernels.md)."},
    {"extrapolated|interpolated|allowance|allowed for|error_causes",
     "Predicted outside of the lengths, batches, heads or head dimensions that were measured, or at a head "
     "dimension between two of them. What is allowed for is not an error that was observed there: the 90th "
     "percentile of the errors inside or more, and at least 30 % for head dimensions (docs/simulator.md). "
     "Single errors may be larger."},
    {"machine|idle",
     "With --pp, --cp, --ep or --nodes, several GPUs: how they are divided, what goes over the links, and "
     "how long a GPU waits for others (docs/simulator.md). Assumed, not measured."},
    {"held out|in-sample|judged on",
     "Rows held out were measured but not fitted, so that errors on them are honest; in-sample errors are of "
     "the very rows that were fitted, and too small."},
    {"farthest|p90|median|mape|bias",
     "Columns of a table of errors: the largest, the one that nine in ten stay within, the middle one, their "
     "mean size, and their mean with its sign."},
    {"caches", "Whether the rows of a kernel model were timed with the GPU's caches warm, cold, or unsaid."},
    {"peak", "The most that the cache holds at any length on the way, which may be more than at the end."},
    {"stack|frees|differs", "The program that runs an exported file, such as vLLM; what it frees of the KV "
                            "cache where the pattern drops keys: nothing, windows, or not known; and when it "
                            "reads other pairs than the file says (docs/formats.md)."},
    {"exportable", "--exportable FORMAT of s2 search: keep only designs that this format can say exactly."},
    {"tiers|host|host_read_per_step|spills|no dense|waits for the link",
     "The GPU's memory (hbm) and the host's. A cache that does not fit spills to the host, whose share of "
     "each step is read over the link, beside attention: the longer of the two decides, and `bound by link` "
     "says that it is the link. No time of that kind is divided by another, so tables print `spills` for the "
     "ratio, or `no dense` where it is the cache of dense attention alone that does not fit."},
    {"memory|no room|more than the memory|activations|activation_bytes|state_bytes",
     "What a training step keeps on a GPU: weights, gradients and optimizer, and the activations that "
     "backward needs. `no room`: it does not fit, so its time and ratio are of no step that can run."},
    {"recompute|recomputed", "--recompute of s2 sim --phase train: keep only the input of each layer, and "
                             "run its forward pass again in the backward pass: less memory, more time."},
    {"replica|replicas|shards of the optimizer",
     "A copy of the model that trains on sequences of its own: --dp N makes N, each of --tp GPUs."},
    {"scores|cap|sinks|sink logit",
     "What a model does to its scores besides scaling them: a tanh that caps each, or a sink logit of each "
     "head in the softmax. The page says whether times count it."},
    {"selection|select",
     "Choosing keys or pages at run time, as topk, pages and heavy do: its own part of a time."},
    {"largest batch|largest_batch", "With --batch max: the most sequences that fit, of the pattern and of "
                                    "dense, and the tokens a second of each at its own."},
    {"first token|next tokens|first_token_us|next_token_us|90 % within|all done after",
     "s2 sim --requests prints the time from a request's arrival to its first token; the mean time of each "
     "further token; what nine in ten requests stay within; the end of the last one."},
    {"at a time|at_a_time|room for it|room_bytes|cache set aside|tokens of output a s",
     "s2 sim --requests prints the requests that run together at most, the memory beside the weights, the "
     "part of it reserved at most, and the tokens generated a second."},
    {"pair", "A query and a key. s2 check --pair Q,K shows which heads read it, and why."},
    {"wrong_pairs|wrong pairs", "Outcome of s2 validate: the kernel read a key that the pattern does not "
                                "have, or missed one that it has."},
    {"wrong_values|wrong values", "Outcome of s2 validate: the right pairs were read, but outputs, gradients "
                                  "or LSE are further from fp64 than allowed."},
    {"symptom", "The one rule, such as a window one block short, that explains every row of a wrong kernel."},
    {"hits|hit rate|hit_rate", "The share of the bytes requested from L2 that it had, so that they did not "
                               "come from device memory. Of needles: those that came back."},
    {"lse", "The logarithm of the sum of exp of a query's scores, which many kernels return beside the "
            "output; it tells how many keys were read."},
    {"allowed|tolerance", "The error against fp64 that the type of the numbers explains; more is wrong."},
    {"reach",
     "s2 reach: how far information gets through the layers, and what small models learned with it."},
    {"coverage", "The share of a layer's retrieval pairs (query in the second half, key in the first) that "
                 "some head reads."},
    {"concentration", "The share of retrieval pairs that the best reader of a pair reads in a layer, as a "
                      "mean over the pairs. One dense head gives 1, a stride rotated over 8 heads 1/8."},
    {"signal", "Concentration with the root of the share, times the part of a head's reading that lies in "
               "the first half; the recall of small models followed it (docs/worth.md)."},
    {"neighbour|far|mean_window",
     "The share of heads that read the block before a query's own; the largest share of the retrieval pairs "
     "that one head reads; the mean over heads of log2 of the window in blocks."},
    {"picture|why|to where",
     "Where a property is violated: each head's reason at the witness, and the blocks around it."},
    {"for every context length", "A theorem with a proof, not a large enumeration: docs/proof.md."},
    {"evicted|eviction|evicts", "Dropped from a cache, because no later query reads it."},
    {"pairs", "(query, key) of one head: read / causal, where causal counts every key up to the query."},
    {"hops|after layer|receptive field|last query knows|knows",
     "Hops: the least number of layers, any consecutive ones, within which every key reaches every later "
     "query, one read a layer. After each layer s2 reach prints the share of the keys that have reached the "
     "last query, and the query with the least share. The column hops of lists is that at the length of the "
     "row, where s2 reach or a search measured it, and a layer more than there are where it is not within "
     "the stack."},
    {"blocks away|query heads|kv heads|multiplicity|mean, least",
     "How many query heads of a layer, and KV heads whose group has one, read a pair at that distance: the "
     "mean over such pairs, and the pair with the least."},
    {"chances|chances in|the stack, least", "Query heads that read a pair, summed over all layers."},
    {"flow|/ dense", "What arrives at the last query if every head attended alike to all that it reads and "
                     "each layer passed on half of its input as it is; relative to dense attention. The "
                     "column flow of lists is the least of all keys, at the length of the row."},
    {"paths|log2 of",
     "The number of ways from a key to the last query, over heads and layers, as a logarithm."},
    {"window", "The tokens behind a query, its own counted, that every head of every layer reads."},
    {"retrieval", "All pairs with the query in the second half of the context and the key in the first; "
                  "printed are the share that some head of the layer reads, and the largest share that one "
                  "reader of a pair reads, mean over the pairs."},
    {"resident",
     "The blocks that the KV heads of a layer read for the last query, and how often each block is kept."},
    {"worth|judged|unjudged",
     "What a small model learned with such patterns: recall and loss, each with the error that it had on "
     "patterns drawn afterwards. Only models of 4 layers, 8 query heads on 4 KV heads and a context of 64 "
     "blocks were trained; of everything else a page says that it is not judged. It is of a pattern and a "
     "length, by the rules of prefill, whatever GPU, batch or phase is asked about. docs/worth.md has the "
     "experiment."},
    {"throughput|tokens/s",
     "Tokens a second of the whole batch; needs the layers around attention (--model)."},
    {"front|pareto",
     "The designs that no other one is at least as good as in every --minimize column and better in one."},
    {"batch_dense|len_dense|dense_steps|dense_time_us|dense_tokens_per_s|dense_tokens_per_s_all_replicas|"
     "link_dense_us|host_dense",
     "In JSON: what the word without `dense` says, for dense attention in the shape of the pattern."},
    {"tokens_per_s|tokens_per_s_all_replicas",
     "In JSON: tokens a second of one replica, and of all of them; null where it does not fit the GPU."},
    {"plan_us|link_us|kernels_us|end_to_end_us",
     "In JSON, microseconds: attention at peak rates by this plan; what is read over the link to host "
     "memory; attention as the kernels of s2 are predicted or guessed to take; a whole step with all around "
     "attention."},
    {"weight_bytes|memory_bytes|kv_needed_bytes|hbm_bytes|hbm_floor|dram_bytes|l2_bytes|wasted_page_16|"
     "wasted_page_64",
     "In JSON, bytes: of the weights on a GPU; of its memory that may be used; of a cache that drops what no "
     "head will read again; at least "
     "to and from device memory, of the GPU with most and of all; predicted from device memory and from L2; "
     "allocated in pages of 16 and 64 tokens and not used."},
    {"peak_at|peak_exact|mean_over_context|kv_over_context",
     "In JSON: the length at which the cache is largest, whether that is exact or no more than so much, the "
     "mean of the cache in head pages at the ends of up to 64 blocks, and the cache at a few lengths."},
    {"query_tok|block_tok|step_tok|token_density|flop_executed",
     "In JSON: tokens of queries in a tile, of a key block and of a step; pairs read / causal pairs over all "
     "layers; the work of the GPU that executes most."},
    {"slowest|copies|mended|ep",
     "In JSON, of several GPUs: the one that all wait for; how many hold the same KV head; the time when KV "
     "heads are dealt by work; GPUs that share the experts."},
    {"at_most|complete|refused|outside|unaccepted|beaten_by|either|phases|best|dropped",
     "In the JSON of a search: its limits; whether every candidate was visited; candidates that are not "
     "patterns, above a limit, or not to be deployed as asked; designs that the model's own layers, dense "
     "attention or either of them beat; the figures of each phase; the candidate that comes first."},
    {"fit|read|format|schema",
     "In JSON: what fits the memory; pairs that the pattern reads; a format of s2 export; the kind of the "
     "object, which docs/json.md explains member by member."},
    {"best overall|first of what was searched|dearer_than",
     "The design of the front with the smallest geometric mean of value / best value. It is not called best "
     "where it is cheaper in no price than the model's own layers or than dense attention, or the GPU has "
     "no room for it."},
    {"edge|on the edge of the space", "A number of the best design is the least or the greatest that the "
                                      "space allowed, so that a wider space may have a better design."},
    {"beaten", "Left out of a search because a design of the front is at least as good as its lower bounds."},
    {"own",
     "In a search: the layers that the model was published with, priced as the designs are; a row of the "
     "table and a member of the JSON. It is left out where they read everything, as dense attention does."},
    {"nearest", "The best of the designs that were beaten, in a search where dense attention or the model's "
                "own layers beat every design."},
    {"question", "What a search prices every design for: phases, length, batch, type, GPUs, model and "
                 "formats. s2 search --dry-run prints it and searches nothing."},
    {"candidate|space", "A space is a pattern with choices in braces; each choice of all makes a candidate."},
    {"run", "A recorded command with its results; s2 repro prints it again."},
    {"proof", "The verdicts of rows, union and kv for every length that go with an exported file."},
    {"pattern|design|designs",
     "Which keys each query of each head and layer reads. A design is a pattern in the database."},
    {"union-complete", "Every query sees every earlier key through some head of the layer: see union."},
    {"kv-efficient", "A key once unread is never needed again, so its cache entry may be freed: see kv."},
    {"s2|database|sqlite|kernels|nvcc|ncu|dot|terminal",
     "Lines of s2 doctor: the program's version and build; its database and the library that reads it; the "
     "kernels built in; the CUDA compiler; NVIDIA's profiler, for --counters; Graphviz, for pictures of the "
     "flow; what the terminal can show."},
    {"meta|migration|chk|sim|env|validation|export|tag|note|undo|price|view",
     "Tables of the database, with their rows, in s2 db stat: chk has verdicts, sim and price what was "
     "predicted, reach how far information gets, validation what ran, env the machines, view saved filters, "
     "undo what can be taken back. "
     "docs/database.md has their columns."},
    {"head dim|dim|type|dense layers|dense kv",
     "Knobs of the workbench: the dimension of a head, the type of Q, K and V, which layers are dense, and "
     "how many KV heads at the end are."},
    {"attention|bounds|vs dense|of dense|time >=",
     "On the screens: the predicted time of the attention of all layers; at peak rates, by this plan and by "
     "any; how much longer dense attention takes, as a ratio of two bounds in the comparison; the cache as a "
     "part of a dense one; a lower bound on the time."},
    {"last step|baseline|to baseline",
     "What the last change of a knob did, and the difference to the design that b pinned."},
    {"ruk|at|on|measured at", "In the list of designs: the verdicts of rows, union and kv, one sign each; "
                              "the phase and length, and the GPUs, that the numbers of the row are of."},
    {"started|took|found|command", "Columns of recorded runs: when it began, how long it took, how many "
                                   "results it stored, and what was typed."},
    {"checks|predictions|validations",
     "What is stored about a design: verdicts, prices, and runs of kernels."},
    {"keys read by query block|redundant", "The keys that each KV head holds for the last query, and what it "
                                           "holds beside another one that has it too."},
    {"visited|candidates|beaten by their bounds|not judged|against the next best|least",
     "Counts of a search: candidates that were looked at; dropped because a design of the front is at least "
     "as good as their lower bounds; what no number here measures; the best beside the second; the least "
     "that a limited quantity has in any candidate."},
    {NULL, NULL}};

static bool same(const char *known, size_t n, const char *word)
{
    char copy[64];
    snprintf(copy, sizeof copy, "%.*s", (int)n, known);
    return s2_text_same_name(copy, word);
}

const s2_word_entry *s2_word_find(const char *word)
{
    for (const s2_word_entry *entry = s2_word_entries; entry->words != NULL; entry++)
        for (const char *rest = entry->words; *rest != '\0'; rest += *rest == '|') {
            const size_t n = strcspn(rest, "|");
            if (same(rest, n, word))
                return entry;
            rest += n;
        }
    return NULL;
}
