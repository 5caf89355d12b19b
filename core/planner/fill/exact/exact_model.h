// Filling as a mixed integer program; exact.h states the objectives and the search space.
//
// Variables, for device d, chain c, step s, gap g and u units. One more gap than there are holds
// the work after the last gap.
//
//   x[d,c,s,g,u]  1 if the batch of step s in gap g has u units
//   S[d,c,s,g]    units that have done step s by the end of gap g: S[g-1] + sum of u x[u]
//   j[d,c,s,g]    1 if that batch continues the instruction of step s-1 (same units, same gap)
//   n[d,c]        units of chain c on device d
//
// Constraints:
//
//   sum over d of n = units;  S after all gaps = n;  S[s,g] <= S[s-1,g]
//   in a gap: sum of x step_ns + (x - j) overhead <= length
//   after the last gap: that sum is leftover[d];  finish >= end[d] + leftover[d] / speed[d]
//
// A step has no variables if it takes no time and starts no instruction with overhead. It runs with
// the next step that has variables, or with the last one at a chain's end.
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
  // `work` and `devices` must outlive this.
  FillModel(const FrozenWork& work, const std::vector<DeviceGaps>& devices,
            const AssignOptions& options);

  Nanos resolution_ns() const { return resolution_ns_; }

  struct Answer {
    bool found = false;
    bool proven = false;  // the assignment is optimal or, if none was found, none exists
    Nanos bound_ns = 0;   // lower bound on the objective if not proven
    Assignment assignment;
  };
  // Minimises the finish, subject to finish <= `limit_ns`.
  absl::StatusOr<Answer> MinimizeFinish(Nanos limit_ns, double time_limit_s);
  // Minimises the total leftover, subject to leftover <= `leftover_limit_ns` and
  // finish <= `finish_ns`.
  absl::StatusOr<Answer> MinimizeLeftover(Nanos finish_ns, Nanos leftover_limit_ns,
                                          double time_limit_s);

 private:
  // One step of one chain on one device in one gap.
  struct Cell {
    std::vector<int> batch;  // [u]: x, or -1 if u units do not fit
    int done = -1;           // S
    int joined = -1;         // j, or -1 if the step cannot continue an instruction
  };
  using StepCells = std::vector<Cell>;        // by usable gap, then the leftover
  using ChainCells = std::vector<StepCells>;  // by step, of those with variables
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
  Nanos base_ns_ = 0;  // earliest end_ns of the devices; finish is relative to it
  Milp milp_;
  int finish_ = -1;
  std::vector<Device> vars_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_EXACT_EXACT_MODEL_H_
