// Interleaved 1F1B (Narayanan et al., "Efficient large-scale language model training on GPU
// clusters using Megatron-LM", SC 2021): a chain of v p stages, stage k on device k mod p, and
// micro-batches in rounds of p. A device's k-th forward pass is of micro-batch
// p floor(k / (v p)) + k mod p and of its own stage floor(k / p) mod v; its k-th backward pass the
// same with its stages in reverse. Device d runs 2(p-1-d) + (v-1)p forward passes ahead.
//
// With passes of a stage costing F and B the makespan is (v m + p - 1)(F + B): the ramps of 1F1B
// shrink with the stages. p must divide m. v defaults to 2; with v = 1 the warm-up is longer than
// 1F1B's, and 1f1b is the schedule to ask for.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/schedule/generators.h"

namespace dpipe {
namespace {

constexpr int kDefaultStagesPerDevice = 2;

absl::StatusOr<Schedule> Interleaved(const ScheduleRequest& request) {
  const int p = request.num_devices, m = request.num_micro_batches;
  const int v =
      request.stages_per_device == 0 ? kDefaultStagesPerDevice : request.stages_per_device;
  if (m % p != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule interleaved: ", m, " micro-batches are not a multiple of the ", p, " devices"));
  }
  if (v < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule interleaved: ", v, " stages a device; it needs 2 or more"));
  }
  ScheduleChain chain;
  chain.num_micro_batches = m;
  for (int k = 0; k < v * p; ++k) chain.devices.push_back(k % p);
  std::vector<std::vector<Slot>> devices(p);
  for (int d = 0; d < p; ++d) {
    const auto slot = [&](Pass pass, int k) {
      const int own = k / p % v;
      const int local = pass == Pass::kForward ? own : v - 1 - own;
      return Slot{pass, k / (v * p) * p + k % p, local * p + d};
    };
    const int ahead = std::min(2 * (p - 1 - d) + (v - 1) * p, v * m);
    int backward = 0;
    for (int forward = 0; forward < v * m; ++forward) {
      devices[d].push_back(slot(Pass::kForward, forward));
      if (forward >= ahead) devices[d].push_back(slot(Pass::kBackward, backward++));
    }
    while (backward < v * m) devices[d].push_back(slot(Pass::kBackward, backward++));
  }
  return Schedule::Create("interleaved", {std::move(chain)}, std::move(devices));
}

REGISTER_SCHEDULE_GENERATOR("interleaved", Interleaved);

}  // namespace
}  // namespace dpipe
