/* A checkpoint is the state, whatever the mesh: for small models on every mesh of 1 to 8 ranks all
 * ranks are simulated. What the exchange makes of their shards, by the rules of its header, must be
 * the files that follow from the tensors' elements directly; and shards of another mesh, filled
 * from such files, and from files as others write them, must hold those elements, bit by bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/programs/program_set.h"
#include "tests/support/share.h"
#include "tests/support/stacks.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 8, UNTOUCHED = 0xa5 };

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t next_random(uint64_t *state)
{
    return mix(*state += 0x9e3779b97f4a7c15u);
}

static int below(uint64_t *state, int n)
{
    return (int)(next_random(state) % (uint64_t)n);
}

/* ---- Elements ---- */

/* Values are bits. Narrow ones are numbers of 16 bits (BF16), whatever dtype they are stored as. */
static uint64_t element(const struct sw_state_row *row, int32_t instance, int64_t index,
                        bool narrow, size_t width)
{
    uint64_t key = (uint64_t)instance << 48 ^ (uint64_t)index;
    for (const char *c = row->name; *c != '\0'; c++)
        key = mix(key + (uint64_t)*c);
    const uint64_t bits = mix(key);
    if (width == 2)
        return bits & 0xffff;
    return narrow ? (bits & 0xffff) << 16 : bits & 0xffffffff;
}

/* One rank's state, and the set that it is of. */
struct world {
    struct sw_program_options options;
    struct sw_program_set *set;
    unsigned char *shard[MAX_RANKS]; /* [state.bytes] */
    int32_t ranks;
    bool narrow;
};

/* Calls with every element of a shard: where it lies there, and what it should be. Not with its
 * padding, which must stay as it is. */
static void each_element(struct world *w, int32_t rank,
                         void (*visit)(unsigned char *at, uint64_t bits, size_t width))
{
    for (int32_t r = 0; r < w->set->state.count; r++) {
        const struct sw_state_row *row = &w->set->state.row[r];
        const size_t width = sw_dtype_bytes(row->dtype);
        int64_t offset[SW_MAX_DIMS] = {0}, elems = 1;
        sw_shard_offset(&w->options.mesh, &row->sharding.spec, row->padded, rank, offset);
        for (uint8_t d = 0; d < row->ndim; d++)
            elems *= row->local[d];
        for (int32_t instance = 0; instance < row->stack; instance++)
            for (int64_t i = 0; i < elems; i++) {
                const int64_t index = sw_test_in_shard(row, offset, i);
                if (index >= 0)
                    visit(w->shard[rank] + row->offset + instance * row->instance_bytes +
                              i * (int64_t)width,
                          element(row, instance, index, w->narrow, width), width);
            }
    }
}

static void put(unsigned char *at, uint64_t bits, size_t width)
{
    memcpy(at, &bits, width); /* little endian */
}

static void check_and_clear(unsigned char *at, uint64_t bits, size_t width)
{
    if (memcmp(at, &bits, width) != 0)
        fail_msg("an element of a shard is not what the files have");
    memset(at, UNTOUCHED, width);
}

static struct world make_world(const struct sw_program_options *options, bool narrow)
{
    struct world w = {.options = *options, .narrow = narrow};
    struct sw_program *program = NULL;
    struct sw_error err = {0};
    if (sw_program_compile(options, SW_LAID_OUT, &program, &err) != 0 ||
        sw_program_set_single(program, SW_PROGRAM_TRAIN, &w.set, &err) != 0)
        fail_msg("%s", err.message);
    w.ranks = sw_mesh_rank_count(&options->mesh);
    for (int32_t rank = 0; rank < w.ranks; rank++) {
        w.shard[rank] = malloc((size_t)w.set->state.bytes);
        assert_non_null(w.shard[rank]);
        memset(w.shard[rank], UNTOUCHED, (size_t)w.set->state.bytes);
    }
    return w;
}

static void free_world(struct world *w)
{
    for (int32_t rank = 0; rank < w->ranks; rank++)
        free(w->shard[rank]);
    sw_program_set_free(w->set);
}

/* ---- Files ---- */

struct image {
    unsigned char **file, **owners; /* [file][byte]; how many ranks own it */
    int32_t count;
};

