/* Rows of the trainer's data that are packed, masked or mixed, of drawn files of tokens with an
 * index: each row against the documents it is made of, and against itself after a restart.
 *
 *     test_packed_rows FOLDER [DRAWS] [SEED]
 */
#include "core/base/token_writer.h"
#include "runner/train/dataset.h"
#include "runner/train/mixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { FILES = 3, MOST = 4000, VOCAB = 50000, ROW = 32 };

static const char *folder = ".";
static int32_t draws = 12;
static uint64_t seed = 1;

static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % below;
}

/* Documents of all files, one behind the other. No two tokens are alike: a token is its number from
 * 1 on. */
struct corpus {
    char path[FILES][600];
    int64_t tokens, documents, end[MOST];
    uint8_t counts[4 * MOST];
};

static void draw_corpus(uint64_t *s, struct corpus *c, bool masked)
{
    struct sw_error err = {0};
    memset(c, 0, sizeof *c);
    for (int f = 0; f < FILES; f++) {
        struct sw_token_writer *out = NULL;
        snprintf(c->path[f], sizeof c->path[f], "%s/packed_rows.%d.bin", folder, f);
        assert_int_equal(sw_token_writer_open(c->path[f], 2 + 2 * (int)draw(s, 2), &out, &err), 0);
        const int64_t first = c->tokens;
        for (int64_t n = 1 + (int64_t)draw(s, 40); n > 0 || c->tokens - first <= ROW; n--) {
            const int64_t length = 1 + (int64_t)draw(s, draw(s, 5) == 0 ? 2 * ROW : ROW / 2);
            for (int64_t i = 0; i < length; i++, c->tokens++) {
                const int32_t id = (int32_t)c->tokens + 1;
                c->counts[c->tokens] = masked ? draw(s, 3) > 0 : 1;
                assert_int_equal(sw_token_writer_add(out, &id, &c->counts[c->tokens], 1, &err), 0);
            }
            assert_int_equal(sw_token_writer_end(out, &err), 0);
            c->end[c->documents++] = c->tokens;
        }
        assert_int_equal(sw_token_writer_commit(out, "{}", &err), 0);
    }
}

struct many {
    int32_t tokens[ROW], labels[ROW], segments[ROW], positions[ROW];
};

static struct sw_row row_of(struct many *m)
{
    return (struct sw_row){m->tokens, m->labels, m->segments, m->positions};
}

static struct sw_dataset *open_corpus(const struct corpus *c, const double *weight, bool pack,
                                      double holdout)
{
    const char *const all[] = {c->path[0], c->path[1], c->path[2]};
    struct sw_dataset_source source[FILES] = {{all, FILES}};
    for (int i = 0; weight != NULL && i < FILES; i++)
        source[i] = (struct sw_dataset_source){&all[i], 1};
    struct sw_dataset *data = NULL;
    struct sw_error err = {0};
    const struct sw_dataset_options options = {.source = source,
                                               .weight = weight,
                                               .sources = weight != NULL ? FILES : 1,
                                               .pack = pack,
                                               .pack_block = 17,
                                               .holdout = holdout,
                                               .seed = 5,
                                               .document_end = -1,
                                               .vocab_size = VOCAB,
                                               .sequence_length = ROW};
    if (sw_dataset_open(&options, &data, &err) != 0)
        fail_msg("%s", err.message);
    return data;
}

/* The document that a token begins, or -1. */
static int64_t begins(const struct corpus *c, int64_t token)
{
    for (int64_t d = 0; d < c->documents; d++)
        if ((d == 0 ? 0 : c->end[d - 1]) == token)
            return d;
    return -1;
}

/* Whole documents (or their beginnings), then padding; returns the labels that count. */
static int64_t check_row(const struct corpus *c, const struct many *m, int32_t *met)
{
    int64_t counted = 0;
    int32_t at = 0, number = 0;
    while (at < ROW && m->tokens[at] != 0) {
        const int64_t begin = m->tokens[at] - 1, d = begins(c, begin);
        assert_true(d >= 0);
        const int64_t length = c->end[d] - begin;
        const int32_t n = (int32_t)(length < ROW ? length : ROW);
        assert_true(at + n <= ROW);
        met[d]++;
        for (int32_t i = 0; i < n; i++) {
            const bool counts = i + 1 < n && c->counts[begin + i + 1] != 0;
            assert_int_equal(m->tokens[at + i], begin + i + 1);
            assert_int_equal(m->labels[at + i], counts ? begin + i + 2 : -1);
            assert_int_equal(m->segments[at + i], number);
            assert_int_equal(m->positions[at + i], i);
            counted += counts;
        }
        at += n;
        number++;
    }
    for (; at < ROW; at++, number++) {
        assert_int_equal(m->tokens[at], 0);
        assert_int_equal(m->labels[at], -1);
        assert_int_equal(m->segments[at], number);
    }
    return counted;
}

