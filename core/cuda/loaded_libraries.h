// Which files of CUDA's libraries this program has open: of several versions on a machine the
// loader takes one, and what was measured depends on which.
#ifndef DPIPE_CORE_CUDA_LOADED_LIBRARIES_H_
#define DPIPE_CORE_CUDA_LOADED_LIBRARIES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace dpipe {

// Paths, sorted, each once; those of the driver, cuBLAS, cuDNN, NCCL, NVRTC and NVML that are open
// now. Empty where Linux does not tell.
std::vector<std::string> LoadedCudaLibraries();

namespace internal {
// From the text of /proc/self/maps.
std::vector<std::string> CudaLibrariesOf(absl::string_view maps);
}  // namespace internal

}  // namespace dpipe

#endif  // DPIPE_CORE_CUDA_LOADED_LIBRARIES_H_
