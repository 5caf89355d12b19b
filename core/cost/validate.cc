#include "core/cost/validate.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

// Per parameter; more than any optimizer keeps.
constexpr double kMaxOptimizerBytes = 1024;

constexpr double kMinSpeed = 1e-3;  // of a device class; the maximum is its inverse

absl::Status Bad(const std::string& where, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", what));
}

absl::Status NotNegative(const std::string& where, const char* field, int64_t value,
                         int64_t limit = kMaxNanos) {
  if (value < 0) return Bad(where, absl::StrCat(field, " is ", value, ", which is less than 0"));
  if (value <= limit) return absl::OkStatus();
  return Bad(where, absl::StrCat(field, " is ", value, ", which is more than ", limit));
}

absl::Status CheckBytes(const std::string& where, const char* field, int64_t value) {
  return NotNegative(where, field, value, kMaxBytes);
}

absl::Status CheckMemoryBytes(const std::string& where, const char* field, int64_t value) {
  if (value >= 0 && value <= kMaxBytes) return absl::OkStatus();
  return Bad(where, absl::StrCat(field, " is ", value, ", which is not within [0, ", kMaxBytes,
                                 "]; 0 means no limit"));
}

absl::Status ValidateTimings(const std::string& where, const LayerProfile& layer) {
  if (layer.timings().empty()) return Bad(where, "timings: there is none");
  int previous = 0;
  for (const LayerTiming& t : layer.timings()) {
    if (t.local_batch() <= previous) {
      return Bad(where, absl::StrCat("timings: local_batch ", t.local_batch(), " follows ",
                                     previous, " and must be larger"));
    }
    previous = t.local_batch();
    DPIPE_RETURN_IF_ERROR(NotNegative(where, "forward_ns", t.forward_ns()));
    DPIPE_RETURN_IF_ERROR(NotNegative(where, "input_grad_ns", t.input_grad_ns()));
    DPIPE_RETURN_IF_ERROR(NotNegative(where, "weight_grad_ns", t.weight_grad_ns()));
  }
  return absl::OkStatus();
}

absl::Status ValidateLayer(const std::string& where, const LayerProfile& layer, bool in_backbone) {
  if (layer.kind() == LAYER_KIND_UNSPECIFIED) return Bad(where, "kind is not given");
  if (!LayerKind_IsValid(layer.kind())) {  // proto3 enums can hold any number
    return Bad(where, absl::StrCat("kind is ", static_cast<int>(layer.kind()),
                                   "; it must be TRAINABLE, FROZEN or FROZEN_WITH_GRADIENT"));
  }
  if (!in_backbone && layer.kind() != FROZEN) {
    return Bad(where, absl::StrCat("kind is ", LayerKind_Name(layer.kind()),
                                   " in a component that is no backbone, which must be FROZEN"));
  }
  DPIPE_RETURN_IF_ERROR(ValidateTimings(where, layer));
  DPIPE_RETURN_IF_ERROR(CheckBytes(where, "parameter_bytes", layer.parameter_bytes()));
  DPIPE_RETURN_IF_ERROR(
      CheckBytes(where, "trainable_parameter_bytes", layer.trainable_parameter_bytes()));
  if (layer.trainable_parameter_bytes() > layer.parameter_bytes()) {
    return Bad(where, absl::StrCat("trainable_parameter_bytes ", layer.trainable_parameter_bytes(),
                                   " exceeds parameter_bytes ", layer.parameter_bytes()));
  }
  DPIPE_RETURN_IF_ERROR(
      CheckBytes(where, "saved_bytes_per_sample", layer.saved_bytes_per_sample()));
  DPIPE_RETURN_IF_ERROR(
      CheckBytes(where, "workspace_bytes_per_sample", layer.workspace_bytes_per_sample()));
  return NotNegative(where, "optimizer_step_ns", layer.optimizer_step_ns());
}

