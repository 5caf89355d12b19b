#include "core/cuda/cudnn_api.h"

#include <glob.h>

#include <string>

namespace dpipe {
namespace {

// Opens NVRTC and the library with its built-in headers. cuDNN compiles some engines with NVRTC,
// and without them attention would be slower. cuDNN and NVRTC look for these libraries only by
// name, and find them if they are already open under that name. The name of the headers' library
// contains its version, so no other version is used.
void OpenCompiler() {
  SharedLibrary::Open(CudaLibraryNames("libnvrtc.so.13"), "").status().IgnoreError();
  glob_t found = {};
  const std::string pattern = std::string(kCudaLibraries) + "libnvrtc-builtins.so.*";
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i) {
      SharedLibrary::Open({found.gl_pathv[i]}, "").status().IgnoreError();
    }
  }
  globfree(&found);
}

absl::Status Bind(const SharedLibrary& library, CudnnApi& table) {
  OpenCompiler();
  DPIPE_CUDNN_FUNCTIONS(DPIPE_TABLE_BIND)
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<const CudnnApi*> LoadCudnn() {
  static const auto* const loaded = new absl::StatusOr<CudnnApi>(
      LoadTable(CudaLibraryNames("libcudnn.so.9"),
                "convolutions and attention on a GPU need it: install cuDNN 9", Bind));
  return PointerOrStatus(*loaded);
}

}  // namespace dpipe