static struct image make_image(const struct sw_placement *p)
{
    struct image image = {calloc((size_t)p->file_count, sizeof(char *)),
                          calloc((size_t)p->file_count, sizeof(char *)), p->file_count};
    assert_true(image.file != NULL && image.owners != NULL);
    for (int32_t f = 0; f < p->file_count; f++) {
        image.file[f] = malloc((size_t)p->file[f].bytes);
        image.owners[f] = calloc((size_t)p->file[f].bytes, 1);
        assert_true(image.file[f] != NULL && image.owners[f] != NULL);
        memset(image.file[f], UNTOUCHED, (size_t)p->file[f].bytes);
    }
    return image;
}

static void free_image(struct image *image)
{
    for (int32_t f = 0; f < image->count; f++) {
        free(image->file[f]);
        free(image->owners[f]);
    }
    free(image->file);
    free(image->owners);
}

/* What the files have to be, from the elements. */
static void fill_image(const struct world *w, const struct sw_placement *p, struct image *image)
{
    for (int32_t t = 0; t < p->tensor_count; t++) {
        const struct sw_stored_tensor *tensor = &p->tensor[t];
        const struct sw_state_row *row = &w->set->state.row[tensor->row];
        const size_t width = sw_stored_dtype_bytes(tensor->dtype);
        unsigned char *at = image->file[tensor->file] + tensor->offset;
        for (int64_t i = 0; i < sw_test_tensor_elems(tensor); i++, at += width)
            put(at,
                element(row, tensor->instance, sw_test_in_file(row, tensor, i), w->narrow, width),
                width);
    }
}

/* Each byte of data has one owner; owners have about as much. */
static void check_dealing(const struct sw_placement *p)
{
    struct image image = make_image(p);
    int64_t all = 0, headers = 0;
    for (int32_t f = 0; f < p->file_count; f++)
        headers += p->file[f].data_begin;
    for (int32_t rank = 0; rank < p->ranks; rank++)
        for (int32_t e = p->first_extent[rank]; e < p->first_extent[rank + 1]; e++) {
            const struct sw_extent *extent = &p->extent[e];
            assert_true(extent->begin >= p->file[extent->file].data_begin &&
                        extent->begin < extent->end && extent->end <= p->file[extent->file].bytes);
            if (e > 0) /* in order */
                assert_true(p->extent[e - 1].file < extent->file ||
                            p->extent[e - 1].end == extent->begin);
            for (int64_t at = extent->begin; at < extent->end; at++)
                image.owners[extent->file][at]++;
            all += extent->end - extent->begin;
        }
    for (int32_t f = 0; f < p->file_count; f++)
        for (int64_t at = 0; at < p->file[f].bytes; at++)
            assert_int_equal(image.owners[f][at], at >= p->file[f].data_begin);
    assert_int_equal(all + headers, sw_placement_bytes(p));
    for (int32_t rank = 0; rank < p->ranks; rank++) {
        const double share = (double)all / p->ranks,
                     mine = (double)sw_placement_rank_bytes(p, rank);
        assert_true(mine <= share + (double)p->slice_bytes + 8 &&
                    mine >= share - (double)p->slice_bytes - 8);
        assert_true(sw_placement_rank_bytes(p, rank) <= sw_placement_most_bytes(p));
    }
    free_image(&image);
}

/* ---- The exchange, simulated ---- */

struct side { /* of one message: who packs, or unpacks */
    const struct sw_exchange *x;
    unsigned char *shard, *chunk, *message;
    unsigned char *sent; /* [chunk] how often a byte came or went; may be NULL */
    int64_t at;          /* in the message, where the next piece must begin */
};

