// Profiles and clusters for tests: small, random or uniform, and valid.
#ifndef DPIPE_CORE_COST_FAKE_PROFILE_H_
#define DPIPE_CORE_COST_FAKE_PROFILE_H_

#include "core/base/philox.h"
#include "core/base/time.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/profile.pb.h"

namespace dpipe {

struct RandomProfileOptions {
  int min_layers = 2;
  int max_layers = 10;  // of a backbone
  int num_backbones = 1;
  int max_frozen_components = 3;
  int max_frozen_layers = 5;
  int frozen_quantum = 1;
  Nanos max_layer_ns = 1000;  // at one sample
};

// Backbones, each a chain with a trainable layer at least, random skips of any length and an
// estimate for self-conditioning, timings at up to four batches of any curve, and up to three
// frozen components in a small DAG; every frozen output is read by some layer of every backbone.
// Backbones come last.
ModelProfile RandomProfile(RandomStream& stream, const RandomProfileOptions& options = {});

// A backbone of equal trainable layers: each takes `forward_ns` and, for either gradient, `grad_ns`
// a sample; a chain without skips; no frozen component unless `frozen_layers` > 0, which adds one
// ("encoder") whose layers take `frozen_ns` a sample and whose output layer 0 of the backbone
// reads. Messages and optimizer steps are free unless the cluster or the fields are changed.
struct UniformProfileOptions {
  int num_layers = 4;
  Nanos forward_ns = 1000;
  Nanos grad_ns = 500;
  int frozen_layers = 0;
  Nanos frozen_ns = 1000;
  int64_t value_bytes = 0;
  int64_t parameter_bytes = 0;
  int64_t saved_bytes = 0;
};
ModelProfile UniformProfile(const UniformProfileOptions& options = {});

// One node of `num_devices`; messages take no time (bandwidth 1e18 bytes/s, no latency) and memory
// is unlimited.
ClusterSpec IdealCluster(int num_devices);

// `num_devices` over 1, 2 or 4 nodes (what divides), with random links and, half the time,
// contention or collectives on the compute stream.
ClusterSpec RandomCluster(RandomStream& stream, int num_devices);

// Some of the devices become slower or quicker, and nodes get as many interfaces as divide their
// devices.
void AddRandomClasses(RandomStream& stream, ClusterSpec* cluster);

}  // namespace dpipe

#endif  // DPIPE_CORE_COST_FAKE_PROFILE_H_
