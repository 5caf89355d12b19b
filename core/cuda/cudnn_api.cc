#include "core/cuda/cudnn_api.h"

#include <glob.h>

#include <string>

namespace dpipe {
namespace {

// cuDNN has some engines compiled by NVRTC, which it looks for by name alone, as NVRTC does for the
// library that has the compiler's own headers; under their names they find what is open already.
// Without them attention would be computed in a slower way. The headers' name has the version, so
// that no other one's is taken.
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
