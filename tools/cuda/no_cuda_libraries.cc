#include "tools/cuda/cuda_libraries.h"

namespace dpipe {

std::vector<std::string> DescribeCudaLibraries() { return {}; }

}  // namespace dpipe
