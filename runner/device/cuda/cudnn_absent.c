/* Stub for builds without cuDNN: own kernels run attention. */
#include "runner/device/cuda/cudnn_attention.h"

struct sw_cudnn_attention *sw_cudnn_attention_create(cudaStream_t stream, const char *properties,
                                                     struct sw_error *err)
{
    (void)stream;
    (void)properties;
    sw_fail(err, SW_ENVIRONMENT, "built without cuDNN");
    return NULL;
}

void sw_cudnn_attention_free(struct sw_cudnn_attention *attention)
{
    (void)attention;
}

int64_t sw_cudnn_attention_prepare(struct sw_cudnn_attention *attention,
                                   const struct sw_cudnn_shape *shape, char *reason)
{
    (void)attention;
    (void)shape;
    if (reason != NULL)
        *reason = '\0';
    return -1;
}

int sw_cudnn_attention_run(struct sw_cudnn_attention *attention, const struct sw_cudnn_shape *shape,
                           const struct sw_cudnn_pointers *pointers, void *workspace,
                           struct sw_error *err)
{
    (void)attention;
    (void)shape;
    (void)pointers;
    (void)workspace;
    return sw_fail(err, SW_ENVIRONMENT, "built without cuDNN");
}

int32_t sw_cudnn_version(void)
{
    return 0;
}
