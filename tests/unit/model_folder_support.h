/* A small model directory that a test writes and then breaks. */
#ifndef SW_TEST_MODEL_FOLDER_SUPPORT_H
#define SW_TEST_MODEL_FOLDER_SUPPORT_H

#include "core/base/file.h"
#include "core/programs/program_set.h"
#include "runner/checkpoint/model_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- A state ---- */

static inline struct sw_program_options small_options(bool tied)
{
    struct sw_program_options o;
    memset(&o, 0, sizeof o);
    o.model.vocab_size = 16;
    o.model.hidden_size = 8;
    o.model.intermediate_size = 12;
    o.model.max_position_embeddings = 256;
    o.model.initializer_range = 0.02;
    o.model.layers = 2;
    o.model.heads = 2;
    o.model.kv_heads = 1;
    o.model.head_dim = 4;
    o.model.rope.theta = 10000;
    o.model.rope.factor = 1;
    o.model.rms_norm_eps = 1e-5;
    o.model.tied = tied;
    o.sequence_length = 32;
    o.global_batch = 4;
    o.micro_batch_per_rank = 1;
    o.compute = o.params = o.reduce = SW_F32;
    o.mesh = sw_mesh_make(1, 1, 1, 1);
    sw_rules_default(&o.rules, SW_ATTENTION_RING);
    return o;
}

static inline struct sw_program_set *make_set(const struct sw_program_options *options)
{
    struct sw_program *program = NULL;
    struct sw_program_set *set = NULL;
    struct sw_error err = {0};
    if (sw_program_compile(options, SW_LAID_OUT, &program, &err) != 0 ||
        sw_program_set_single(program, SW_PROGRAM_TRAIN, &set, &err) != 0)
        fail_msg("%s", err.message);
    return set;
}

/* ---- Files ---- */

static char folder[2048]; /* made for this run, set by main */

static inline char *in_folder(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static inline void put_file(const char *name, const void *data, size_t bytes)
{
    struct sw_error err = {0};
    char *above = sw_path_folder(in_folder(name));
    if (sw_file_make_folder(above, &err) != 0 ||
        sw_file_write(in_folder(name), data, bytes, 0666, &err) != 0)
        fail_msg("%s", err.message);
    free(above);
}

static inline void put_text(const char *name, const char *text)
{
    put_file(name, text, strlen(text));
}

static inline char *get_file(const char *name, size_t *bytes)
{
    char *text = NULL;
    if (sw_file_read(in_folder(name), true, 1 << 24, &text, bytes, NULL) != 0)
        fail_msg("no file %s", name);
    return text;
}

static inline void remove_all(const char *name)
{
    char command[5000];
    snprintf(command, sizeof command, "rm -rf '%s'", in_folder(name));
    assert_int_equal(system(command), 0);
}

/* Every file of a placement; byte i of a file's data is i % 251. */
static inline void put_placement(const char *name, const struct sw_placement *placement)
{
    for (int32_t f = 0; f < placement->file_count; f++) {
        const struct sw_stored_file *file = &placement->file[f];
        char *header = NULL, path[256];
        assert_int_equal(sw_placement_header(placement, f, &header, NULL), 0);
        char *data = malloc((size_t)file->bytes);
        assert_non_null(data);
        memcpy(data, header, (size_t)file->data_begin);
        for (int64_t i = 0; i < file->bytes - file->data_begin; i++)
            data[file->data_begin + i] = (char)(i % 251);
        snprintf(path, sizeof path, "%s/%s", name, file->name);
        put_file(path, data, (size_t)file->bytes);
        free(data);
        free(header);
    }
}

static inline void put_config(const char *name, const struct sw_model *model)
{
    char *text = NULL, path[256];
    assert_int_equal(sw_model_config_json(model, SW_STORED_F32, NULL, &text, NULL), 0);
    snprintf(path, sizeof path, "%s/config.json", name);
    put_text(path, text);
    free(text);
}

/* A safetensors file of one line of header and zeros. */
static inline void put_tensors(const char *name, const char *header, size_t data_bytes)
{
    const size_t length = strlen(header);
    char *file = calloc(1, 8 + length + data_bytes);
    assert_non_null(file);
    for (size_t i = 0; i < 8; i++)
        file[i] = (char)(length >> 8 * i);
    memcpy(file + 8, header, length);
    put_file(name, file, 8 + length + data_bytes);
    free(file);
}

static inline int run_in_folder(const struct CMUnitTest *tests, size_t count, const char *where,
                                const char *name)
{
    snprintf(folder, sizeof folder, "%s/%s.XXXXXX", where, name);
    if (mkdtemp(folder) == NULL) {
        perror(folder);
        return 1;
    }
    const int failed = _cmocka_run_group_tests(name, tests, count, NULL, NULL);
    char command[4096];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) != 0 || failed != 0;
}

#endif
