#include "core/planner/fill/exact/exact_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"

namespace dpipe {
namespace {

// Cbc accepts a variable within 1e-6 of an integer as integer. If the longest time is 2^16, the
// resulting error in a gap's sum of about a dozen terms stays below 1: 12 * 2^16 * 1e-6 = 0.8.
constexpr Nanos kLongest = Nanos{1} << 16;

// Appends a batch of one step, or extends the previous step's placement if the units are the same.
void AppendStep(const Placement& batch, std::vector<Placement>& out) {
  if (batch.unit_begin == batch.unit_end) return;
  if (!out.empty() && out.back().gap == batch.gap && out.back().chain == batch.chain &&
      out.back().step_end == batch.step_begin && out.back().unit_begin == batch.unit_begin &&
      out.back().unit_end == batch.unit_end) {
    ++out.back().step_end;
  } else {
    out.push_back(batch);
  }
}

}  // namespace

FillModel::FillModel(const FrozenWork& work, const std::vector<DeviceGaps>& devices,
                     const AssignOptions& options)
    : work_(work), devices_(devices), options_(options) {
  ChooseResolution();
  finish_ = milp_.AddVariable(0, kMilpInfinity, 0, false);
  vars_.resize(devices.size());
  for (size_t d = 0; d < devices.size(); ++d) AddDevice(static_cast<int>(d));
  for (size_t c = 0; c < work.chains.size(); ++c) {
    std::vector<MilpTerm> all;
    for (const Device& device : vars_) all.push_back({device.units[c], 1});
    milp_.AddRow(work.num_units, work.num_units, std::move(all));
  }
}

void FillModel::ChooseResolution() {
  Nanos longest = 0, last_end = 0;
  base_ns_ = devices_.front().end_ns;
  for (const DeviceGaps& device : devices_) {
    base_ns_ = std::min(base_ns_, device.end_ns);
    last_end = std::max({last_end, device.end_ns, device.optimizer_ns});
    for (Nanos gap : device.gaps) longest = std::max(longest, gap);
  }
  Nanos total = 0;
  for (const Chain& chain : work_.chains) {
    for (const std::vector<Nanos>& step : chain.step_ns) {
      total += *std::max_element(step.begin(), step.end()) + work_.instruction_overhead_ns;
    }
  }
  longest = std::max({longest, last_end - base_ns_, total});
  resolution_ns_ = std::max<Nanos>(1, (longest + kLongest - 1) / kLongest);
}

bool FillModel::HasVariables(int chain, int step) const {
  const Chain& c = work_.chains[chain];
  const bool starts = step == 0 || c.steps[step].new_instruction;
  if (work_.instruction_overhead_ns > 0 && starts) return true;
  return std::any_of(c.step_ns[step].begin(), c.step_ns[step].end(),
                     [](Nanos ns) { return ns > 0; });
}

void FillModel::AddDevice(int d) {
  Device& device = vars_[d];
  for (size_t g = 0; g < devices_[d].gaps.size(); ++g) {
    if (devices_[d].gaps[g] >= std::max<Nanos>(options_.pack.min_gap_ns, 1)) {
      device.gaps.push_back(static_cast<int>(g));
    }
  }
  device.leftover = milp_.AddVariable(0, kMilpInfinity, 0, false);
  device.cells.resize(work_.chains.size());
  for (size_t c = 0; c < work_.chains.size(); ++c) {
    const int even = EvenShare(work_.num_units, static_cast<int>(devices_.size()), d);
    const int limit = devices_[d].max_units.empty() ? work_.num_units : devices_[d].max_units[c];
    device.units.push_back(milp_.AddVariable(
        options_.even_samples ? even : 0,
        options_.even_samples ? even : std::min(limit, work_.num_units), 0, true));
    AddChain(d, static_cast<int>(c));
  }
  AddTimes(d);
}

void FillModel::AddChain(int d, int chain) {
  Device& device = vars_[d];
  const int num_gaps = static_cast<int>(device.gaps.size());
  ChainCells& steps = device.cells[chain];
  for (size_t s = 0; s < work_.chains[chain].steps.size(); ++s) {
    if (!HasVariables(chain, static_cast<int>(s))) continue;
    StepCells cells(num_gaps + 1);
    for (int g = 0; g <= num_gaps; ++g) {
      AddCell(d, chain, static_cast<int>(s), g, g > 0 ? &cells[g - 1] : nullptr,
              steps.empty() ? nullptr : &steps.back(), cells[g]);
    }
    milp_.AddRow(0, 0, {{cells[num_gaps].done, 1}, {device.units[chain], -1}});
    if (!steps.empty() && work_.instruction_overhead_ns > 0 &&
        !work_.chains[chain].steps[s].new_instruction) {
      for (int g = 0; g <= num_gaps; ++g) {
        cells[g].joined = milp_.AddBinary();
        AddJoin(cells[g], g, cells, steps.back());
      }
    }
    steps.push_back(std::move(cells));
  }
}

void FillModel::AddCell(int d, int chain, int step, int gap, const Cell* previous_gap,
                        const StepCells* previous_step, Cell& cell) {
  const Device& device = vars_[d];
  const bool last = gap == static_cast<int>(device.gaps.size());
  const Nanos room = last ? 0 : devices_[d].gaps[device.gaps[gap]];
  const std::vector<Nanos>& ns = work_.chains[chain].step_ns[step];
  cell.batch.assign(work_.num_units + 1, -1);
  cell.done = milp_.AddVariable(0, work_.num_units, 0, false);
  std::vector<MilpTerm> done = {{cell.done, -1}};
  std::vector<MilpTerm> one;
  if (previous_gap != nullptr) done.push_back({previous_gap->done, 1});
  for (int u = 1; u <= work_.num_units; ++u) {
    if (!last && ns[u] > room) continue;
    cell.batch[u] = milp_.AddBinary();
    done.push_back({cell.batch[u], static_cast<double>(u)});
    one.push_back({cell.batch[u], 1});
  }
  milp_.AddRow(0, 0, std::move(done));
  if (one.size() > 1) milp_.AddRow(0, 1, std::move(one));
  if (previous_step != nullptr) {
    milp_.AddRow(0, kMilpInfinity, {{(*previous_step)[gap].done, 1}, {cell.done, -1}});
  }
  if (!options_.pack.partial_batch && !last) AddFullBatchesOnly(device.units[chain], cell.done);
}

// Requires `done` to be 0 or all of the device's units.
void FillModel::AddFullBatchesOnly(int units, int done) {
  const int all = milp_.AddBinary();
  const double n = work_.num_units;
  milp_.AddRow(-kMilpInfinity, 0, {{done, 1}, {all, -n}});
  milp_.AddRow(-kMilpInfinity, n, {{units, 1}, {done, -1}, {all, n}});
}

// Allows joined = 1 only if the step has a batch in this gap, and both steps have done the same
// units before and after the gap.
void FillModel::AddJoin(const Cell& cell, int gap, const StepCells& own,
                        const StepCells& previous) {
  const double n = work_.num_units;
  std::vector<MilpTerm> any = {{cell.joined, -1}};
  for (int x : cell.batch) {
    if (x >= 0) any.push_back({x, 1});
  }
  milp_.AddRow(0, kMilpInfinity, std::move(any));
  for (int g = std::max(0, gap - 1); g <= gap; ++g) {
    milp_.AddRow(-kMilpInfinity, n, {{previous[g].done, 1}, {own[g].done, -1}, {cell.joined, n}});
  }
}

void FillModel::AddCellTime(int chain, int step, const Cell& cell,
                            std::vector<MilpTerm>& terms) const {
  for (int u = 1; u <= work_.num_units; ++u) {
    if (cell.batch[u] < 0) continue;
    const Nanos ns = Up(work_.chains[chain].step_ns[step][u]) + Up(work_.instruction_overhead_ns);
    terms.push_back({cell.batch[u], static_cast<double>(ns)});
  }
  if (cell.joined >= 0) {
    terms.push_back({cell.joined, -static_cast<double>(Up(work_.instruction_overhead_ns))});
  }
}

void FillModel::AddTimes(int d) {
  const Device& device = vars_[d];
  const int num_gaps = static_cast<int>(device.gaps.size());
  for (int g = 0; g <= num_gaps; ++g) {
    std::vector<MilpTerm> terms;
    for (size_t c = 0; c < work_.chains.size(); ++c) {
      int index = 0;
      for (size_t s = 0; s < work_.chains[c].steps.size(); ++s) {
        if (!HasVariables(static_cast<int>(c), static_cast<int>(s))) continue;
        AddCellTime(static_cast<int>(c), static_cast<int>(s), device.cells[c][index++][g], terms);
      }
    }
    if (g < num_gaps) {
      const Nanos room = devices_[d].gaps[device.gaps[g]] / resolution_ns_;
      milp_.AddRow(-kMilpInfinity, static_cast<double>(room), std::move(terms));
    } else {
      terms.push_back({device.leftover, -1});
      milp_.AddRow(0, 0, std::move(terms));
    }
  }
  const double end = static_cast<double>(Up(devices_[d].end_ns - base_ns_));
  milp_.AddRow(end, kMilpInfinity, {{finish_, 1}, {device.leftover, -1 / devices_[d].speed}});
}

absl::StatusOr<FillModel::Answer> FillModel::MinimizeFinish(Nanos limit_ns, double time_limit_s) {
  Nanos barrier = base_ns_;
  for (const DeviceGaps& device : devices_) {
    barrier = std::max({barrier, device.end_ns, device.optimizer_ns});
  }
  milp_.SetBounds(finish_, static_cast<double>(Up(barrier - base_ns_)),
                  static_cast<double>(Up(limit_ns - base_ns_)));
  milp_.SetCost(finish_, 1);
  DPIPE_ASSIGN_OR_RETURN(Answer answer, Solve(time_limit_s));
  answer.bound_ns += base_ns_;
  return answer;
}

absl::StatusOr<FillModel::Answer> FillModel::MinimizeLeftover(Nanos finish_ns,
                                                              Nanos leftover_limit_ns,
                                                              double time_limit_s) {
  milp_.SetBounds(finish_, 0, static_cast<double>(Up(finish_ns - base_ns_)));
  milp_.SetCost(finish_, 0);
  std::vector<MilpTerm> sum;
  for (const Device& device : vars_) {
    milp_.SetCost(device.leftover, 1);
    sum.push_back({device.leftover, 1});
  }
  milp_.AddRow(0, static_cast<double>(Up(leftover_limit_ns)), std::move(sum));
  return Solve(time_limit_s);
}

absl::StatusOr<FillModel::Answer> FillModel::Solve(double time_limit_s) const {
  MilpOptions options;
  options.time_limit_s = time_limit_s;
  DPIPE_ASSIGN_OR_RETURN(const MilpSolution solution, milp_.Minimize(options));
  Answer answer;
  answer.found = solution.found;
  answer.proven = solution.proven;
  answer.bound_ns = static_cast<Nanos>(std::floor(solution.bound + 1e-6)) * resolution_ns_;
  if (answer.found) {
    DPIPE_ASSIGN_OR_RETURN(answer.assignment, Decode(solution.values));
  }
  return answer;
}

absl::StatusOr<Assignment> FillModel::Decode(const std::vector<double>& values) const {
  Assignment assignment;
  for (size_t d = 0; d < devices_.size(); ++d) {
    std::vector<int> units;
    for (int n : vars_[d].units) units.push_back(static_cast<int>(values[n]));
    assignment.units.push_back(std::move(units));
    assignment.packings.push_back(DecodeDevice(static_cast<int>(d), values));
    const Packing& packing = assignment.packings.back();
    assignment.finish_ns.push_back(devices_[d].end_ns +
                                   TimeAtSpeed(packing.leftover_ns, devices_[d].speed));
    for (size_t g = 0; g < devices_[d].gaps.size(); ++g) {
      if (packing.used_ns[g] <= devices_[d].gaps[g]) continue;
      return absl::InternalError(absl::StrCat("Cbc filled a gap of ", devices_[d].gaps[g],
                                              " ns with ", packing.used_ns[g], " ns of work"));
    }
  }
  return assignment;
}

Packing FillModel::DecodeDevice(int d, const std::vector<double>& values) const {
  const Device& device = vars_[d];
  const int num_gaps = static_cast<int>(devices_[d].gaps.size());
  Packing packing;
  packing.used_ns.assign(num_gaps, 0);
  for (size_t g = 0; g <= device.gaps.size(); ++g) {
    const int gap = g < device.gaps.size() ? device.gaps[g] : num_gaps;
    for (size_t c = 0; c < work_.chains.size(); ++c) {
      for (size_t s = 0; s < work_.chains[c].steps.size(); ++s) {
        const int chain = static_cast<int>(c), step = static_cast<int>(s);
        AppendStep({gap, chain, step, step + 1, g == 0 ? 0 : Done(d, chain, step, g - 1, values),
                    Done(d, chain, step, g, values)},
                   packing.placements);
      }
    }
  }
  for (const Placement& placement : packing.placements) {
    (placement.gap == num_gaps ? packing.leftover_ns : packing.used_ns[placement.gap]) +=
        PlacementTime(work_, placement);
  }
  return packing;
}

// Returns the number of units that have done the step by the end of gap `at`. A step without
// variables runs with the next step that has variables, or with the last such step.
int FillModel::Done(int d, int chain, int step, size_t at,
                    const std::vector<double>& values) const {
  const Device& device = vars_[d];
  const int num_cells = static_cast<int>(device.cells[chain].size());
  if (num_cells == 0) {
    return at == device.gaps.size() ? static_cast<int>(values[device.units[chain]]) : 0;
  }
  int cell = 0;
  for (int s = 0; s < step; ++s) cell += HasVariables(chain, s);
  cell = std::min(cell, num_cells - 1);
  return static_cast<int>(std::round(values[device.cells[chain][cell][at].done]));
}

}  // namespace dpipe