static void rows_are_documents(void **state)
{
    (void)state;
    for (int32_t i = 0; i < draws; i++) {
        uint64_t s = seed * 7919 + (uint64_t)i;
        static struct corpus c;
        static int32_t met[MOST];
        struct sw_error err = {0};
        int64_t rows;
        draw_corpus(&s, &c, i % 2 != 0);
        struct sw_dataset *data = open_corpus(&c, NULL, true, 0);
        (void)sw_dataset_sums(data, &rows);
        memset(met, 0, sizeof met);
        for (int64_t r = 0; r < rows; r++) {
            struct many m;
            const struct sw_row row = row_of(&m);
            const int64_t counted = sw_dataset_train_counted(data, r, 1);
            assert_int_equal(sw_dataset_train(data, r, &row, &err), 0);
            assert_int_equal(check_row(&c, &m, met), counted);
        }
        for (int64_t d = 0; d < c.documents; d++)
            assert_int_equal(met[d], 1);
        sw_dataset_close(data);
    }
}

/* Held-out documents are in no row that is trained on, and all of them are judged once. */
static void documents_are_trained_on_or_held_out(void **state)
{
    (void)state;
    for (int32_t i = 0; i < draws; i++) {
        uint64_t s = seed * 104729 + (uint64_t)i;
        static struct corpus c;
        static int32_t met[4 * MOST];
        struct sw_error err = {0};
        int64_t rows, labels = 0, wanted = 0;
        draw_corpus(&s, &c, true);
        struct sw_dataset *data = open_corpus(&c, NULL, true, 0.3);
        (void)sw_dataset_sums(data, &rows);
        memset(met, 0, sizeof met);
        const int64_t held = sw_dataset_holdout_sequences(data);
        for (int64_t r = 0; r < rows + held + 2; r++) {
            struct many m;
            const struct sw_row row = row_of(&m);
            const int64_t h = r - rows;
            assert_int_equal(h < 0 ? sw_dataset_train(data, r, &row, &err)
                                   : sw_dataset_holdout(data, h, &row, &err),
                             0);
            int64_t counted = 0;
            for (int32_t k = 0; k < ROW; k++)
                if (m.labels[k] >= 0) {
                    met[m.labels[k] - 1]++;
                    counted++;
                }
            labels += h < 0 ? 0 : counted;
            assert_int_equal(counted, h < 0 ? sw_dataset_train_counted(data, r, 1)
                                            : sw_dataset_holdout_counted(data, h, 1));
        }
        assert_int_equal(labels, sw_dataset_holdout_labels(data));
        for (int64_t d = 0; d < c.documents; d++) {
            const int64_t begin = d == 0 ? 0 : c.end[d - 1];
            for (int64_t t = begin; t < c.end[d]; t++) {
                const bool counts = t > begin && t < begin + ROW && c.counts[t] != 0;
                assert_int_equal(met[t], counts);
                wanted += counts;
            }
        }
        assert_true(wanted >= labels);
        sw_dataset_close(data);
    }
}

/* Windows of a masked file count what its index says. */
static void windows_of_an_index_are_masked(void **state)
{
    (void)state;
    static struct corpus c;
    uint64_t s = seed;
    struct sw_error err = {0};
    draw_corpus(&s, &c, true);
    struct sw_dataset *data = open_corpus(&c, NULL, false, 0);
    assert_true(sw_dataset_varies(data));
    for (int64_t r = 0; r < 100; r++) {
        struct many m;
        const struct sw_row row = row_of(&m);
        int64_t counted = 0;
        assert_int_equal(sw_dataset_train(data, r, &row, &err), 0);
        for (int32_t k = 0; k < ROW; k++) {
            const int32_t next = m.tokens[0] + k; /* its number from 0 on */
            assert_int_equal(m.tokens[k], m.tokens[0] + k);
            if (begins(&c, next) < 0)
                assert_int_equal(m.labels[k], c.counts[next] != 0 ? next + 1 : -1);
            assert_int_equal(m.segments[k], 0);
            assert_int_equal(m.positions[k], k);
            counted += m.labels[k] >= 0;
        }
        assert_int_equal(sw_dataset_train_counted(data, r, 1), counted);
    }
    sw_dataset_close(data);
}

