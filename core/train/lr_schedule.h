// Learning rates by step.
#ifndef DPIPE_CORE_TRAIN_LR_SCHEDULE_H_
#define DPIPE_CORE_TRAIN_LR_SCHEDULE_H_

#include <cstdint>
#include <string>

#include "core/base/status.h"

namespace dpipe {

struct LrSchedule {
  // The share of the peak that is left when the share d of the steps behind warm-up is done:
  enum class Shape {
    kConstant,       // 1
    kLinear,         // 1 - d
    kCosine,         // (1 + cos(pi d)) / 2
    kPolynomial,     // (1 - d)^power
    kCosineRestarts  // cosine from 1 to 0, `cycles` times one after another
  };

  float peak = 1e-4f;
  int64_t warmup_steps = 0;  // rises linearly from peak / warmup_steps
  Shape shape = Shape::kConstant;
  // When the decay reaches `floor` * peak, where it stays.
  int64_t total_steps = 0;
  float floor = 0.0f;
  double power = 2;  // of kPolynomial, more than 0
  int cycles = 1;    // of kCosineRestarts, at least 1

  // `step` counts from 0.
  float At(int64_t step) const;
};

// "constant", "linear", "cosine", "polynomial", "cosine_restarts"; InvalidArgument lists them.
absl::StatusOr<LrSchedule::Shape> ParseLrShape(const std::string& name);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_LR_SCHEDULE_H_
