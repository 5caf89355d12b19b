// Records the work that the GPU runs, and the operations it belongs to, with CUPTI.
#ifndef DPIPE_CORE_PROFILE_GPU_RECORDER_H_
#define DPIPE_CORE_PROFILE_GPU_RECORDER_H_

#include <memory>

#include "core/base/status.h"
#include "core/profile/gpu_account.h"

namespace dpipe {

// Records from its creation to Stop. At most one per process at a time. Work that is launched as a
// recorded graph has no operation.
class GpuRecorder {
 public:
  virtual ~GpuRecorder() = default;
  // Ends the recording. Call this once, after waiting for the device, while no thread enqueues
  // anything.
  virtual absl::StatusOr<GpuRecording> Stop() = 0;
};

// Starts recording. Call this while no thread enqueues anything. NotFound if there is no CUPTI.
// FailedPrecondition, with CUPTI's reason, if it does not record. Unimplemented if the program was
// built without the toolkit.
absl::StatusOr<std::unique_ptr<GpuRecorder>> StartGpuRecorder(const GpuCeilings& ceilings);

}  // namespace dpipe

#endif  // DPIPE_CORE_PROFILE_GPU_RECORDER_H_