absl::Status ValidateValue(const std::string& where, const ValueProfile& value, int num_layers) {
  DPIPE_RETURN_IF_ERROR(CheckBytes(where, "bytes_per_sample", value.bytes_per_sample()));
  if (value.producer_layer() < -1 || value.producer_layer() >= num_layers) {
    return Bad(where, absl::StrCat("producer_layer ", value.producer_layer(),
                                   " is neither -1 nor one of the ", num_layers, " layers"));
  }
  int previous = value.producer_layer();
  for (int consumer : value.consumer_layers()) {
    if (consumer <= previous || consumer >= num_layers) {
      return Bad(where, absl::StrCat("consumer_layers: ", consumer, " must be above ", previous,
                                     " and below the number of layers, ", num_layers));
    }
    previous = consumer;
  }
  if (value.producer_layer() >= 0 && !value.source_component().empty()) {
    return Bad(where, absl::StrCat("source_component '", value.source_component(),
                                   "' of a value that layer ", value.producer_layer(), " makes"));
  }
  return absl::OkStatus();
}

absl::Status ValidateSource(const std::string& where, const ModelProfile& profile,
                            const ValueProfile& value) {
  if (value.source_component().empty()) return absl::OkStatus();
  const int source = ComponentIndex(profile, value.source_component());
  const std::string named =
      absl::StrCat("source '", value.source_component(), ".", value.source_value(), "'");
  if (source < 0) return Bad(where, named + " names no component");
  if (profile.components(source).is_backbone()) return Bad(where, named + " is a backbone's");
  for (const ValueProfile& candidate : profile.components(source).values()) {
    if (candidate.name() != value.source_value()) continue;
    if (!candidate.is_output()) return Bad(where, named + " is not an output of its component");
    return absl::OkStatus();
  }
  return Bad(where, named + " names no value of that component");
}

absl::Status ValidateComponent(const ModelProfile& profile, const ComponentProfile& component) {
  const std::string where = absl::StrCat("component '", component.name(), "'");
  if (component.layers().empty()) return Bad(where, "layers: there is none");
  DPIPE_RETURN_IF_ERROR(NotNegative(where, "load_ns_per_sample", component.load_ns_per_sample()));
  const int64_t estimate = component.self_conditioning_bytes_per_sample();
  DPIPE_RETURN_IF_ERROR(CheckBytes(where, "self_conditioning_bytes_per_sample", estimate));
  if (estimate > 0 && !component.is_backbone()) {
    return Bad(where, absl::StrCat("self_conditioning_bytes_per_sample is ", estimate,
                                   " in a component that is no backbone"));
  }
  for (int i = 0; i < component.layers_size(); ++i) {
    const LayerProfile& layer = component.layers(i);
    DPIPE_RETURN_IF_ERROR(ValidateLayer(absl::StrCat(where, ", layer ", i, " '", layer.name(), "'"),
                                        layer, component.is_backbone()));
  }
  const bool trains = std::any_of(component.layers().begin(), component.layers().end(),
                                  [](const LayerProfile& l) { return l.kind() == TRAINABLE; });
  if (component.is_backbone() && !trains) {
    return Bad(where, absl::StrCat("none of its ", component.layers_size(),
                                   " layers is TRAINABLE, and a backbone is what is trained; "
                                   "without is_backbone it is a frozen component"));
  }
  std::set<std::string> names;
  for (const ValueProfile& value : component.values()) {
    const std::string at = absl::StrCat(where, ", value '", value.name(), "'");
    if (!names.insert(value.name()).second) return Bad(at, "name: there are two of it");
    DPIPE_RETURN_IF_ERROR(ValidateValue(at, value, component.layers_size()));
    DPIPE_RETURN_IF_ERROR(ValidateSource(at, profile, value));
  }
  return absl::OkStatus();
}

absl::Status ValidateBandwidth(const std::string& where, double bandwidth) {
  if (bandwidth >= kMinBandwidth && bandwidth <= kMaxBandwidth) return absl::OkStatus();
  return Bad(where, absl::StrCat("bandwidth_bytes_per_s is ", bandwidth, ", which is not within [",
                                 kMinBandwidth, ", ", kMaxBandwidth,
                                 "]; give what the link moves in a second, such as 2.4e11"));
}

absl::Status ValidateLink(const char* name, const Link& link, bool used) {
  const std::string where = absl::StrCat("cluster: ", name);
  DPIPE_RETURN_IF_ERROR(NotNegative(where, "latency_ns", link.latency_ns()));
  return used ? ValidateBandwidth(where, link.bandwidth_bytes_per_s()) : absl::OkStatus();
}

