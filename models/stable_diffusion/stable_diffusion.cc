#include "models/stable_diffusion/stable_diffusion.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/base/files/file.h"
#include "core/base/text/show.h"
#include "data/order/buckets.h"
#include "models/clip_text/clip_text.h"
#include "models/folder/model_index.h"
#include "models/lora/lora.h"
#include "models/stable_diffusion/config_corrections.h"
#include "models/unet/unet.h"
#include "models/vae/vae.h"
#include "models/weights/more_channels.h"

namespace dpipe::models {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxImageSize = 4096;  // as for --image_size

// For frozen components without a checkpoint.
constexpr uint64_t kFrozenSeed = 0;

// Returns a program's parameters by their init rules. Allocates on demand, without gradients and
// copies, because those of a full-size U-Net take 3.5 GB each.
NamedTensors RandomParameters(const nn::Program& program, uint64_t seed) {
  const auto parameters = nn::ParameterSet::OnDemand(program, program.all_layers(), Device::Cpu());
  parameters->AllocateMasters(program.all_layers());
  parameters->InitRandom(seed);
  NamedTensors tensors;
  for (nn::ParameterId id : parameters->ids()) {
    tensors[program.parameter(id).name] = parameters->weight(id).master();
  }
  return tensors;
}

// Returns only the adapters, by their init rules. Goes layer by layer.
NamedTensors RandomAdapters(const nn::Program& program, uint64_t seed) {
  NamedTensors adapters;
  for (int layer = 0; layer < program.num_layers(); ++layer) {
    const LayerRange range{layer, layer + 1};
    if (program.TrainableParameterCount(range) == 0) continue;
    const auto parameters = nn::ParameterSet::OnDemand(program, range, Device::Cpu());
    parameters->AllocateMasters(range);
    parameters->InitRandom(seed);
    for (nn::ParameterId id : parameters->trainable_ids()) {
      adapters[program.parameter(id).name] = parameters->weight(id).master();
    }
  }
  return adapters;
}

// Checks that model_index.json describes a supported model, before its parts are read. Other models
// are similar enough that their parts could be misinterpreted.
absl::Status CheckIndex(const std::string& folder) {
  DPIPE_ASSIGN_OR_RETURN(const ModelIndex index, ReadModelIndex(folder));
  const std::vector<std::string>& classes = StableDiffusionClasses();
  if (std::count(classes.begin(), classes.end(), index.class_name) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, "/model_index.json: a ", ShowText(index.class_name),
                     " is not supported; supported are ", absl::StrJoin(classes, ", ")));
  }
  for (const char* other : {"text_encoder_2", "text_encoder_3", "transformer", "prior"}) {
    if (index.components.count(other) == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(folder, "/model_index.json: a model with a component '", other,
                     "' is not supported; only one unet with one text_encoder is supported"));
  }
  return absl::OkStatus();
}

}  // namespace

const std::vector<std::string>& StableDiffusionClasses() {
  static const auto* const kClasses =
      new std::vector<std::string>{kStableDiffusionClass, kControlNetPipelineClass};
  return *kClasses;
}

absl::StatusOr<std::unique_ptr<StableDiffusion>> StableDiffusion::Load(
    const std::string& folder, const StableDiffusionOptions& options) {
  DPIPE_RETURN_IF_ERROR(CheckIndex(folder));
  auto model = std::unique_ptr<StableDiffusion>(new StableDiffusion());
  model->folder_ = folder;
  model->lora_ = options.lora;
  model->lora_format_ = options.lora_format;
  model->adapters_scale_ = options.adapters_scale;
  model->min_snr_gamma_ = options.min_snr_gamma;
  DPIPE_RETURN_IF_ERROR(model->FindAdapters(options));
  DPIPE_RETURN_IF_ERROR(model->ReadConfigs(options));
  DPIPE_RETURN_IF_ERROR(model->BuildModel(options));
  DPIPE_RETURN_IF_ERROR(model->LoadAdaptersToMerge());
  model->frozen_.resize(model->model_->num_components());
  model->frozen_is_random_ = !HasWeights(folder + "/unet") && !HasWeights(folder + "/vae") &&
                             !HasWeights(folder + "/text_encoder");
  for (int c = 0; c < model->model_->num_components(); ++c) {
    if (model->model_->component(c).is_backbone) continue;
    if (model->frozen_is_random_) {
      model->InitFrozen(c);
    } else {
      DPIPE_RETURN_IF_ERROR(model->LoadFrozen(c, model->weights_[c]));
    }
  }
  DPIPE_RETURN_IF_ERROR(model->MergeIntoTextEncoder());
  for (const std::string& note :
       WrapperNotes({folder + "/unet", folder + "/vae", folder + "/text_encoder"})) {
    model->notes_.push_back(note);
  }
  for (const auto& parameters : model->frozen_) model->frozen_pointers_.push_back(parameters.get());
  return model;
}

