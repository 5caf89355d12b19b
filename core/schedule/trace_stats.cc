#include "core/schedule/trace_stats.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/proto/instruction_parts.h"

namespace dpipe {
namespace {

constexpr Nanos kUnset = -1;

// The kinds of all instructions, rank after rank. Lookups do not touch the plan's messages.
class KindTable {
 public:
  explicit KindTable(const Plan& plan) {
    begin_.push_back(0);
    for (const DeviceProgram& program : plan.devices()) {
      for (const Instruction& instruction : program.instructions()) {
        kinds_.push_back(static_cast<uint8_t>(instruction.kind()));
      }
      begin_.push_back(static_cast<int>(kinds_.size()));
    }
  }

  Instruction::Kind Of(const StreamEvent& event) const {
    return static_cast<Instruction::Kind>(kinds_[begin_[event.rank] + event.instruction]);
  }

  absl::Status Check(const StreamEvent& event) const {
    const int num_ranks = static_cast<int>(begin_.size()) - 1;
    if (event.rank < 0 || event.rank >= num_ranks) {
      return absl::InvalidArgumentError(absl::StrCat("a trace event names rank ", event.rank,
                                                     "; the number of ranks is ", num_ranks));
    }
    const int count = begin_[event.rank + 1] - begin_[event.rank];
    if (event.instruction < 0 || event.instruction >= count) {
      return absl::InvalidArgumentError(
          absl::StrCat("a trace event of rank ", event.rank, " names instruction ",
                       event.instruction, "; the rank's number of instructions is ", count));
    }
    return absl::OkStatus();
  }

 private:
  std::vector<uint8_t> kinds_;
  std::vector<int> begin_;  // by rank
};

// Returns [rank][step]: the end of the rank's last OPTIMIZER_STEP; kUnset if there is none.
std::vector<std::vector<Nanos>> StepEnds(const KindTable& kinds, int num_ranks,
                                         const std::vector<StreamEvent>& events, int num_steps) {
  std::vector<std::vector<Nanos>> ends(num_ranks, std::vector<Nanos>(num_steps, kUnset));
  for (const StreamEvent& event : events) {
    if (event.step < 0 || kinds.Of(event) != Instruction::OPTIMIZER_STEP) continue;
    Nanos& end = ends[event.rank][event.step];
    end = std::max(end, event.end_ns);
  }
  return ends;
}

}  // namespace

bool WorksAcrossSteps(const Plan& plan) {
  for (const DeviceProgram& program : plan.devices()) {
    for (const Instruction& instruction : program.instructions()) {
      if (instruction.step_offset() != 0) return true;
    }
  }
  return false;
}

absl::StatusOr<TraceStats> ComputeTraceStats(const Plan& plan,
                                             const std::vector<StreamEvent>& events,
                                             int warmup_steps, bool skip_last) {
  const KindTable kinds(plan);
  int num_steps = 0;
  for (const StreamEvent& event : events) {
    DPIPE_RETURN_IF_ERROR(kinds.Check(event));
    num_steps = std::max(num_steps, event.step + 1);
  }
  // The first steady step begins when the step before it ends, so that step must exist.
  const int first = std::max(1, warmup_steps);
  const int last = num_steps - 1 - (skip_last ? 1 : 0);
  if (last < first) {
    return absl::InvalidArgumentError(
        absl::StrCat("a trace of ", num_steps, " steps has no steady step: the first ", first,
                     skip_last ? " and the last do not count" : " do not count"));
  }
  const std::vector<std::vector<Nanos>> ends =
      StepEnds(kinds, plan.devices_size(), events, num_steps);
  TraceStats stats;
  stats.num_steady_steps = last - first + 1;
  std::vector<Nanos> latest(num_steps, 0);
  for (int r = 0; r < plan.devices_size(); ++r) {
    for (int k = first - 1; k <= last; ++k) {
      if (ends[r][k] == kUnset) {
        return absl::InvalidArgumentError(
            absl::StrCat("rank ", r, " has no OPTIMIZER_STEP in step ", k, " of the trace"));
      }
      latest[k] = std::max(latest[k], ends[r][k]);
    }
    stats.step_ns =
        std::max(stats.step_ns, (ends[r][last] - ends[r][first - 1]) / stats.num_steady_steps);
  }
  for (int k = first; k <= last; ++k) stats.step_times_ns.push_back(latest[k] - latest[k - 1]);
  stats.busy_ns.assign(plan.devices_size(), 0);
  for (const StreamEvent& event : events) {
    if (event.step < first || event.step > last) continue;
    if (IsBusy(kinds.Of(event))) stats.busy_ns[event.rank] += event.end_ns - event.start_ns;
  }
  Nanos busy = 0;
  for (Nanos& of_rank : stats.busy_ns) {
    of_rank /= stats.num_steady_steps;
    busy += of_rank;
  }
  if (stats.step_ns > 0) {
    stats.bubble_ratio =
        1 - static_cast<double>(busy) / (static_cast<double>(stats.step_ns) * plan.devices_size());
  }
  return stats;
}

absl::StatusOr<TraceStats> ComputeTraceStats(const Trace& trace, int warmup_steps) {
  std::vector<StreamEvent> events;
  events.reserve(trace.events_size());
  for (const TraceEvent& event : trace.events()) {
    events.push_back({event.rank(), event.stream(), event.step(), event.instruction(),
                      event.start_ns(), event.end_ns()});
  }
  return ComputeTraceStats(trace.plan(), events, warmup_steps, WorksAcrossSteps(trace.plan()));
}

}  // namespace dpipe
