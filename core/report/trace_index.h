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

struct TitledTrace {
  std::string title;
  const Trace* trace = nullptr;  // not owned
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

  // One link of the chain that set a step's time.
  struct CriticalEvent {
    Event item;
    Nanos wait_ns = 0;  // between the end of the link before and this one's start
  };

  // InvalidArgument if an event names a rank or instruction that the plan does not have, ends
  // before it starts, the step starts are not increasing, the critical path names an event that is
  // not there, or a memory sample a rank or less than no bytes.
  static absl::StatusOr<TraceIndex> Create(const Trace& trace);

  const Trace& trace() const { return *trace_; }
  const Plan& plan() const { return trace_->plan(); }
  int num_devices() const { return num_devices_; }
  int num_steps() const;  // complete ones: with a start and an end
  Nanos StepStart(int step) const { return trace_->step_start_ns(step); }
  Nanos StepEnd(int step) const { return trace_->step_start_ns(step + 1); }

  // By start time.
  const std::vector<Event>& events() const { return events_; }
  const std::vector<Message>& messages() const { return messages_; }
  // In time order; empty if the trace has none.
  absl::Span<const CriticalEvent> critical_path() const { return critical_path_; }

  // Steps that look like any other: not the first, which has no step before it, nor the last, which
  // works ahead for none; everything where that leaves nothing.
  StepWindow SteadySteps() const;

  // The `num_steps` consecutive steady steps whose total length is closest to that of as many steps
  // of `typical_ns`; with 0, to the median of all such in the trace, which of a short trace need
  // not be typical of a longer run.
  StepWindow TypicalSteps(int num_steps, Nanos typical_ns = 0) const;

 private:
  TraceIndex() = default;
  void PairMessages();
  absl::Status CheckMemory() const;

  const Trace* trace_ = nullptr;
  int num_devices_ = 0;
  std::vector<Event> events_;
  std::vector<Message> messages_;
  std::vector<CriticalEvent> critical_path_;
};

// "F3", "B3", "I3", "W3", "R3" (micro-batch 3; R: recomputed), and "F3·s2" (stage 2) where its rank
// has several stages; "VAE 4-7" (frozen layers, both ends included), "load", "opt", "sync",
// "gather", "release", "flush", "act 3 → 1" (message to device 1), "VAE out → 1".
// O(ranks of all stages).
std::string EventName(const Plan& plan, const Instruction& instruction);

// Every component's short name: "VAE", "text", or its own name where that is short.
std::string ShortComponentName(const std::string& name);

// For a tooltip: "forward of micro-batch 3, stage 1 (layers 12-40), samples 24-31".
std::string DescribeInstruction(const Plan& plan, const Instruction& instruction);

// What all instructions of a kind have in common, without micro-batch, layers and samples:
// "backward, stage 1", "vae_encoder (frozen)", "optimizer step".
std::string DescribeWork(const Plan& plan, const Instruction& instruction);

// The stage of this id; null if there is none.
const Stage* FindStage(const Plan& plan, int id);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_TRACE_INDEX_H_
