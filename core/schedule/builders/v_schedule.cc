#include "core/schedule/builders/v_schedule.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/schedule/builders/list_schedule.h"
#include "core/schedule/builders/schedule_choice.h"
#include "core/schedule/builders/v_block_squeeze.h"
#include "core/schedule/builders/weight_filling.h"

namespace dpipe {
namespace {

constexpr int kPeriod = 6;  // two forwards, two input gradients, two weight gradients

// Returns when device i of p runs its four passes of micro-batch 0: forward i, forward 2p-1-i,
// gradient 2p-1-i, gradient i.
std::array<int, 4> OffsetsOf(VBlock block, int p, int i) {
  switch (block) {
    case VBlock::kZeroBubble:
      return {4 * i, 6 * p - 5 - 2 * i, 6 * p - 4 + 4 * i, 12 * p - 9 - 2 * i};
    case VBlock::kHalf: {
      const int k = p % 2 == 0 ? 3 : 0;
      return {2 * i, 3 * p - 2 - i, 3 * p - 1 + 2 * i + k, 6 * p - 2 - i + k};
    }
    case VBlock::kMin:
      break;
  }
  const int k = p % 3 == 0 ? 2 : 0;
  return {i, 2 * p - 1 - i, 2 * p + i + k, 4 * p - 1 - i + k};
}

// Returns when the repeated block runs a pass that is not a weight gradient.
int TimeOf(VBlock block, int p, const Slot& slot) {
  const bool second_half = slot.stage >= p;
  const bool forward = slot.pass == Pass::kForward;
  const int device = second_half ? 2 * p - 1 - slot.stage : slot.stage;
  const int column = forward ? (second_half ? 1 : 0) : (second_half ? 2 : 3);
  return OffsetsOf(block, p, device)[column] + kPeriod * slot.micro_batch;
}

// Returns the blocks that keep no more than `block`, in order of decreasing memory.
std::vector<VBlock> BlocksWithin(VBlock block) {
  switch (block) {
    case VBlock::kZeroBubble:
      return {VBlock::kZeroBubble, VBlock::kHalf, VBlock::kMin};
    case VBlock::kHalf:
      return {VBlock::kHalf, VBlock::kMin};
    case VBlock::kMin:
      break;
  }
  return {VBlock::kMin};
}

// Returns candidate orders of the block's forward passes and input gradients. The zero-bubble block
// has no gaps to squeeze.
std::vector<std::vector<std::vector<Slot>>> OrdersOf(VBlock block, int p, int m) {
  std::vector<std::vector<std::vector<Slot>>> orders = {VBlockOrder(block, p, m, Pass::kInputGrad)};
  if (block == VBlock::kZeroBubble) return orders;
  VBlockTimes times;
  times.period = kPeriod;
  for (int i = 0; i < p; ++i) times.offsets.push_back(OffsetsOf(block, p, i));
  orders.push_back(SqueezeVBlock(times, m));
  return orders;
}

}  // namespace

absl::Status CheckVRequest(const std::string& name, const ScheduleRequest& request) {
  const size_t num_stages = 2 * static_cast<size_t>(request.num_devices);
  if (!request.costs.empty() && request.costs.size() != num_stages) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule ", name, ": costs of ", request.costs.size(), " stages; it has ", num_stages));
  }
  if (request.stages_per_device != 0 && request.stages_per_device != 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule ", name, ": ", request.stages_per_device, " stages per device; it has 2"));
  }
  if (request.peak_limit == 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule ", name, ": a micro-batch makes 2 pairs on a device, more than the ",
                     "limit of 1"));
  }
  return absl::OkStatus();
}

ScheduleChain VChain(int num_devices, int num_micro_batches) {
  ScheduleChain chain;
  chain.num_micro_batches = num_micro_batches;
  for (int d = 0; d < num_devices; ++d) chain.devices.push_back(d);
  for (int d = num_devices - 1; d >= 0; --d) chain.devices.push_back(d);
  return chain;
}

int VBlockPeak(VBlock block, int num_devices) {
  switch (block) {
    case VBlock::kZeroBubble:
      return 2 * num_devices;
    case VBlock::kHalf:
      return std::min(num_devices + 2, 2 * num_devices);
    case VBlock::kMin:
      break;
  }
  return 2 * ((num_devices + 4) / 3);
}

std::vector<std::vector<Slot>> VBlockOrder(VBlock block, int num_devices, int num_micro_batches,
                                           Pass gradient) {
  std::vector<std::vector<Slot>> order;
  for (int d = 0; d < num_devices; ++d) {
    std::vector<Slot> slots;
    for (int m = 0; m < num_micro_batches; ++m) {
      for (int stage : {d, 2 * num_devices - 1 - d}) {
        slots.push_back({Pass::kForward, m, stage});
        slots.push_back({gradient, m, stage});
      }
    }
    std::sort(slots.begin(), slots.end(), [&](const Slot& a, const Slot& b) {
      return TimeOf(block, num_devices, a) < TimeOf(block, num_devices, b);
    });
    order.push_back(std::move(slots));
  }
  return order;
}

absl::StatusOr<Schedule> MakeVSchedule(const std::string& name, VBlock block,
                                       const ScheduleRequest& request) {
  DPIPE_RETURN_IF_ERROR(CheckVRequest(name, request));
  const int p = request.num_devices, m = request.num_micro_batches;
  const std::vector<ScheduleChain> chains = {VChain(p, m)};
  int limit = std::min(VBlockPeak(block, p), 2 * m);
  const bool is_limited = request.peak_limit > 0 && request.peak_limit < limit;
  if (is_limited) limit = request.peak_limit;
  ScheduleChoice choice(request);
  for (VBlock within : is_limited ? BlocksWithin(block) : std::vector<VBlock>{block}) {
    for (const auto& order : OrdersOf(within, p, m)) {
      choice.Offer(FillWeightGradients(name, chains, order, {{}, limit, 0}));
      for (double patience : {0.0, 0.5}) {
        if (choice.IsAtBound()) return choice.Take();
        if (request.costs.empty() && patience == 0) continue;
        choice.Offer(FillWeightGradients(name, chains, order, {request.costs, limit, patience}));
      }
    }
  }
  ListScheduleOptions options;
  options.costs = request.costs;
  options.device_limits.assign(p, limit);
  options.policy = OldestFirst;
  choice.Offer(ListSchedule(name, chains, options));
  return choice.Take();
}

}  // namespace dpipe