absl::Status StableDiffusion::WidenUNet(const StableDiffusionOptions& options) {
  if (!options.self_conditioning && !options.coordinates) return absl::OkStatus();
  const char* what = options.self_conditioning ? "self-conditioning" : "training on patches";
  if (options.lora.rank > 0 || options.make_backbone) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " needs training of the whole U-Net, not of adapters or a ControlNet"));
  }
  const int64_t latents = unet_config_.out_channels;
  const int64_t wanted = options.self_conditioning ? 2 * latents : latents + 2;
  const FurtherInput further =
      options.self_conditioning ? FurtherInput::kEstimate : FurtherInput::kCoordinates;
  if (options.self_conditioning && options.coordinates) {
    return absl::InvalidArgumentError(
        "self-conditioning and training on patches cannot be combined");
  }
  if (unet_config_.further_input == further) return absl::OkStatus();
  if (unet_config_.in_channels != latents) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder_, ": the U-Net has ", unet_config_.in_channels, " input channels; ",
                     what, " needs ", wanted, ", or ", latents, " to extend"));
  }
  widened_ = true;
  unet_config_.in_channels = wanted;
  unet_config_.further_input = further;
  return absl::OkStatus();
}

// A folder without kFurtherInputKey that was saved here has the class StableDiffusionPipeline.
// Other models with as many channels have classes of their own.
absl::Status StableDiffusion::ReadUNet() {
  DPIPE_ASSIGN_OR_RETURN(unet_config_, ReadUNetConfig(folder_ + "/unet/config.json"));
  if (unet_config_.latent_channels() == unet_config_.out_channels) return absl::OkStatus();
  DPIPE_ASSIGN_OR_RETURN(const ModelIndex index, ReadModelIndex(folder_));
  if (index.class_name == kStableDiffusionClass) {
    unet_config_.further_input = GuessFurtherInput(unet_config_);
  }
  if (unet_config_.further_input != FurtherInput::kNone) {
    notes_.push_back(absl::StrCat(
        folder_, "/unet/config.json has ", unet_config_.in_channels, " input channels for ",
        unet_config_.out_channels, " output channels and no '", kFurtherInputKey,
        "'; it is read as '", FurtherInputName(unet_config_.further_input),
        "', as written by this trainer; models for other inputs are not supported"));
  }
  return CheckChannels();
}

absl::Status StableDiffusion::CheckVae() const {
  const std::string path = folder_ + "/vae/config.json";
  if (vae_config_.in_channels != 3 || vae_config_.out_channels != 3) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": the VAE has ", vae_config_.in_channels,
                                                   " input channels and ", vae_config_.out_channels,
                                                   " output channels; supported are 3 (red, green, "
                                                   "blue) and 3"));
  }
  if (vae_config_.latent_channels == unet_config_.out_channels) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": the VAE has ", vae_config_.latent_channels,
                   " latent channels, but the U-Net has ", unet_config_.out_channels));
}

absl::Status StableDiffusion::CheckChannels() const {
  if (unet_config_.latent_channels() == unet_config_.out_channels) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(folder_, "/unet/config.json: the U-Net has ", unet_config_.in_channels,
                   " input channels and ", unet_config_.out_channels,
                   " output channels; only latents alone (4 and 4) are supported, not inpainting "
                   "(9 and 4), editing (8 and 4) or depth (5 and 4)"));
}

