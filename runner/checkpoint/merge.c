#include "runner/checkpoint/merge.h"

#include "core/base/text.h"
#include "runner/checkpoint/convert.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHOWN_BYTES = 100, NAME_BYTES = SW_SAFETENSORS_NAME_BYTES + 64 };

static const char before[] = "base_model.model.", a_ending[] = ".lora_A.weight",
                  b_ending[] = ".lora_B.weight", ending[] = ".weight";

struct sw_adapter_merge {
    const struct sw_model_folder *adapter;
    struct sw_folder_tensor *tensor; /* [count], ordered by name */
    int32_t count;
    char *path; /* the file's */
    int handle;
    /* the current weight's */
    double *a, *b; /* [rank, inputs], [outputs, rank] */
    int64_t rank, inputs;
    double scale;
};

static int refuse(const struct sw_adapter_merge *m, struct sw_error *err, const char *name,
                  const char *what)
{
    char shown[SHOWN_BYTES + 4];
    return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = m->path}, "tensor '%s' %s",
                      sw_text_shown(name, SHOWN_BYTES, shown), what);
}

static const struct sw_safetensor *header_of(const struct sw_adapter_merge *m, int32_t i)
{
    return &m->adapter->file[m->tensor[i].file].header.tensor[m->tensor[i].tensor];
}

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static const struct sw_safetensor *find(const struct sw_adapter_merge *m, const char *module,
                                        const char *end)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s%s%s", before, module, end);
    const struct sw_folder_tensor *found = sw_folder_find(m->tensor, m->count, name);
    return found == NULL ? NULL : header_of(m, (int32_t)(found - m->tensor));
}

/* Reason that an adapter's tensor does not fit; NULL: it fits. */
static const char *look(const struct sw_adapter_merge *m, const struct sw_safetensor *t,
                        const struct sw_model_folder *model,
                        const struct sw_folder_tensor *of_model, int32_t count)
{
    char module[SW_SAFETENSORS_NAME_BYTES], name[NAME_BYTES];
    const bool a = ends_with(t->name, a_ending), b = ends_with(t->name, b_ending);
    const size_t around = strlen(before) + strlen(a_ending);
    if (strncmp(t->name, before, strlen(before)) != 0 || (!a && !b) || strlen(t->name) <= around)
        return "is neither lora_A nor lora_B of a projection, and cannot be merged";
    if (t->dtype == SW_STORED_DTYPES)
        return "holds numbers that cannot be read; only F32, BF16, F16 and F64 can be";
    if (t->ndim != 2)
        return "is no matrix, and cannot be merged";
    snprintf(module, sizeof module, "%.*s", (int)(strlen(t->name) - around),
             t->name + strlen(before));
    if (find(m, module, a ? b_ending : a_ending) == NULL)
        return a ? "has no lora_B beside it" : "has no lora_A beside it";
    int32_t rank;
    double scale;
    sw_adapter_config_of(&m->adapter->config, module, &rank, &scale);
    if (t->size[a ? 0 : 1] != rank)
        return "has another rank than adapter_config.json gives it";
    snprintf(name, sizeof name, "%s%s", module, ending);
    const struct sw_folder_tensor *found = sw_folder_find(of_model, count, name);
    if (found == NULL)
        return "is of no weight of the model; name the one that it was trained on with --base DIR";
    const struct sw_safetensor *weight = &model->file[found->file].header.tensor[found->tensor];
    if (weight->ndim != 2 || weight->dtype == SW_STORED_DTYPES ||
        t->size[a ? 1 : 0] != weight->size[a ? 1 : 0])
        return "does not fit its weight in the model; name the one that it was trained on with "
               "--base DIR";
    return NULL;
}

static int look_at_all(const struct sw_adapter_merge *m, const struct sw_model_folder *model,
                       struct sw_error *err)
{
    struct sw_folder_tensor *of_model = NULL;
    int32_t count = 0;
    int status = sw_folder_tensors(model, SW_STORED_MODEL, &of_model, &count, err);
    for (int32_t i = 0; i < m->count && status == 0; i++) {
        const char *wrong = look(m, header_of(m, i), model, of_model, count);
        if (wrong != NULL)
            status = refuse(m, err, m->tensor[i].name, wrong);
    }
    free(of_model);
    return status;
}

