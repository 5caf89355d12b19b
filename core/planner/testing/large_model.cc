#include "core/planner/testing/large_model.h"

#include <string>

#include "core/base/philox.h"
#include "core/base/time.h"

namespace dpipe {
namespace {

void AddLayer(RandomStream& random, LayerKind kind, Nanos mean_ns, ComponentProfile* component) {
  LayerProfile* layer = component->add_layers();
  layer->set_name("layer" + std::to_string(component->layers_size()));
  layer->set_kind(kind);
  layer->set_parameter_bytes(8 << 20);
  if (kind == TRAINABLE) layer->set_trainable_parameter_bytes(8 << 20);
  const Nanos ns = mean_ns / 2 + random.NextBelow(static_cast<uint32_t>(mean_ns));
  for (int batch : {1, 2, 4, 8, 16, 32}) {
    LayerTiming* timing = layer->add_timings();
    timing->set_local_batch(batch);
    timing->set_forward_ns(ns * (batch + 2) / 3);  // a launch costs as much as two samples
    if (kind != TRAINABLE) continue;
    timing->set_input_grad_ns(ns * (batch + 2) / 3);
    timing->set_weight_grad_ns(ns * (batch + 2) / 3);
  }
  layer->set_optimizer_step_ns(kind == TRAINABLE ? mean_ns / 4 : 0);
}

void Connect(int64_t bytes_per_sample, bool gradient, ComponentProfile* component) {
  for (int l = 0; l + 1 < component->layers_size(); ++l) {
    ValueProfile* value = component->add_values();
    value->set_name("x" + std::to_string(l));
    value->set_bytes_per_sample(bytes_per_sample);
    value->set_producer_layer(l);
    value->add_consumer_layers(l + 1);
    value->set_has_gradient(gradient);
  }
}

void AddEncoder(RandomStream& random, const std::string& name, int num_layers, Nanos mean_ns,
                ModelProfile* model) {
  ComponentProfile* encoder = model->add_components();
  encoder->set_name(name);
  encoder->set_load_ns_per_sample(20000);
  for (int l = 0; l < num_layers; ++l) AddLayer(random, FROZEN, mean_ns, encoder);
  Connect(1 << 20, false, encoder);
  ValueProfile* out = encoder->add_values();
  out->set_name("out");
  out->set_bytes_per_sample(64 << 10);
  out->set_producer_layer(num_layers - 1);
  out->set_is_output(true);
  ValueProfile* in = model->mutable_components(0)->add_values();
  in->set_name("from_" + name);
  in->set_bytes_per_sample(64 << 10);
  in->set_producer_layer(-1);
  in->add_consumer_layers(0);
  in->set_source_component(name);
  in->set_source_value("out");
}

}  // namespace

ModelProfile LargeModel(int num_layers, int num_backbones) {
  RandomStream random(1, 0, 0, RandomPurpose::kTest);
  ModelProfile model;
  model.set_model("large");
  ComponentProfile* backbone = model.add_components();
  backbone->set_name("backbone");
  backbone->set_is_backbone(true);
  for (int l = 0; l < num_layers; ++l) AddLayer(random, TRAINABLE, 30000000 / num_layers, backbone);
  Connect(2 << 20, true, backbone);
  AddEncoder(random, "vae", 30, 900000, &model);
  AddEncoder(random, "text", 24, 300000, &model);
  for (int b = 1; b < num_backbones; ++b) {
    ComponentProfile* copy = model.add_components();
    *copy = model.components(0);
    copy->set_name("backbone" + std::to_string(b));
  }
  return model;
}

ClusterSpec LargeCluster(int num_nodes, int devices_per_node) {
  ClusterSpec cluster;
  cluster.set_num_nodes(num_nodes);
  cluster.set_devices_per_node(devices_per_node);
  cluster.mutable_intra_node()->set_latency_ns(5000);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(200e9);
  cluster.mutable_inter_node()->set_latency_ns(15000);
  cluster.mutable_inter_node()->set_bandwidth_bytes_per_s(25e9);
  return cluster;
}

}  // namespace dpipe