void StableDiffusion::NoteSchedulerClasses(const std::string& of_config,
                                           const std::string& of_index) {
  if (of_config.empty() || of_index.empty() || of_config == of_index) return;
  notes_.push_back(
      absl::StrCat(folder_, ": the scheduler is a ", ShowText(of_index),
                   " according to model_index.json (which is used, as in diffusers), but a ",
                   ShowText(of_config), " according to scheduler/scheduler_config.json"));
}

absl::Status StableDiffusion::ReadConfigs(const StableDiffusionOptions& options) {
  DPIPE_RETURN_IF_ERROR(ReadUNet());
  CorrectSampleSize(&unet_config_);
  DPIPE_RETURN_IF_ERROR(WidenUNet(options));
  DPIPE_ASSIGN_OR_RETURN(vae_config_, ReadVaeConfig(folder_ + "/vae/config.json"));
  DPIPE_RETURN_IF_ERROR(CheckVae());
  DPIPE_ASSIGN_OR_RETURN(text_config_, ReadClipTextConfig(folder_ + "/text_encoder/config.json"));
  DPIPE_ASSIGN_OR_RETURN(ClipTokenizer tokenizer, ClipTokenizer::Load(folder_ + "/tokenizer"));
  tokenizer_ = std::make_unique<ClipTokenizer>(std::move(tokenizer));
  const std::string scheduler_path = folder_ + "/scheduler/scheduler_config.json";
  DPIPE_ASSIGN_OR_RETURN(const std::string scheduler_json, ReadFile(scheduler_path));
  DPIPE_ASSIGN_OR_RETURN(const ModelIndex index, ReadModelIndex(folder_));
  NoteSchedulerClasses(SchedulerClassOf(scheduler_json), index.scheduler_class);
  changes_ = {options.prediction_type, options.zero_terminal_snr};
  scheduler_config_ = ChangedSchedulerConfig(
      SchedulerConfigOfClass(scheduler_json, index.scheduler_class), changes_);
  auto scheduler = diffusion::ParseSchedulerConfig(scheduler_config_);
  const absl::Status fits =
      scheduler.ok() ? diffusion::CheckPrediction(*scheduler) : scheduler.status();
  if (!fits.ok()) {
    return absl::Status(fits.code(), absl::StrCat(scheduler_path, ": ", fits.message()));
  }
  // diffusers' other pipelines do not do this.
  if (index.class_name == kStableDiffusionClass) CorrectScheduler(&*scheduler);
  DPIPE_ASSIGN_OR_RETURN(diffusion::NoiseSchedule schedule,
                         diffusion::NoiseSchedule::Create(*scheduler));
  schedule_ = std::make_unique<diffusion::NoiseSchedule>(std::move(schedule));

  const int64_t default_size = unet_config_.sample_size * vae_config_.downscale();
  if (options.image_size == 0 && default_size > kMaxImageSize) {
    return absl::InvalidArgumentError(absl::StrCat(
        folder_, "/unet/config.json: 'sample_size' is ", unet_config_.sample_size, ", which gives ",
        default_size, " pixels per side; the maximum is ", kMaxImageSize));
  }
  image_size_ = options.image_size > 0 ? options.image_size : static_cast<int>(default_size);
  if (text_config_.hidden_size != unet_config_.cross_attention_dim) {
    return absl::InvalidArgumentError(absl::StrCat(
        folder_, ": the text encoder's hidden_size is ", text_config_.hidden_size,
        ", but the U-Net's cross_attention_dim is ", unet_config_.cross_attention_dim));
  }
  if (tokenizer_->max_length() > text_config_.max_positions) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder_, ": the tokenizer's model_max_length is ", tokenizer_->max_length(),
                     ", but the text encoder has ", text_config_.max_positions, " positions"));
  }
  if (tokenizer_->vocab_size() > text_config_.vocab_size) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder_, ": the tokenizer has ", tokenizer_->vocab_size(),
                     " tokens, but the text encoder's vocab_size is ", text_config_.vocab_size));
  }
  return absl::OkStatus();
}

