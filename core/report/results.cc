#include "core/report/results.h"

#include <algorithm>
#include <cmath>

#include "core/report/stats.h"

namespace dpipe::report {

double StrategyResult::MedianImagesPerSecond() const { return Median(images_per_second); }

// The step time that corresponds to the median throughput. A turn's throughput is that of its
// median step, and the strategy's is the median over turns. For an even number of turns this
// averages the two middle throughputs, not times, so that batch / result is exactly the median
// throughput.
double StrategyResult::MedianStepMs() const {
  const size_t turns = images_per_second.size();
  if (turns == 0 || step_ms.size() % turns != 0) return Median(step_ms);
  const size_t steps = step_ms.size() / turns;
  std::vector<double> rates;
  for (auto turn = step_ms.begin(); turn != step_ms.end(); turn += static_cast<int64_t>(steps)) {
    rates.push_back(1 / Median({turn, turn + static_cast<int64_t>(steps)}));
  }
  return 1 / Median(rates);
}

int64_t StrategyResult::LargestPeakMemoryBytes() const {
  if (peak_memory_bytes.empty()) return 0;
  return *std::max_element(peak_memory_bytes.begin(), peak_memory_bytes.end());
}

const StrategyResult* BenchResults::Find(const std::string& strategy) const {
  for (const StrategyResult& result : results) {
    if (result.strategy == strategy) return &result;
  }
  return nullptr;
}

void ComputeSpeedups(BenchResults* results) {
  double data_parallel = kNotMeasured;
  double best_unfilled = kNotMeasured;
  for (const StrategyResult& result : results->results) {
    if (!result.counts()) continue;
    const double median = result.MedianImagesPerSecond();
    if (result.strategy == "data_parallel") data_parallel = median;
    // fmax ignores a NaN.
    if (result.is_unfilled_pipeline) best_unfilled = std::fmax(best_unfilled, median);
  }
  for (StrategyResult& result : results->results) {
    const double median = result.counts() ? result.MedianImagesPerSecond() : kNotMeasured;
    result.speedup_vs_data_parallel = median / data_parallel;
    result.speedup_vs_best_unfilled_pipeline = median / best_unfilled;
  }
}

}  // namespace dpipe::report
