// Lists the files of CUDA's libraries that this program has open. A machine may have several
// versions of a library. The loader chooses one, and measurements depend on it.
#ifndef DPIPE_CORE_CUDA_LOADED_LIBRARIES_H_
#define DPIPE_CORE_CUDA_LOADED_LIBRARIES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace dpipe {

// Returns the paths of the open libraries of the driver, cuBLAS, cuDNN, NCCL, NVRTC and NVML,
// sorted and without duplicates. Empty if Linux does not provide the information.
std::vector<std::string> LoadedCudaLibraries();

namespace internal {
// Extracts the paths from the text of /proc/self/maps.
std::vector<std::string> CudaLibrariesOf(absl::string_view maps);
}  // namespace internal

}  // namespace dpipe

#endif  // DPIPE_CORE_CUDA_LOADED_LIBRARIES_H_