UNetShape StableDiffusion::unet_shape(ImageSize size) const {
  UNetShape shape;
  shape.height = size.height / vae_config_.downscale();
  shape.width = size.width / vae_config_.downscale();
  shape.context_length = tokenizer_->max_length();
  return shape;
}

int StableDiffusion::size_multiple() const {
  const int num_levels = static_cast<int>(unet_config_.block_out_channels.size());
  return static_cast<int>(vae_config_.downscale()) << (num_levels - 1);
}

absl::StatusOr<nn::Program> StableDiffusion::MakeVaeEncoder(ImageSize size) const {
  return BuildVaeEncoder(vae_config_, size.height, size.width);
}

absl::StatusOr<std::vector<nn::Component>> StableDiffusion::MakeEncoders(ImageSize size) const {
  DPIPE_RETURN_IF_ERROR(CheckSides(size, size_multiple(), folder_));
  DPIPE_ASSIGN_OR_RETURN(nn::Program encoder, MakeVaeEncoder(size));
  DPIPE_ASSIGN_OR_RETURN(nn::Program text, BuildClipText(text_config_, tokenizer_->max_length()));
  std::vector<nn::Component> encoders;
  encoders.push_back({"vae_encoder", false, std::move(encoder), {}});
  encoders.push_back({"text_encoder", false, std::move(text), {}});
  return encoders;
}

absl::StatusOr<nn::Program> StableDiffusion::MakeUNet(ImageSize size) const {
  return BuildUNetForTraining(unet_config_, unet_shape(size), {*schedule_, min_snr_gamma_, lora_});
}

nn::Component StableDiffusion::AsBackbone(nn::Program unet) const {
  nn::Component backbone{"unet",
                         true,
                         std::move(unet),
                         {{"latents", {"vae_encoder", "latents"}},
                          {"context", {"text_encoder", "last_hidden_state"}}}};
  if (unet_config_.self_conditioning()) backbone.self_conditioning = {"estimate", "prediction"};
  return backbone;
}

absl::Status StableDiffusion::BuildModel(const StableDiffusionOptions& options) {
  const ImageSize size{image_size_, image_size_};
  DPIPE_ASSIGN_OR_RETURN(std::vector<nn::Component> components, MakeEncoders(size));
  DPIPE_ASSIGN_OR_RETURN(nn::Program unet, MakeUNet(size));
  weights_ = {{"vae", {"decoder.", "post_quant_conv."}}, {"text_encoder", {"text_projection."}}};
  if (options.make_backbone) {
    unet_program_ = std::make_unique<nn::Program>(std::move(unet));
    DPIPE_ASSIGN_OR_RETURN(BackboneParts parts, options.make_backbone(*this));
    for (nn::Component& component : parts.components) components.push_back(std::move(component));
    weights_.insert(weights_.end(), parts.frozen.begin(), parts.frozen.end());
    saved_elsewhere_ = parts.subfolder;
  } else {
    components.push_back(AsBackbone(std::move(unet)));
  }
  DPIPE_ASSIGN_OR_RETURN(
      nn::Model model,
      nn::Model::Create(std::filesystem::path(folder_).filename().string(), std::move(components)));
  model_ = std::make_unique<nn::Model>(std::move(model));
  return absl::OkStatus();
}

absl::StatusOr<nn::Model> StableDiffusion::MakeModel(ImageSize size) const {
  DPIPE_ASSIGN_OR_RETURN(std::vector<nn::Component> components, MakeEncoders(size));
  DPIPE_ASSIGN_OR_RETURN(nn::Program unet, MakeUNet(size));
  components.push_back(AsBackbone(std::move(unet)));
  return nn::Model::Create(absl::StrCat(model_->name(), " at ", size.width, " x ", size.height),
                           std::move(components));
}

const nn::Program& StableDiffusion::unet_program() const {
  return unet_program_ != nullptr ? *unet_program_ : model_->component(kUNet).program;
}

