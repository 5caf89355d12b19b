#include "core/train/lr_schedule.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace dpipe {

float LrSchedule::At(int64_t step) const {
  if (step < warmup_steps)
    return peak * static_cast<float>(step + 1) / static_cast<float>(warmup_steps);
  if (shape == Shape::kConstant || total_steps <= warmup_steps) return peak;
  const double done = std::min(1.0, static_cast<double>(step - warmup_steps) /
                                        static_cast<double>(total_steps - warmup_steps));
  const double left = shape == Shape::kLinear ? 1 - done : 0.5 * (1 + std::cos(M_PI * done));
  return peak * static_cast<float>(floor + (1 - floor) * left);
}

absl::StatusOr<LrSchedule::Shape> ParseLrShape(const std::string& name) {
  if (name == "constant") return LrSchedule::Shape::kConstant;
  if (name == "linear") return LrSchedule::Shape::kLinear;
  if (name == "cosine") return LrSchedule::Shape::kCosine;
  return absl::InvalidArgumentError(absl::StrCat("unknown learning rate schedule '", name,
                                                 "'; there are constant, linear and cosine"));
}

}  // namespace dpipe
