// Cascaded diffusion models: several backbones on the same devices, one chain of p stages each. The
// first, third, ... chains run from the first device to the last, the others in reverse. So a
// device holds early stages of one backbone and late stages of the next, and the work of one fills
// the warm-up and cool-down of the other. All weights are held once. [algorithms.md §3]
//
// Orders come from list scheduling. Tried are all combinations of
//   - priorities: the backbone that lags most, the longest remaining path, gradients first;
//   - limits on the micro-batches per stage: p-k at stage k (as 1f1b), p-1 more, or none.
// The result has the smallest makespan at the request's costs. One more candidate trains the
// backbones one after the other, with 1f1b each, so the result is never slower than that.
//
//   cascaded      joint backward passes
//   cascaded-zb   split backward passes; also tries zb-h1 for one backbone after the other, and all
//                 candidates of `cascaded`
//   cascaded-v    split backward passes, and each chain is a V of 2p stages. One chain begins and
//                 ends on the device on which the other turns, and stages of half the size balance
//                 better. Tries list schedules only.
//
// With two backbones of M micro-batches each, F = B and even p, the makespan is at most that of
// Chimera with N = 2M micro-batches: 4M + p - 2 if p divides 2M.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/schedule/builders/concatenate_schedules.h"
#include "core/schedule/builders/list_schedule.h"
#include "core/schedule/builders/schedule_choice.h"