absl::Status StableDiffusion::LoadFrozen(int component, const BackboneParts::Weights& weights) {
  const nn::Program& program = model_->component(component).program;
  LoadWeightsOptions options;
  options.ignored_prefixes = weights.ignored_prefixes;
  frozen_[component] =
      std::make_unique<nn::ParameterSet>(program, program.all_layers(), Device::Cpu());
  if (weights.subfolder == "unet" && has_adapters()) {
    DPIPE_ASSIGN_OR_RETURN(const NamedTensors part, LoadMergedUNet(program, options));
    return frozen_[component]->Load(part);
  }
  return LoadWeightsInto(folder_ + "/" + weights.subfolder, frozen_[component].get(), options);
}

void StableDiffusion::InitFrozen(int component) {
  const nn::Program& program = model_->component(component).program;
  frozen_[component] =
      std::make_unique<nn::ParameterSet>(program, program.all_layers(), Device::Cpu());
  frozen_[component]->InitRandom(kFrozenSeed);
}

bool StableDiffusion::has_unet_weights() const { return HasWeights(folder_ + "/unet"); }

std::string StableDiffusion::DescribeFrozen() const {
  const bool locks_unet = unet_program_ != nullptr;
  const bool merges = text_encoder_is_adapted_ || (locks_unet && !adapters_.unet.empty());
  return absl::StrCat("vae and text_encoder ",
                      frozen_is_random_ ? "random" : absl::StrCat("from ", folder_),
                      merges ? " with merged adapters from " : "", merges ? adapters_file_ : "");
}

absl::Status StableDiffusion::FindAdapters(const StableDiffusionOptions& options) {
  if (!options.adapters_file.empty()) {
    DPIPE_ASSIGN_OR_RETURN(adapters_file_, FindLoraFile(options.adapters_file));
    return absl::OkStatus();
  }
  const std::string own = absl::StrCat(folder_, "/", kLoraFile);
  std::error_code error;
  if (fs::exists(own, error)) adapters_file_ = own;
  return absl::OkStatus();
}

absl::StatusOr<LoraAdapters> StableDiffusion::ReadAdapters(float scale) const {
  return LoadLora(
      adapters_file_, scale,
      {AdaptableLayers(unet_program()), AdaptableLayers(model_->component(kTextEncoder).program)});
}

absl::Status StableDiffusion::LoadAdaptersToMerge() {
  if (!has_adapters()) return absl::OkStatus();
  DPIPE_ASSIGN_OR_RETURN(adapters_, ReadAdapters(/*scale=*/1));
  notes_.insert(notes_.end(), adapters_.notes.begin(), adapters_.notes.end());
  if (lora_.rank > 0) adapters_.unet.clear();  // they are trained
  text_encoder_is_adapted_ = !adapters_.text_encoder.empty();
  return absl::OkStatus();
}

absl::StatusOr<NamedTensors> StableDiffusion::LoadMergedUNet(
    const nn::Program& program, const LoadWeightsOptions& options) const {
  DPIPE_ASSIGN_OR_RETURN(NamedTensors unet,
                         LoadWeights(folder_ + "/unet", {&program}, Device::Cpu(), options));
  NamedTensors adapters = adapters_.unet;
  for (const std::string& prefix : options.ignored_prefixes) {
    for (auto it = adapters.lower_bound(prefix);
         it != adapters.end() && absl::StartsWith(it->first, prefix);) {
      it = adapters.erase(it);
    }
  }
  DPIPE_RETURN_IF_ERROR(MergeAdapters(adapters, &unet));
  return unet;
}

absl::Status StableDiffusion::MergeAdapters(const NamedTensors& adapters,
                                            NamedTensors* weights) const {
  const absl::Status merged = MergeLoraInto(adapters, adapters_scale_, weights);
  if (merged.ok()) return merged;
  return absl::Status(merged.code(), absl::StrCat(adapters_file_, ": ", merged.message()));
}

