// Measures the maximum rates of a GPU.
#ifndef DPIPE_CORE_PROFILE_GPU_CEILINGS_H_
#define DPIPE_CORE_PROFILE_GPU_CEILINGS_H_

#include "core/base/status.h"
#include "core/proto/gpu_account.pb.h"
#include "core/tensor/device_worker.h"

namespace dpipe {

struct GpuCeilingsOptions {
  int64_t side = 8192;                    // side of the multiplied matrices
  int64_t copy_bytes = int64_t{1} << 31;  // far above what a GPU's caches hold
  int passes = 20;
};

// Measures the rates of a bf16 product of random matrices and of a copy on the device, as medians
// over the passes. Takes about 5 GB of device memory during the measurement.
absl::StatusOr<GpuCeilings> MeasureGpuCeilings(DeviceWorker* worker,
                                               const GpuCeilingsOptions& options = {});

}  // namespace dpipe

#endif  // DPIPE_CORE_PROFILE_GPU_CEILINGS_H_
