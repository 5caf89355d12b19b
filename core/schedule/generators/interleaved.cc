// Interleaved 1F1B (Narayanan et al., "Efficient large-scale language model training on GPU
// clusters using Megatron-LM", SC 2021): a chain of v p stages, stage k on device k mod p, and
// micro-batches in rounds of p. Counting from 0, the k-th forward pass of a device is
//
//   micro-batch  p floor(k / (v p)) + k mod p
//   stage        floor(k / p) mod v, among the device's own
//
// The k-th backward pass is the same with the device's stages in reverse. Device d runs
// 2(p-1-d) + (v-1)p forward passes ahead.
//
// If the passes of a stage cost F and B, the makespan is (v m + p - 1)(F + B): the warm-up and
// cool-down of 1F1B shrink with the stages. p must divide m. v is at least 2, which is the default.
// With v = 1 the warm-up would be longer than that of 1f1b, so use 1f1b instead.
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
        absl::StrCat("schedule interleaved: ", v, " stages per device; it needs 2 or more"));
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
