// Says which GPUs there are, how their clocks run, and which files of CUDA's libraries are used;
// without a GPU why there is none, and ends with 3.
#include <cstdio>
#include <string>
#include <vector>

#include "core/backend/device_report.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/driver.h"
#include "core/tensor/cuda/system_driver.h"
#include "tools/cuda/cuda_libraries.h"

namespace dpipe {
namespace {

absl::Status SayGpus() {
  DPIPE_ASSIGN_OR_RETURN(cuda::Driver* const driver, cuda::SystemDriver());
  DPIPE_ASSIGN_OR_RETURN(const std::vector<cuda::Gpu> gpus, driver->Gpus());
  DPIPE_ASSIGN_OR_RETURN(const auto devices,
                         cuda::CreateCudaDevices(driver, static_cast<int>(gpus.size())));
  for (size_t i = 0; i < gpus.size(); ++i) {
    std::printf("%s, %s\n", cuda::DescribeGpu(gpus[i]).c_str(), ClockState(*devices[i]).c_str());
  }
  for (const std::string& line : DescribeCudaLibraries()) std::printf("  %s\n", line.c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace dpipe

int main() {
  const absl::Status status = dpipe::SayGpus();
  if (status.ok()) return 0;
  std::printf("%s\n", std::string(status.message()).c_str());
  return 3;
}
