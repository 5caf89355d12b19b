#include "models/latent/latent_pipeline.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/check.h"
#include "core/base/files/file.h"
#include "core/base/text/show.h"
#include "models/vae/vae.h"

namespace dpipe::models {
namespace {

// For frozen components without a checkpoint.
constexpr uint64_t kFrozenSeed = 0;

// Of computed tensors, whose values are in [-1, 1]: twice the rounding of bf16.
constexpr float kComputedTolerance = 0.004f;

// Returns "a, b and c".
std::string JoinNames(const std::vector<std::string>& names) {
  std::string joined;
  for (size_t i = 0; i < names.size(); ++i) {
    absl::StrAppend(&joined, i == 0 ? "" : i + 1 == names.size() ? " and " : ", ", names[i]);
  }
  return joined;
}

// Returns InvalidArgument with a target that matches none of the program's adapted layers.
absl::Status CheckLoraTargets(const nn::Program& program, const nn::LoraSpec& lora) {
  if (lora.rank == 0) return absl::OkStatus();
  std::vector<std::string> unmatched = lora.targets;
  for (int i = 0; i < program.num_parameters(); ++i) {
    absl::string_view name = program.parameter(nn::ParameterId(i)).name;
    if (!absl::ConsumeSuffix(&name, nn::kLoraDown)) continue;
    const std::string layer(name);
    const auto matches = [&layer](const std::string& target) {
      return nn::IsLoraTarget(layer, target);
    };
    unmatched.erase(std::remove_if(unmatched.begin(), unmatched.end(), matches), unmatched.end());
  }
  if (unmatched.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "low-rank adapters of ", ShowNames(unmatched), ": no layer of the ", program.name(),
      " that can be adapted has such a name; name layers, or their "
      "last parts, as in the weights' names: attn.to_q"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LatentPipeline>> LatentPipeline::Load(
    LatentParts parts, const LoadModelOptions& options) {
  auto pipeline = std::unique_ptr<LatentPipeline>(new LatentPipeline(std::move(parts)));
  LatentPipeline& own = *pipeline;
  own.notes_ = own.parts_.notes;
  const int side = own.image_size();
  DPIPE_ASSIGN_OR_RETURN(std::vector<nn::Component> components,
                         own.parts_.MakeComponents({side, side}));
  DPIPE_ASSIGN_OR_RETURN(nn::Model model,
                         nn::Model::Create(std::filesystem::path(own.folder()).filename().string(),
                                           std::move(components)));
  own.model_ = std::make_unique<nn::Model>(std::move(model));
  DPIPE_RETURN_IF_ERROR(own.LoadAdapters(options));
  own.frozen_is_random_ = true;
  for (const std::string& name : own.WeightFolders()) {
    if (own.parts_.folder.HasWeights(name)) own.frozen_is_random_ = false;
  }
  const std::vector<FrozenWeights> weights = own.WeightsOfFrozen();
  size_t next = 0;
  own.frozen_.resize(own.model_->num_components());
  for (int c = 0; c < own.model_->num_components(); ++c) {
    if (own.model_->component(c).is_backbone) continue;
    DPIPE_CHECK(next < weights.size()) << own.model_->component(c).name;
    DPIPE_RETURN_IF_ERROR(own.LoadFrozen(c, weights[next++]));
  }
  for (size_t i = 0; i < own.parts_.text_encoders.size(); ++i) {
    DPIPE_RETURN_IF_ERROR(
        own.adapters_.MergeIntoTextEncoder(i, own.frozen_[kFirstTextEncoder + i].get()));
  }
  std::vector<std::string> paths;
  for (const std::string& name : own.WeightFolders()) {
    paths.push_back(own.parts_.folder.PathOf(name));
  }
  for (const std::string& note : WrapperNotes(paths)) own.notes_.push_back(note);
  for (const auto& parameters : own.frozen_) own.frozen_pointers_.push_back(parameters.get());
  return pipeline;
}

std::vector<std::string> LatentPipeline::WeightFolders() const {
  std::vector<std::string> names = {denoiser().name(), "vae"};
  for (const TextEncoder& encoder : parts_.text_encoders) names.push_back(encoder.name);
  return names;
}

std::set<std::string> LatentPipeline::read_components() const {
  std::set<std::string> names = {"scheduler", "vae", denoiser().name()};
  for (const TextEncoder& encoder : parts_.text_encoders) {
    names.insert({encoder.name, encoder.tokenizer_name});
  }
  return names;
}

std::vector<FrozenWeights> LatentPipeline::WeightsOfFrozen() const {
  std::vector<FrozenWeights> weights = {{"vae", {"decoder.", "post_quant_conv."}}};
  for (const TextEncoder& encoder : parts_.text_encoders) {
    weights.push_back({encoder.name, encoder.ignored_prefixes});
  }
  for (const FrozenWeights& own : denoiser().frozen_weights()) weights.push_back(own);
  return weights;
}

absl::StatusOr<nn::Program> LatentPipeline::BuildStored() const {
  return denoiser().BuildStored(latent_size());
}

absl::StatusOr<nn::Model> LatentPipeline::NamedModel(ImageSize size,
                                                     std::vector<nn::Component> components) const {
  std::string name = model_->name();
  const bool is_own_size = size.width == image_size() && size.height == image_size();
  if (!is_own_size) absl::StrAppend(&name, " at ", size.width, " x ", size.height);
  return nn::Model::Create(std::move(name), std::move(components));
}

absl::StatusOr<nn::Model> LatentPipeline::MakeModel(ImageSize size) const {
  DPIPE_ASSIGN_OR_RETURN(std::vector<nn::Component> components, parts_.MakeComponents(size));
  return NamedModel(size, std::move(components));
}

absl::StatusOr<nn::Model> LatentPipeline::MakeModelBehindEncoders(ImageSize size) const {
  DPIPE_ASSIGN_OR_RETURN(std::vector<nn::Component> components, parts_.MakeDenoiser(size));
  std::set<std::string> names;
  for (const nn::Component& component : components) names.insert(component.name);
  for (nn::Component& component : components) {
    for (auto it = component.sources.begin(); it != component.sources.end();) {
      it = names.count(it->second.component) > 0 ? std::next(it) : component.sources.erase(it);
    }
  }
  return NamedModel(size, std::move(components));
}

absl::Status LatentPipeline::LoadAdapters(const LoadModelOptions& options) {
  AdapterOptions loading;
  loading.file = options.adapters_file;
  loading.merged_scale = options.adapters_scale;
  loading.trained = parts_.lora;
  loading.saved_format = options.lora_format;
  LoraTargets targets;
  DPIPE_ASSIGN_OR_RETURN(const nn::Program stored, BuildStored());
  targets.unet = AdaptableLayers(stored);
  targets.denoiser = denoiser().name();
  targets.kohya_layers = denoiser().kohya_layers();
  DPIPE_RETURN_IF_ERROR(CheckLoraTargets(model_->backbone().program, parts_.lora));
  AdaptableLayers* const of_encoders[] = {&targets.text_encoder, &targets.text_encoder_2};
  for (size_t i = 0; i < std::min(parts_.text_encoders.size(), std::size(of_encoders)); ++i) {
    *of_encoders[i] =
        AdaptableLayers(model_->component(kFirstTextEncoder + static_cast<int>(i)).program);
  }
  DPIPE_ASSIGN_OR_RETURN(adapters_, Adapters::Load(folder(), loading, targets));
  notes_.insert(notes_.end(), adapters_.notes().begin(), adapters_.notes().end());
  return absl::OkStatus();
}

absl::Status LatentPipeline::LoadFrozen(int component, const FrozenWeights& weights) {
  const nn::Program& program = model_->component(component).program;
  frozen_[component] =
      std::make_unique<nn::ParameterSet>(program, program.all_layers(), Device::Cpu());
  nn::ParameterSet* parameters = frozen_[component].get();
  if (frozen_is_random_) {
    parameters->InitRandom(kFrozenSeed);
    return absl::OkStatus();
  }
  const LoadWeightsOptions options{weights.ignored_prefixes};
  if (weights.subfolder == denoiser().name() && adapters_.has_file()) {
    DPIPE_ASSIGN_OR_RETURN(const NamedTensors part, LoadMergedDenoiser(program, options));
    return parameters->Load(part);
  }
  return LoadWeightsInto(parts_.folder.PathOf(weights.subfolder), parameters, options);
}

absl::StatusOr<NamedTensors> LatentPipeline::LoadMergedDenoiser(
    const nn::Program& program, const LoadWeightsOptions& options) const {
  const std::string path = parts_.folder.PathOf(denoiser().name());
  LoadWeightsOptions reading = options;
  for (const auto& [name, compute] : denoiser().computed_tensors()) {
    DPIPE_ASSIGN_OR_RETURN(const Tensor computed, compute());
    DPIPE_RETURN_IF_ERROR(CheckStoredTensor(path, name, computed, kComputedTolerance));
    reading.ignored_prefixes.push_back(name);
  }
  DPIPE_ASSIGN_OR_RETURN(NamedTensors weights,
                         LoadWeights(path, {&program}, Device::Cpu(), reading));
  DPIPE_RETURN_IF_ERROR(adapters_.MergeIntoDenoiser(options.ignored_prefixes, &weights));
  return weights;
}

absl::StatusOr<NamedTensors> LatentPipeline::LoadDenoiser() const {
  DPIPE_ASSIGN_OR_RETURN(const nn::Program stored, BuildStored());
  DPIPE_ASSIGN_OR_RETURN(NamedTensors parameters, LoadMergedDenoiser(stored, {}));
  denoiser().FromStored(&parameters);
  if (!adapters_.are_trained()) return parameters;
  DPIPE_ASSIGN_OR_RETURN(NamedTensors trained,
                         adapters_.StartOfTraining(model_->backbone().program));
  parameters.merge(trained);
  return parameters;
}

NamedTensors LatentPipeline::RandomDenoiser(uint64_t seed) const {
  if (adapters_.are_trained()) return RandomParameters(model_->backbone().program, seed);
  const absl::StatusOr<nn::Program> stored = BuildStored();
  DPIPE_CHECK(stored.ok()) << stored.status();  // Load has built it
  NamedTensors parameters = RandomParameters(*stored, seed);
  denoiser().FromStored(&parameters);
  return parameters;
}

absl::StatusOr<NamedTensors> LatentPipeline::LoadLockedDenoiser() const {
  if (frozen_is_random_) return RandomDenoiser(kFrozenSeed);
  return LoadDenoiser();
}

absl::StatusOr<NamedTensors> LatentPipeline::LoadDecoder(const nn::Program& decoder) const {
  if (frozen_is_random_) return RandomParameters(decoder, kFrozenSeed);
  const LoadWeightsOptions options{{"encoder.", "quant_conv."}};
  return LoadWeights(parts_.folder.PathOf("vae"), {&decoder}, Device::Cpu(), options);
}

bool LatentPipeline::has_denoiser_weights() const {
  return parts_.folder.HasWeights(denoiser().name());
}

absl::Status LatentPipeline::CheckIsTrained() const {
  if (has_denoiser_weights()) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(folder(), " has no trained ", denoiser().title(), " (",
                                          denoiser().name(), "/", kDiffusersWeights,
                                          "); train one with: bazel run //tools:train"));
}

std::string LatentPipeline::DescribeFrozen() const {
  const bool locks_denoiser = !denoiser().frozen_weights().empty();
  bool merges = locks_denoiser && adapters_.change_denoiser();
  for (size_t i = 0; i < parts_.text_encoders.size(); ++i) {
    merges = merges || adapters_.change_text_encoder(i);
  }
  std::vector<std::string> names = WeightFolders();
  names.erase(names.begin());  // the denoiser
  return absl::StrCat(JoinNames(names), " ",
                      frozen_is_random_ ? "random" : absl::StrCat("from ", folder()),
                      merges ? absl::StrCat(" with merged adapters from ", adapters_.file()) : "");
}

absl::Status LatentPipeline::SaveFrozen(const std::string& folder, StoredFormat format) const {
  for (size_t i = 0; i < parts_.text_encoders.size(); ++i) {
    if (!frozen_is_random_ && !adapters_.change_text_encoder(i)) continue;
    DPIPE_RETURN_IF_ERROR(SaveWeights(
        absl::StrCat(folder, "/", parts_.text_encoders[i].name, "/", kTransformersWeights),
        SharedMasters(*frozen_[kFirstTextEncoder + i]), format));
  }
  if (!frozen_is_random_) return absl::OkStatus();
  DPIPE_ASSIGN_OR_RETURN(const nn::Program decoder,
                         BuildVaeDecoder(parts_.vae, image_size(), image_size()));
  DPIPE_ASSIGN_OR_RETURN(NamedTensors vae, LoadDecoder(decoder));
  NamedTensors encoder = SharedMasters(*frozen_[kVaeEncoder]);
  vae.merge(encoder);
  return SaveWeights(absl::StrCat(folder, "/vae/", kDiffusersWeights), vae, format);
}

absl::Status LatentPipeline::SaveAll(const std::string& folder, const NamedTensors* denoiser,
                                     const std::set<std::string>& left_out,
                                     StoredFormat format) const {
  const std::string name = this->denoiser().name();
  CopiedComponents copied;
  copied.read = read_components();
  if (denoiser != nullptr) copied.without_weights.insert(name);
  for (size_t i = 0; i < parts_.text_encoders.size(); ++i) {
    if (adapters_.change_text_encoder(i)) {
      copied.without_weights.insert(parts_.text_encoders[i].name);
    }
  }
  copied.left_out = left_out;
  DPIPE_RETURN_IF_ERROR(parts_.folder.CopyTo(folder, copied));
  DPIPE_RETURN_IF_ERROR(WriteSchedulerFile(parts_.scheduler, folder));
  const std::string config_path = parts_.folder.ConfigOf(name);
  DPIPE_ASSIGN_OR_RETURN(const std::string config, ReadFile(config_path));
  DPIPE_ASSIGN_OR_RETURN(const std::string saved,
                         this->denoiser().SavedConfig(config, config_path));
  if (saved != config) {
    DPIPE_RETURN_IF_ERROR(
        WriteFileAtomically(absl::StrCat(folder, "/", name, "/config.json"), saved));
  }
  DPIPE_RETURN_IF_ERROR(SaveFrozen(folder, format));
  if (denoiser == nullptr) return absl::OkStatus();
  NamedTensors stored = *denoiser;
  for (const auto& [tensor, compute] : this->denoiser().computed_tensors()) {
    DPIPE_ASSIGN_OR_RETURN(stored[tensor], compute());
  }
  return SaveWeights(absl::StrCat(folder, "/", name, "/", kDiffusersWeights), stored, format);
}

absl::Status LatentPipeline::Save(const std::string& folder, const NamedTensors& denoiser,
                                  StoredFormat format) const {
  const SplitParameters split = SplitLora(denoiser);
  const bool keeps_weights = adapters_.are_trained() && has_denoiser_weights();
  DPIPE_RETURN_IF_ERROR(
      SaveAll(folder, keeps_weights ? nullptr : &split.base, /*left_out=*/{}, format));
  if (!adapters_.are_trained()) return absl::OkStatus();
  return adapters_.Save(folder, split.adapters, format);
}

absl::Status LatentPipeline::SaveWithLockedDenoiser(const std::string& folder,
                                                    const std::set<std::string>& left_out,
                                                    StoredFormat format) const {
  if (!frozen_is_random_ && !adapters_.has_file()) {
    return SaveAll(folder, /*denoiser=*/nullptr, left_out, format);
  }
  DPIPE_ASSIGN_OR_RETURN(const NamedTensors weights, LoadLockedDenoiser());
  return SaveAll(folder, &weights, left_out, format);
}

}  // namespace dpipe::models
