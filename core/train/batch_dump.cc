#include "core/train/batch_dump.h"

#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/files/file.h"
#include "core/tensor/safetensors.h"
#include "core/train/checkpoint/checkpoint_manifest.h"
#include "nlohmann/json.hpp"

namespace dpipe {
namespace {

using Json = nlohmann::ordered_json;

Json Number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

// Loads all external inputs, except self-conditioning's, by "component.input".
absl::StatusOr<std::map<std::string, Tensor>> LoadInputs(const BatchDump& dump) {
  const std::shared_ptr<Device> device = Device::Cpu();
  std::map<std::string, Tensor> tensors;
  for (int c = 0; c < dump.model->num_components(); ++c) {
    const nn::Component& component = dump.model->component(c);
    for (const ValueId id : component.program.inputs()) {
      const std::string& input = component.program.value(id).name;
      const bool made = component.sources.count(input) > 0;
      if (made || input == component.self_conditioning.input) continue;
      DPIPE_ASSIGN_OR_RETURN(Tensor tensor, dump.inputs->Load(component.name, input, dump.step.step,
                                                              {0, dump.global_batch}, device));
      tensors[absl::StrCat(component.name, ".", input)] = std::move(tensor);
    }
  }
  return tensors;
}

// True if the tensor has one number per sample.
bool IsDrawnNumber(const Tensor& tensor, int global_batch) {
  return tensor.num_elements() == global_batch;
}

Json NumberAt(const Tensor& tensor, int sample) {
  switch (tensor.dtype()) {
    case DType::kF32:
      return Number(tensor.data<float>()[sample]);
    case DType::kBf16:
      return Number(static_cast<float>(tensor.data<Bf16>()[sample]));
    case DType::kI32:
      return tensor.data<int32_t>()[sample];
    default:
      return nullptr;
  }
}

Json SampleJson(const BatchDump& dump, const std::map<std::string, Tensor>& tensors, int sample) {
  Json json;
  json["sample"] = sample;
  if (dump.describe_sample) json["from"] = dump.describe_sample(sample);
  for (const std::vector<float>& losses : dump.step.sample_losses) {
    json["losses"].push_back(Number(losses[sample]));
  }
  for (const auto& [name, tensor] : tensors) {
    if (IsDrawnNumber(tensor, dump.global_batch)) json[name] = NumberAt(tensor, sample);
  }
  return json;
}

absl::Status WriteTensors(const std::string& path, const std::map<std::string, Tensor>& tensors) {
  std::vector<SafetensorsView> views;
  for (const auto& [name, tensor] : tensors) {
    const auto dims = tensor.shape().dims();
    views.push_back(
        {name, SafetensorsDtype(tensor.dtype()), std::vector<int64_t>(dims.begin(), dims.end()),
         absl::string_view(static_cast<const char*>(tensor.raw_data()), tensor.size_bytes())});
  }
  return WriteSafetensors(path, views);
}

}  // namespace

absl::StatusOr<std::string> DumpBatch(const BatchDump& dump, const std::string& folder) {
  DPIPE_ASSIGN_OR_RETURN(const auto tensors, LoadInputs(dump));
  Json json;
  json["step"] = dump.step.step + 1;
  json["loss"] = Number(dump.step.loss);
  json["grad_norm"] = Number(dump.step.grad_norm);
  json["applied"] = dump.step.applied;
  for (int sample = 0; sample < dump.global_batch; ++sample) {
    json["samples"].push_back(SampleJson(dump, tensors, sample));
  }
  DPIPE_RETURN_IF_ERROR(MakeFolder(folder));
  const std::string name = absl::StrFormat("%s/step_%08d", folder, dump.step.step + 1);
  DPIPE_RETURN_IF_ERROR(WriteTensors(name + ".safetensors", tensors));
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(
      name + ".json", json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"));
  return name + ".json";
}

}  // namespace dpipe
