// Valid profiles and clusters for tests: small, random or uniform.
#ifndef DPIPE_CORE_COST_TESTING_FAKE_PROFILE_H_
#define DPIPE_CORE_COST_TESTING_FAKE_PROFILE_H_

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

// Returns a random profile. Each backbone has a trainable layer and is a chain with random skips of
// any length and an estimate for self-conditioning; timings at up to four batches follow any curve.
// Up to three frozen components form a small DAG. Every frozen output is read by some layer of
// every backbone. Backbones come last.
ModelProfile RandomProfile(RandomStream& stream, const RandomProfileOptions& options = {});

// A backbone of equal trainable layers in a chain without skips. Per sample a layer takes
// `forward_ns` and, for either gradient, `grad_ns`. `frozen_layers` > 0 adds one frozen component
// ("encoder"). Its layers take `frozen_ns` per sample, and layer 0 of the backbone reads its
// output. Messages and optimizer steps are free unless the cluster or the fields are changed.
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

// Returns one node of `num_devices`. Messages take no time (bandwidth 1e18 bytes/s, no latency) and
// memory is unlimited.
ClusterSpec IdealCluster(int num_devices);

// Returns `num_devices` over 1, 2 or 4 nodes (divisors only) with random links and, half of the
// time, contention or collectives that use compute.
ClusterSpec RandomCluster(RandomStream& stream, int num_devices);

// Makes some devices slower or faster and sets interfaces per node to a divisor of its devices.
void AddRandomClasses(RandomStream& stream, ClusterSpec* cluster);
void AddSharedLink(const std::string& name, int devices, double bandwidth_bytes_per_s,
                   SharedLink::Carries carries, ClusterSpec* cluster);
// Adds up to two random links that devices of a node share.
void AddRandomSharedLinks(RandomStream& stream, ClusterSpec* cluster);

}  // namespace dpipe

#endif  // DPIPE_CORE_COST_TESTING_FAKE_PROFILE_H_
