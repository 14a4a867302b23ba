/* The keys of a run file. */
#include "core/config/internal.h"

#include <stddef.h>

const char *const sw_prefer_words[] = {"fsdp", "fsdp-strict", "time", "cost", NULL};
static const char *const data_format_words[] = {"auto", "bytes", NULL};

#define AT(member) .offset = offsetof(struct sw_run_config, member)
static const struct field run_precision_fields[] = {
    {.key = "compute",
     .type = FIELD_WORD,
     AT(compute),
     .fallback = "bf16",
     .vocabulary = sw_words_precision,
     .example = "bf16",
     .about = "number format of activations and matrix products"},
    {.key = "params",
     .type = FIELD_WORD,
     AT(params),
     .fallback = "fp32",
     .vocabulary = sw_words_precision,
     .example = "fp32",
     .about = "number format of weights; the optimizer's moments are fp32"},
    {.key = "reduce",
     .type = FIELD_WORD,
     AT(reduce),
     .fallback = "fp32",
     .vocabulary = sw_words_precision,
     .example = "fp32",
     .about = "number format in which gradients are made and summed over ranks; "
              "those of several micro-steps are added up, and cross dp, in fp32"},
    {.key = "ring",
     .type = FIELD_WORD,
     AT(ring),
     .brief = true,
     .fallback = "fp32",
     .vocabulary = sw_words_precision,
     .example = "fp32",
     .about = "widest number format between the ranks of sp, where attention passes keys and "
              "values in a ring: fp32: keys and values as they are computed, sums of their "
              "gradients in fp32; bf16: all of it is rounded to bf16, for links between nodes "
              "that a ring would wait for"},
    {.key = "keep_copy",
     .type = FIELD_BOOL,
     AT(keep_copy),
     .brief = true,
     .fallback = "false",
     .example = "true",
     .about =
         "whether a copy of trained weights in `compute` is kept from step to step, which the "
         "optimizer writes, where compute is bf16 and params fp32: no step casts them, for 2 bytes "
         "a parameter more; no part of a checkpoint"},
    {.key = NULL},
};

static const struct field run_attention_fields[] = {
    {.key = "strategy",
     .type = FIELD_WORD,
     AT(strategy),
     .fallback = "ring",
     .vocabulary = sw_words_strategy,
     .example = "ring",
     .about = "how ranks of sp attend to each other's keys: passed in a ring, gathered, exchanged "
              "for heads, or the fastest of these"},
    {.key = "layout",
     .type = FIELD_WORD,
     AT(layout),
     .fallback = "zigzag",
     .vocabulary = sw_words_layout,
     .example = "zigzag",
     .about = "which part of a sequence a rank of sp holds: two pieces that balance causal "
              "attention, or one piece"},
    {.key = NULL},
};

