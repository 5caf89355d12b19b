#include "core/train/optimizer/lr_schedule.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace dpipe {

namespace {

double ShareLeft(const LrSchedule& schedule, double done) {
  switch (schedule.shape) {
    case LrSchedule::Shape::kConstant:
      return 1;
    case LrSchedule::Shape::kLinear:
      return 1 - done;
    case LrSchedule::Shape::kCosine:
      return 0.5 * (1 + std::cos(M_PI * done));
    case LrSchedule::Shape::kPolynomial:
      return std::pow(1 - done, schedule.power);
    case LrSchedule::Shape::kCosineRestarts:
      if (done >= 1) return 0;
      return 0.5 * (1 + std::cos(M_PI * std::fmod(done * schedule.cycles, 1.0)));
  }
  return 1;
}

}  // namespace

float LrSchedule::At(int64_t step) const {
  if (step < warmup_steps)
    return peak * static_cast<float>(step + 1) / static_cast<float>(warmup_steps);
  if (shape == Shape::kConstant || total_steps <= warmup_steps) return peak;
  const double done = std::min(1.0, static_cast<double>(step - warmup_steps) /
                                        static_cast<double>(total_steps - warmup_steps));
  return peak * static_cast<float>(floor + (1 - floor) * ShareLeft(*this, done));
}

absl::StatusOr<LrSchedule::Shape> ParseLrShape(const std::string& name) {
  if (name == "constant") return LrSchedule::Shape::kConstant;
  if (name == "linear") return LrSchedule::Shape::kLinear;
  if (name == "cosine") return LrSchedule::Shape::kCosine;
  if (name == "polynomial") return LrSchedule::Shape::kPolynomial;
  if (name == "cosine_restarts") return LrSchedule::Shape::kCosineRestarts;
  return absl::InvalidArgumentError(
      absl::StrCat("unknown learning rate schedule '", name,
                   "'; there are constant, linear, cosine, polynomial and cosine_restarts"));
}

}  // namespace dpipe
