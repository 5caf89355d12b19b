// Filling as a mixed integer program; exact.h says what is optimised over what.
//
// For device d, chain c, step s, gap g (the last one stands for what runs after the gaps) and u
// units:
//
//   x[d,c,s,g,u]  1 where the batch of step s in gap g has u units
//   S[d,c,s,g]    units that have done step s by the end of gap g: S[g-1] + sum of u x[u]
//   j[d,c,s,g]    1 where that batch continues the instruction of step s-1 (same units, same gap)
//   n[d,c]        the device's units
//
//   sum over d of n = units;  S after all gaps = n;  S[s,g] <= S[s-1,g]
//   in a gap: sum of x step_ns + (x - j) overhead <= length
//   after it: that sum is leftover[d];  finish >= end[d] + leftover[d]
//
// A step that takes no time and starts no costly instruction has no variables: it runs together
// with the step after it, or before it at a chain's end.
#ifndef DPIPE_CORE_PLANNER_FILL_EXACT_EXACT_MODEL_H_
#define DPIPE_CORE_PLANNER_FILL_EXACT_EXACT_MODEL_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/time.h"
#include "core/planner/fill/exact/milp.h"
#include "core/planner/fill/frozen_work.h"
#include "core/planner/fill/greedy/assign.h"
#include "core/planner/fill/greedy/pack.h"

namespace dpipe {

class FillModel {
 public:
  // Both outlive this.
  FillModel(const FrozenWork& work, const std::vector<DeviceGaps>& devices,
            const AssignOptions& options);

  Nanos resolution_ns() const { return resolution_ns_; }

  struct Answer {
    bool found = false;
    bool proven = false;  // that nothing is better, or that nothing is within the limits
    Nanos bound_ns = 0;   // of the objective, where not proven
    Assignment assignment;
  };
  // The earliest finish of all devices that is at most `limit_ns`.
  absl::StatusOr<Answer> MinimizeFinish(Nanos limit_ns, double time_limit_s);
  // The least total leftover, at most `leftover_limit_ns`, with a finish of at most `finish_ns`.
  absl::StatusOr<Answer> MinimizeLeftover(Nanos finish_ns, Nanos leftover_limit_ns,
                                          double time_limit_s);

 private:
  // One step of one chain on one device in one gap.
  struct Cell {
    std::vector<int> batch;  // [u]: x, or -1 where u units do not fit
    int done = -1;           // S
    int joined = -1;         // j, or -1
  };
  using StepCells = std::vector<Cell>;        // by gap: the usable ones, then the leftover
  using ChainCells = std::vector<StepCells>;  // by step with variables
  struct Device {
    std::vector<int> gaps;   // indices of the usable gaps
    std::vector<int> units;  // [c]: n
    std::vector<ChainCells> cells;
    int leftover = -1;
  };

  void ChooseResolution();
  Nanos Up(Nanos ns) const { return (ns + resolution_ns_ - 1) / resolution_ns_; }
  bool HasVariables(int chain, int step) const;
  void AddDevice(int d);
  void AddChain(int d, int chain);
  void AddCell(int d, int chain, int step, int gap, const Cell* previous_gap,
               const StepCells* previous_step, Cell& cell);
  void AddJoin(const Cell& cell, int gap, const StepCells& own, const StepCells& previous);
  void AddFullBatchesOnly(int units, int done);
  void AddCellTime(int chain, int step, const Cell& cell, std::vector<MilpTerm>& terms) const;
  void AddTimes(int d);
  absl::StatusOr<Answer> Solve(double time_limit_s) const;
  absl::StatusOr<Assignment> Decode(const std::vector<double>& values) const;
  Packing DecodeDevice(int d, const std::vector<double>& values) const;
  int Done(int d, int chain, int step, size_t at, const std::vector<double>& values) const;

  const FrozenWork& work_;
  const std::vector<DeviceGaps>& devices_;
  const AssignOptions options_;
  Nanos resolution_ns_ = 1;
  Nanos base_ns_ = 0;  // the first device's end; finish counts from here
  Milp milp_;
  int finish_ = -1;
  std::vector<Device> vars_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_EXACT_EXACT_MODEL_H_
