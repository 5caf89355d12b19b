// Records what the GPU runs, and for which operation, by CUPTI.
#ifndef DPIPE_CORE_PROFILE_GPU_RECORDER_H_
#define DPIPE_CORE_PROFILE_GPU_RECORDER_H_

#include <memory>

#include "core/base/status.h"
#include "core/profile/gpu_account.h"

namespace dpipe {

// From its start to Stop. One at a time in a process. Work that is launched as a recorded graph has
// no operation.
class GpuRecorder {
 public:
  virtual ~GpuRecorder() = default;
  // When the device has been waited for, and nobody is enqueuing anything. Once.
  virtual absl::StatusOr<GpuRecording> Stop() = 0;
};

// When nobody is enqueuing anything. NotFound if there is no CUPTI; FailedPrecondition with its
// reason if it does not record; Unimplemented where the program was built without the toolkit.
absl::StatusOr<std::unique_ptr<GpuRecorder>> StartGpuRecorder(const GpuCeilings& ceilings);

}  // namespace dpipe

#endif  // DPIPE_CORE_PROFILE_GPU_RECORDER_H_