/* Where a piece's element (i, j), in the order of the state, is. */
static void locate(const struct side *s, const struct sw_piece *piece, int64_t i, int64_t j,
                   unsigned char **in_shard, int64_t *in_chunk)
{
    const struct sw_stored_tensor *t = &s->x->placement->tensor[piece->tensor];
    const struct sw_state_row *row = &s->x->state->row[t->row];
    const bool vector = t->ndim == 1;
    const int64_t columns = vector ? 1 : row->local[row->ndim - 1];
    const int64_t fi = piece->start[0] + (t->transposed ? j : i),
                  fj = piece->start[1] + (t->transposed ? i : j);
    assert_true((piece->local[0] + i) * columns + piece->local[1] + j <
                row->instance_bytes / (int64_t)sw_dtype_bytes(row->dtype));
    assert_true(piece->local[1] + j < columns);
    assert_true(fi < t->size[0] && fj < t->size[1]);
    *in_shard = s->shard + row->offset + t->instance * row->instance_bytes +
                ((piece->local[0] + i) * columns + piece->local[1] + j) *
                    (int64_t)sw_dtype_bytes(row->dtype);
    *in_chunk = piece->at + (fi * t->size[1] + fj) * (int64_t)sw_stored_dtype_bytes(t->dtype);
}

/* Moves one piece between chunk and message, or shard and message. */
static int move(struct side *s, const struct sw_piece *piece, bool to_message, bool with_chunk)
{
    const struct sw_stored_tensor *t = &s->x->placement->tensor[piece->tensor];
    const size_t width = sw_dtype_bytes(s->x->state->row[t->row].dtype),
                 stored = sw_stored_dtype_bytes(t->dtype);
    assert_int_equal(piece->message, s->at);
    const int64_t rows = piece->size[t->transposed ? 1 : 0],
                  columns = piece->size[t->transposed ? 0 : 1];
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++, s->at += (int64_t)width) {
            unsigned char *in_shard, *message = s->message + s->at;
            int64_t in_chunk;
            uint64_t bits = 0;
            locate(s, piece, i, j, &in_shard, &in_chunk);
            if (to_message) {
                memcpy(&bits, with_chunk ? s->chunk + in_chunk : in_shard,
                       with_chunk ? stored : width);
                if (with_chunk) /* a BF16 is the upper half of an F32 */
                    bits = stored < width ? bits << 16 : (stored > width ? bits >> 16 : bits);
                memcpy(message, &bits, width);
            } else {
                memcpy(with_chunk ? s->chunk + in_chunk : in_shard, message, width);
            }
            for (size_t b = 0; with_chunk && s->sent != NULL && b < stored; b++)
                s->sent[in_chunk + (int64_t)b]++;
        }
    return 0;
}

static int pack_shard(void *context, const struct sw_piece *piece, struct sw_error *err)
{
    (void)err;
    return move(context, piece, true, false);
}

static int unpack_shard(void *context, const struct sw_piece *piece, struct sw_error *err)
{
    (void)err;
    return move(context, piece, false, false);
}

static int pack_chunk(void *context, const struct sw_piece *piece, struct sw_error *err)
{
    (void)err;
    return move(context, piece, true, true);
}

static int unpack_chunk(void *context, const struct sw_piece *piece, struct sw_error *err)
{
    (void)err;
    return move(context, piece, false, true);
}

struct count {
    int64_t bytes[MAX_RANKS], messages[MAX_RANKS];
};

/* The messages of one owner's chunk with every holder. */
static void exchange_chunk(struct world *w, const struct sw_exchange *x, int32_t owner,
                           int32_t round, unsigned char *chunk, unsigned char *sent,
                           struct count *count)
{
    unsigned char *message = malloc((size_t)x->chunk_bytes + 1);
    assert_non_null(message);
    for (int32_t holder = 0; holder < w->ranks; holder++) {
        struct side from = {x, w->shard[holder], chunk, message, NULL, 0}, to = from;
        int64_t bytes = -1;
        assert_int_equal(sw_exchange_pieces(x, owner, holder, round, NULL, NULL, &bytes, NULL), 0);
        assert_true(bytes >= 0 && bytes <= x->chunk_bytes);
        if (!x->loading)
            to.sent = sent;
        assert_int_equal(sw_exchange_pieces(x, owner, holder, round,
                                            x->loading ? pack_chunk : pack_shard, &from, NULL,
                                            NULL),
                         0);
        assert_int_equal(sw_exchange_pieces(x, owner, holder, round,
                                            x->loading ? unpack_shard : unpack_chunk, &to, NULL,
                                            NULL),
                         0);
        assert_true(from.at == bytes && to.at == bytes);
        const int32_t sender = x->loading ? owner : holder;
        if (owner != holder && bytes > 0) {
            count->bytes[sender] += bytes;
            count->messages[sender]++;
        }
    }
    free(message);
}