static const struct field run_data_fields[] = {
    {.key = "path",
     .type = FIELD_CUSTOM,
     AT(data_paths),
     .custom = &sw_type_paths,
     .expects = "a path or pattern, or a list of these",
     .example = "data/text.txt",
     .about =
         "file of tokens that is trained on, NAME.bin, as 'runner tokenize' writes it; or, for "
         "a model whose vocab_size is 256, a text, whose bytes are the tokens. Several files, "
         "of a list or of a pattern (data/*.bin, in the order of their names), stand one behind "
         "the other"},
    {.key = "weights",
     .type = FIELD_CUSTOM,
     AT(data_weights),
     .custom = &sw_type_weights,
     .brief = true,
     .schema = "{\"type\": \"array\", \"minItems\": 1, \"items\": {\"type\": \"number\", "
               "\"minimum\": 1e-9, \"maximum\": 1e9}}",
     .example = "[0.7, 0.3]",
     .about = "shares of rows that come from each item of the list 'path', which is then a source "
              "of its own: a row comes from the one with the largest deficit"},
    {.key = "pack",
     .type = FIELD_BOOL,
     AT(data_pack),
     .brief = true,
     .fallback = "false",
     .example = "true",
     .about =
         "true: a row holds whole documents, which do not see each other, and whose last token "
         "has no label; the files need the index that 'runner tokenize' writes. Longer "
         "documents are cut to sequence_length"},
    {.key = "validation",
     .type = FIELD_CUSTOM,
     AT(data_validation),
     .custom = &sw_type_paths,
     .brief = true,
     .expects = "a path or pattern, or a list of these",
     .example = "data/validation.bin",
     .about = "files that are evaluated and not trained on, in place of 'holdout'"},
    {.key = "format",
     .type = FIELD_WORD,
     AT(data_format),
     .brief = true,
     .fallback = "auto",
     .words = data_format_words,
     .example = "bytes",
     .about =
         "bytes: each byte of the file is a token, whatever the file is and for any vocab_size "
         "of at least 256; auto: by the name, and refused where it is likely a mistake"},
    {.key = "seed",
     .type = FIELD_UNSIGNED64,
     AT(data_seed),
     .fallback = "1",
     .example = "1",
     .about = "seed of the order of the data and of the initial weights"},
    {.key = "document_end",
     .type = FIELD_INTEGER64,
     AT(data_document_end),
     .brief = true,
     .fallback = "-1",
     .min = -1,
     .max = SW_MANY,
     .example = "2",
     .about = "token that ends a document, as most tokenizers' eos_token: attention does not look "
              "from one document into another; -1: it sees all of a sequence"},
    {.key = "holdout",
     .type = FIELD_REAL,
     AT(data_holdout),
     .fallback = "0",
     .min = 0,
     .max = 0.5,
     .example = "0.05",
     .about = "fraction of each source, at its end, that is not trained on but evaluated: of its "
              "tokens, or of "
              "its documents where they are packed"},
    {.key = NULL},
};

static const char *const interval_words[] = {"auto", NULL}; /* -1 */

static const struct field run_checkpoint_fields[] = {
    {.key = "directory",
     .type = FIELD_PATH,
     AT(checkpoint_directory),
     .example = "checkpoints",
     .about = "folder of the checkpoints; default: checkpoints inside the run's directory"},
    {.key = "every_steps",
     .type = FIELD_INTEGER64,
     AT(checkpoint_every_steps),
     .words = interval_words,
     .fallback = "auto",
     .min = 0,
     .max = SW_MANY,
     .example = "100",
     .about =
         "steps from one checkpoint to the next; 0: only at the end and when a signal asks for "
         "one; auto: what loses least time to saves and failures (Young's rule), 0 where the run "
         "is shorter"},
    {.key = "keep",
     .type = FIELD_INTEGER64,
     AT(checkpoint_keep),
     .fallback = "3",
     .min = 1,
     .max = 1 << 30,
     .example = "3",
     .about = "number of checkpoints to keep, the newest; older ones are deleted"},
    {.key = "keep_every",
     .type = FIELD_INTEGER64,
     AT(checkpoint_keep_every),
     .fallback = "0",
     .min = 0,
     .max = SW_MANY,
     .example = "1000",
     .about = "of every multiple of it, the first checkpoint at or after that step is kept, too; "
              "0: none"},
    {.key = "bandwidth",
     .type = FIELD_BANDWIDTH,
     .in_bits = true,
     AT(checkpoint_bandwidth),
     .least = 1e3,
     .most = 1e15,
     .fallback = "0",
     .min = 0,
     .max = SW_BIG,
     .example = "2 GB/s",
     .about = "bytes per second of the whole job that writing is slowed down to, so that others "
              "can use the file system, too; 0: as fast as it goes"},
    {.key = "signal",
     .type = FIELD_WORD,
     AT(checkpoint_signal),
     .fallback = "USR1",
     .vocabulary = sw_words_signal,
     .example = "USR1",
     .about = "the signal on which the run saves and ends, to resume in a new job"},
    {.key = NULL},
};

static const struct field run_init_fields[] = {
    {.key = "from",
     .type = FIELD_PATH,
     AT(init_from),
     .example = "../models/Llama-3.1-8B",
     .about = "Hugging Face directory (config.json and safetensors) of the weights that the run "
              "starts from, or its adapters ('lora') stand on; default: random weights"},
    {.key = "adapter",
     .type = FIELD_PATH,
     AT(init_adapter),
     .brief = true,
     .example = "../adapters/first",
     .about = "folder of adapters that training goes on with, as PEFT writes it or a checkpoint of "
              "ours; without their optimizer's moments, from step 1; default: new ones"},
    {.key = NULL},
};

