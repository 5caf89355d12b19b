#include "core/cost/testing/fake_profile.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

// Returns a random number in [low, high].
int Between(RandomStream& stream, int low, int high) {
  return low + static_cast<int>(stream.NextBelow(high - low + 1));
}

bool OneIn(RandomStream& stream, int n) { return stream.NextBelow(n) == 0; }

void AddRandomTimings(RandomStream& stream, Nanos max_ns, LayerProfile* layer) {
  int batch = 0;
  Nanos forward = 0, input = 0, weight = 0;
  const int count = Between(stream, 1, 4);
  for (int i = 0; i < count; ++i) {
    batch += Between(stream, 1, 4);
    // Usually rises with the batch and sometimes falls, as measurements do.
    forward = OneIn(stream, 8) ? forward / 2 : forward + Between(stream, 0, max_ns);
    input = OneIn(stream, 8) ? input / 2 : input + Between(stream, 0, max_ns);
    weight = OneIn(stream, 8) ? weight / 2 : weight + Between(stream, 0, max_ns);
    LayerTiming* timing = layer->add_timings();
    timing->set_local_batch(batch);
    timing->set_forward_ns(forward);
    timing->set_input_grad_ns(input);
    timing->set_weight_grad_ns(weight);
  }
}

LayerProfile RandomLayer(RandomStream& stream, const RandomProfileOptions& options, int index,
                         LayerKind kind) {
  LayerProfile layer;
  layer.set_name(absl::StrCat("layer", index));
  layer.set_kind(kind);
  AddRandomTimings(stream, options.max_layer_ns, &layer);
  const int bytes = 4 * Between(stream, 0, 500);
  layer.set_parameter_bytes(bytes);
  layer.set_trainable_parameter_bytes(kind == TRAINABLE ? bytes : 0);
  if (kind != FROZEN) layer.set_saved_bytes_per_sample(Between(stream, 0, 1000));
  layer.set_workspace_bytes_per_sample(Between(stream, 0, 200));
  layer.set_optimizer_step_ns(kind == TRAINABLE ? Between(stream, 0, 100) : 0);
  return layer;
}

ValueProfile* AddValue(ComponentProfile* component, const std::string& name, int bytes,
                       int producer) {
  ValueProfile* value = component->add_values();
  value->set_name(name);
  value->set_bytes_per_sample(bytes);
  value->set_producer_layer(producer);
  return value;
}

// Each layer's output is read by the next and, one time in three, by a later one too.
void AddRandomChain(RandomStream& stream, bool gradients, ComponentProfile* component) {
  const int count = component->layers_size();
  for (int l = 0; l + 1 < count; ++l) {
    ValueProfile* value = AddValue(component, absl::StrCat("x", l), Between(stream, 0, 2000), l);
    value->set_has_gradient(gradients);
    value->add_consumer_layers(l + 1);
    if (l + 2 < count && OneIn(stream, 3)) {
      value->add_consumer_layers(Between(stream, l + 2, count - 1));
    }
  }
}

void AddSourceInput(RandomStream& stream, const ComponentProfile& source,
                    ComponentProfile* reader) {
  ValueProfile* input =
      AddValue(reader, absl::StrCat("from_", source.name()), Between(stream, 0, 500), -1);
  input->set_source_component(source.name());
  input->set_source_value("out");
  std::set<int> layers;
  const int count = Between(stream, 1, 3);
  for (int i = 0; i < count; ++i) layers.insert(Between(stream, 0, reader->layers_size() - 1));
  for (int layer : layers) input->add_consumer_layers(layer);
}