static void check_most_traffic(const struct sw_exchange *x, const struct count *count)
{
    const struct sw_exchange_traffic most = sw_exchange_most_traffic(x);
    int64_t bytes = 0, messages = 0;
    for (int32_t rank = 0; rank < x->placement->ranks; rank++) {
        bytes = count->bytes[rank] > bytes ? count->bytes[rank] : bytes;
        messages = count->messages[rank] > messages ? count->messages[rank] : messages;
    }
    assert_true(most.sent_bytes == bytes && most.messages == messages);
}

static void run_exchange(struct world *w, const struct sw_exchange *x, struct image *image)
{
    const struct sw_placement *p = x->placement;
    struct count count = {{0}, {0}};
    unsigned char *chunk = malloc((size_t)x->chunk_bytes + 1),
                  *sent = malloc((size_t)x->chunk_bytes + 1);
    assert_true(chunk != NULL && sent != NULL);
    for (int32_t round = 0; round < x->rounds; round++)
        for (int32_t owner = 0; owner < p->ranks; owner++) {
            const int64_t bytes = sw_exchange_chunk(x, owner, round);
            struct sw_span_of_file span;
            int64_t at = 0;
            assert_true(bytes >= 0 && bytes <= x->chunk_bytes);
            memset(sent, 0, (size_t)x->chunk_bytes);
            for (int32_t i = 0; x->loading && sw_exchange_span(x, owner, round, i, &span); i++)
                memcpy(chunk + span.at, image->file[span.file] + span.begin,
                       (size_t)(span.end - span.begin));
            exchange_chunk(w, x, owner, round, chunk, sent, &count);
            for (int32_t i = 0; sw_exchange_span(x, owner, round, i, &span); i++) {
                assert_int_equal(span.at, at);
                at += span.end - span.begin;
                for (int64_t b = span.begin; b < span.end; b++)
                    assert_int_equal(++image->owners[span.file][b], 1);
                if (!x->loading)
                    memcpy(image->file[span.file] + span.begin, chunk + span.at,
                           (size_t)(span.end - span.begin));
            }
            assert_int_equal(at, bytes);
            for (int64_t b = 0; !x->loading && b < bytes; b++) /* each element once */
                assert_int_equal(sent[b], 1);
        }
    for (int32_t rank = 0; rank < p->ranks; rank++) {
        const struct sw_exchange_traffic traffic = sw_exchange_traffic(x, rank);
        assert_int_equal(traffic.sent_bytes, count.bytes[rank]);
        assert_int_equal(traffic.messages, count.messages[rank]);
        assert_int_equal(sw_exchange_chunk(x, rank, x->rounds), 0);
    }
    check_most_traffic(x, &count);
    free(sent);
    free(chunk);
}

/* ---- What is tried ---- */

static void save(struct world *w, const struct sw_placement *p, int64_t chunk_bytes)
{
    struct image image = make_image(p), expected = make_image(p);
    struct sw_exchange x;
    for (int32_t rank = 0; rank < w->ranks; rank++)
        each_element(w, rank, put);
    assert_int_equal(
        sw_exchange_make(&w->set->state, p, &w->options.mesh, false, chunk_bytes, &x, NULL), 0);
    run_exchange(w, &x, &image);
    fill_image(w, p, &expected);
    for (int32_t f = 0; f < p->file_count; f++)
        assert_memory_equal(image.file[f], expected.file[f], (size_t)p->file[f].bytes);
    sw_exchange_free(&x);
    free_image(&image);
    free_image(&expected);
}

/* Whether the shards' other bytes, between rows and of rows that no file has, stayed. */
static void check_untouched(const struct world *w, int32_t rank)
{
    for (int64_t b = 0; b < w->set->state.bytes; b++)
        assert_int_equal(w->shard[rank][b], UNTOUCHED);
}

