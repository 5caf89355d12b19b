#include "models/latent/trainable.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "models/latent/image_sampler.h"
#include "models/latent/training_inputs.h"

namespace dpipe::models {

bool TrainableLatentModel::takes_coordinates() const {
  const auto conditions = pipeline_->denoiser().conditions();
  return std::any_of(conditions.begin(), conditions.end(),
                     [](const auto& condition) { return condition->tells_position(); });
}

bool TrainableLatentModel::wants_conditions() const {
  const auto conditions = pipeline_->denoiser().conditions();
  return std::any_of(conditions.begin(), conditions.end(),
                     [](const auto& condition) { return condition->reads_picture(); });
}

const Tokenizer* TrainableLatentModel::tokenizer() const {
  const Tokenizer* longest = nullptr;
  for (const TextEncoder& encoder : pipeline_->parts().text_encoders) {
    if (longest == nullptr || encoder.tokenizer->max_length() > longest->max_length()) {
      longest = encoder.tokenizer.get();
    }
  }
  return longest;
}

std::string TrainableLatentModel::Describe() const {
  const nn::Program& denoiser = model().backbone().program;
  const int rank = pipeline_->adapters().trained().rank;
  return absl::StrCat(model().name(), ", ",
                      absl::StrFormat("%.2f M trainable parameters in %d layers, %d x %d pixels",
                                      denoiser.TrainableParameterCount(denoiser.all_layers()) / 1e6,
                                      denoiser.num_layers(), image_size(), image_size()),
                      rank > 0 ? absl::StrCat(" (adapters of rank ", rank, ")") : "",
                      pipeline_->frozen_is_random()
                          ? ", random frozen components (pictures will be meaningless)"
                          : "");
}

absl::StatusOr<NamedTensors> TrainableLatentModel::InitialParameters(Start start,
                                                                     uint64_t seed) const {
  if (start == Start::kRandom) return pipeline_->RandomDenoiser(seed);
  return pipeline_->LoadDenoiser();
}

std::string TrainableLatentModel::DescribeStart(Start start, uint64_t seed) const {
  const std::string name = pipeline_->denoiser().name();
  if (start == Start::kRandom) return absl::StrCat(name, " random (seed ", seed, ")");
  const std::string from = absl::StrCat(name, " from ", pipeline_->parts().folder.PathOf(name));
  const Adapters& adapters = pipeline_->adapters();
  if (!adapters.has_file()) {
    return adapters.are_trained() ? absl::StrCat(from, ", with new adapters") : from;
  }
  return absl::StrCat(
      from, adapters.are_trained() ? ", with adapters from " : " with merged adapters from ",
      adapters.file());
}

absl::StatusOr<std::unique_ptr<InputProvider>> TrainableLatentModel::MakeInputs(
    DataLoader* loader, const InputsOptions& options) const {
  return std::make_unique<TrainingInputs>(pipeline_.get(), loader, options);
}

absl::StatusOr<CachedInputs> TrainableLatentModel::MakeCachedInputs(
    const CacheRequest& request, const InputsOptions& options,
    const std::vector<DeviceWorker*>& workers,
    const std::function<void(double)>& on_progress) const {
  return MakeCachedTrainingInputs(pipeline_.get(), request, options, workers, on_progress);
}

absl::StatusOr<std::vector<Image>> TrainableLatentModel::Draw(
    const NamedTensors& parameters, const DrawRequest& request,
    const std::vector<DeviceWorker*>& workers,
    const std::function<void(double)>& on_progress) const {
  DPIPE_ASSIGN_OR_RETURN(const NamedTensors drawing, DrawingParameters(parameters));
  DPIPE_ASSIGN_OR_RETURN(const auto sampler,
                         ImageSampler::Create(pipeline_.get(), drawing, request.compute_dtype));
  return sampler->DrawWithConditions(request.prompts, request.conditions, request.options, workers,
                                     on_progress);
}

ModelKind LatentKind(
    const std::string& name, const std::string& class_name,
    std::function<absl::StatusOr<LatentParts>(const std::string&, const LoadModelOptions&)> read) {
  ModelKind kind;
  kind.name = name;
  kind.classes = {class_name};
  kind.is_latent = true;
  kind.takes_adapters = true;
  kind.load = [read = std::move(read)](const std::string& folder, const LoadModelOptions& options)
      -> absl::StatusOr<std::unique_ptr<TrainableModel>> {
    DPIPE_ASSIGN_OR_RETURN(LatentParts parts, read(folder, options));
    DPIPE_ASSIGN_OR_RETURN(auto pipeline, LatentPipeline::Load(std::move(parts), options));
    return std::make_unique<TrainableLatentModel>(std::move(pipeline));
  };
  return kind;
}

}  // namespace dpipe::models