ComponentProfile RandomFrozen(RandomStream& stream, const RandomProfileOptions& options, int index,
                              const ModelProfile& before) {
  ComponentProfile component;
  component.set_name(absl::StrCat("frozen", index));
  component.set_load_ns_per_sample(Between(stream, 0, 50));
  const int count = Between(stream, 1, options.max_frozen_layers);
  for (int l = 0; l < count; ++l) {
    *component.add_layers() = RandomLayer(stream, options, l, FROZEN);
  }
  AddRandomChain(stream, /*gradients=*/false, &component);
  AddValue(&component, "out", Between(stream, 0, 500), count - 1)->set_is_output(true);
  for (const ComponentProfile& source : before.components()) {
    if (OneIn(stream, 3)) AddSourceInput(stream, source, &component);
  }
  AddValue(&component, "pixels", Between(stream, 0, 300), -1)->add_consumer_layers(0);
  return component;
}

ComponentProfile RandomBackbone(RandomStream& stream, const RandomProfileOptions& options,
                                const ModelProfile& frozen) {
  ComponentProfile backbone;
  backbone.set_is_backbone(true);
  const int count = Between(stream, options.min_layers, options.max_layers);
  bool trains = false;
  for (int l = 0; l < count; ++l) {
    const bool is_last_chance = l == count - 1 && !trains;
    const LayerKind kind = OneIn(stream, 6) && !is_last_chance ? FROZEN_WITH_GRADIENT : TRAINABLE;
    trains |= kind == TRAINABLE;
    *backbone.add_layers() = RandomLayer(stream, options, l, kind);
  }
  AddRandomChain(stream, /*gradients=*/true, &backbone);
  for (const ComponentProfile& source : frozen.components()) {
    if (!source.is_backbone()) AddSourceInput(stream, source, &backbone);
  }
  AddValue(&backbone, "noise", Between(stream, 0, 300), -1)->add_consumer_layers(0);
  return backbone;
}

}  // namespace

ModelProfile RandomProfile(RandomStream& stream, const RandomProfileOptions& options) {
  ModelProfile profile;
  profile.set_model("random");
  profile.set_dtype(OneIn(stream, 2) ? "bf16" : "fp32");
  profile.set_frozen_quantum(options.frozen_quantum);
  profile.set_launch_overhead_ns(Between(stream, 0, 20));
  profile.set_optimizer_fixed_ns(Between(stream, 0, 200));
  profile.set_cached_load_ns_per_sample(Between(stream, 0, 30));
  const int num_frozen = Between(stream, 0, options.max_frozen_components);
  for (int i = 0; i < num_frozen; ++i) {
    *profile.add_components() = RandomFrozen(stream, options, i, profile);
  }
  for (int b = 0; b < options.num_backbones; ++b) {
    ComponentProfile backbone = RandomBackbone(stream, options, profile);
    backbone.set_name(b == 0 ? "backbone" : absl::StrCat("backbone", b));
    backbone.set_self_conditioning_bytes_per_sample(300);
    *profile.add_components() = backbone;
  }
  return profile;
}

namespace {

LayerProfile UniformLayer(int index, LayerKind kind, Nanos forward_ns, Nanos grad_ns,
                          const UniformProfileOptions& options) {
  LayerProfile layer;
  layer.set_name(absl::StrCat("layer", index));
  layer.set_kind(kind);
  LayerTiming* timing = layer.add_timings();
  timing->set_local_batch(1);
  timing->set_forward_ns(forward_ns);
  timing->set_input_grad_ns(grad_ns);
  timing->set_weight_grad_ns(grad_ns);
  layer.set_parameter_bytes(options.parameter_bytes);
  if (kind == TRAINABLE) {
    layer.set_trainable_parameter_bytes(options.parameter_bytes);
    layer.set_saved_bytes_per_sample(options.saved_bytes);
  }
  return layer;
}

}  // namespace