static const char *const stream_words[] = {"auto", "false", "true", NULL};

static const struct field run_serve_fields[] = {
    {.key = "max_batch",
     .type = FIELD_INTEGER64,
     AT(serve_max_batch),
     .brief = true,
     .fallback = "auto",
     .min = 1,
     .max = 1 << 16,
     .zero_word = "auto",
     .example = "32",
     .about = "number of sequences at a time, rounded up to what dp x fsdp divides; auto: 8"},
    {.key = "max_tokens",
     .type = FIELD_INTEGER64,
     AT(serve_max_tokens),
     .brief = true,
     .fallback = "auto",
     .min = 1,
     .max = 1 << 30,
     .zero_word = "auto",
     .example = "8192",
     .about =
         "number of tokens of the longest sequence, prompt included: the size of the KV cache; "
         "auto: sequence_length"},
    {.key = "prompt_tokens",
     .type = FIELD_INTEGER64,
     AT(serve_prompt_tokens),
     .brief = true,
     .fallback = "auto",
     .min = 1,
     .max = 1 << 30,
     .zero_word = "auto",
     .example = "2048",
     .about =
         "number of tokens of the prompt that the time to the first token is predicted for; auto: "
         "half of max_tokens"},
    {.key = "chunk",
     .type = FIELD_INTEGER64,
     AT(serve_chunk),
     .brief = true,
     .fallback = "auto",
     .min = 1,
     .max = 1 << 20,
     .zero_word = "auto",
     .example = "512",
     .about =
         "number of tokens of a prompt that are taken at a time, rounded up to what sp "
         "divides; auto: 512, or max_tokens or a rank's part of token_budget where that is less, "
         "or 1 where calls mix (token_budget)"},
    {.key = "token_budget",
     .type = FIELD_INTEGER64,
     AT(serve_token_budget),
     .brief = true,
     .fallback = "auto",
     .min = 1,
     .max = 1 << 30,
     .zero_word = "auto",
     .example = "512",
     .about =
         "number of tokens of prompts that are read between two tokens of the other sequences, "
         "over "
         "dp x fsdp, one chunk on each at least; auto: one chunk on each, and with token_latency "
         "and no chunk the most, by price, with which a token that waits for them keeps it, "
         "unless first_token_latency is missed then; on "
         "CPUs without sp calls mix where a rank's part is above its sequences and at most 64: it "
         "counts the other sequences' next tokens, too, which wait for no call but their own"},
    {.key = "cache",
     .type = FIELD_WORD,
     AT(serve_cache),
     .brief = true,
     .fallback = "auto",
     .vocabulary = sw_words_cache,
     .example = "bf16",
     .about = "number format of the keys and values that are kept; int8: with a scale in fp32 for "
              "each token and kv head; auto: precision.compute"},
    {.key = "weights",
     .type = FIELD_WORD,
     AT(serve_weights),
     .brief = true,
     .fallback = "auto",
     .vocabulary = sw_words_weights,
     .example = "int8",
     .about =
         "number format of the layers' matrices; int8, e4m3 (fp8, less exact): with a scale in "
         "fp32 for each of their outputs, made as they are read; int4: with a scale for each 32 "
         "inputs of an output, the head in int8; embedding, norms and biases stay as they are, "
         "and the head but for int4; auto: precision.compute"},
    {.key = "stream_weights",
     .type = FIELD_WORD,
     AT(serve_stream_weights),
     .brief = true,
     .fallback = "auto",
     .words = stream_words,
     .example = "false",
     .about = "true: weights stay split over fsdp and are gathered layer by layer; false: every "
              "rank of fsdp has them all; auto: where they do not fit else"},
    {.key = "token_latency",
     .type = FIELD_SECONDS,
     AT(serve_token_latency),
     .brief = true,
     .fallback = "0",
     .min = 0,
     .max = 1e9,
     .example = "50 ms",
     .about = "goal: longest time per token, with a full KV cache, while no prompt is read; "
              "0: no goal"},
    {.key = "first_token_latency",
     .type = FIELD_SECONDS,
     AT(serve_first_token_latency),
     .brief = true,
     .fallback = "0",
     .min = 0,
     .max = 1e9,
     .example = "2 s",
     .about = "goal: longest time to the first token of a prompt of prompt_tokens, while all "
              "other sequences run and no other prompt waits; 0: no goal"},
    {.key = NULL},
};

