// The rule by which DiffusionPipe fills bubbles, as this project reads it.        [algorithms.md
// §4]
//
// Greedy, one bubble after another in time order. d devices idle in a bubble.
//
//   1. Full batches: some next layers of each ready component, each on all of the group's samples,
//      spread evenly over the d devices. Takes the set with the longest total time that fits. A
//      layer that a partial batch has begun counts with its other samples.
//   2. A partial batch: the next layer of one ready component on d local batches of one listed
//      size, fewer samples than are left. Takes the longest that fits, at most one per bubble.
//
// A component is ready if all components that it reads have run before the bubble. What is left
// after the last bubble runs on all devices, layer by layer, in the same way. Moving a sample to
// another device counts as free here; the plan's messages show in its simulation.
#ifndef DPIPE_CORE_PLANNER_FILL_PUBLISHED_LAYER_FILL_H_
#define DPIPE_CORE_PLANNER_FILL_PUBLISHED_LAYER_FILL_H_

#include <vector>

#include "core/base/range.h"
#include "core/base/time.h"

namespace dpipe {

// The layers of one frozen component. A unit is a frozen quantum of samples.
struct FrozenLayers {
  std::vector<int> sources;  // indices of the components that it reads; all smaller than its own
  std::vector<std::vector<Nanos>> layer_ns;  // [layer][units of one device]; 0 for 0 units
};

// Devices that idle at the same time.
struct LayerBubble {
  Nanos length_ns = 0;
  std::vector<int> devices;  // increasing
};

struct LayerFillOptions {
  int num_units = 0;           // of the group, of each component
  std::vector<double> speeds;  // by device of the group; a layer takes layer_ns / speed
  // Added once for every range of layers of a component that runs in a bubble without interruption.
  Nanos instruction_ns = 0;
  bool partial_batch = true;
  std::vector<int> local_units;  // sizes of partial batches, increasing; empty: any
};

// Layers of a component on units [unit_begin, unit_end), spread evenly over devices: the first ones
// get one unit more each if they do not divide (SplitEvenly).
struct LayerBatch {
  int bubble = 0;  // its index; the number of bubbles for work after the last one
  int component = 0;
  LayerRange layers;
  int unit_begin = 0;
  int unit_end = 0;
  std::vector<int> devices;
  bool is_partial = false;
};

// Returns the time of a batch.
Nanos BatchTime(const std::vector<FrozenLayers>& components, const LayerFillOptions& options,
                const LayerBatch& batch);

// Returns all work, in the order in which it runs. Time O(bubbles * layers^(components - 1)) for
// components that are ready together.
std::vector<LayerBatch> FillLayers(const std::vector<FrozenLayers>& components,
                                   const std::vector<LayerBubble>& bubbles,
                                   const LayerFillOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_PUBLISHED_LAYER_FILL_H_
