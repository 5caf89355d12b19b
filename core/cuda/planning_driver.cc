// A fake libcuda.so.1 with which cuDNN makes plans on machines without a GPU.
//
// cuDNN needs only a GPU's properties to make a plan for it. But some of its engines compile
// kernels and load them with the driver. This driver accepts them. It refuses all other calls, so
// nothing can appear to run. A test must open this library before cuDNN looks for the driver; it
// has the driver's name (see BUILD).
//
// Unused parameters are left out, as C's calling convention allows.
#include <cstddef>

namespace {

constexpr int kSuccess = 0, kNotSupported = 801;  // CUresult values
constexpr int kDriverVersion = 13000;

// All handles point to this; nothing reads it.
char handle;

int Give(void** result) {
  *result = &handle;
  return kSuccess;
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return kSuccess; }
int cuDriverGetVersion(int* version) {
  *version = kDriverVersion;
  return kSuccess;
}
int cuDeviceGetCount(int* count) {
  *count = 1;
  return kSuccess;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return kSuccess;
}
int cuGetErrorName(int, const char** name) {
  *name = "CUDA_ERROR_NOT_SUPPORTED";
  return kSuccess;
}
int cuGetErrorString(int, const char** text) {
  *text = "this driver only accepts kernels, for plans without a GPU";
  return kSuccess;
}

int cuLibraryLoadData(void** library) { return Give(library); }
int cuLibraryGetKernel(void** kernel) { return Give(kernel); }
int cuLibraryUnload() { return kSuccess; }
int cuKernelSetAttribute() { return kSuccess; }

#define REFUSE(function) \
  int function() { return kNotSupported; }
REFUSE(cuCtxGetCurrent)
REFUSE(cuCtxGetDevice)
REFUSE(cuCtxGetLimit)
REFUSE(cuCtxPopCurrent)
REFUSE(cuCtxPushCurrent)
REFUSE(cuDeviceGetAttribute)
REFUSE(cuDevicePrimaryCtxRelease)
REFUSE(cuDevicePrimaryCtxReset)
REFUSE(cuDevicePrimaryCtxRetain)
REFUSE(cuFuncGetAttribute)
REFUSE(cuFuncSetAttribute)
REFUSE(cuGetExportTable)
REFUSE(cuKernelGetAttribute)
REFUSE(cuKernelGetFunction)
REFUSE(cuLaunchCooperativeKernel)
REFUSE(cuLaunchKernel)
REFUSE(cuLaunchKernelEx)
REFUSE(cuLibraryLoadFromFile)
REFUSE(cuLinkAddData)
REFUSE(cuLinkAddData_v2)
REFUSE(cuLinkAddFile_v2)
REFUSE(cuLinkComplete)
REFUSE(cuLinkCreate)
REFUSE(cuLinkCreate_v2)
REFUSE(cuLinkDestroy)
REFUSE(cuMemcpyDtoH_v2)
REFUSE(cuModuleGetFunction)
REFUSE(cuModuleGetGlobal_v2)
REFUSE(cuModuleLoadData)
REFUSE(cuModuleLoadDataEx)
REFUSE(cuModuleLoadFatBinary)
REFUSE(cuModuleUnload)
REFUSE(cuOccupancyMaxActiveBlocksPerMultiprocessor)
REFUSE(cuOccupancyMaxPotentialClusterSize)
REFUSE(cuStreamGetCtx)
REFUSE(cuStreamSynchronize)
REFUSE(cuTensorMapEncodeTiled)
#undef REFUSE

}  // extern "C"
