// Models and clusters of any size, for benchmarks.
#ifndef DPIPE_CORE_PLANNER_TESTING_LARGE_MODEL_H_
#define DPIPE_CORE_PLANNER_TESTING_LARGE_MODEL_H_

#include "core/proto/cluster.pb.h"
#include "core/proto/profile.pb.h"

namespace dpipe {

// Returns a model with trainable layers of random times, the same in each backbone, and two
// encoders of 30 and 24 layers. The encoders take about 0.4 times the training work of one
// backbone.
ModelProfile LargeModel(int num_layers = 100, int num_backbones = 1);

// Returns a cluster with links of 200 GB/s within a node and 25 GB/s between nodes.
ClusterSpec LargeCluster(int num_nodes, int devices_per_node);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_TESTING_LARGE_MODEL_H_
