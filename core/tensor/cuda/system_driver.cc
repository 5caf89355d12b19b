#include "core/tensor/cuda/system_driver.h"

#include <cstdlib>

#include "core/base/phases.h"
#include "core/cuda/cuda_status.h"
#include "core/tensor/cuda/runtime_driver.h"

namespace dpipe::cuda {

absl::StatusOr<Driver*> SystemDriver() {
  // Read when CUDA is first used. Streams share the GPU's hardware queues, 8 by default, and those
  // that share one wait for each other: fewer than the streams of some virtual GPUs.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
  const Phase phase("start CUDA");
  static RuntimeDriver* const driver = new RuntimeDriver;
  DPIPE_RETURN_IF_ERROR(CountGpus().status());
  return static_cast<Driver*>(driver);
}

}  // namespace dpipe::cuda