int sw_adapter_merge_create(const struct sw_model_folder *adapter,
                            const struct sw_model_folder *model, struct sw_adapter_merge **out,
                            struct sw_error *err)
{
    struct sw_adapter_merge *m = calloc(1, sizeof *m);
    if (m == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for merging '%s'", adapter->path);
    m->adapter = adapter;
    m->handle = -1;
    m->path = sw_folder_path(adapter, adapter->file[0].name, err);
    if (m->path == NULL ||
        sw_folder_tensors(adapter, SW_STORED_MODEL, &m->tensor, &m->count, err) != 0 ||
        look_at_all(m, model, err) != 0)
        goto failed;
    m->handle = open(m->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (m->handle < 0) {
        sw_fail(err, SW_ENVIRONMENT, "cannot read '%s': %s", m->path, strerror(errno));
        goto failed;
    }
    *out = m;
    return 0;
failed:
    sw_adapter_merge_free(m);
    return -1;
}

void sw_adapter_merge_free(struct sw_adapter_merge *m)
{
    if (m == NULL)
        return;
    if (m->handle >= 0)
        close(m->handle);
    free(m->tensor);
    free(m->path);
    free(m->a);
    free(m->b);
    free(m);
}

/* All numbers of a tensor in fp64, malloc'ed. */
static double *read_numbers(const struct sw_adapter_merge *m, const struct sw_safetensor *t,
                            struct sw_error *err)
{
    const int64_t count = t->size[0] * t->size[1];
    double *numbers = malloc((size_t)count * sizeof *numbers + 1);
    char *raw = malloc((size_t)t->bytes + 1);
    bool good = numbers != NULL && raw != NULL;
    if (!good)
        sw_fail(err, SW_ENVIRONMENT, "out of memory for merging '%s'", m->path);
    for (int64_t done = 0; good && done < t->bytes;) {
        const ssize_t got =
            pread(m->handle, raw + done, (size_t)(t->bytes - done), (off_t)(t->begin + done));
        if (got < 0 && errno == EINTR)
            continue;
        good = got > 0;
        if (!good)
            sw_fail(err, SW_ENVIRONMENT, "cannot read '%s': %s", m->path,
                    got == 0 ? "it became shorter" : strerror(errno));
        done += got;
    }
    if (good)
        sw_convert_numbers(numbers, SW_STORED_F64, raw, t->dtype, count);
    free(raw);
    if (good)
        return numbers;
    free(numbers);
    return NULL;
}

int sw_adapter_merge_begin(struct sw_adapter_merge *m, const struct sw_safetensor *weight,
                           bool *has, struct sw_error *err)
{
    char module[SW_SAFETENSORS_NAME_BYTES];
    int32_t rank;
    *has = false;
    if (!ends_with(weight->name, ending))
        return 0;
    snprintf(module, sizeof module, "%.*s", (int)(strlen(weight->name) - strlen(ending)),
             weight->name);
    const struct sw_safetensor *a = find(m, module, a_ending), *b = find(m, module, b_ending);
    if (a == NULL || b == NULL)
        return 0;
    free(m->a);
    free(m->b);
    m->b = NULL;
    m->a = read_numbers(m, a, err);
    m->b = m->a != NULL ? read_numbers(m, b, err) : NULL;
    if (m->b == NULL)
        return -1;
    sw_adapter_config_of(&m->adapter->config, module, &rank, &m->scale);
    m->rank = rank;
    m->inputs = weight->size[1];
    *has = true;
    return 0;
}

void sw_adapter_merge_add(const struct sw_adapter_merge *m, double *numbers, int64_t first,
                          int64_t count)
{
    for (int64_t i = 0, n; i < count; i += n) {
        const int64_t row = (first + i) / m->inputs, column = (first + i) % m->inputs;
        n = m->inputs - column < count - i ? m->inputs - column : count - i;
        for (int64_t k = 0; k < m->rank; k++) {
            const double by = m->scale * m->b[row * m->rank + k];
            const double *from = m->a + k * m->inputs + column;
            for (int64_t c = 0; c < n; c++)
                numbers[i + c] += by * from[c];
        }
    }
}
