// A Trace prepared for drawing: each event with its instruction, sends paired with receives.
#ifndef DPIPE_CORE_REPORT_TIMELINE_TRACE_INDEX_H_
#define DPIPE_CORE_REPORT_TIMELINE_TRACE_INDEX_H_

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

// Views a Trace, which must outlive this object.
class TraceIndex {
 public:
  struct Event {
    const TraceEvent* event = nullptr;
    const Instruction* instruction = nullptr;
  };
  // Indices into events(). A message is omitted if the trace lacks its other half.
  struct Message {
    int send = 0;
    int recv = 0;
  };

  // One event of the critical path of a step.
  struct CriticalEvent {
    Event item;
    Nanos wait_ns = 0;  // between the end of the previous event and the start of this one
  };

  // Returns InvalidArgument if an event names a rank or instruction that the plan lacks or ends
  // before it starts, if step starts decrease, if the critical path names a missing event, or if a
  // memory sample has an unknown rank or negative bytes.
  static absl::StatusOr<TraceIndex> Create(const Trace& trace);

  const Trace& trace() const { return *trace_; }
  const Plan& plan() const { return trace_->plan(); }
  int num_devices() const { return num_devices_; }
  int num_steps() const;  // complete steps, with a start and an end
  Nanos StepStart(int step) const { return trace_->step_start_ns(step); }
  Nanos StepEnd(int step) const { return trace_->step_start_ns(step + 1); }

  // Sorted by start time.
  const std::vector<Event>& events() const { return events_; }
  const std::vector<Message>& messages() const { return messages_; }
  // In time order; empty if the trace has none.
  absl::Span<const CriticalEvent> critical_path() const { return critical_path_; }

  // Returns the steps that look like any other. Excludes the first, which has no step before it,
  // and the last, which does no work for a next step. Returns all steps if there are fewer than
  // three.
  StepWindow SteadySteps() const;

  // Returns the `num_steps` consecutive steady steps whose total length is closest to `num_steps`
  // times `typical_ns`. If `typical_ns` is 0, the target is the median of all such windows; in a
  // short trace that need not be typical of a longer run.
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

// Returns an event's short name. Passes: "F3", "B3", "I3", "W3", "R3" (micro-batch 3; R:
// recomputed), or "F3·s2" (stage 2) if its rank has several stages. Others: "VAE L4-7" (frozen
// layers, both ends included), "load", "opt", "sync", "gather", "release", "flush", "act 3 → 1"
// (message to device 1), "VAE out → 1". O(ranks of all stages).
std::string EventName(const Plan& plan, const Instruction& instruction);

// Returns a short name: "VAE", "text", "locked", or the first 8 characters of the component's name.
std::string ShortComponentName(const std::string& name);

// Returns text for a tooltip: "forward of micro-batch 3, stage 1 (layers 12-40), samples 24-31".
std::string DescribeInstruction(const Plan& plan, const Instruction& instruction);

// Describes the work shared by all instructions of a kind, without micro-batch, layers and samples:
// "backward, stage 1", "vae_encoder (frozen)", "optimizer step".
std::string DescribeWork(const Plan& plan, const Instruction& instruction);

// Returns the stage with this id; null if there is none.
const Stage* FindStage(const Plan& plan, int id);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_TIMELINE_TRACE_INDEX_H_