#undef AT
#define AT(member) .offset = offsetof(struct sw_job_config, member)
static const char *const job_words[] = {"train", "generate", "score", "serve", NULL};
const char *sw_job_type_name(enum sw_job_type type)
{
    return job_words[type];
}

static const struct field run_job_fields[] = {
    {.key = "type",
     .type = FIELD_WORD,
     AT(type),
     .fallback = "train",
     .words = job_words,
     .example = "generate",
     .about = "what the job does: train; generate completions of the lines of `input`; score them; "
              "or serve. Other than train, the mesh is the one that serves best"},
    {.key = "checkpoint",
     .type = FIELD_PATH,
     AT(checkpoint),
     .example = "../models/Llama-3.1-8B",
     .about = "checkpoint or Hugging Face directory of the weights; default: the run's own"},
    {.key = "input",
     .type = FIELD_PATH,
     AT(input),
     .example = "prompts.jsonl",
     .about = "generate and score: lines as 'runner generate --prompts' and 'runner score --texts' "
              "take them"},
    {.key = "output",
     .type = FIELD_PATH,
     AT(output),
     .example = "texts.jsonl",
     .about = "generate and score: a line for each; finished lines are kept. With "
              "shards, OUTPUT.00000-of-00008 and so on; default: TYPE.jsonl in `directory`"},
    {.key = "shards",
     .type = FIELD_INTEGER32,
     AT(shards),
     .fallback = "1",
     .min = 1,
     .max = 100000,
     .example = "8",
     .about = "generate and score: parts of the input, each a task of a job array with all ranks "
              "of the mesh"},
    {.key = "at_once",
     .type = FIELD_INTEGER32,
     AT(at_once),
     .fallback = "0",
     .min = 0,
     .max = 100000,
     .example = "2",
     .about = "tasks of the array that run at a time; 0: as many as the scheduler starts"},
    {.key = "host",
     .type = FIELD_TEXT,
     AT(host),
     .fallback = "0.0.0.0",
     .accept = sw_text_is_word,
     .expects = "an address or a name of a host",
     .example = "0.0.0.0",
     .about = "serve: the address that the first node listens on; 0.0.0.0: all of its own"},
    {.key = "port",
     .type = FIELD_INTEGER32,
     AT(port),
     .fallback = "0",
     .min = 0,
     .max = 65535,
     .example = "8000",
     .about = "serve: its port; 0: one that follows from the job's number, so that two jobs on a "
              "node differ"},
    {.key = "token_file",
     .type = FIELD_PATH,
     AT(token_file),
     .example = "token",
     .about = "serve: file of the bearer token that requests must show"},
    {.key = NULL},
};
#undef AT

#define AT(member) .offset = offsetof(struct sw_run_config, member)
static const struct field run_stage_fields[] = {
    {.key = "name",
     .type = FIELD_TEXT,
     AT(stage.name),
     .brief = true,
     .accept = sw_text_is_stage,
     .expects = SW_STAGE_EXPECTS,
     .example = "long",
     .about = "name of the stage; a plan has it"},
    {.key = "number",
     .type = FIELD_INTEGER32,
     AT(stage.number),
     .brief = true,
     .fallback = "0",
     .min = 0,
     .max = SW_MAX_STAGES,
     .example = "2",
     .about = "which of the run's stages it is, from 1; a plan has it"},
    {.key = "of",
     .type = FIELD_INTEGER32,
     AT(stage.count),
     .brief = true,
     .fallback = "0",
     .min = 0,
     .max = SW_MAX_STAGES,
     .example = "3",
     .about = "how many stages the run has; a plan has it"},
    {.key = "from",
     .type = FIELD_PATH,
     AT(stage.from),
     .brief = true,
     .example = "../runs/first/checkpoints",
     .about = "folder of the run before, or of its checkpoints: this one begins with the weights "
              "and the optimizer's moments of its end"},
    {.key = "continue_schedule",
     .type = FIELD_BOOL,
     AT(stage.continue_schedule),
     .brief = true,
     .fallback = "false",
     .example = "true",
     .about = "whether step count and data position go on from there; else both begin anew"},
    {.key = "steps_before",
     .type = FIELD_INTEGER64,
     AT(stage.steps_before),
     .brief = true,
     .fallback = "0",
     .min = 0,
     .max = SW_MANY,
     .example = "1000",
     .about = "with continue_schedule: step after which it begins; a plan has it"},
    {.key = NULL},
};

