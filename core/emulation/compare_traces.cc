#include "core/emulation/compare_traces.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/proto/instruction_parts.h"
#include "core/runtime/instruction_name.h"

namespace dpipe {
namespace {

using Place = std::pair<int, int>;  // rank, instruction

struct SteadyStep {
  Nanos start_ns = 0, end_ns = 0;
  std::map<Place, Nanos> ends;  // of computations
};

SteadyStep StepOf(const Plan& plan, const std::vector<StreamEvent>& events, bool skip_last) {
  int last = 0;
  for (const StreamEvent& event : events) last = std::max(last, event.step);
  if (skip_last) --last;
  SteadyStep step;
  for (const StreamEvent& event : events) {
    const Instruction::Kind kind = plan.devices(event.rank).instructions(event.instruction).kind();
    if (event.stream != TraceEvent::COMPUTE || !IsBusy(kind)) continue;
    Nanos* boundary = event.step == last       ? &step.end_ns
                      : event.step == last - 1 ? &step.start_ns
                                               : nullptr;
    if (kind == Instruction::OPTIMIZER_STEP && boundary != nullptr) {
      *boundary = std::max(*boundary, event.end_ns);
    }
    if (event.step != last) continue;
    Nanos& end = step.ends[{event.rank, event.instruction}];
    end = std::max(end, event.end_ns);  // a computation may be recorded in parts
  }
  return step;
}

absl::Status Missing(const Plan& plan, Place place, const std::string& which) {
  const auto& [rank, instruction] = place;
  return absl::InvalidArgumentError(absl::StrCat(
      "rank ", rank, ", instruction ", instruction, " (",
      InstructionName(plan, plan.devices(rank).instructions(instruction)), ") is only in ", which));
}

}  // namespace

absl::StatusOr<TraceDifference> CompareTraces(const Plan& plan,
                                              const std::vector<StreamEvent>& expected,
                                              const std::vector<StreamEvent>& actual,
                                              bool skip_last) {
  const SteadyStep e = StepOf(plan, expected, skip_last);
  const SteadyStep a = StepOf(plan, actual, skip_last);
  TraceDifference difference;
  difference.expected_step_ns = e.end_ns - e.start_ns;
  difference.actual_step_ns = a.end_ns - a.start_ns;
  for (const auto& [place, end] : a.ends) {
    if (e.ends.count(place) == 0) return Missing(plan, place, "the second run");
  }
  std::vector<InstructionDifference> all;
  for (const auto& [place, end] : e.ends) {
    const auto other = a.ends.find(place);
    if (other == a.ends.end()) return Missing(plan, place, "the first run");
    all.push_back({place.first, place.second, end - e.start_ns, other->second - a.start_ns});
  }
  for (const InstructionDifference& one : all) {
    if (std::abs(one.delay_ns()) > std::abs(difference.worst.delay_ns())) difference.worst = one;
  }
  const Nanos notable = std::abs(difference.worst.delay_ns()) / 10;
  for (const InstructionDifference& one : all) {
    if (std::abs(one.delay_ns()) <= notable) continue;
    if (difference.first.rank < 0 || one.expected_ns < difference.first.expected_ns) {
      difference.first = one;
    }
  }
  return difference;
}

std::string DifferenceText(const Plan& plan, const InstructionDifference& difference) {
  if (difference.rank < 0) return "none";
  const Instruction& instruction =
      plan.devices(difference.rank).instructions(difference.instruction);
  const Nanos delay = difference.delay_ns();
  return absl::StrCat("rank ", difference.rank, ", ", InstructionName(plan, instruction), ": ends ",
                      FormatDuration(std::abs(delay)), delay < 0 ? " earlier" : " later", " (",
                      FormatDuration(difference.actual_ns), ", expected ",
                      FormatDuration(difference.expected_ns), " from the step's start)");
}

std::vector<StreamEvent> EventsOf(const Trace& trace) {
  std::vector<StreamEvent> events;
  for (const TraceEvent& event : trace.events()) {
    events.push_back({event.rank(), event.stream(), event.step(), event.instruction(),
                      event.start_ns(), event.end_ns()});
  }
  return events;
}

}  // namespace dpipe
