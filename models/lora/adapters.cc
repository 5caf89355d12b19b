#include "models/lora/adapters.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/text/show.h"

namespace dpipe::models {
namespace {

constexpr uint64_t kSeed = 0;  // of new adapters

// Returns only the adapters, by their init rules. Goes layer by layer, because most parameters are
// the model's own and large.
NamedTensors NewAdapters(const nn::Program& program) {
  NamedTensors adapters;
  for (int layer = 0; layer < program.num_layers(); ++layer) {
    const LayerRange range{layer, layer + 1};
    if (program.TrainableParameterCount(range) == 0) continue;
    const auto parameters = nn::ParameterSet::OnDemand(program, range, Device::Cpu());
    parameters->AllocateMasters(range);
    parameters->InitRandom(kSeed);
    for (nn::ParameterId id : parameters->trainable_ids()) {
      adapters[program.parameter(id).name] = parameters->weight(id).master();
    }
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

absl::Status Adapters::Merge(const NamedTensors& adapters, NamedTensors* weights) const {
  const absl::Status merged = MergeLoraInto(adapters, options_.merged_scale, weights);
  if (merged.ok()) return merged;
  return absl::Status(merged.code(), absl::StrCat(file(), ": ", merged.message()));
}

absl::Status Adapters::MergeIntoDenoiser(const std::vector<std::string>& ignored_prefixes,
                                         NamedTensors* weights) const {
  NamedTensors adapters = merged_.unet;
  for (const std::string& prefix : ignored_prefixes) {
    for (auto it = adapters.lower_bound(prefix);
         it != adapters.end() && absl::StartsWith(it->first, prefix);) {
      it = adapters.erase(it);
    }
  }
  return Merge(adapters, weights);
}

NamedTensors Adapters::OfTextEncoder(size_t encoder) const {
  if (encoder == 0) return merged_.text_encoder;
  return encoder == 1 ? merged_.text_encoder_2 : NamedTensors();
}

absl::Status Adapters::MergeIntoTextEncoder(size_t encoder, nn::ParameterSet* parameters) const {
  if (!change_text_encoder(encoder)) return absl::OkStatus();
  NamedTensors weights = SharedMasters(*parameters);
  DPIPE_RETURN_IF_ERROR(Merge(OfTextEncoder(encoder), &weights));
  for (nn::ParameterId id : parameters->ids()) parameters->mutable_weight(id)->MarkUpdated();
  return absl::OkStatus();
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
