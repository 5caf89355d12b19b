#include "bench/comparison/typical_turn.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/report/statistics/stats.h"

namespace dpipe::bench {
namespace {

// Enough to keep one near the final median, although the median moves as turns are added.
constexpr size_t kKept = 8;

}  // namespace

void TypicalTurn::Add(double step_ms, Trace trace) {
  all_step_ms_.push_back(step_ms);
  kept_.push_back({step_ms, std::move(trace)});
  if (kept_.size() <= kKept) return;
  const double median = report::Median(all_step_ms_);
  kept_.erase(std::max_element(kept_.begin(), kept_.end(), [=](const Turn& a, const Turn& b) {
    return std::abs(a.step_ms - median) < std::abs(b.step_ms - median);
  }));
}

Trace TypicalTurn::Take(double step_ms) {
  if (kept_.empty()) return Trace();
  const auto nearest =
      std::min_element(kept_.begin(), kept_.end(), [=](const Turn& a, const Turn& b) {
        return std::abs(a.step_ms - step_ms) < std::abs(b.step_ms - step_ms);
      });
  Trace trace = std::move(nearest->trace);
  kept_.erase(nearest);
  return trace;
}

}  // namespace dpipe::bench
