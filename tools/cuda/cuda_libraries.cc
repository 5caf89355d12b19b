#include "tools/cuda/cuda_libraries.h"

#include "absl/strings/str_cat.h"
#include "core/cuda/cublas_lt_api.h"
#include "core/cuda/cudnn_api.h"
#include "core/cuda/loaded_libraries.h"
#include "core/cuda/nccl_api.h"

namespace dpipe {
namespace {

// `version` takes a table and gives a number.
template <typename Table, typename Version>
std::string Describe(const std::string& name, const absl::StatusOr<const Table*>& table,
                     const Version& version) {
  if (!table.ok()) return std::string(table.status().message());
  return absl::StrCat(name, " ", version(**table));
}

}  // namespace

std::vector<std::string> DescribeCudaLibraries() {
  std::vector<std::string> lines = {
      Describe("cuBLASLt", LoadCublasLt(),
               [](const CublasLtApi& api) { return api.cublasLtGetVersion(); }),
      Describe("cuDNN", LoadCudnn(), [](const CudnnApi& api) { return api.cudnnGetVersion(); }),
      Describe("NCCL", LoadNccl(),
               [](const NcclApi& api) {
                 int version = 0;
                 return api.ncclGetVersion(&version) == ncclSuccess ? version : 0;
               }),
  };
  for (const std::string& path : LoadedCudaLibraries()) lines.push_back(path);
  return lines;
}

}  // namespace dpipe