ModelProfile UniformProfile(const UniformProfileOptions& options) {
  ModelProfile profile;
  profile.set_model("uniform");
  profile.set_dtype("fp32");
  profile.set_frozen_quantum(1);
  if (options.frozen_layers > 0) {
    ComponentProfile* encoder = profile.add_components();
    encoder->set_name("encoder");
    for (int l = 0; l < options.frozen_layers; ++l) {
      *encoder->add_layers() = UniformLayer(l, FROZEN, options.frozen_ns, 0, options);
      ValueProfile* value = AddValue(encoder, absl::StrCat("x", l), options.value_bytes, l);
      if (l + 1 < options.frozen_layers) value->add_consumer_layers(l + 1);
      if (l + 1 == options.frozen_layers) value->set_is_output(true);
    }
  }
  ComponentProfile* backbone = profile.add_components();
  backbone->set_name("backbone");
  backbone->set_is_backbone(true);
  for (int l = 0; l < options.num_layers; ++l) {
    *backbone->add_layers() =
        UniformLayer(l, TRAINABLE, options.forward_ns, options.grad_ns, options);
    if (l + 1 == options.num_layers) break;
    ValueProfile* value = AddValue(backbone, absl::StrCat("x", l), options.value_bytes, l);
    value->set_has_gradient(true);
    value->add_consumer_layers(l + 1);
  }
  if (options.frozen_layers > 0) {
    ValueProfile* input = AddValue(backbone, "encoded", options.value_bytes, -1);
    input->set_source_component("encoder");
    input->set_source_value(absl::StrCat("x", options.frozen_layers - 1));
    input->add_consumer_layers(0);
  }
  return profile;
}

ClusterSpec IdealCluster(int num_devices) {
  ClusterSpec cluster;
  cluster.set_name("ideal");
  cluster.set_num_nodes(1);
  cluster.set_devices_per_node(num_devices);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(1e18);
  cluster.mutable_inter_node()->set_bandwidth_bytes_per_s(1e18);
  return cluster;
}

ClusterSpec RandomCluster(RandomStream& stream, int num_devices) {
  ClusterSpec cluster;
  cluster.set_name("random");
  int num_nodes = 1 << stream.NextBelow(3);
  while (num_devices % num_nodes != 0) num_nodes /= 2;
  cluster.set_num_nodes(num_nodes);
  cluster.set_devices_per_node(num_devices / num_nodes);
  for (Link* link : {cluster.mutable_intra_node(), cluster.mutable_inter_node()}) {
    link->set_latency_ns(Between(stream, 0, 300));
    link->set_bandwidth_bytes_per_s(1e9 * Between(stream, 1, 50));
  }
  if (OneIn(stream, 4)) cluster.set_contention_factor(1 + stream.NextUniform());
  cluster.set_collectives_use_compute(OneIn(stream, 2));
  return cluster;
}

void AddRandomClasses(RandomStream& stream, ClusterSpec* cluster) {
  const int count = cluster->num_nodes() * cluster->devices_per_node();
  for (int rank = 0; rank < count;) {
    const int size = Between(stream, 1, count - rank);
    if (OneIn(stream, 2)) {
      DeviceClass* added = cluster->add_device_classes();
      added->set_name(absl::StrCat("class", rank));
      added->set_first_rank(rank);
      added->set_num_devices(size);
      added->set_speed(0.5 + 2 * stream.NextUniform());
    }
    rank += size;
  }
  int interfaces = Between(stream, 1, cluster->devices_per_node());
  while (cluster->devices_per_node() % interfaces != 0) --interfaces;
  cluster->set_interfaces_per_node(interfaces);
}

void AddSharedLink(const std::string& name, int devices, double bandwidth_bytes_per_s,
                   SharedLink::Carries carries, ClusterSpec* cluster) {
  SharedLink* link = cluster->add_shared_links();
  link->set_name(name);
  link->set_devices(devices);
  link->set_bandwidth_bytes_per_s(bandwidth_bytes_per_s);
  link->set_carries(carries);
}

void AddRandomSharedLinks(RandomStream& stream, ClusterSpec* cluster) {
  const int count = stream.NextBelow(3);
  for (int i = 0; i < count; ++i) {
    int devices = Between(stream, 1, cluster->devices_per_node());
    while (cluster->devices_per_node() % devices != 0) --devices;
    AddSharedLink(absl::StrCat("shared", i), devices, 1e9 * Between(stream, 1, 50),
                  OneIn(stream, 2) ? SharedLink::EVERYTHING : SharedLink::LEAVING, cluster);
  }
}

}  // namespace dpipe