namespace dpipe {
namespace {

std::vector<ScheduleChain> ChainsOf(const ScheduleRequest& request, bool fold = false) {
  std::vector<int> micro_batches = request.backbone_micro_batches;
  if (micro_batches.empty()) micro_batches.assign(2, request.num_micro_batches);
  std::vector<ScheduleChain> chains;
  for (int b = 0; b < static_cast<int>(micro_batches.size()); ++b) {
    ScheduleChain chain;
    chain.backbone = b;
    chain.num_micro_batches = micro_batches[b];
    for (int d = 0; d < request.num_devices; ++d) {
      chain.devices.push_back(b % 2 == 0 ? d : request.num_devices - 1 - d);
    }
    if (fold) {
      const std::vector<int> outbound = chain.devices;
      chain.devices.insert(chain.devices.end(), outbound.rbegin(), outbound.rend());
    }
    chains.push_back(std::move(chain));
  }
  return chains;
}

absl::Status CheckCascaded(const std::string& name, const ScheduleRequest& request,
                           const std::vector<ScheduleChain>& chains) {
  for (const ScheduleChain& chain : chains) {
    if (chain.num_micro_batches >= 1) continue;
    return absl::InvalidArgumentError(absl::StrCat("schedule ", name, ": backbone ", chain.backbone,
                                                   " has ", chain.num_micro_batches,
                                                   " micro-batches; it needs at least one"));
  }
  const size_t num_stages = chains.size() * chains[0].devices.size();
  if (!request.costs.empty() && request.costs.size() != num_stages) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule ", name, ": costs of ", request.costs.size(), " stages; it has ", num_stages));
  }
  return absl::OkStatus();
}

// Prefers the pass with the smallest micro-batch number relative to its chain's number of
// micro-batches, so that the chain that lags most goes first. Among equals, prefers gradients to
// forward passes. Weight gradients come last.
ListPolicy LaggardFirst(const std::vector<ScheduleChain>& chains) {
  std::vector<Nanos> counts;
  Nanos scale = 1;  // a common multiple would be exact, but can overflow
  for (const ScheduleChain& chain : chains) {
    counts.push_back(chain.num_micro_batches);
    scale = std::max<Nanos>(scale, chain.num_micro_batches);
  }
  scale *= 1 << 20;
  return [counts, scale](const ListCandidate& candidate) -> ListPriority {
    const Slot& slot = candidate.slot;
    if (slot.pass == Pass::kWeightGrad) return {1, 0, 0};
    return {0, slot.micro_batch * (scale / counts[candidate.chain]),
            slot.pass == Pass::kForward ? 1 : 0};
  };
}

// Prefers one chain, so that passes of the others fill its gaps. Within a chain, prefers the oldest
// micro-batch. Weight gradients come last.
ListPolicy ChainFirst(int chain) {
  return [chain](const ListCandidate& candidate) -> ListPriority {
    const Nanos kind = candidate.slot.pass == Pass::kWeightGrad ? 2 : 0;
    return {kind + (candidate.chain == chain ? 0 : 1), candidate.slot.micro_batch, 0};
  };
}

// Returns the limits of all stages: stage k of a chain keeps at most p - k + extra micro-batches.
std::vector<int> StageLimits(const std::vector<ScheduleChain>& chains, int extra) {
  std::vector<int> limits;
  for (const ScheduleChain& chain : chains) {
    const int p = static_cast<int>(chain.devices.size());
    for (int k = 0; k < p; ++k) limits.push_back(p - k + extra);
  }
  return limits;
}

// Returns the schedule that trains the backbones one after the other, each with the schedule named
// `each` on the devices of its chain.
absl::StatusOr<Schedule> InTurn(const std::string& name, const std::string& each,
                                const std::vector<ScheduleChain>& chains) {
  std::vector<Schedule> schedules;
  for (const ScheduleChain& chain : chains) {
    ScheduleRequest request;
    request.num_devices = static_cast<int>(chain.devices.size());
    request.num_micro_batches = chain.num_micro_batches;
    DPIPE_ASSIGN_OR_RETURN(const Schedule straight, MakeSchedule(each, request));
    std::vector<std::vector<Slot>> slots(request.num_devices);
    for (int k = 0; k < request.num_devices; ++k) slots[chain.devices[k]] = straight.slots(k);
    ScheduleChain alone = chain;
    alone.backbone = 0;
    DPIPE_ASSIGN_OR_RETURN(Schedule placed, Schedule::Create(name, {alone}, std::move(slots)));
    schedules.push_back(std::move(placed));
  }
  return ConcatenateSchedules(schedules);
}

absl::StatusOr<Schedule> MakeCascaded(const std::string& name, const ScheduleRequest& request,
                                      bool split) {
  const std::vector<ScheduleChain> chains = ChainsOf(request);
  DPIPE_RETURN_IF_ERROR(CheckCascaded(name, request, chains));
  ScheduleChoice choice(request);
  const int p = request.num_devices;
  ListScheduleOptions options;
  options.costs = request.costs;
  if (request.peak_limit > 0) options.device_limits.assign(p, request.peak_limit);
  for (bool split_backward : split ? std::vector<bool>{true, false} : std::vector<bool>{false}) {
    options.split_backward = split_backward;
    for (const std::vector<int>& limits :
         {StageLimits(chains, 0), StageLimits(chains, p - 1), std::vector<int>()}) {
      options.stage_limits = limits;
      for (const ListPolicy& policy :
           {LaggardFirst(chains), ListPolicy(LongestPathFirst), ListPolicy(GradientsFirst)}) {
        options.policy = policy;
        choice.Offer(ListSchedule(name, chains, options));
      }
    }
    choice.Offer(InTurn(name, split_backward ? "zb-h1" : "1f1b", chains));
  }
  return choice.Take();
}

absl::StatusOr<Schedule> CascadedV(const ScheduleRequest& request) {
  constexpr char kName[] = "cascaded-v";
  const std::vector<ScheduleChain> chains = ChainsOf(request, /*fold=*/true);
  DPIPE_RETURN_IF_ERROR(CheckCascaded(kName, request, chains));
  if (request.peak_limit == 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule ", kName, ": a limit of 1 pair; a micro-batch makes 2 per device"));
  }
  std::vector<ListPolicy> policies = {LaggardFirst(chains), GradientsFirst};
  int pairs = 0;  // per device, of all micro-batches
  for (int c = 0; c < static_cast<int>(chains.size()); ++c) {
    policies.push_back(ChainFirst(c));
    pairs += 2 * chains[c].num_micro_batches;
  }
  ScheduleChoice choice(request);
  const int p = request.num_devices;
  ListScheduleOptions options;
  options.costs = request.costs;
  // The limit of two Vs of zb-v, which equals the memory of 1f1b for both; or no limit.
  for (int limit : std::set<int>{std::min(4 * p, pairs), pairs}) {
    if (request.peak_limit > 0) limit = std::min(limit, request.peak_limit);
    options.device_limits.assign(p, limit);
    for (const ListPolicy& policy : policies) {
      options.policy = policy;
      for (double patience : {0.0, 0.5}) {
        options.weight_patience = patience;
        choice.Offer(ListSchedule(kName, chains, options));
      }
    }
  }
  return choice.Take();
}

absl::StatusOr<Schedule> Cascaded(const ScheduleRequest& request) {
  return MakeCascaded("cascaded", request, /*split=*/false);
}

absl::StatusOr<Schedule> CascadedZb(const ScheduleRequest& request) {
  return MakeCascaded("cascaded-zb", request, /*split=*/true);
}

REGISTER_SCHEDULE_GENERATOR("cascaded", Cascaded);
REGISTER_SCHEDULE_GENERATOR("cascaded-zb", CascadedZb);
REGISTER_SCHEDULE_GENERATOR("cascaded-v", CascadedV);

}  // namespace
}  // namespace dpipe
