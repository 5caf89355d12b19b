// Checks that a profile or a cluster is consistent before planning starts.
#ifndef DPIPE_CORE_COST_VALIDATE_H_
#define DPIPE_CORE_COST_VALIDATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/profile.pb.h"

namespace dpipe {

// Limits of one field: sums over a thousand layers and steps stay within 64 bits.
constexpr int64_t kMaxNanos = int64_t{1} << 44;  // almost five hours
constexpr int64_t kMaxBytes = int64_t{1} << 48;  // 256 TiB
// A search over this many ends within minutes.
constexpr int kMaxDevices = 4096;
// Far below and above any link, so that message times stay finite.
constexpr double kMinBandwidth = 1e3;  // bytes/s
constexpr double kMaxBandwidth = 1e18;
constexpr double kMaxContention = 1000;

// Returns InvalidArgument, naming component, layer or value, field and both values, if
// - there is no backbone, or a backbone has no trainable layer;
// - names repeat, or a component has no name or no layer;
// - a layer has no known kind, no timing, or timings that do not increase in batch;
// - a layer's or value's number is negative or above kMaxNanos or kMaxBytes;
// - a value's producer does not exist, or a consumer is not a layer after it;
// - a source is missing, is not an output, is a backbone's, or closes a cycle;
// - self_conditioning_probability is outside [0, 1], or a frozen component has bytes for it.
absl::Status ValidateProfile(const ModelProfile& profile);

// Returns InvalidArgument if
// - there is no device, or more than kMaxDevices;
// - the bandwidth of a link in use is outside [kMinBandwidth, kMaxBandwidth];
// - contention_factor is neither 0 nor within [1, kMaxContention];
// - the interfaces do not divide a node's devices;
// - device classes overlap, leave the cluster or have no speed; or
// - anything is negative.
absl::Status ValidateCluster(const ClusterSpec& cluster);

// Returns the frozen components of a valid profile, each after those that it reads from; ties by
// index. Incomplete if they form a cycle.
std::vector<int> FrozenOrder(const ModelProfile& profile);

// Returns the index of a component by name, or -1 if there is none.
int ComponentIndex(const ModelProfile& profile, const std::string& name);

}  // namespace dpipe

#endif  // DPIPE_CORE_COST_VALIDATE_H_
