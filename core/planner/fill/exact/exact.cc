#include "core/planner/fill/exact/exact.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/planner/fill/exact/exact_model.h"

namespace dpipe {
namespace {

struct Value {
  Nanos finish_ns = 0, leftover_ns = 0;
};

Value ValueOf(const std::vector<DeviceGaps>& devices, const Assignment& assignment) {
  Value value;
  for (size_t d = 0; d < devices.size(); ++d) {
    value.finish_ns = std::max(
        {value.finish_ns, assignment.finish_ns[d], devices[d].end_ns, devices[d].optimizer_ns});
    value.leftover_ns += assignment.packings[d].leftover_ns;
  }
  return value;
}

// Counts one binary per batch that fits in its gap, against `limit`.
absl::Status CheckSize(const FrozenWork& work, const std::vector<DeviceGaps>& devices,
                       int64_t limit) {
  int64_t num_binaries = 0;
  size_t num_gaps = 0;
  for (const DeviceGaps& device : devices) {
    num_gaps += device.gaps.size();
    for (const Chain& chain : work.chains) {
      for (const std::vector<Nanos>& step : chain.step_ns) {
        num_binaries += work.num_units;  // after the last gap
        for (int u = 1; u <= work.num_units; ++u) {
          for (Nanos gap : device.gaps) num_binaries += step[u] <= gap;
        }
      }
    }
  }
  if (num_binaries <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "exact filling of ", devices.size(), " devices with ", num_gaps, " gaps and ", work.num_units,
      " units needs ", num_binaries, " binary variables, more than the limit of ", limit,
      "; use the greedy filler instead"));
}

absl::Status CheckLimits(const FrozenWork& work, const std::vector<DeviceGaps>& devices) {
  std::vector<int> room(work.chains.size(), 0);
  for (size_t d = 0; d < devices.size(); ++d) {
    if (devices[d].max_batch_units > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("exact filling does not support a maximum batch: device ", d,
                       " is limited to ", devices[d].max_batch_units, " units at once"));
    }
    for (size_t c = 0; c < room.size(); ++c) {
      room[c] += devices[d].max_units.empty() ? work.num_units : devices[d].max_units[c];
    }
  }
  for (int units : room) {
    if (units >= work.num_units) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("exact filling: the devices together may take only ", units,
                     " units of a chain of ", work.num_units, " units"));
  }
  return absl::OkStatus();
}

class ExactSearch {
 public:
  ExactSearch(const FrozenWork& work, const std::vector<DeviceGaps>& devices,
              const AssignOptions& assign, const ExactOptions& options)
      : devices_(devices), options_(options), model_(work, devices, assign) {
    result_.assignment = AssignUnits(work, devices, assign);
    result_.resolution_ns = model_.resolution_ns();
    Note(ValueOf(devices, result_.assignment));
  }

  absl::StatusOr<ExactAssignment> Run() {
    DPIPE_ASSIGN_OR_RETURN(const bool finish_proven, MinimizeFinish());
    bool leftover_proven = true;
    if (options_.minimise_leftover) {
      DPIPE_ASSIGN_OR_RETURN(leftover_proven, MinimizeLeftover());
    }
    result_.proven = finish_proven && leftover_proven;
    return std::move(result_);
  }

 private:
  void Note(const Value& value) {
    result_.finish_ns = value.finish_ns;
    result_.leftover_ns = value.leftover_ns;
  }

  // Replaces the current assignment if `assignment` is better.
  void Keep(Assignment assignment) {
    const Value value = ValueOf(devices_, assignment);
    if (std::make_pair(value.finish_ns, value.leftover_ns) >=
        std::make_pair(result_.finish_ns, result_.leftover_ns)) {
      return;
    }
    result_.assignment = std::move(assignment);
    Note(value);
  }

  absl::StatusOr<bool> MinimizeFinish() {
    Nanos barrier = 0;
    for (const DeviceGaps& device : devices_) {
      barrier = std::max({barrier, device.end_ns, device.optimizer_ns});
    }
    result_.finish_bound_ns = result_.finish_ns;
    if (result_.finish_ns == barrier) return true;
    DPIPE_ASSIGN_OR_RETURN(const FillModel::Answer answer,
                           model_.MinimizeFinish(result_.finish_ns - 1, options_.time_limit_s));
    if (answer.found) Keep(answer.assignment);
    result_.finish_bound_ns =
        answer.proven ? result_.finish_ns : std::min(result_.finish_ns, answer.bound_ns);
    return answer.proven;
  }

  absl::StatusOr<bool> MinimizeLeftover() {
    if (result_.leftover_ns == 0) return true;
    DPIPE_ASSIGN_OR_RETURN(
        const FillModel::Answer answer,
        model_.MinimizeLeftover(result_.finish_ns, result_.leftover_ns - 1, options_.time_limit_s));
    if (answer.found) Keep(answer.assignment);
    return answer.proven;
  }

  const std::vector<DeviceGaps>& devices_;
  const ExactOptions options_;
  FillModel model_;
  ExactAssignment result_;
};

}  // namespace

absl::StatusOr<ExactAssignment> AssignUnitsExactly(const FrozenWork& work,
                                                   const std::vector<DeviceGaps>& devices,
                                                   const AssignOptions& assign,
                                                   const ExactOptions& options) {
  DPIPE_RETURN_IF_ERROR(CheckSize(work, devices, options.max_binaries));
  DPIPE_RETURN_IF_ERROR(CheckLimits(work, devices));
  return ExactSearch(work, devices, assign, options).Run();
}

}  // namespace dpipe
