// A Trace made easy to draw: each event with its instruction and a short name, sends paired with
// receives.
#ifndef DPIPE_CORE_REPORT_TRACE_INDEX_H_
#define DPIPE_CORE_REPORT_TRACE_INDEX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/base/time.h"
#include "core/proto/trace.pb.h"

namespace dpipe::report {

// Steps [first, first + count) of a trace.
struct StepWindow {
  int first_step = 0;
  int num_steps = 0;
};

// Views a Trace, which must outlive this.
class TraceIndex {
 public:
  struct Event {
    const TraceEvent* event = nullptr;
    const Instruction* instruction = nullptr;
  };
  // Indices into events(). A message whose other half the trace does not hold is left out.
  struct Message {
    int send = 0;
    int recv = 0;
  };

  // InvalidArgument if an event names a rank or instruction that the plan does not have, ends
  // before it starts, or the step starts are not increasing.
  static absl::StatusOr<TraceIndex> Create(const Trace& trace);

  const Trace& trace() const { return *trace_; }
  const Plan& plan() const { return trace_->plan(); }
  int num_devices() const { return num_devices_; }
  int num_steps() const;  // complete ones: with a start and an end
  Nanos StepStart(int step) const { return trace_->step_start_ns(step); }
  Nanos StepEnd(int step) const { return trace_->step_start_ns(step + 1); }

  // By start time.
  absl::Span<const Event> events() const { return events_; }
  absl::Span<const Message> messages() const { return messages_; }

  // Steps that look like any other: not the first, which has no step before it, nor the last, which
  // works ahead for none; everything where that leaves nothing.
  StepWindow SteadySteps() const;

  // The `num_steps` consecutive steady steps whose total length is closest to the median of all
  // such.
  StepWindow TypicalSteps(int num_steps) const;

 private:
  TraceIndex() = default;
  void PairMessages();

  const Trace* trace_ = nullptr;
  int num_devices_ = 0;
  std::vector<Event> events_;
  std::vector<Message> messages_;
};

// "F3", "B3", "I3", "W3" (micro-batch 3), "VAE 4-7" (frozen layers, both ends included), "load",
// "opt", "sync", "gather", "act 3 → 1" (message to device 1), "VAE out → 1".
std::string EventName(const Plan& plan, const Instruction& instruction);

// Every component's short name: "VAE", "text", or its own name where that is short.
std::string ShortComponentName(const std::string& name);

// For a tooltip: "forward of micro-batch 3, stage 1 (layers 12-40), samples 24-31".
std::string DescribeInstruction(const Plan& plan, const Instruction& instruction);

// Whether the instruction is computing that a device is not idle in; messages and REDUCE_GRADS are
// not.
bool IsBusy(Instruction::Kind kind);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_TRACE_INDEX_H_
