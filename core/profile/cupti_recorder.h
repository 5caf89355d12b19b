// GpuRecorder by a given table of CUPTI's functions.
#ifndef DPIPE_CORE_PROFILE_CUPTI_RECORDER_H_
#define DPIPE_CORE_PROFILE_CUPTI_RECORDER_H_

#include <memory>

#include "core/cuda/cupti_api.h"
#include "core/profile/gpu_recorder.h"

namespace dpipe::internal {

// `api` outlives the process's last recorder.
absl::StatusOr<std::unique_ptr<GpuRecorder>> StartCuptiRecorder(const CuptiApi& api,
                                                                const GpuCeilings& ceilings);

}  // namespace dpipe::internal

#endif  // DPIPE_CORE_PROFILE_CUPTI_RECORDER_H_
