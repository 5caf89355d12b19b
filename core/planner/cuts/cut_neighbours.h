// Cuts a shift or two away that leave no device too much to do.            [algorithms.md §2, §5]
//
// A shift moves a stage boundary, or two neighbouring ones, by one to three layers. What a device
// has more to do then is known without its passes being ordered anew, so of the many pairs of
// shifts those are found that even the devices out: a layer too many on a device can only be made
// up for by layers of another stage of it.
#ifndef DPIPE_CORE_PLANNER_CUTS_CUT_NEIGHBOURS_H_
#define DPIPE_CORE_PLANNER_CUTS_CUT_NEIGHBOURS_H_

#include <vector>

#include "core/base/range.h"
#include "core/base/time.h"
#include "core/planner/costs/cut_costs.h"
#include "core/planner/pipeline/pipeline_cut.h"
#include "core/schedule/schedule.h"

namespace dpipe {

class CutNeighbours {
 public:
  using Stages = CutCosts::Stages;

  // `cut` has the order that `costs` were made for; both outlive this. O(shifts x stages).
  CutNeighbours(const CutCosts& costs, const PipelineCut& cut);

  // What the passes of a stage of the schedule take with these stages.
  PassCosts CostsOf(const Stages& stages, int stage) const;
  // By schedule device: all of its passes, with the cut as it is.
  std::vector<Nanos> Work() const;
  // Those that memory allows and in which every device is done before `limit_ns`, by what it has
  // more or less to do. `finish_ns`: by schedule device, when it is done with the cut as it is. All
  // of one shift, and of those of two the `num_pairs` whose last device is done first; these first.
  // What two shifts do to a device is the sum of what each does alone, which is an estimate where
  // both move one boundary (the second then moves other layers over it) or where times are rounded
  // (devices of other speeds, self-conditioning). Two pairs of shifts may make one cut, which is
  // then found twice. O(shifts^2 x devices).
  std::vector<Stages> Below(Nanos limit_ns, const std::vector<Nanos>& finish_ns,
                            int num_pairs) const;

 private:
  struct Shift {
    int backbone = 0;
    int first = 1, length = 1;   // boundaries; boundary k is the end of stage k - 1
    int step = 0;                // layers
    std::vector<Nanos> more_ns;  // by device
  };
  static constexpr int kNone = -1;
  struct Pair {  // of shifts
    Nanos last_ns = 0;
    int one = 0, other = kNone;
  };

  int BackboneOf(int stage) const;
  int PositionOf(int stage) const;
  void AddShift(int backbone, int first, int length, int step);
  void Apply(const Shift& shift, Stages* stages) const;
  Stages StagesOf(const Pair& pair) const;
  Nanos LastOf(const Pair& pair, const std::vector<Nanos>& finish_ns) const;
  bool IsSound(const Stages& stages) const;

  const CutCosts& costs_;
  const PipelineCut& cut_;
  const Schedule& schedule_;
  std::vector<Shift> shifts_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_CUTS_CUT_NEIGHBOURS_H_
