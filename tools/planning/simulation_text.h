// A simulated run of a plan as text for a terminal.
#ifndef DPIPE_TOOLS_PLANNING_SIMULATION_TEXT_H_
#define DPIPE_TOOLS_PLANNING_SIMULATION_TEXT_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"
#include "core/proto/trace.pb.h"
#include "core/report/timeline/trace_index.h"

namespace dpipe::tools {

// Formats increasing numbers as "0-3, 8, 10-11", or beyond `max_ranges` ranges as
// "0, 8, 16, ... (32)".
std::string RanksText(const std::vector<int>& ranks, size_t max_ranges = 4);

// Returns a summary of the plan: model, strategy, devices, groups, stages, micro-batches.
std::string PlanHeader(const Plan& plan, const CostModel& cost);

// Returns a table with one row per group of devices with equal numbers: stages, shares of busy time
// and of each reason for bubbles and, if the trace has memory, its peak and limit.
std::string DeviceTable(const report::TraceIndex& index, const CostModel& cost);

// Returns the trace's critical path by kind of work and device: the `max_rows` largest items,
// and the rest. Empty if the trace has no critical path.
std::string CriticalPathTable(const report::TraceIndex& index, int max_rows);

// Returns the traffic of a steady step: bytes and busy time of the `max_rows` busiest links and
// network interfaces, and the time of collectives. Items with equal numbers share a row. Empty if
// nothing is sent.
std::string TrafficTable(const report::TraceIndex& index, const CostModel& cost, int max_rows);

// Returns all of these tables, after step time, lower bound, throughput and bubble ratio. Returns
// InvalidArgument if the trace does not fit its plan.
absl::StatusOr<std::string> SimulationText(const Trace& trace, const CostModel& cost, Nanos step_ns,
                                           double bubble_ratio);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_PLANNING_SIMULATION_TEXT_H_
