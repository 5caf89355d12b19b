// CUDA's libraries as programs here find them.
#ifndef DPIPE_TOOLS_CUDA_CUDA_LIBRARIES_H_
#define DPIPE_TOOLS_CUDA_CUDA_LIBRARIES_H_

#include <string>
#include <vector>

namespace dpipe {

// Opens cuBLASLt, cuDNN and NCCL. A line for each with its version, as it states it itself
// ("cuDNN 91900"), or why it cannot be used; then one for each file that is open. Of a build
// without CUDA: nothing.
std::vector<std::string> DescribeCudaLibraries();

}  // namespace dpipe

#endif  // DPIPE_TOOLS_CUDA_CUDA_LIBRARIES_H_