static const struct field run_evaluate_fields[] = {
    {.key = "every_steps",
     .type = FIELD_INTEGER64,
     AT(evaluate_every_steps),
     .fallback = "0",
     .min = 0,
     .max = SW_MANY,
     .example = "500",
     .about = "number of steps from one evaluation to the next; 0: at the end only"},
    {.key = NULL},
};
#undef AT

#define AT(member) .offset = offsetof(struct sw_run_config, member)
const struct field sw_run_fields[] = {
    {.key = "name",
     .type = FIELD_TEXT,
     AT(name),
     .required = true,
     .accept = sw_text_is_name,
     .expects = SW_NAME_EXPECTS,
     .example = "llama-7b-32k",
     .about = "name of the run, of its files and of its job"},
    {.key = "model",
     .type = FIELD_CUSTOM,
     AT(model),
     .required = true,
     .custom = &sw_type_reference,
     .kind = SW_CONFIG_MODEL,
     .described = sw_model_fields,
     .folder = "config.json", /* a Hugging Face folder is a model, too */
     .example = "../models/llama-7b.yaml",
     .about = "the model: its file, a config.json, or its keys"},
    {.key = "cluster",
     .type = FIELD_CUSTOM,
     AT(cluster),
     .required = true,
     .custom = &sw_type_reference,
     .kind = SW_CONFIG_CLUSTER,
     .described = sw_cluster_fields,
     .example = "../clusters/h100-8x8.yaml",
     .about = "the cluster: its file, or its keys"},
    {.key = "sequence_length",
     .type = FIELD_INTEGER64,
     AT(sequence_length),
     .required = true,
     .min = 1,
     .max = 1 << 30,
     .example = "32768",
     .about = "number of tokens of one sequence"},
    {.key = "global_batch_size",
     .type = FIELD_INTEGER64,
     AT(global_batch_size),
     .required = true,
     .min = 1,
     .max = 1 << 30,
     .example = "64",
     .about = "number of sequences of one step, over all ranks; at least dp x fsdp, which need not "
              "divide it: places that it leaves empty are padding, whose labels do not count"},
    {.key = "nodes",
     .type = FIELD_TEXT,
     AT(nodes),
     .brief = true,
     .accept = sw_text_is_node_range,
     .expects = "a number of nodes, or the least and the most as in '3-4', at most 64 apart",
     .example = "'3-4'",
     .about =
         "nodes that the run may have: 'plan emit' writes a plan for each number, the job takes "
         "the one for the nodes that it got, and continues with fewer when one is lost; default: "
         "all of the cluster"},
    {.key = "mesh_dim",
     .type = FIELD_TEXT,
     AT(mesh_dim),
     .fallback = "auto",
     .accept = sw_text_is_not_empty,
     .expects = "'auto' or a mesh",
     .example = "'1,64,1,1'",
     .about =
         "how the accelerators are arranged: auto, the sizes of dp,fsdp,tp,sp with at most "
         "one -1 for what is left, or by name, outermost first, as in 'sp:2,tp:8,fsdp:-1': "
         "what is not named has size 1. By name, and with a '!' before the sizes ('!1,-1,4,1'), "
         "the axes lie on the ranks in the order written, the last over neighbouring ranks; "
         "else the search picks the order"},
    {.key = "prefer",
     .type = FIELD_WORD,
     AT(prefer),
     .fallback = "fsdp",
     .words = sw_prefer_words,
     .example = "fsdp",
     .about =
         "which mesh is best: fsdp is the largest fsdp among those at most prefer_within "
         "slower than the fastest, of equals the faster, with tp within the fastest link domain "
         "unless it leaves that for a gain of more than prefer_within; fsdp-strict is the largest "
         "fsdp that "
         "fits however slow, then tp within the fastest link domain, then the least tp x sp, "
         "then the fastest; time is the fastest; cost is, of the numbers of `nodes`, the one whose "
         "run takes the fewest accelerator-hours, and there the fastest. But for time and cost, "
         "the "
         "mesh then gets, of its options within 1 % of its fastest, the fastest that leave 20 % of "
         "memory free, else those that need least"},
    {.key = "prefer_within",
     .type = FIELD_SHARE,
     AT(prefer_within),
     .fallback = "5 %",
     .min = 0,
     .max = 10,
     .example = "5 %",
     .about = "how much longer a step may take than that of the fastest mesh, for the sake of a "
              "larger fsdp and of tp within the fastest link domain (prefer: fsdp)"},
    {.key = "memory_headroom",
     .type = FIELD_SHARE,
     AT(memory_headroom),
     .fallback = "5 %",
     .min = 0,
     .max = 0.9,
     .example = "5 %",
     .about = "share of the accelerator's memory that a plan leaves free, besides its "
              "reserved_memory; a mesh that mesh_dim names may use it up"},
    {.key = "micro_batch_size",
     .type = FIELD_INTEGER64,
     AT(micro_batch_size),
     .fallback = "auto",
     .min = 1,
     .max = 1 << 30,
     .zero_word = "auto",
     .example = "auto",
     .about =
         "number of sequences per data-parallel rank and micro-step; auto: the best that fits"},
    {.key = "recompute",
     .type = FIELD_CUSTOM,
     .offset = 0,
     .custom = &sw_type_recompute,
     .fallback = "auto",
     .expects = "`none`, `full`, `auto` or a mapping {values, layers, rest}",
     .example = "{values: [n1, n2, h], layers: 8}",
     .about =
         "what backward computes again instead of keeping it: nothing, whole layers, as little "
         "as fits, or these values of the first layers, by their names in the printed program "
         "(all of either where it is not said)"},
    {.key = "precision",
     .type = FIELD_SECTION,
     .offset = 0,
     .fields = run_precision_fields,
     .example = "{compute: bf16}",
     .about = "number formats of the training step"},
    {.key = "attention",
     .type = FIELD_SECTION,
     .offset = 0,
     .fields = run_attention_fields,
     .example = "{strategy: ring, layout: zigzag}",
     .about = "attention between the ranks of sp, which hold parts of one sequence"},
    {.key = "rules",
     .type = FIELD_CUSTOM,
     .offset = 0,
     .custom = &sw_type_rules,
     .example = "{residual_seq: [sp, tp]}",
     .schema = "{\"type\": \"object\", \"additionalProperties\": {\"type\": \"array\", \"items\": "
               "{\"enum\": [\"dp\", \"fsdp\", \"tp\", \"sp\"]}, \"uniqueItems\": true}}",
     .about = "which mesh axes split a logical axis, where it is not as in the table of "
              "docs/architecture.md"},
    {.key = "zero",
     .type = FIELD_WORD,
     AT(zero),
     .brief = true,
     .fallback = "3",
     .vocabulary = sw_words_zero,
     .example = "1",
     .about =
         "stage of ZeRO, what the axes of `rules.embed` split: 1: fp32 weights and moments, so "
         "that products read whole weights in `compute`, gathered once a step; 2: gradients, "
         "too; 3: also the weights that products read, gathered layer by layer; or whichever "
         "is the fastest that fits"},
    {.key = "reshard_after_forward",
     .type = FIELD_BOOL,
     AT(reshard_after_forward),
     .brief = true,
     .fallback = "true",
     .example = "false",
     .about = "whether weights that forward gathered are freed behind it and gathered again for "
              "backward; if not, those of all layers are kept as long as a micro-step (zero: 3)"},
    {.key = "optimizer",
     .type = FIELD_SECTION,
     AT(optimizer),
     .fields = sw_optimizer_fields,
     .example = "{learning_rate: 3.0e-4}",
     .about = "the optimizer and its schedule"},
    {.key = "freeze",
     .type = FIELD_TEXT,
     AT(freeze),
     .brief = true,
     .commas = true,
     .accept = sw_text_is_not_empty,
     .expects = "names of parameters",
     .example = "[model.embed_tokens, 'model.layers.*.mlp']",
     .about = "parameters that are not trained, by Hugging Face's name of each or of a module, '*' "
              "for any text and for the number of a layer: they get no gradient, no moments and no "
              "update, and stay as 'init' has them; layers are frozen together"},
    {.key = "lora",
     .type = FIELD_SECTION,
     .offset = 0,
     .brief = true,
     .fields = sw_lora_fields,
     .example = "{rank: 16, alpha: 32, targets: all-linear}",
     .about =
         "adapters (LoRA), which are trained instead of the model; 'init' names the model that "
         "they stand on, checkpoints have the adapters alone, as PEFT writes them"},
    {.key = "data",
     .type = FIELD_SECTION,
     .offset = 0,
     .fields = run_data_fields,
     .example = "{path: data/text.txt, seed: 1}",
     .about = "what is trained on"},
    {.key = "directory",
     .type = FIELD_PATH,
     AT(directory),
     .example = "runs/llama-7b-32k",
     .about = "folder for metrics and logs; default: runs/NAME beside the run file"},
    {.key = "checkpoint",
     .type = FIELD_SECTION,
     .offset = 0,
     .fields = run_checkpoint_fields,
     .example = "{every_steps: 100, keep: 3}",
     .about = "where and when the state is saved; always at the end and when a signal asks for it"},
    {.key = "init",
     .type = FIELD_SECTION,
     .offset = 0,
     .brief = true,
     .fields = run_init_fields,
     .example = "{from: ../models/Llama-3.1-8B}",
     .about = "what the weights are before the first step"},
    {.key = "evaluate",
     .type = FIELD_SECTION,
     .offset = 0,
     .fields = run_evaluate_fields,
     .example = "{every_steps: 500}",
     .about = "when the loss on the data held out is measured, besides at the end"},
    {.key = "stage",
     .type = FIELD_SECTION,
     .offset = 0,
     .brief = true,
     .fields = run_stage_fields,
     .example = "{from: ../runs/first/checkpoints}",
     .about = "what the run begins with, where it is one stage of several: 'stages' makes it, and "
              "the plan of each stage has it; by hand, for a run that begins where another ended"},
    {.key = "stages",
     .type = FIELD_CUSTOM,
     .offset = FIELD_NOWHERE,
     .elsewhere = true,
     .custom = &sw_type_stages,
     .example = "[{name: short, sequence_length: 4096}, {name: long, sequence_length: 32768}]",
     .about = "trainings one after the other, as one run: each begins with the weights and moments "
              "of the one before; step count and data position begin anew"},
    {.key = "serve",
     .type = FIELD_SECTION,
     .offset = 0,
     .brief = true,
     .fields = run_serve_fields,
     .example = "{max_batch: 32, max_tokens: 8192}",
     .about = "how the model serves: 'plan explain' predicts its cost, 'runner generate' and "
              "'runner serve' do it"},
    {.key = "job",
     .type = FIELD_SECTION,
     AT(job),
     .elsewhere = true,
     .fields = run_job_fields,
     .example = "{type: generate, input: prompts.jsonl, output: texts.jsonl}",
     .about = "what the job does, where it is not training; no part of the plan, the script says "
              "it"},
    /* Stands after `cluster`: these values replace the cluster's. */
    {.key = "profile",
     .type = FIELD_CUSTOM,
     AT(cluster.profile),
     .elsewhere = true,
     .custom = &sw_type_profile,
     .kind = SW_CONFIG_PROFILE,
     .described = sw_profile_fields,
     .zero_word = SW_PROFILE_AUTO,
     .example = "auto",
     .about = "instead of the cluster's profile: a file, its keys, or auto"},
    {.key = "settings", .type = FIELD_SETTINGS, AT(cluster.settings), .elsewhere = true},
    {.key = NULL},
};
#undef AT
