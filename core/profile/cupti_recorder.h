// A GpuRecorder that uses a given table of CUPTI functions.
#ifndef DPIPE_CORE_PROFILE_CUPTI_RECORDER_H_
#define DPIPE_CORE_PROFILE_CUPTI_RECORDER_H_

#include <memory>

#include "core/cuda/cupti_api.h"
#include "core/profile/gpu_recorder.h"

namespace dpipe::internal {

// `api` must outlive the last recorder of the process.
absl::StatusOr<std::unique_ptr<GpuRecorder>> StartCuptiRecorder(const CuptiApi& api,
                                                                const GpuCeilings& ceilings);

}  // namespace dpipe::internal

#endif  // DPIPE_CORE_PROFILE_CUPTI_RECORDER_H_
