#include "core/tensor/cuda/system_driver.h"

#include <cstdlib>

#include "core/base/phases.h"
#include "core/cuda/cuda_status.h"
#include "core/tensor/cuda/runtime_driver.h"

namespace dpipe::cuda {

absl::StatusOr<Driver*> SystemDriver() {
  // CUDA reads this at its first use. Streams share the GPU's hardware queues, and streams on the
  // same queue wait for each other. The default of 8 queues is fewer than the streams of several
  // virtual GPUs.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
  const Phase phase("start CUDA");
  static RuntimeDriver* const driver = new RuntimeDriver;
  DPIPE_RETURN_IF_ERROR(CountGpus().status());
  return static_cast<Driver*>(driver);
}

}  // namespace dpipe::cuda