absl::Status ValidateSharedLinks(const ClusterSpec& cluster) {
  std::set<std::string> names;
  for (const SharedLink& shared : cluster.shared_links()) {
    const std::string where = absl::StrCat("cluster: shared link '", shared.name(), "'");
    if (!names.insert(shared.name()).second) return Bad(where, "name: there are two of it");
    const int devices = shared.devices();
    if (devices < 1 || cluster.devices_per_node() % devices != 0) {
      return Bad(where, absl::StrCat("devices ", devices, " does not divide devices_per_node ",
                                     cluster.devices_per_node(),
                                     "; give how many devices of a node share one such link"));
    }
    if (!SharedLink::Carries_IsValid(shared.carries())) {
      return Bad(where, absl::StrCat("carries is ", static_cast<int>(shared.carries()),
                                     "; it must be LEAVING or EVERYTHING"));
    }
    DPIPE_RETURN_IF_ERROR(ValidateBandwidth(where, shared.bandwidth_bytes_per_s()));
  }
  return absl::OkStatus();
}

absl::Status ValidateClasses(const ClusterSpec& cluster) {
  const int count = cluster.num_nodes() * cluster.devices_per_node();
  std::vector<int> owner(count, -1);  // indices of classes
  std::set<std::string> names;
  for (int c = 0; c < cluster.device_classes_size(); ++c) {
    const DeviceClass& device_class = cluster.device_classes(c);
    const std::string where = absl::StrCat("cluster: device class '", device_class.name(), "'");
    if (!names.insert(device_class.name()).second) return Bad(where, "name: there are two of it");
    const int first = device_class.first_rank(), size = device_class.num_devices();
    if (first < 0 || size < 1 || first >= count || size > count - first) {
      return Bad(where, absl::StrCat(size, " devices from rank ", first,
                                     " are not some of the cluster's ", count));
    }
    const double speed = device_class.speed();
    if (!(speed >= kMinSpeed && speed <= 1 / kMinSpeed)) {
      return Bad(where,
                 absl::StrCat("speed ", speed, " is not within [", kMinSpeed, ", ", 1 / kMinSpeed,
                              "]; give how many times as fast as the profile's device the "
                              "class is"));
    }
    DPIPE_RETURN_IF_ERROR(CheckBytes(where, "memory_bytes", device_class.memory_bytes()));
    for (int rank = first; rank < first + size; ++rank) {
      if (owner[rank] >= 0) {
        const std::string& other = cluster.device_classes(owner[rank]).name();
        return Bad(where, absl::StrCat("rank ", rank, " is in class '", other, "' already"));
      }
      owner[rank] = c;
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateNodes(const ClusterSpec& cluster) {
  const int nodes = cluster.num_nodes(), devices = cluster.devices_per_node();
  if (nodes < 1 || devices < 1) {
    return Bad("cluster", absl::StrCat(nodes, " nodes of ", devices,
                                       " devices make no device; num_nodes and devices_per_node "
                                       "are at least 1"));
  }
  if (nodes > kMaxDevices / devices) {
    return Bad("cluster",
               absl::StrCat(nodes, " nodes of ", devices, " devices are ", int64_t{nodes} * devices,
                            " devices, more than ", kMaxDevices,
                            ", the most that are planned; give a part of them, whose "
                            "pipeline groups the others repeat"));
  }
  const int interfaces = cluster.interfaces_per_node();
  if (interfaces < 0 || (interfaces > 0 && devices % interfaces != 0)) {
    return Bad("cluster", absl::StrCat("interfaces_per_node ", interfaces,
                                       " does not divide devices_per_node ", devices,
                                       "; leave it out (0) for one interface a node"));
  }
  return absl::OkStatus();
}

}  // namespace

int ComponentIndex(const ModelProfile& profile, const std::string& name) {
  for (int i = 0; i < profile.components_size(); ++i) {
    if (profile.components(i).name() == name) return i;
  }
  return -1;
}

std::vector<int> FrozenOrder(const ModelProfile& profile) {
  const int count = profile.components_size();
  std::vector<bool> placed(count, false);
  std::vector<int> order;
  const auto ready = [&](int component) {
    for (const ValueProfile& value : profile.components(component).values()) {
      if (value.source_component().empty()) continue;
      const int source = ComponentIndex(profile, value.source_component());
      if (source >= 0 && !placed[source]) return false;
    }
    return true;
  };
  for (bool progress = true; progress;) {
    progress = false;
    for (int i = 0; i < count; ++i) {
      if (placed[i] || profile.components(i).is_backbone() || !ready(i)) continue;
      placed[i] = progress = true;
      order.push_back(i);
    }
  }
  return order;
}

absl::Status ValidateProfile(const ModelProfile& profile) {
  std::set<std::string> names;
  int num_backbones = 0;
  for (const ComponentProfile& component : profile.components()) {
    num_backbones += component.is_backbone();
  }
  if (num_backbones == 0) {
    return Bad("profile", absl::StrCat("none of its ", profile.components_size(),
                                       " components is a backbone"));
  }
  for (int c = 0; c < profile.components_size(); ++c) {
    const ComponentProfile& component = profile.components(c);
    if (component.name().empty()) return Bad(absl::StrCat("component ", c), "name is empty");
    if (!names.insert(component.name()).second) {
      return Bad(absl::StrCat("component '", component.name(), "'"), "name: there are two of it");
    }
    DPIPE_RETURN_IF_ERROR(ValidateComponent(profile, component));
  }
  const double probability = profile.self_conditioning_probability();
  if (!(probability >= 0 && probability <= 1)) {
    return Bad("profile", absl::StrCat("self_conditioning_probability ", probability,
                                       " is not within [0, 1]"));
  }
  const double kept = profile.optimizer_bytes_per_parameter();
  if (!(kept >= 0 && kept <= kMaxOptimizerBytes)) {
    return Bad("profile", absl::StrCat("optimizer_bytes_per_parameter ", kept,
                                       " is not within [0, ", kMaxOptimizerBytes, "]"));
  }
  DPIPE_RETURN_IF_ERROR(NotNegative("profile", "launch_overhead_ns", profile.launch_overhead_ns()));
  DPIPE_RETURN_IF_ERROR(NotNegative("profile", "frozen_quantum", profile.frozen_quantum()));
  DPIPE_RETURN_IF_ERROR(NotNegative("profile", "optimizer_fixed_ns", profile.optimizer_fixed_ns()));
  DPIPE_RETURN_IF_ERROR(
      NotNegative("profile", "cached_load_ns_per_sample", profile.cached_load_ns_per_sample()));
  const int num_frozen = profile.components_size() - num_backbones;
  const int num_ordered = static_cast<int>(FrozenOrder(profile).size());
  if (num_ordered == num_frozen) return absl::OkStatus();
  return Bad("profile",
             absl::StrCat("of ", num_frozen, " frozen components only ", num_ordered,
                          " can be ordered: the others read from each other in a cycle"));
}

absl::Status ValidateCluster(const ClusterSpec& cluster) {
  DPIPE_RETURN_IF_ERROR(ValidateNodes(cluster));
  DPIPE_RETURN_IF_ERROR(
      CheckMemoryBytes("cluster", "memory_bytes_per_device", cluster.memory_bytes_per_device()));
  DPIPE_RETURN_IF_ERROR(ValidateClasses(cluster));
  DPIPE_RETURN_IF_ERROR(
      ValidateLink("intra_node", cluster.intra_node(), cluster.devices_per_node() > 1));
  DPIPE_RETURN_IF_ERROR(ValidateLink("inter_node", cluster.inter_node(), cluster.num_nodes() > 1));
  DPIPE_RETURN_IF_ERROR(ValidateSharedLinks(cluster));
  const double factor = cluster.contention_factor();
  if (factor != 0 && !(factor >= 1 && factor <= kMaxContention)) {
    return Bad("cluster", absl::StrCat("contention_factor ", factor,
                                       " is neither 0 nor within [1, ", kMaxContention,
                                       "]; leave it out (0) if communicating does not slow "
                                       "computing"));
  }
  return absl::OkStatus();
}

}  // namespace dpipe
