// Finds cuts one or two shifts away that overload no device. [algorithms.md §2, §5]
//
// A shift moves a stage boundary, or two neighbouring ones, by one to three layers. Its effect on
// the work of each device is known without reordering passes. So the pairs of shifts that even out
// the devices can be picked from many: an extra layer on a device can only be offset by layers of
// another stage of that device.
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

  // `cut.schedule` is the order that `costs` was made for. Both must outlive this. O(shifts x
  // stages).
  CutNeighbours(const CutCosts& costs, const PipelineCut& cut);

  // Returns the pass times of a stage of the schedule with these stages.
  PassCosts CostsOf(const Stages& stages, int stage) const;
  // Returns the time of all passes, by schedule device, with the cut as it is.
  std::vector<Nanos> Work() const;
  // Returns the cuts that memory allows and with which every device finishes before `limit_ns`,
  // judged by its added or removed work. Cuts whose last device finishes first come first. Returns
  // all cuts of one shift, and the first `num_pairs` of two shifts. `finish_ns`: by schedule
  // device, when it finishes with the cut as it is.
  //
  // The effect of two shifts on a device is the sum of their effects. This is an estimate if both
  // move one boundary (the second then moves other layers over it) or if times are rounded (devices
  // of other speeds, self-conditioning). A cut that two pairs of shifts make is returned twice.
  // O(shifts^2 x devices).
  std::vector<Stages> Below(Nanos limit_ns, const std::vector<Nanos>& finish_ns,
                            int num_pairs) const;

 private:
  struct Shift {
    int backbone = 0;
    int first = 1, length = 1;   // boundaries; boundary k is the end of stage k - 1
    int step = 0;                // layers
    std::vector<Nanos> more_ns;  // added work, by device
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