static void load(struct world *w, const struct sw_placement *p, int64_t chunk_bytes,
                 bool all_groups)
{
    struct image image = make_image(p);
    struct sw_exchange x;
    for (int32_t rank = 0; rank < w->ranks; rank++)
        memset(w->shard[rank], UNTOUCHED, (size_t)w->set->state.bytes);
    fill_image(w, p, &image);
    assert_int_equal(
        sw_exchange_make(&w->set->state, p, &w->options.mesh, true, chunk_bytes, &x, NULL), 0);
    run_exchange(w, &x, &image);
    const int32_t count = w->set->state.count;
    for (int32_t rank = 0; rank < w->ranks; rank++) {
        if (!all_groups) /* parameters come first */
            for (w->set->state.count = 0;
                 w->set->state.count < count &&
                 w->set->state.row[w->set->state.count].role == SW_ROLE_PARAMETER;)
                w->set->state.count++;
        each_element(w, rank, check_and_clear);
        w->set->state.count = count;
        check_untouched(w, rank);
    }
    sw_exchange_free(&x);
    free_image(&image);
}

static void shuffle(uint64_t *rng, struct sw_stored_tensor *tensor, int32_t count)
{
    for (int32_t i = count - 1; i > 0; i--) {
        const int32_t j = below(rng, i + 1);
        const struct sw_stored_tensor swap = tensor[i];
        tensor[i] = tensor[j];
        tensor[j] = swap;
    }
}

/* The model as others may have written it: in any order, in files with headers of any size, with
 * things between that are none of ours, in any dtypes. */
static struct sw_placement foreign(uint64_t *rng, const struct world *w)
{
    struct sw_placement p = {0};
    assert_int_equal(
        sw_stored_tensors(&w->set->state, SW_STORED_SAVED, &p.tensor, &p.tensor_count, NULL), 0);
    while (p.tensor[p.tensor_count - 1].group != SW_STORED_MODEL)
        p.tensor_count--;
    shuffle(rng, p.tensor, p.tensor_count);
    p.file = calloc((size_t)p.tensor_count, sizeof *p.file);
    assert_non_null(p.file);
    struct sw_stored_file *file = NULL;
    for (int32_t i = 0; i < p.tensor_count; i++) {
        struct sw_stored_tensor *t = &p.tensor[i];
        if (file == NULL || below(rng, 8) == 0) {
            file = &p.file[p.file_count++];
            file->first_tensor = i;
            file->data_begin = file->bytes = 9 + below(rng, 500);
        }
        file->bytes += below(rng, 3) == 0 ? below(rng, 40) : 0;
        if (below(rng, 2) == 0)
            t->dtype = t->dtype == SW_STORED_F32 ? SW_STORED_BF16 : SW_STORED_F32;
        t->bytes = sw_test_tensor_elems(t) * (int64_t)sw_stored_dtype_bytes(t->dtype);
        t->file = p.file_count - 1;
        t->offset = file->bytes;
        file->bytes += t->bytes + (below(rng, 8) == 0 ? below(rng, 200) : 0);
        file->tensor_count++;
    }
    return p;
}

static struct sw_program_options random_model(uint64_t *rng)
{
    struct sw_program_options o;
    memset(&o, 0, sizeof o);
    o.model.vocab_size = 48;
    static const int32_t hidden[] = {48, 24, 22, 5}; /* the last two are split unevenly */
    o.model.hidden_size = hidden[below(rng, 4)];
    o.model.intermediate_size = 48;
    o.model.layers = 1 + below(rng, 3);
    o.model.heads = below(rng, 2) ? 8 : 6;
    o.model.kv_heads = below(rng, 2) ? 2 : 1;
    o.model.head_dim = below(rng, 2) ? 2 : 6;
    o.model.rope.theta = 10000;
    o.model.rms_norm_eps = 1e-5;
    o.model.tied = below(rng, 2);
    o.model.qkv_bias = below(rng, 2);
    o.model.output_bias = below(rng, 4) == 0;
    o.model.mlp_bias = below(rng, 4) == 0;
    o.model.qk_norm = below(rng, 2);
    o.model.fused = !o.model.qkv_bias && !o.model.mlp_bias;
    o.sequence_length = 48;
    o.global_batch = 24;
    o.micro_batch_per_rank = 1;
    o.compute = o.reduce = SW_F32;
    o.params = below(rng, 3) == 0 ? SW_BF16_T : SW_F32;
    o.layout = SW_CONTIGUOUS;
    sw_rules_default(&o.rules, SW_ATTENTION_RING);
    if (below(rng, 3) == 0) /* replicas of matrices, too */
        assert_int_equal(sw_rules_set(&o.rules, "embed", (struct sw_axes){1, {SW_SP}}, NULL), 0);
    return o;
}

