// Minimises the largest device sum if every device holds one range of layers from the front and one
// from the back: the stages of a V (stages k and S-1-k on a device), or two backbones in opposite
// directions. Exact except for large problems. [algorithms.md §2, §3]
//
// Devices are counted from the outside: device d takes layers [i, i') at the front and [j', j) at
// the back, next to those of devices 0 .. d-1. For a bound T on the device sums,
//
//   h(d, i) = the largest j for which [i, j) can be placed on devices d .. P-1 if ranges may be
//             empty, cuts cost nothing and devices may hold the same layers twice to save memory:
//             O(P L W) steps for windows of W layers
//
//   1. A bisection finds nearly the minimum T with h(0, 0) = L, a lower bound.
//   2. From there T grows until the exact search over states (d, i, j) with j <= h(d, i) finds a
//      solution. Near the optimum few states pass this test.
//   3. A second bisection finds the minimum T with a solution.
//
// The times of all ranges are read once: O(P L^2).
//
// Large problems are not searched exactly. From the lower bound on, T grows by a part in 256 until
// h leads to a solution. Of the ranges after which the rest can still be placed, a device takes the
// most similar ones of one chain; of two chains, those that leave similar parts of both. So little
// is lost beyond the bisection's part in 4096. For large problems, a range takes the sum of its
// layers' times.
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
  // True: one chain of `num_front` layers that the two sides share; the innermost device has both
  // ranges at their meeting point. False: two chains, each to be placed completely.
  bool is_shared = true;
  int num_front = 0;
  int num_back = 0;  // if there are two chains
  // Return the time of a range on device d; 0 for no layers. Must not fall when a layer is added.
  std::function<Nanos(int device, LayerRange layers)> front_time, back_time;
  // True if device d has memory for both ranges, one of which may be empty.
  std::function<bool(int device, LayerRange front, LayerRange back)> fits;
  // True if ranges that do not fit never fit with a layer more, which speeds up the search. False
  // with recomputation: a stage that begins at a thinner cut keeps less.
  bool memory_grows = true;
  // Problems with more (device, cut at the front, cut at the back) triples are large.
  int64_t max_ranges = 1'000'000;
  // Return the time of the links between devices d and d + 1 at a cut: at most T as well. May be
  // empty.
  std::function<Nanos(int device, int cut)> front_link, back_link;
};

struct NestedSolution {
  Nanos largest = 0;                                       // maximum over devices and links
  std::vector<std::pair<LayerRange, LayerRange>> devices;  // front and back, from the outside
};

// Returns the best solution. It has no devices if nothing fits, or if there are more than
// `max_layers_for_any_ratio` layers per side and no solution within four times the lower bound.
NestedSolution SolveNested(const NestedProblem& problem, int max_layers_for_any_ratio = 40);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_SOLVERS_NESTED_H_
