#include "core/cuda/cudnn_api.h"

#include <glob.h>

#include <string>

namespace dpipe {
namespace {

// cuDNN has some engines compiled by NVRTC, which looks by name alone for the library that has the
// compiler's own headers; under its name it finds what is open already. Without it attention would
// be computed in a slower way. The name has the version, so that no other one's is taken.
void OpenCompilerHeaders() {
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
  OpenCompilerHeaders();
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
