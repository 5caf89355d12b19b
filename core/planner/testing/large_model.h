// A model and a cluster of any size, for benchmarks.
#ifndef DPIPE_CORE_PLANNER_TESTING_LARGE_MODEL_H_
#define DPIPE_CORE_PLANNER_TESTING_LARGE_MODEL_H_

#include "core/proto/cluster.pb.h"
#include "core/proto/profile.pb.h"

namespace dpipe {

// Trainable layers of random times, and two encoders of 30 and 24 layers, which are about 0.4 of
// the training work of 100 layers.
ModelProfile LargeModel(int num_layers = 100);

// Links of 200 GB/s within a node and 25 GB/s between nodes.
ClusterSpec LargeCluster(int num_nodes, int devices_per_node);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_TESTING_LARGE_MODEL_H_