absl::Status StableDiffusion::MergeIntoTextEncoder() {
  if (!text_encoder_is_adapted_) return absl::OkStatus();
  nn::ParameterSet& parameters = *frozen_[kTextEncoder];
  NamedTensors weights;  // share the set's storage
  for (nn::ParameterId id : parameters.ids()) {
    weights[parameters.program().parameter(id).name] = parameters.weight(id).master();
  }
  DPIPE_RETURN_IF_ERROR(MergeAdapters(adapters_.text_encoder, &weights));
  for (nn::ParameterId id : parameters.ids()) parameters.mutable_weight(id)->MarkUpdated();
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, Tensor>> StableDiffusion::LoadUNet() const {
  if (lora_.rank > 0) return LoadUNetWithAdapters();
  if (!widened_) return LoadMergedUNet(unet_program(), {});
  DPIPE_ASSIGN_OR_RETURN(const nn::Program narrow, MakeNarrowUNet());
  DPIPE_ASSIGN_OR_RETURN(NamedTensors unet, LoadMergedUNet(narrow, {}));
  Widen(&unet);
  return unet;
}

absl::StatusOr<nn::Program> StableDiffusion::MakeNarrowUNet() const {
  UNetConfig narrow = unet_config_;
  narrow.in_channels = narrow.out_channels;
  narrow.further_input = FurtherInput::kNone;
  return BuildUNetForInference(narrow, unet_shape());
}

// With zeros for the further channels it computes the same.
void StableDiffusion::Widen(std::map<std::string, Tensor>* narrow) const {
  Tensor& weight = narrow->at("conv_in.weight");
  weight = WithMoreInputChannels(weight, unet_config_.in_channels);
}

absl::StatusOr<std::map<std::string, Tensor>> StableDiffusion::LoadUNetWithAdapters() const {
  DPIPE_ASSIGN_OR_RETURN(const nn::Program base, BuildUNetForInference(unet_config_, unet_shape()));
  DPIPE_ASSIGN_OR_RETURN(NamedTensors unet, LoadWeights(folder_ + "/unet", {&base}, Device::Cpu()));
  NamedTensors adapters = RandomAdapters(unet_program(), kFrozenSeed);
  if (has_adapters()) DPIPE_RETURN_IF_ERROR(LoadAdapters(&adapters));
  unet.merge(adapters);
  return unet;
}

absl::Status StableDiffusion::LoadAdapters(NamedTensors* adapters) const {
  DPIPE_ASSIGN_OR_RETURN(const LoraAdapters file, ReadAdapters(lora_.scale));
  const NamedTensors& stored = file.unet;
  std::vector<std::string> surplus;
  for (const auto& [name, tensor] : stored) {
    if (adapters->count(name) == 0) surplus.push_back(name);
  }
  if (!surplus.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        adapters_file_, ": ", surplus.size(),
        " parameters belong to adapters that are not being trained and would be lost: ",
        ShowNames(surplus)));
  }
  for (auto& [name, tensor] : *adapters) {
    const auto found = stored.find(name);
    const std::string has =
        found == stored.end() ? "is missing" : "is " + found->second.shape().ToString();
    if (found == stored.end() || found->second.shape() != tensor.shape()) {
      return absl::InvalidArgumentError(absl::StrCat(adapters_file_, ": ", name, " ", has,
                                                     ", expected ", tensor.shape().ToString(),
                                                     " of rank ", lora_.rank));
    }
    tensor = found->second;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, Tensor>> StableDiffusion::LoadLockedUNet() const {
  if (frozen_is_random_) return RandomUNet(kFrozenSeed);
  return LoadUNet();
}

absl::StatusOr<std::map<std::string, Tensor>> StableDiffusion::LoadDecoder(
    const nn::Program& decoder) const {
  if (frozen_is_random_) return RandomParameters(decoder, kFrozenSeed);
  LoadWeightsOptions options;
  options.ignored_prefixes = {"encoder.", "quant_conv."};
  return LoadWeights(folder_ + "/vae", {&decoder}, Device::Cpu(), options);
}

std::map<std::string, Tensor> StableDiffusion::RandomUNet(uint64_t seed) const {
  if (!widened_) return RandomParameters(unet_program(), seed);
  const absl::StatusOr<nn::Program> narrow = MakeNarrowUNet();
  DPIPE_CHECK(narrow.ok()) << narrow.status();  // the wide one could be built
  NamedTensors unet = RandomParameters(*narrow, seed);
  Widen(&unet);
  return unet;
}

}  // namespace dpipe::models