/* Packed and mixed: a run that begins anywhere, in any batches, reads the rows of one that began at
 * 0, whichever of a row's parts are asked for. */
static void rows_depend_on_their_number_alone(void **state)
{
    (void)state;
    enum { ROWS = 400 };
    static const double weight[FILES] = {5, 1, 2.5};
    static struct many wanted[ROWS];
    static struct corpus c;
    for (int32_t i = 0; i < draws / 4 + 1; i++) {
        uint64_t s = seed * 31 + (uint64_t)i;
        struct sw_error err = {0};
        draw_corpus(&s, &c, true);
        struct sw_dataset *data = open_corpus(&c, weight, i % 3 != 2, 0);
        for (int64_t r = 0; r < ROWS; r++) {
            const struct sw_row row = row_of(&wanted[r]);
            assert_int_equal(sw_dataset_train(data, r, &row, &err), 0);
        }
        for (int32_t turn = 0; turn < 20; turn++) {
            struct sw_dataset *again =
                turn % 5 == 0 ? open_corpus(&c, weight, i % 3 != 2, 0) : data;
            const int64_t first = (int64_t)draw(&s, ROWS - 20);
            (void)sw_dataset_train_counted(again, first, 20);
            for (int32_t k = 0; k < 20; k++) {
                const int64_t r = first + (int64_t)draw(&s, 20);
                struct many m = wanted[r];
                struct sw_row row = row_of(&m);
                int32_t **const part[] = {&row.tokens, &row.labels, &row.segments, &row.positions};
                for (int p = 0; p < 4; p++)
                    if (draw(&s, 2))
                        *part[p] = NULL;
                assert_int_equal(sw_dataset_train(again, r, &row, &err), 0);
                assert_memory_equal(&m, &wanted[r], sizeof m);
            }
            if (again != data)
                sw_dataset_close(again);
        }
        sw_dataset_close(data);
    }
}

/* Every beginning of the sequence meets the weights to a row for each source. */
static void weights_are_met(void **state)
{
    (void)state;
    enum { ROWS = 10000 };
    for (int32_t i = 0; i < draws; i++) {
        uint64_t s = seed * 17 + (uint64_t)i;
        double weight[20], sum = 0;
        int64_t taken[20] = {0}, inside;
        const int32_t count = 1 + (int32_t)draw(&s, 20);
        struct sw_mixture *m = NULL;
        struct sw_error err = {0};
        for (int32_t k = 0; k < count; k++)
            sum += weight[k] = pow(10, (double)draw(&s, 1000) / 250 - 2);
        assert_int_equal(sw_mixture_create(weight, count, &m, &err), 0);
        for (int64_t r = 0; r < ROWS; r++) {
            const int32_t source = sw_mixture_find(m, r, &inside);
            assert_in_range(source, 0, count - 1);
            assert_int_equal(inside, taken[source]++);
            for (int32_t k = 0; k < count; k++)
                assert_true(fabs((double)taken[k] - weight[k] / sum * (double)(r + 1)) <=
                            1.5 + count);
        }
        for (int32_t k = 0; k < count; k++)
            assert_true(fabs((double)taken[k] - weight[k] / sum * ROWS) <=
                        0.01 * ROWS * weight[k] / sum + 1.5);
        sw_mixture_free(m);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_documents),
                                       cmocka_unit_test(documents_are_trained_on_or_held_out),
                                       cmocka_unit_test(windows_of_an_index_are_masked),
                                       cmocka_unit_test(rows_depend_on_their_number_alone),
                                       cmocka_unit_test(weights_are_met)};
    if (argc > 1)
        folder = argv[1];
    if (argc > 2)
        draws = atoi(argv[2]);
    if (argc > 3)
        seed = strtoull(argv[3], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
