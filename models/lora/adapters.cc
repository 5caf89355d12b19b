#include "models/lora/adapters.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/text/show.h"

namespace dpipe::models {
namespace {

constexpr uint64_t kSeed = 0;  // of new adapters

// Returns only the adapters, by their init rules.
NamedTensors NewAdapters(const nn::Program& program) {
  NamedTensors adapters;
  for (int i = 0; i < program.num_parameters(); ++i) {
    const nn::ParameterInfo& parameter = program.parameter(nn::ParameterId(i));
    if (!parameter.trainable) continue;
    const Tensor tensor = Tensor::Empty(Device::Cpu(), parameter.shape, DType::kF32);
    nn::DrawParameter(parameter, kSeed, tensor.span<float>());
    adapters[parameter.name] = tensor;
  }
  return adapters;
}

}  // namespace

Adapters::Adapters(AdapterOptions options, LoraTargets targets)
    : options_(std::move(options)), targets_(std::move(targets)) {}

absl::StatusOr<Adapters> Adapters::Load(const std::string& model_folder,
                                        const AdapterOptions& options, const LoraTargets& targets) {
  Adapters adapters(options, targets);
  std::string& file = adapters.options_.file;
  if (!file.empty()) {
    DPIPE_ASSIGN_OR_RETURN(file, FindLoraFile(file));
  } else {
    const std::string own = absl::StrCat(model_folder, "/", kLoraFile);
    std::error_code error;
    if (std::filesystem::exists(own, error)) file = own;
  }
  if (file.empty()) return adapters;
  DPIPE_ASSIGN_OR_RETURN(adapters.merged_, LoadLora(file, /*scale=*/1, targets));
  if (adapters.are_trained()) adapters.merged_.unet.clear();
  return adapters;
}

nn::ParameterSourcePtr Adapters::Merged(const NamedTensors& adapters,
                                        nn::ParameterSourcePtr weights) const {
  if (adapters.empty()) return weights;
  return nn::SourceOf(
      [adapters, weights = std::move(weights), scale = options_.merged_scale,
       file = file()](const nn::ParameterInfo& parameter) -> absl::StatusOr<Tensor> {
        DPIPE_ASSIGN_OR_RETURN(const Tensor weight, weights->Read(parameter));
        absl::string_view layer = parameter.name;
        if (!absl::ConsumeSuffix(&layer, ".weight")) return weight;
        NamedTensors own;
        for (const char* part : {nn::kLoraDown, nn::kLoraUp}) {
          const auto found = adapters.find(absl::StrCat(layer, part));
          if (found != adapters.end()) own.insert(*found);
        }
        if (own.empty()) return weight;
        const auto merged = MergeLora({{parameter.name, weight}}, own, scale);
        if (merged.ok()) return merged->at(parameter.name);
        return absl::Status(merged.status().code(),
                            absl::StrCat(file, ": ", merged.status().message()));
      });
}

nn::ParameterSourcePtr Adapters::MergedIntoDenoiser(nn::ParameterSourcePtr weights) const {
  return Merged(merged_.unet, std::move(weights));
}

NamedTensors Adapters::OfTextEncoder(size_t encoder) const {
  if (encoder == 0) return merged_.text_encoder;
  return encoder == 1 ? merged_.text_encoder_2 : NamedTensors();
}

nn::ParameterSourcePtr Adapters::MergedIntoTextEncoder(size_t encoder,
                                                       nn::ParameterSourcePtr weights) const {
  return Merged(OfTextEncoder(encoder), std::move(weights));
}

absl::StatusOr<NamedTensors> Adapters::StartOfTraining(const nn::Program& training) const {
  NamedTensors adapters = NewAdapters(training);
  if (!has_file()) return adapters;
  DPIPE_ASSIGN_OR_RETURN(const LoraAdapters stored, LoadLora(file(), trained().scale, targets_));
  std::vector<std::string> surplus;
  for (const auto& [name, tensor] : stored.unet) {
    if (adapters.count(name) == 0) surplus.push_back(name);
  }
  if (!surplus.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        file(), ": ", surplus.size(),
        " parameters belong to adapters that are not being trained and would be lost: ",
        ShowNames(surplus)));
  }
  for (auto& [name, tensor] : adapters) {
    const auto found = stored.unet.find(name);
    const std::string has =
        found == stored.unet.end() ? "is missing" : "is " + found->second.shape().ToString();
    if (found == stored.unet.end() || found->second.shape() != tensor.shape()) {
      return absl::InvalidArgumentError(absl::StrCat(file(), ": ", name, " ", has, ", expected ",
                                                     tensor.shape().ToString(), " of rank ",
                                                     trained().rank));
    }
    tensor = found->second;
  }
  return adapters;
}

absl::StatusOr<NamedTensors> Adapters::WithTrainedMerged(const NamedTensors& parameters) const {
  const SplitParameters split = SplitLora(parameters);
  return MergeLora(split.base, split.adapters, trained().scale);
}

absl::Status Adapters::Save(const std::string& folder, const NamedTensors& adapters,
                            StoredFormat format) const {
  return SaveLora(absl::StrCat(folder, "/", kLoraFile), adapters, trained().scale,
                  options_.saved_format, format, targets_);
}

}  // namespace dpipe::models
