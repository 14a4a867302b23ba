#include "runner/generate/session.h"

#include "core/base/tokenizer_file.h"
#include "runner/checkpoint/resume.h"

#include <stdio.h>
#include <stdlib.h>

enum sw_status sw_session_open(struct sw_session *s, uint32_t kinds, int64_t texts)
{
    struct sw_rank *rank = s->rank;
    const struct sw_run_config *run = rank->plan->run;
    struct sw_manifest manifest = {0};
    (void)sw_rank_compile(rank, kinds, texts);
    enum sw_status status = sw_rank_join(rank, NULL, 0, 0);
    if (status == SW_OK)
        status = sw_resume_load(rank, s->checkpoint, s->folder, s->base, &manifest);
    if (status != SW_OK)
        return status;
    const bool of_base = s->base[0] != '\0' && sw_tokenizer_file(s->folder) == NULL;
    s->texts = of_base ? s->base : s->folder;
    const struct sw_codec_model model = {.folder = s->texts,
                                         .vocab_size = run->model.shape.vocab_size,
                                         .was_bytes = run->data_format == SW_DATA_BYTES,
                                         .wants_bytes = s->wants_bytes};
    struct sw_serving serving;
    (void)sw_plan_serving(run, &rank->plan->decision, &serving);
    if (sw_codec_open(&model, &s->codec, &rank->err) == 0 &&
        sw_engine_create(rank->executor, &s->engine, &rank->err) == 0)
        sw_engine_limit(s->engine, serving.max_tokens); /* the cache has whole chunks */
    if (rank->launch->rank == 0 && s->codec != NULL)
        for (int32_t i = 0; sw_codec_note(s->codec, i) != NULL; i++)
            fprintf(stderr, "%s\n", sw_codec_note(s->codec, i));
    return sw_rank_agree(rank);
}

void sw_session_close(struct sw_session *s)
{
    sw_engine_free(s->engine);
    sw_codec_free(s->codec);
}

int sw_session_share(struct sw_session *s, char **text, size_t *bytes)
{
    uint64_t length = s->rank->launch->rank == 0 ? *bytes : 0;
    sw_launch_broadcast(s->rank->launch, &length, sizeof length);
    if (s->rank->launch->rank != 0) {
        free(*text);
        *text = malloc((size_t)length + 1);
        *bytes = (size_t)length;
    }
    if (*text == NULL && s->rank->launch->rank != 0)
        sw_fail(&s->rank->err, SW_ENVIRONMENT, "out of memory for the prompts");
    if (sw_rank_agree(s->rank) != SW_OK)
        return -1;
    sw_launch_broadcast(s->rank->launch, *text, *bytes);
    (*text)[*bytes] = '\0';
    return 0;
}
