#include "core/report/timeline/trace_index.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/proto/instruction_parts.h"
#include "core/report/statistics/stats.h"

namespace dpipe::report {
namespace {

// Keeps differences and sums of two times within 64 bits.
constexpr Nanos kMaxTraceNanos = Nanos{1} << 61;

absl::Status CheckStepStarts(const Trace& trace) {
  for (const Nanos start : trace.step_start_ns()) {
    if (start >= -kMaxTraceNanos && start <= kMaxTraceNanos) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("trace: a step starts at ", start, " ns; the maximum is ", kMaxTraceNanos));
  }
  for (int i = 1; i < trace.step_start_ns_size(); ++i) {
    if (trace.step_start_ns(i) < trace.step_start_ns(i - 1)) {
      return absl::InvalidArgumentError(absl::StrCat("trace: step ", i, " starts at ",
                                                     trace.step_start_ns(i), " ns, before step ",
                                                     i - 1, " at ", trace.step_start_ns(i - 1)));
    }
  }
  return absl::OkStatus();
}

// Looks up the instruction of `event` in `programs`, which are indexed by rank.
absl::StatusOr<const Instruction*> FindInstruction(
    const TraceEvent& event, const std::vector<const DeviceProgram*>& programs) {
  if (event.rank() < 0 || event.rank() >= static_cast<int>(programs.size()) ||
      programs[event.rank()] == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("trace: an event names rank ", event.rank(), "; the plan has no such rank"));
  }
  const DeviceProgram& program = *programs[event.rank()];
  if (event.instruction() < 0 || event.instruction() >= program.instructions_size()) {
    return absl::InvalidArgumentError(absl::StrCat("trace: an event of rank ", event.rank(),
                                                   " names instruction ", event.instruction(),
                                                   " of ", program.instructions_size()));
  }
  const Instruction& instruction = program.instructions(event.instruction());
  if (!TraceEvent::Stream_IsValid(event.stream()) ||
      !Instruction::Kind_IsValid(instruction.kind())) {
    return absl::InvalidArgumentError(
        absl::StrCat("trace: an event of rank ", event.rank(), " is on stream ",
                     static_cast<int>(event.stream()), " and of an instruction of kind ",
                     static_cast<int>(instruction.kind()), "; one of them is unknown"));
  }
  if (event.start_ns() < -kMaxTraceNanos || event.end_ns() > kMaxTraceNanos) {
    return absl::InvalidArgumentError(
        absl::StrCat("trace: an event of rank ", event.rank(), " is from ", event.start_ns(),
                     " to ", event.end_ns(), " ns; the maximum is ", kMaxTraceNanos));
  }
  if (event.end_ns() < event.start_ns()) {
    return absl::InvalidArgumentError(absl::StrCat("trace: an event of rank ", event.rank(),
                                                   " ends at ", event.end_ns(),
                                                   " ns, before its start ", event.start_ns()));
  }
  return &instruction;
}

}  // namespace

absl::StatusOr<TraceIndex> TraceIndex::Create(const Trace& trace) {
  TraceIndex index;
  index.trace_ = &trace;
  DPIPE_RETURN_IF_ERROR(CheckStepStarts(trace));
  std::vector<const DeviceProgram*> programs;
  for (const DeviceProgram& program : trace.plan().devices()) {
    if (program.rank() < 0 || program.rank() >= trace.plan().devices_size()) {
      return absl::InvalidArgumentError(absl::StrCat("trace: the plan has a program of rank ",
                                                     program.rank(), " and ",
                                                     trace.plan().devices_size(), " devices"));
    }
    programs.resize(std::max<size_t>(programs.size(), program.rank() + 1));
    programs[program.rank()] = &program;
  }
  index.num_devices_ = static_cast<int>(programs.size());
  index.events_.reserve(trace.events_size());
  for (const TraceEvent& event : trace.events()) {
    DPIPE_ASSIGN_OR_RETURN(const Instruction* instruction, FindInstruction(event, programs));
    index.events_.push_back({&event, instruction});
  }
  for (const CriticalLink& link : trace.critical_path()) {
    if (link.event() < 0 || link.event() >= trace.events_size()) {
      return absl::InvalidArgumentError(absl::StrCat("trace: the critical path names event ",
                                                     link.event(), " of ", trace.events_size()));
    }
    index.critical_path_.push_back({index.events_[link.event()], link.wait_ns()});
  }
  DPIPE_RETURN_IF_ERROR(index.CheckMemory());
  std::stable_sort(index.events_.begin(), index.events_.end(), [](const Event& a, const Event& b) {
    return a.event->start_ns() < b.event->start_ns();
  });
  index.PairMessages();
  return index;
}

absl::Status TraceIndex::CheckMemory() const {
  for (const MemorySample& sample : trace_->memory()) {
    if (sample.rank() < 0 || sample.rank() >= num_devices_ || sample.bytes() < 0) {
      return absl::InvalidArgumentError(absl::StrCat("trace: a memory sample has ", sample.bytes(),
                                                     " bytes on rank ", sample.rank(), " of ",
                                                     num_devices_, " devices"));
    }
  }
  return absl::OkStatus();
}

void TraceIndex::PairMessages() {
  // Messages with equal keys pair in order: links are first in, first out.
  std::map<MessageKey, std::pair<std::deque<int>, std::deque<int>>> waiting;
  for (int i = 0; i < static_cast<int>(events_.size()); ++i) {
    const Instruction& instruction = *events_[i].instruction;
    const bool is_send = instruction.kind() == Instruction::SEND;
    if (!is_send && instruction.kind() != Instruction::RECV) continue;
    const TraceEvent& event = *events_[i].event;
    auto& [sends, receives] = waiting[MessageKeyOf(event.rank(), event.step(), instruction)];
    (is_send ? sends : receives).push_back(i);
    if (sends.empty() || receives.empty()) continue;
    messages_.push_back({sends.front(), receives.front()});
    sends.pop_front();
    receives.pop_front();
  }
}

int TraceIndex::num_steps() const { return std::max(0, trace_->step_start_ns_size() - 1); }

StepWindow TraceIndex::SteadySteps() const {
  const int steps = num_steps();
  return steps >= 3 ? StepWindow{1, steps - 2} : StepWindow{0, steps};
}

StepWindow TraceIndex::TypicalSteps(int num_steps, Nanos typical_ns) const {
  const StepWindow steady = SteadySteps();
  if (steady.num_steps <= num_steps) return steady;
  const int num_windows = steady.num_steps - num_steps + 1;
  std::vector<double> lengths;
  for (int i = 0; i < num_windows; ++i) {
    const int first = steady.first_step + i;
    lengths.push_back(static_cast<double>(StepStart(first + num_steps) - StepStart(first)));
  }
  const double typical =
      typical_ns > 0 ? static_cast<double>(typical_ns) * num_steps : Median(lengths);
  int best = 0;
  for (int i = 1; i < num_windows; ++i) {
    if (std::abs(lengths[i] - typical) < std::abs(lengths[best] - typical)) best = i;
  }
  return {steady.first_step + best, num_steps};
}

}  // namespace dpipe::report
