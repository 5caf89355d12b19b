// Learning rates by step.
#ifndef DPIPE_CORE_TRAIN_LR_SCHEDULE_H_
#define DPIPE_CORE_TRAIN_LR_SCHEDULE_H_

#include <cstdint>
#include <string>

#include "core/base/status.h"

namespace dpipe {

struct LrSchedule {
  enum class Shape { kConstant, kLinear, kCosine };

  float peak = 1e-4f;
  int64_t warmup_steps = 0;  // rises linearly from peak / warmup_steps
  Shape shape = Shape::kConstant;
  // When the linear or cosine decay reaches `floor` * peak; where it stays.
  int64_t total_steps = 0;
  float floor = 0.0f;

  // `step` counts from 0.
  float At(int64_t step) const;
};

// "constant", "linear", "cosine"; InvalidArgument lists them.
absl::StatusOr<LrSchedule::Shape> ParseLrShape(const std::string& name);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_LR_SCHEDULE_H_
