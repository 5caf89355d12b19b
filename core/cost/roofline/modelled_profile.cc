#include "core/cost/roofline/modelled_profile.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace dpipe::roofline {
namespace {

constexpr Nanos kResolution = 100;
constexpr Nanos kLaunchOverheadNs = 10 * kNanosPerMicro;
constexpr Nanos kOptimizerFixedNs = 50 * kNanosPerMicro;
// AdamW, bytes per parameter: weight, gradient and two moments read; weight and moments written
// (fp32); the bf16 copy written; the gradient read once more for the global norm.
constexpr int kOptimizerBytes = 4 * 4 + 3 * 4 + 2 + 4;

int64_t Rounded(double ns) { return std::llround(ns / kResolution) * kResolution; }

LayerTiming TimingOf(const std::vector<OpWork>& ops, const DeviceSpec& device, int batch) {
  double forward = 0, input_grad = 0, weight_grad = 0;
  for (const OpWork& op : ops) {
    forward += PassNs(device, op, Pass::kForward, batch);
    input_grad += PassNs(device, op, Pass::kInputGrad, batch);
    weight_grad += PassNs(device, op, Pass::kWeightGrad, batch);
  }
  LayerTiming timing;
  timing.set_local_batch(batch);
  timing.set_forward_ns(Rounded(forward));
  timing.set_input_grad_ns(Rounded(input_grad));
  timing.set_weight_grad_ns(Rounded(weight_grad));
  return timing;
}

int64_t ExternalBytes(const ComponentProfile& component, bool from_components) {
  int64_t bytes = 0;
  for (const ValueProfile& value : component.values()) {
    if (value.producer_layer() >= 0 || value.source_component().empty() == from_components) {
      continue;
    }
    bytes += value.bytes_per_sample();
  }
  return bytes;
}

ComponentProfile TimedComponent(const ComponentWork& work, const DeviceSpec& device,
                                const std::vector<int>& batches) {
  ComponentProfile component = work.profile;
  const double memory = device.memory_bytes_per_s * device.memory.input_grad;
  for (int l = 0; l < component.layers_size(); ++l) {
    LayerProfile* layer = component.mutable_layers(l);
    for (int batch : batches) {
      *layer->add_timings() = TimingOf(work.ops[l], device, batch);
    }
    const double parameters =
        static_cast<double>(layer->trainable_parameter_bytes()) / kMasterBytes;
    layer->set_optimizer_step_ns(Rounded(parameters * kOptimizerBytes / memory * kNanosPerSecond));
  }
  if (!component.is_backbone()) {
    const double bytes = static_cast<double>(ExternalBytes(component, /*from_components=*/false));
    component.set_load_ns_per_sample(Rounded(bytes / device.host_bytes_per_s * kNanosPerSecond));
  }
  return component;
}

std::string ProvenanceOf(const ModelWork& model, const DeviceSpec& device) {
  const std::string text = absl::StrCat(
      "modelled, not measured: an analytic roofline over counted multiply-adds and bytes in bf16 "
      "(core/cost/roofline), written by //tools:make_profiles. Efficiencies per class of operation "
      "and pass are calibrated to layers measured on one H200",
      device.name == "h200_sxm" ? "." : "; that this device reaches the same shares is assumed.");
  return model.notes.empty() ? text : absl::StrCat(text, " ", model.notes);
}

}  // namespace

const std::vector<int>& ModelledBatches() {
  static const auto* const batches = new std::vector<int>{1, 2, 4, 8, 16, 32, 64};
  return *batches;
}

ModelProfile ModelledProfile(const ModelWork& model, const DeviceSpec& device,
                             const std::vector<int>& batches) {
  ModelProfile profile;
  profile.set_model(model.name);
  profile.set_device(device.description);
  profile.set_dtype("bf16");
  profile.set_launch_overhead_ns(kLaunchOverheadNs);
  profile.set_frozen_quantum(1);
  profile.set_optimizer_fixed_ns(kOptimizerFixedNs);
  profile.set_self_conditioning_probability(model.self_conditioning_probability);
  profile.set_provenance(ProvenanceOf(model, device));
  int64_t cached_bytes = 0;
  for (const ComponentWork& component : model.components) {
    *profile.add_components() = TimedComponent(component, device, batches);
    if (component.profile.is_backbone()) {
      cached_bytes += ExternalBytes(component.profile, /*from_components=*/true);
    }
  }
  profile.set_cached_load_ns_per_sample(
      Rounded(static_cast<double>(cached_bytes) / device.host_bytes_per_s * kNanosPerSecond));
  return profile;
}

double BackboneThroughput(const ModelProfile& profile, int local_batch) {
  Nanos step = profile.optimizer_fixed_ns() + profile.cached_load_ns_per_sample() * local_batch;
  for (const ComponentProfile& component : profile.components()) {
    if (!component.is_backbone()) continue;
    for (const LayerProfile& layer : component.layers()) {
      step += layer.optimizer_step_ns();
      for (const LayerTiming& t : layer.timings()) {
        if (t.local_batch() != local_batch) continue;
        step += t.forward_ns() + t.input_grad_ns() + t.weight_grad_ns();
      }
    }
  }
  return static_cast<double>(local_batch) * kNanosPerSecond / step;
}

}  // namespace dpipe::roofline
