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

std::vector<nn::ParameterInfo> ParametersOf(const nn::Program& program) {
  std::vector<nn::ParameterInfo> parameters;
  for (int i = 0; i < program.num_parameters(); ++i) {
    parameters.push_back(program.parameter(nn::ParameterId(i)));
  }
  return parameters;
}

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

// Returns InvalidArgument if all weights are trained, and thus kept in fp32.
absl::Status CheckStorage(const nn::Model& model, ops::WeightStorage base_storage) {
  for (int c = 0; c < model.num_components(); ++c) {
    const nn::Program& program = model.component(c).program;
    for (int i = 0; model.component(c).is_backbone && i < program.num_parameters(); ++i) {
      if (program.parameter(nn::ParameterId(i)).storage == base_storage) return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("all weights of the ", model.backbone().program.name(),
                   " are trained, so none can be kept in ", ops::WeightStorageName(base_storage),
                   "; train adapters (--model.lora_rank), or keep them in fp32"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LatentPipeline>> LatentPipeline::Load(
    LatentParts parts, const LoadModelOptions& options) {
  parts.base_storage = options.base_storage;
  parts.frozen_storage = options.frozen_storage;
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
  DPIPE_RETURN_IF_ERROR(CheckStorage(*own.model_, options.base_storage));
  DPIPE_RETURN_IF_ERROR(own.LoadAdapters(options));
  own.frozen_is_random_ = true;
  for (const std::string& name : own.WeightFolders()) {
    if (own.parts_.folder.HasWeights(name)) own.frozen_is_random_ = false;
  }
  const std::vector<FrozenWeights> weights = own.WeightsOfFrozen();
  size_t next = 0;
  own.frozen_.resize(own.model_->num_components());
  own.frozen_sources_.resize(own.model_->num_components());
  for (int c = 0; c < own.model_->num_components(); ++c) {
    if (own.model_->component(c).is_backbone) continue;
    DPIPE_CHECK(next < weights.size()) << own.model_->component(c).name;
    DPIPE_RETURN_IF_ERROR(own.OpenFrozen(c, weights[next++]));
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

absl::Status LatentPipeline::OpenFrozen(int component, const FrozenWeights& weights) {
  const nn::Program& program = model_->component(component).program;
  frozen_[component] = nn::ParameterSet::OnDemand(program, program.all_layers(), Device::Cpu());
  nn::ParameterSourcePtr& source = frozen_sources_[component];
  const LoadWeightsOptions options{weights.ignored_prefixes};
  if (frozen_is_random_) {
    source = nn::RandomSource(kFrozenSeed);
  } else if (weights.subfolder == denoiser().name()) {
    DPIPE_ASSIGN_OR_RETURN(source, OpenMergedDenoiser(program, options));
  } else {
    DPIPE_ASSIGN_OR_RETURN(
        source, WeightReader::Open(parts_.folder.PathOf(weights.subfolder), {&program}, options));
  }
  const size_t encoder = static_cast<size_t>(component - kFirstTextEncoder);
  if (component >= kFirstTextEncoder && encoder < parts_.text_encoders.size()) {
    source = adapters_.MergedIntoTextEncoder(encoder, source);
  }
  return absl::OkStatus();
}

absl::Status LatentPipeline::LoadFrozen(int component, LayerRange layers) const {
  absl::MutexLock lock(&frozen_mutex_);
  return frozen_[component]->LoadMissing(layers, *frozen_sources_[component]);
}

absl::Status LatentPipeline::LoadFrozen(int component) const {
  return LoadFrozen(component, model_->component(component).program.all_layers());
}

absl::StatusOr<nn::ParameterSourcePtr> LatentPipeline::OpenMergedDenoiser(
    const nn::Program& program, const LoadWeightsOptions& options) const {
  const std::string path = parts_.folder.PathOf(denoiser().name());
  LoadWeightsOptions reading = options;
  for (const auto& [name, compute] : denoiser().computed_tensors()) {
    DPIPE_ASSIGN_OR_RETURN(const Tensor computed, compute());
    DPIPE_RETURN_IF_ERROR(CheckStoredTensor(path, name, computed, kComputedTolerance));
    reading.ignored_prefixes.push_back(name);
  }
  DPIPE_ASSIGN_OR_RETURN(nn::ParameterSourcePtr weights,
                         WeightReader::Open(path, {&program}, reading));
  return adapters_.MergedIntoDenoiser(std::move(weights));
}

nn::ParameterSourcePtr LatentPipeline::FromStored(nn::Program program,
                                                  nn::ParameterSourcePtr source,
                                                  NamedTensors trained) const {
  const auto stored = std::make_shared<const nn::Program>(std::move(program));
  std::map<std::string, nn::ParameterId> ids;
  for (int i = 0; i < stored->num_parameters(); ++i) {
    ids.emplace(stored->parameter(nn::ParameterId(i)).name, nn::ParameterId(i));
  }
  return nn::SourceOf(
      [this, stored, ids, source = std::move(source), trained = nn::SourceOf(std::move(trained))](
          const nn::ParameterInfo& parameter) -> absl::StatusOr<Tensor> {
        const auto found = ids.find(parameter.name);
        if (found == ids.end()) return trained->Read(parameter);
        NamedTensors own;
        DPIPE_ASSIGN_OR_RETURN(own[parameter.name], source->Read(stored->parameter(found->second)));
        denoiser().FromStored(&own);
        return nn::SourceOf(own)->Read(parameter);  // checks the shape
      });
}

absl::StatusOr<nn::ParameterSourcePtr> LatentPipeline::OpenDenoiser() const {
  DPIPE_ASSIGN_OR_RETURN(nn::Program stored, BuildStored());
  DPIPE_ASSIGN_OR_RETURN(nn::ParameterSourcePtr weights, OpenMergedDenoiser(stored, {}));
  NamedTensors trained;
  if (adapters_.are_trained()) {
    DPIPE_ASSIGN_OR_RETURN(trained, adapters_.StartOfTraining(model_->backbone().program));
  }
  return FromStored(std::move(stored), std::move(weights), std::move(trained));
}

nn::ParameterSourcePtr LatentPipeline::DrawDenoiser(uint64_t seed) const {
  if (adapters_.are_trained()) return nn::RandomSource(seed);
  absl::StatusOr<nn::Program> stored = BuildStored();
  DPIPE_CHECK(stored.ok()) << stored.status();  // Load has built it
  return FromStored(*std::move(stored), nn::RandomSource(seed), {});
}

absl::StatusOr<nn::ParameterSourcePtr> LatentPipeline::OpenLockedDenoiser() const {
  if (frozen_is_random_) return DrawDenoiser(kFrozenSeed);
  return OpenDenoiser();
}

absl::StatusOr<NamedTensors> LatentPipeline::ReadDenoiser(const nn::ParameterSource& source) const {
  NamedTensors all;
  for (const nn::ParameterInfo& parameter : DenoiserParameters()) {
    DPIPE_ASSIGN_OR_RETURN(all[parameter.name], source.Read(parameter));
  }
  return all;
}

absl::StatusOr<NamedTensors> LatentPipeline::LoadDenoiser() const {
  DPIPE_ASSIGN_OR_RETURN(const nn::ParameterSourcePtr source, OpenDenoiser());
  return ReadDenoiser(*source);
}

NamedTensors LatentPipeline::RandomDenoiser(uint64_t seed) const {
  const absl::StatusOr<NamedTensors> parameters = ReadDenoiser(*DrawDenoiser(seed));
  DPIPE_CHECK(parameters.ok()) << parameters.status();  // nothing is read
  return *parameters;
}

absl::StatusOr<NamedTensors> LatentPipeline::LoadLockedDenoiser() const {
  DPIPE_ASSIGN_OR_RETURN(const nn::ParameterSourcePtr source, OpenLockedDenoiser());
  return ReadDenoiser(*source);
}

std::vector<nn::ParameterInfo> LatentPipeline::DenoiserParameters() const {
  if (denoiser().frozen_weights().empty()) return ParametersOf(model_->backbone().program);
  // The denoiser is locked and not the backbone.
  const absl::StatusOr<nn::Program> stored = BuildStored();
  DPIPE_CHECK(stored.ok()) << stored.status();  // Load has built it
  return ParametersOf(*stored);
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
    const int component = kFirstTextEncoder + static_cast<int>(i);
    DPIPE_RETURN_IF_ERROR(SaveWeightsFrom(
        *frozen_sources_[component], ParametersOf(model_->component(component).program),
        absl::StrCat(folder, "/", parts_.text_encoders[i].name), kTransformersWeights, format));
  }
  if (!frozen_is_random_) return absl::OkStatus();
  DPIPE_ASSIGN_OR_RETURN(const nn::Program decoder,
                         BuildVaeDecoder(parts_.vae, image_size(), image_size()));
  std::vector<nn::ParameterInfo> vae = ParametersOf(model_->component(kVaeEncoder).program);
  for (const nn::ParameterInfo& parameter : ParametersOf(decoder)) vae.push_back(parameter);
  return SaveWeightsFrom(*nn::RandomSource(kFrozenSeed), vae, absl::StrCat(folder, "/vae"),
                         kDiffusersWeights, format);
}

absl::Status LatentPipeline::SaveAll(const std::string& folder, const SavedDenoiser& denoiser,
                                     const std::set<std::string>& left_out,
                                     StoredFormat format) const {
  const std::string name = this->denoiser().name();
  CopiedComponents copied;
  copied.read = read_components();
  if (denoiser.source != nullptr) copied.without_weights.insert(name);
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
  if (denoiser.source == nullptr) return absl::OkStatus();
  NamedTensors computed;
  std::vector<nn::ParameterInfo> parameters = denoiser.parameters;
  for (const auto& [tensor, compute] : this->denoiser().computed_tensors()) {
    DPIPE_ASSIGN_OR_RETURN(computed[tensor], compute());
    nn::ParameterInfo info;
    info.name = tensor;
    info.shape = computed[tensor].shape();
    parameters.push_back(std::move(info));
  }
  const auto source = nn::SourceOf([&](const nn::ParameterInfo& parameter) {
    const auto found = computed.find(parameter.name);
    return found != computed.end() ? absl::StatusOr<Tensor>(found->second)
                                   : denoiser.source->Read(parameter);
  });
  return SaveWeightsFrom(*source, parameters, absl::StrCat(folder, "/", name), kDiffusersWeights,
                         format);
}

absl::Status LatentPipeline::Save(const std::string& folder, const nn::ParameterSource& denoiser,
                                  StoredFormat format) const {
  SavedDenoiser saved;
  NamedTensors trained;
  const bool keeps_weights = adapters_.are_trained() && has_denoiser_weights();
  if (!keeps_weights) saved.source = &denoiser;
  for (const nn::ParameterInfo& parameter : DenoiserParameters()) {
    if (!IsLoraParameter(parameter.name)) {
      saved.parameters.push_back(parameter);
    } else {
      DPIPE_ASSIGN_OR_RETURN(trained[parameter.name], denoiser.Read(parameter));
    }
  }
  DPIPE_RETURN_IF_ERROR(SaveAll(folder, saved, /*left_out=*/{}, format));
  if (!adapters_.are_trained()) return absl::OkStatus();
  return adapters_.Save(folder, trained, format);
}

absl::Status LatentPipeline::SaveWithLockedDenoiser(const std::string& folder,
                                                    const std::set<std::string>& left_out,
                                                    StoredFormat format) const {
  if (!frozen_is_random_ && !adapters_.has_file()) return SaveAll(folder, {}, left_out, format);
  DPIPE_ASSIGN_OR_RETURN(const nn::ParameterSourcePtr weights, OpenLockedDenoiser());
  return SaveAll(folder, {weights.get(), DenoiserParameters()}, left_out, format);
}

}  // namespace dpipe::models
