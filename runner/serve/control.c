#include "runner/serve/control.h"

#include <stdlib.h>
#include <string.h>

enum order { ORDER_ADMIT = 1, ORDER_DROP };

struct header {
    int64_t last, bytes;
};
/* All ranks are of one build: they agree on the memory layout. */
struct entry {
    int64_t order, slot;
    struct sw_sequence sequence; /* ORDER_ADMIT; its tokens and, if any, its biases follow */
};

static int add(struct sw_control *o, const struct entry *entry)
{
    const size_t before = o->bytes.count;
    const int64_t count = entry->order == ORDER_ADMIT ? entry->sequence.token_count : 0;
    const struct sw_biases *biases = entry->sequence.biases;
    if (sw_chars_add(&o->bytes, (const char *)entry, sizeof *entry) == 0 &&
        (count == 0 || sw_chars_add(&o->bytes, (const char *)entry->sequence.tokens,
                                    (size_t)count * sizeof(int32_t)) == 0) &&
        (biases == NULL || sw_chars_add(&o->bytes, (const char *)biases, sizeof *biases) == 0))
        return 0;
    o->bytes.count = before;
    return -1;
}

int sw_control_admit(struct sw_control *o, int64_t slot, const struct sw_sequence *sequence)
{
    struct entry entry;
    memset(&entry, 0, sizeof entry); /* padding bytes are sent too */
    entry.order = ORDER_ADMIT;
    entry.slot = slot;
    entry.sequence = *sequence;
    return add(o, &entry);
}

int sw_control_drop(struct sw_control *o, int64_t slot)
{
    struct entry entry;
    memset(&entry, 0, sizeof entry);
    entry.order = ORDER_DROP;
    entry.slot = slot;
    return add(o, &entry);
}

void sw_control_free(struct sw_control *o)
{
    sw_chars_free(&o->bytes);
}

void sw_control_send(const struct sw_launch *launch, struct sw_control *o, bool last)
{
    struct header header = {last, (int64_t)o->bytes.count};
    sw_launch_pass_on(launch, &header, sizeof header);
    if (o->bytes.count > 0)
        sw_launch_pass_on(launch, o->bytes.byte, o->bytes.count);
    o->bytes.count = 0;
}

/* ---- The other ranks ---- */

struct follower {
    struct sw_engine *engine;
    int32_t **tokens;         /* [slots] tokens of their sequences */
    struct sw_biases *biases; /* [slots] biases */
};

/* Never ends a sequence: only rank 0 knows the end tokens. */
static bool go_on(void *context, const struct sw_sequence *sequence, int64_t index, int32_t token,
                  double logprob, const struct sw_top *top)
{
    (void)top;
    (void)context;
    (void)sequence;
    (void)index;
    (void)token;
    (void)logprob;
    return true;
}

static const struct sw_engine_calls calls = {.token = go_on};

static int obey(const struct follower *f, const char *bytes, size_t count, struct sw_error *err)
{
    const int64_t slots = sw_engine_slots(f->engine);
    while (count > 0) {
        struct entry entry;
        if (count < sizeof entry)
            break;
        memcpy(&entry, bytes, sizeof entry);
        bytes += sizeof entry;
        count -= sizeof entry;
        if (entry.slot < 0 || entry.slot >= slots)
            break;
        if (entry.order == ORDER_DROP) {
            sw_engine_drop(f->engine, entry.slot);
            continue;
        }
        const size_t size = (size_t)entry.sequence.token_count * sizeof(int32_t);
        const size_t more = entry.sequence.biases != NULL ? sizeof *f->biases : 0;
        if (entry.order != ORDER_ADMIT || entry.sequence.token_count < 1 || size + more > count)
            break;
        free(f->tokens[entry.slot]);
        f->tokens[entry.slot] = malloc(size);
        if (f->tokens[entry.slot] == NULL)
            return sw_fail(err, SW_ENVIRONMENT, "out of memory for a prompt");
        memcpy(f->tokens[entry.slot], bytes, size);
        memcpy(&f->biases[entry.slot], bytes + size, more);
        bytes += size + more;
        count -= size + more;
        entry.sequence.tokens = f->tokens[entry.slot];
        entry.sequence.biases = more > 0 ? &f->biases[entry.slot] : NULL;
        sw_engine_admit(f->engine, entry.slot, &entry.sequence, &calls, NULL);
    }
    return count == 0 ? 0 : sw_fail(err, SW_ENVIRONMENT, "rank 0 sent commands that make no sense");
}

static int follow(const struct sw_launch *launch, const struct follower *f, struct sw_error *err)
{
    struct header header = {0};
    while (header.last == 0) {
        char *bytes = NULL;
        sw_launch_pass_on(launch, &header, sizeof header);
        if (header.bytes > 0 && (bytes = malloc((size_t)header.bytes)) == NULL)
            return sw_fail(err, SW_ENVIRONMENT, "out of memory for a prompt");
        if (bytes != NULL)
            sw_launch_pass_on(launch, bytes, (size_t)header.bytes);
        const int obeyed = obey(f, bytes, (size_t)header.bytes, err);
        free(bytes);
        if (obeyed != 0 || (header.last == 0 && sw_engine_step(f->engine, &calls, err) != 0))
            return -1;
    }
    return 0;
}

int sw_control_obey(const struct sw_launch *launch, struct sw_engine *engine, struct sw_error *err)
{
    const int64_t slots = sw_engine_slots(engine);
    const struct follower f = {engine, calloc((size_t)slots, sizeof *f.tokens),
                               calloc((size_t)slots, sizeof *f.biases)};
    const int status = f.tokens == NULL || f.biases == NULL
                           ? sw_fail(err, SW_ENVIRONMENT, "out of memory for the prompts")
                           : follow(launch, &f, err);
    for (int64_t i = 0; f.tokens != NULL && i < slots; i++)
        free(f.tokens[i]);
    free(f.tokens);
    free(f.biases);
    return status;
}
