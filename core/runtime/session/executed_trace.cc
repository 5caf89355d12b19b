#include "core/runtime/session/executed_trace.h"

#include <algorithm>
#include <deque>
#include <map>

#include "core/proto/instruction_parts.h"

namespace dpipe {
namespace {

// Events are sorted by start time, so that messages with equal keys pair in order.
void StartReceivesAfterSends(const Plan& plan, Trace* trace) {
  std::map<int, const DeviceProgram*> programs;
  for (const DeviceProgram& program : plan.devices()) programs[program.rank()] = &program;
  const auto key_of = [&programs](const TraceEvent& event) {
    return MessageKeyOf(event.rank(), event.step(),
                        programs.at(event.rank())->instructions(event.instruction()));
  };
  std::map<MessageKey, std::deque<Nanos>> sent;
  for (const TraceEvent& event : trace->events()) {
    if (event.stream() == TraceEvent::SEND_STREAM) sent[key_of(event)].push_back(event.start_ns());
  }
  for (TraceEvent& event : *trace->mutable_events()) {
    if (event.stream() != TraceEvent::RECV_STREAM) continue;
    const auto starts = sent.find(key_of(event));
    if (starts == sent.end() || starts->second.empty()) continue;
    // The clocks of two hosts may differ.
    event.set_start_ns(std::clamp<Nanos>(starts->second.front(), event.start_ns(), event.end_ns()));
    starts->second.pop_front();
  }
}

}  // namespace

Trace ExecutedTrace(const Plan& plan, ProcessRun records,
                    const std::vector<Nanos>& step_starts_ns) {
  const auto starts_earlier = [](const TraceEvent& a, const TraceEvent& b) {
    return a.start_ns() < b.start_ns();
  };
  Trace trace;
  trace.set_source(Trace::EXECUTED);
  *trace.mutable_plan() = plan;
  trace.mutable_events()->Swap(records.mutable_events());
  trace.mutable_memory()->Swap(records.mutable_memory());
  trace.mutable_peak_memory_bytes()->Swap(records.mutable_peak_memory_bytes());
  std::stable_sort(trace.mutable_events()->begin(), trace.mutable_events()->end(), starts_earlier);
  StartReceivesAfterSends(plan, &trace);
  std::stable_sort(trace.mutable_events()->begin(), trace.mutable_events()->end(), starts_earlier);
  std::stable_sort(
      trace.mutable_memory()->begin(), trace.mutable_memory()->end(),
      [](const MemorySample& a, const MemorySample& b) { return a.time_ns() < b.time_ns(); });
  for (Nanos start : step_starts_ns) trace.add_step_start_ns(start);
  return trace;
}

}  // namespace dpipe
