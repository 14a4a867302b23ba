/* A CUDA driver without a GPU that accepts every library: as libcuda.so.1 it lets cuDNN finish
 * plans for an absent GPU (test_cudnn_plans). cuDNN looks up each of these functions when its
 * compiler starts; the seven it calls succeed, the others report no device. */
#include <stdint.h>

enum { SUCCESS = 0, NO_DEVICE = 100 };

#define SAYS_YES(name)                                                                             \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        return SUCCESS;                                                                            \
    }
#define SAYS_NO(name)                                                                              \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        return NO_DEVICE;                                                                          \
    }
#define GIVES_A_HANDLE(name)                                                                       \
    int name(uintptr_t *handle);                                                                   \
    int name(uintptr_t *handle)                                                                    \
    {                                                                                              \
        *handle = 1;                                                                               \
        return SUCCESS;                                                                            \
    }

GIVES_A_HANDLE(cuLibraryLoadData)
GIVES_A_HANDLE(cuLibraryLoadFromFile)
GIVES_A_HANDLE(cuLibraryGetKernel)
GIVES_A_HANDLE(cuKernelGetFunction)
SAYS_YES(cuLibraryUnload)
SAYS_YES(cuKernelSetAttribute)
SAYS_YES(cuFuncSetAttribute)

SAYS_NO(cuInit)
SAYS_NO(cuDriverGetVersion)
SAYS_NO(cuDeviceGet)
SAYS_NO(cuDeviceGetCount)
SAYS_NO(cuDeviceGetAttribute)
SAYS_NO(cuDevicePrimaryCtxRetain)
SAYS_NO(cuDevicePrimaryCtxRelease)
SAYS_NO(cuDevicePrimaryCtxReset)
SAYS_NO(cuCtxGetCurrent)
SAYS_NO(cuCtxPushCurrent)
SAYS_NO(cuCtxPopCurrent)
SAYS_NO(cuCtxGetDevice)
SAYS_NO(cuCtxGetLimit)
SAYS_NO(cuStreamGetCtx)
SAYS_NO(cuStreamSynchronize)
SAYS_NO(cuGetErrorString)
SAYS_NO(cuGetErrorName)
SAYS_NO(cuLinkCreate)
SAYS_NO(cuLinkCreate_v2)
SAYS_NO(cuLinkAddData)
SAYS_NO(cuLinkAddData_v2)
SAYS_NO(cuLinkAddFile_v2)
SAYS_NO(cuLinkComplete)
SAYS_NO(cuLinkDestroy)
SAYS_NO(cuKernelGetAttribute)
SAYS_NO(cuFuncGetAttribute)
SAYS_NO(cuModuleLoadData)
SAYS_NO(cuModuleLoadDataEx)
SAYS_NO(cuModuleLoadFatBinary)
SAYS_NO(cuModuleGetFunction)
SAYS_NO(cuModuleGetGlobal_v2)
SAYS_NO(cuModuleUnload)
SAYS_NO(cuMemcpyDtoH_v2)
SAYS_NO(cuLaunchKernel)
SAYS_NO(cuLaunchKernelEx)
SAYS_NO(cuLaunchCooperativeKernel)
SAYS_NO(cuOccupancyMaxPotentialClusterSize)
SAYS_NO(cuOccupancyMaxActiveBlocksPerMultiprocessor)
SAYS_NO(cuTensorMapEncodeTiled)
