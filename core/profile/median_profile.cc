#include "core/profile/median_profile.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

// Returns the median of get(message) over `all`.
template <typename Message, typename Get>
auto MedianOf(const std::vector<Message>& all, const Get& get) {
  std::vector<decltype(get(all[0]))> values;
  for (const Message& message : all) values.push_back(get(message));
  const auto middle = values.begin() + (values.size() - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

absl::Status CheckSameLayers(const ModelProfile& a, const ModelProfile& b) {
  if (a.model() != b.model() || a.components_size() != b.components_size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "profiles of ", a.model(), " with ", a.components_size(), " component(s) and of ",
        b.model(), " with ", b.components_size(), " have no median"));
  }
  for (int c = 0; c < a.components_size(); ++c) {
    const ComponentProfile& left = a.components(c);
    const ComponentProfile& right = b.components(c);
    if (left.layers_size() != right.layers_size()) {
      return absl::InvalidArgumentError(absl::StrCat("component ", left.name(), " has ",
                                                     left.layers_size(), " layers in one profile, ",
                                                     right.layers_size(), " in another"));
    }
    for (int l = 0; l < left.layers_size(); ++l) {
      const auto& timings = left.layers(l).timings();
      const auto& others = right.layers(l).timings();
      const auto same_batch = [](const LayerTiming& x, const LayerTiming& y) {
        return x.local_batch() == y.local_batch();
      };
      if (std::equal(timings.begin(), timings.end(), others.begin(), others.end(), same_batch)) {
        continue;
      }
      return absl::InvalidArgumentError(absl::StrCat("layer ", left.layers(l).name(), " of ",
                                                     left.name(),
                                                     " was timed at different local batches"));
    }
  }
  return absl::OkStatus();
}

void SetMedianTimes(const std::vector<ModelProfile>& all, int c, int l, LayerProfile* layer) {
  const auto of_layer = [&](auto get) {
    return MedianOf(all, [&](const ModelProfile& p) { return get(p.components(c).layers(l)); });
  };
  layer->set_optimizer_step_ns(
      of_layer([](const LayerProfile& p) { return p.optimizer_step_ns(); }));
  for (int t = 0; t < layer->timings_size(); ++t) {
    LayerTiming* timing = layer->mutable_timings(t);
    timing->set_forward_ns(
        of_layer([t](const LayerProfile& p) { return p.timings(t).forward_ns(); }));
    timing->set_input_grad_ns(
        of_layer([t](const LayerProfile& p) { return p.timings(t).input_grad_ns(); }));
    timing->set_weight_grad_ns(
        of_layer([t](const LayerProfile& p) { return p.timings(t).weight_grad_ns(); }));
  }
}

}  // namespace

absl::StatusOr<ModelProfile> MedianProfile(const std::vector<ModelProfile>& profiles) {
  if (profiles.empty()) return absl::InvalidArgumentError("no profile to take the median of");
  for (const ModelProfile& other : profiles) {
    DPIPE_RETURN_IF_ERROR(CheckSameLayers(profiles[0], other));
  }
  ModelProfile median = profiles[0];
  for (int c = 0; c < median.components_size(); ++c) {
    ComponentProfile* component = median.mutable_components(c);
    component->set_load_ns_per_sample(MedianOf(
        profiles, [c](const ModelProfile& p) { return p.components(c).load_ns_per_sample(); }));
    for (int l = 0; l < component->layers_size(); ++l) {
      SetMedianTimes(profiles, c, l, component->mutable_layers(l));
    }
  }
  median.set_launch_overhead_ns(
      MedianOf(profiles, [](const ModelProfile& p) { return p.launch_overhead_ns(); }));
  median.set_optimizer_fixed_ns(
      MedianOf(profiles, [](const ModelProfile& p) { return p.optimizer_fixed_ns(); }));
  median.set_cached_load_ns_per_sample(
      MedianOf(profiles, [](const ModelProfile& p) { return p.cached_load_ns_per_sample(); }));
  median.set_provenance(
      absl::StrCat("median of ", profiles.size(), " profiles, each ", profiles[0].provenance()));
  return median;
}

absl::StatusOr<ClusterSpec> MedianCluster(const std::vector<ClusterSpec>& clusters) {
  if (clusters.empty()) return absl::InvalidArgumentError("no cluster to take the median of");
  ClusterSpec median = clusters[0];
  const auto set_link = [&](Link* link, auto get) {
    link->set_latency_ns(
        MedianOf(clusters, [&](const ClusterSpec& c) { return get(c).latency_ns(); }));
    link->set_bandwidth_bytes_per_s(
        MedianOf(clusters, [&](const ClusterSpec& c) { return get(c).bandwidth_bytes_per_s(); }));
  };
  set_link(median.mutable_intra_node(), [](const ClusterSpec& c) { return c.intra_node(); });
  set_link(median.mutable_inter_node(), [](const ClusterSpec& c) { return c.inter_node(); });
  return median;
}

}  // namespace dpipe
