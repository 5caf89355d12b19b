// The least largest device sum where every device holds one range of layers from the front and one
// from the back: the stages of a V (stage k and stage S-1-k on a device), or two backbones in
// opposite directions. Exact but for large problems.                     [algorithms.md §2, §3]
//
// Devices are counted from the outside: number d takes layers [i, i') at the front and [j', j) at
// the back, next to what devices 0 .. d-1 have. For a bound T on the device sums,
//
//   h(d, i) = the largest j for which [i, j) can be placed on devices d .. P-1 if ranges may be
//             empty, cuts cost nothing and devices may hold the same layers again for the sake of
//             memory: O(P L W) steps for windows of W layers
//
// and a bisection gives nearly the least T with h(0, 0) = L, a lower bound. From there T grows
// until the exact search over the states (d, i, j) with j <= h(d, i) finds a solution, and a second
// bisection finds the least such T. Near the optimum few states pass that test. The times of all
// ranges are read once: O(P L^2).
//
// Large problems of one chain are not searched: from that lower bound on, T grows by a part in 256
// until h leads to a solution. A device takes the ranges that are most alike of those after which
// the rest can still be placed, so that what is lost is little beyond the bisection's part in 4096.
// There a range takes what its layers take together.
#ifndef DPIPE_CORE_PLANNER_PARTITION_SOLVERS_NESTED_H_
#define DPIPE_CORE_PLANNER_PARTITION_SOLVERS_NESTED_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "core/base/range.h"
#include "core/base/time.h"

namespace dpipe {

struct NestedProblem {
  int num_devices = 1;
  // One chain of `num_front` layers that the two sides share: where they meet, the innermost device
  // has both ranges. Or two chains, each to be placed completely.
  bool is_shared = true;
  int num_front = 0;
  int num_back = 0;  // of two chains
  // Of a range on device d; neither falls when a layer is added. 0 for no layers.
  std::function<Nanos(int device, LayerRange layers)> front_time, back_time;
  // Whether device d has memory for both, one of which may be empty.
  std::function<bool(int device, LayerRange front, LayerRange back)> fits;
  // Whether what does not fit never does with a layer more, which makes the search quicker. Not so
  // with recomputation: a stage that begins at a thinner cut keeps less.
  bool memory_grows = true;
  // Problems of one chain with more (device, first layer, last layer) are large.
  int64_t max_ranges = 1'000'000;
  // Of the links between devices d and d + 1 at these cuts: at most T as well. May be left empty.
  std::function<Nanos(int device, int cut)> front_link, back_link;
};

struct NestedSolution {
  Nanos largest = 0;                                       // over devices and links
  std::vector<std::pair<LayerRange, LayerRange>> devices;  // front and back, from the outside
};

// No devices in the solution if nothing fits, nor where more than `max_layers_for_any_ratio` layers
// have no solution within four times the lower bound.
NestedSolution SolveNested(const NestedProblem& problem, int max_layers_for_any_ratio = 40);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_SOLVERS_NESTED_H_
