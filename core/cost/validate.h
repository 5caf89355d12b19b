// Whether a profile, or a cluster, makes sense before anything is planned from it.
#ifndef DPIPE_CORE_COST_VALIDATE_H_
#define DPIPE_CORE_COST_VALIDATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/profile.pb.h"

namespace dpipe {

// Of one field: sums over a thousand layers and steps stay within 64 bits.
constexpr int64_t kMaxNanos = int64_t{1} << 44;  // almost five hours
constexpr int64_t kMaxBytes = int64_t{1} << 48;  // 256 TiB
// Of these a search ends within minutes.
constexpr int kMaxDevices = 4096;
// Far below and above any link: what a message takes stays a number.
constexpr double kMinBandwidth = 1e3;  // bytes/s
constexpr double kMaxBandwidth = 1e18;
constexpr double kMaxContention = 1000;

// InvalidArgument with component, layer or value, field and both values if: there is no backbone; a
// backbone has no trainable layer; names repeat or a component has none; a component has no layer; a layer has no known kind, no
// timing, timings that do not increase in batch, or anything negative or beyond kMaxNanos or
// kMaxBytes; a value's producer or a consumer is no layer after it; a source is missing, is not an
// output, is a backbone's, or closes a cycle; self_conditioning_probability is outside [0, 1] or a
// component that is no backbone has bytes for it.
absl::Status ValidateProfile(const ModelProfile& profile);

// InvalidArgument if there is no device or more than kMaxDevices, the bandwidth of a link that two
// devices would use is not within [kMinBandwidth, kMaxBandwidth], contention_factor is neither 0
// nor within [1, kMaxContention], interfaces do not divide a node's devices, device classes
// overlap, leave the cluster or have no speed, or anything is negative.
absl::Status ValidateCluster(const ClusterSpec& cluster);

// The frozen components of a valid profile, each after those it reads from; ties by index. Shorter
// than their number if they form a cycle.
std::vector<int> FrozenOrder(const ModelProfile& profile);

// The index of a component by name, -1 if there is none.
int ComponentIndex(const ModelProfile& profile, const std::string& name);

}  // namespace dpipe

#endif  // DPIPE_CORE_COST_VALIDATE_H_
