#include "core/cost/step_bound.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dpipe {
namespace {

constexpr double kMaxNanosInAll = 4.6e18;  // 2^62
constexpr double kMaxBytesInAll = 4.6e18;
// Of a parameter's byte: weights of two copies, gradients, what is gathered and room to sum in.
constexpr double kBytesOfParameterByte = 8;

// A sum of upper bounds on times or bytes, and the largest of them. In double, which does not
// overflow.
class BoundSum {
 public:
  explicit BoundSum(bool names_largest) : names_largest_(names_largest) {}
  template <typename Text>
  void Add(double part, const Text& what) {
    sum_ += part;
    if (!names_largest_ || part <= largest_) return;
    largest_ = part;
    what_ = what();
  }
  double sum() const { return sum_; }
  const std::string& what() const { return what_; }

 private:
  const bool names_largest_;
  double sum_ = 0, largest_ = 0;
  std::string what_;
};

// Per sample: a batch of n takes at most n times the longest timing.
void AddLayers(const ComponentProfile& component, double slowest, BoundSum* sum) {
  for (int i = 0; i < component.layers_size(); ++i) {
    const LayerProfile& layer = component.layers(i);
    double longest = 0;
    for (const LayerTiming& t : layer.timings()) {
      longest = std::max(longest, 2.0 * t.forward_ns() + t.input_grad_ns() + t.weight_grad_ns());
    }
    sum->Add(slowest * (longest + layer.optimizer_step_ns()), [&] {
      return absl::StrCat("component '", component.name(), "', layer ", i, " '", layer.name(),
                          "' with ", static_cast<int64_t>(longest), " ns");
    });
  }
  sum->Add(static_cast<double>(component.load_ns_per_sample()), [&] {
    return absl::StrCat("component '", component.name(), "' with load_ns_per_sample ",
                        component.load_ns_per_sample());
  });
}

// Per sample: every value and its gradient crosses every cut that it spans, and all parameters move
// four times (they are gathered twice, and their gradients summed in two laps).
void AddTraffic(const ComponentProfile& component, const std::string& name, const Link& link,
                BoundSum* sum) {
  double bytes = 0, messages = 0;
  for (const ValueProfile& value : component.values()) {
    const int num_consumers = value.consumer_layers_size();
    const int last = num_consumers > 0 ? value.consumer_layers(num_consumers - 1) : 0;
    const int hops = 2 * std::max(1, last - std::max(0, value.producer_layer()));
    bytes += static_cast<double>(hops) * static_cast<double>(value.bytes_per_sample());
    messages += hops;
  }
  for (const LayerProfile& layer : component.layers()) {
    bytes += 4 * static_cast<double>(layer.parameter_bytes());
    messages += 4;
  }
  sum->Add(messages * static_cast<double>(link.latency_ns()), [&] {
    return absl::StrCat("the cluster's ", name, " with latency_ns ", link.latency_ns());
  });
  sum->Add(bytes / link.bandwidth_bytes_per_s() * kNanosPerSecond, [&] {
    return absl::StrFormat(
        "%.3g bytes per sample of component '%s' over the cluster's %s with "
        "bandwidth_bytes_per_s %g",
        bytes, component.name(), name, link.bandwidth_bytes_per_s());
  });
}

// Returns the sum for one sample.
BoundSum SumOf(const CostModel& cost, bool names_largest) {
  double speed = 1;
  for (int rank = 0; rank < cost.num_devices(); ++rank) {
    speed = std::min(speed, cost.SpeedOf(rank));
  }
  const ClusterSpec& cluster = cost.cluster();
  const double slowest = std::max(1.0, cluster.contention_factor()) / speed;
  BoundSum sum(names_largest);
  for (const ComponentProfile& component : cost.profile().components()) {
    AddLayers(component, slowest, &sum);
    if (cluster.devices_per_node() > 1) {
      AddTraffic(component, "intra_node", cluster.intra_node(), &sum);
    }
    if (cluster.num_nodes() > 1) AddTraffic(component, "inter_node", cluster.inter_node(), &sum);
    for (const SharedLink& shared : cluster.shared_links()) {
      Link link;
      link.set_bandwidth_bytes_per_s(shared.bandwidth_bytes_per_s());
      AddTraffic(component, absl::StrCat("shared link '", shared.name(), "'"), link, &sum);
    }
  }
  return sum;
}

// Bounds what all layers and values keep and send of so many samples.
absl::Status CheckStepBytes(const ModelProfile& profile, double samples) {
  BoundSum sum(/*names_largest=*/true);
  const double of_state = kBytesOfParameterByte + profile.optimizer_bytes_per_parameter();
  for (const ComponentProfile& component : profile.components()) {
    for (int i = 0; i < component.layers_size(); ++i) {
      const LayerProfile& layer = component.layers(i);
      // Kept, and made once more by recomputation.
      const double of_samples =
          samples * (2.0 * layer.saved_bytes_per_sample() + layer.workspace_bytes_per_sample());
      sum.Add(of_samples + of_state * layer.parameter_bytes(), [&] {
        return absl::StrCat("component '", component.name(), "', layer ", i, " '", layer.name(),
                            "'");
      });
    }
    for (const ValueProfile& value : component.values()) {
      const double hops = 2.0 * (component.layers_size() + 1);  // there, and its gradient back
      sum.Add(samples * hops * static_cast<double>(value.bytes_per_sample()), [&] {
        return absl::StrCat("component '", component.name(), "', value '", value.name(), "'");
      });
    }
  }
  if (sum.sum() <= kMaxBytesInAll) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "%.0f samples could take %.3g bytes, more than the maximum of 4.6e+18: the largest part is "
      "%s; check its bytes in the profile, or take fewer samples",
      samples, sum.sum(), sum.what()));
}

}  // namespace

absl::Status CheckStepTimes(const CostModel& cost, int64_t global_batch, int64_t num_steps) {
  if (global_batch < 1 || global_batch > kMaxGlobalBatch) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a global batch of ", global_batch, " samples is not within [1, ", kMaxGlobalBatch, "]"));
  }
  DPIPE_RETURN_IF_ERROR(CheckStepBytes(cost.profile(), static_cast<double>(global_batch)));
  const double samples = static_cast<double>(num_steps) * static_cast<double>(global_batch);
  // Searches call this often, so the message is built only on error.
  if (SumOf(cost, /*names_largest=*/false).sum() * samples <= kMaxNanosInAll) {
    return absl::OkStatus();
  }
  const BoundSum sum = SumOf(cost, /*names_largest=*/true);
  return absl::InvalidArgumentError(absl::StrFormat(
      "%.0f samples could take %.3g years one after another, more than the maximum of 146: the "
      "largest part is %s; check that value, or take fewer samples",
      samples, sum.sum() * samples / kNanosPerSecond / 3.156e7, sum.what()));
}

}  // namespace dpipe
