// Learning rates by step.
#ifndef DPIPE_CORE_TRAIN_OPTIMIZER_LR_SCHEDULE_H_
#define DPIPE_CORE_TRAIN_OPTIMIZER_LR_SCHEDULE_H_

#include <cstdint>
#include <string>

#include "core/base/status.h"

namespace dpipe {

struct LrSchedule {
  // Fraction of the peak that is left when the fraction d of the steps after warm-up is done:
  enum class Shape {
    kConstant,       // 1
    kLinear,         // 1 - d
    kCosine,         // (1 + cos(pi d)) / 2
    kPolynomial,     // (1 - d)^power
    kCosineRestarts  // cosine from 1 to 0, `cycles` times in sequence
  };

  float peak = 1e-4f;
  int64_t warmup_steps = 0;  // rises linearly from peak / warmup_steps
  Shape shape = Shape::kConstant;
  // The step at which the decay reaches `floor` * peak, where it stays.
  int64_t total_steps = 0;
  float floor = 0.0f;
  double power = 2;  // for kPolynomial, more than 0
  int cycles = 1;    // for kCosineRestarts, at least 1

  // Returns the rate of a step, counted from 0.
  float At(int64_t step) const;
};

// Parses "constant", "linear", "cosine", "polynomial", "cosine_restarts". Returns InvalidArgument
// with a list of these otherwise.
absl::StatusOr<LrSchedule::Shape> ParseLrShape(const std::string& name);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_OPTIMIZER_LR_SCHEDULE_H_