static void random_order(uint64_t *rng, struct sw_mesh *mesh)
{
    for (int i = SW_AXIS_COUNT - 1; i > 0; i--) {
        const int j = below(rng, i + 1);
        const uint8_t swap = mesh->order[i];
        mesh->order[i] = mesh->order[j];
        mesh->order[j] = swap;
    }
}

struct list {
    struct sw_mesh mesh[128];
    int32_t count;
};

static int add_mesh(const struct sw_mesh *mesh, void *context)
{
    struct list *list = context;
    list->mesh[list->count++] = *mesh;
    return 0;
}

/* On a mesh of the list that the model can run on, from that one on. */
static void choose_mesh(uint64_t *rng, const struct list *list, int32_t i,
                        struct sw_program_options *o)
{
    do {
        o->mesh = list->mesh[i++ % list->count];
        random_order(rng, &o->mesh);
    } while (sw_program_admits(o, NULL, NULL) != SW_FITS);
}

static void deal(uint64_t *rng, struct sw_placement *p, int32_t ranks)
{
    static const int32_t slices[] = {64, 100, 512, 1000, 4096, 1 << 20};
    p->slice_bytes = slices[below(rng, 6)];
    assert_int_equal(sw_placement_deal(p, ranks, NULL), 0);
    check_dealing(p);
}

/* 0: the default. */
static int64_t chunk_bytes(uint64_t *rng)
{
    static const int32_t sizes[] = {64, 100, 333, 1024, 4096, 20000, 0};
    return sizes[below(rng, 7)];
}

static void test_every_mesh(void **state)
{
    (void)state;
    struct list list = {.count = 0};
    uint64_t rng = 12;
    int32_t stacked = 0;
    for (int32_t ranks = 1; ranks <= MAX_RANKS; ranks++)
        sw_mesh_enumerate(ranks, add_mesh, &list);
    const int32_t share = sw_test_share();
    for (int32_t trial = 0; trial < 3 * list.count / share; trial++) {
        struct sw_program_options o = random_model(&rng), other = o;
        const bool narrow = below(&rng, 2);
        choose_mesh(&rng, &list, trial, &o);
        choose_mesh(&rng, &list, below(&rng, list.count), &other);
        struct world from = make_world(&o, narrow), to = make_world(&other, narrow);
        struct sw_test_stacks stacks = {.count = 0};
        struct sw_placement p;
        if (trial % 3 == 2)
            stacked += sw_test_stack((uint64_t)trial, &from.set->state, &to.set->state, &stacks);
        assert_int_equal(sw_placement_make(&from.set->state, from.ranks, &p, NULL), 0);
        check_dealing(&p);
        deal(&rng, &p, from.ranks);
        save(&from, &p, chunk_bytes(&rng));
        deal(&rng, &p, to.ranks);
        load(&to, &p, chunk_bytes(&rng), true);
        sw_placement_free(&p);
        free_world(&from);
        free_world(&to);
    }
    assert_true(stacked > list.count / 2 / share); /* of a third of the trials, some parameters */
}

static void test_files_of_others(void **state)
{
    (void)state;
    struct list list = {.count = 0};
    uint64_t rng = 34;
    for (int32_t ranks = 1; ranks <= MAX_RANKS; ranks++)
        sw_mesh_enumerate(ranks, add_mesh, &list);
    for (int32_t trial = 0; trial < 2 * list.count / sw_test_share(); trial++) {
        struct sw_program_options o = random_model(&rng);
        choose_mesh(&rng, &list, trial, &o);
        struct world w = make_world(&o, true);
        struct sw_test_stacks stacks = {.count = 0};
        if (trial % 3 == 2)
            sw_test_stack((uint64_t)trial, &w.set->state, &w.set->state, &stacks);
        struct sw_placement p = foreign(&rng, &w);
        deal(&rng, &p, w.ranks);
        load(&w, &p, chunk_bytes(&rng), false);
        sw_placement_free(&p);
        free_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_mesh),
        cmocka_unit_test(test_files_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
