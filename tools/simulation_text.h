// What a simulated run of a plan says, for a terminal.
#ifndef DPIPE_TOOLS_SIMULATION_TEXT_H_
#define DPIPE_TOOLS_SIMULATION_TEXT_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"
#include "core/proto/trace.pb.h"
#include "core/report/trace_index.h"

namespace dpipe::tools {

// "0-3, 8, 10-11" of increasing numbers; beyond `most` ranges "0, 8, 16, ... (32)".
std::string RanksText(const std::vector<int>& ranks, size_t most = 4);

// Who computes for whom: model, strategy, devices, groups, stages, micro-batches.
std::string PlanHeader(const Plan& plan, const CostModel& cost);

// A row for each kind of device, those whose rows are equal together: its stages, where its step
// goes, the reasons of its bubbles, its peak memory and limit.
std::string DeviceTable(const report::TraceIndex& index, const CostModel& cost);

// What the trace's critical path consists of, by kind of work and device: the `most` largest, and
// what is left. Empty if the trace has no such path.
std::string CriticalPathTable(const report::TraceIndex& index, int most);

// Of the messages of a steady step: bytes and busy time of the `most` busiest links, of the network
// interfaces that they use, and the time of collectives; those with equal numbers together. Empty
// if nothing is sent.
std::string TrafficTable(const report::TraceIndex& index, const CostModel& cost, int most);

// All of it, after the step time, its bound, throughput and bubble ratio. InvalidArgument if the
// trace does not fit its plan.
absl::StatusOr<std::string> SimulationText(const Trace& trace, const CostModel& cost, Nanos step_ns,
                                           double bubble_ratio);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_SIMULATION_TEXT_H_
