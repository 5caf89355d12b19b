#include "models/cascade/cascade.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "core/base/files/file.h"
#include "core/base/text/json.h"
#include "data/order/buckets.h"
#include "models/cascade/cascade_inputs.h"
#include "models/cascade/cascade_sampler.h"
#include "models/config/component_config.h"
#include "models/trainable/trainable_model.h"
#include "models/weights/more_channels.h"

namespace dpipe::models {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNames[] = {"base", "super_resolution"};

std::string SchedulerPath(const std::string& folder, const std::string& name) {
  return absl::StrCat(folder, "/", name, "_scheduler/scheduler_config.json");
}

absl::StatusOr<std::unique_ptr<diffusion::NoiseSchedule>> ReadSchedule(
    const std::string& path, const LoadModelOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(const std::string json, ReadFile(path));
  auto parsed = diffusion::ParseSchedulerConfig(json);
  if (parsed.ok()) {
    if (options.prediction_type.has_value()) parsed->prediction_type = *options.prediction_type;
    if (options.zero_terminal_snr.has_value()) {
      parsed->rescale_zero_terminal_snr = *options.zero_terminal_snr;
    }
    const absl::Status fits = diffusion::CheckPrediction(*parsed);
    if (!fits.ok()) parsed = fits;
  }
  auto schedule = parsed.ok() ? diffusion::NoiseSchedule::Create(*parsed) : parsed.status();
  if (schedule.ok()) return std::make_unique<diffusion::NoiseSchedule>(*std::move(schedule));
  return absl::Status(schedule.status().code(),
                      absl::StrCat(path, ": ", schedule.status().message()));
}

// Builds the program of a U-Net as stored in its folder.
absl::StatusOr<nn::Program> StoredProgram(const CascadePart& part, bool widened) {
  PixelUNetConfig config = part.config;
  PixelUNetOptions options = part.options;
  options.prefix.clear();
  if (widened) {
    config.in_channels -= config.out_channels;
    options.self_conditioning = false;
  }
  return BuildPixelUNetForInference(config, options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainableModel>> Cascade::Load(const std::string& folder,
                                                              const LoadModelOptions& options) {
  auto model = std::unique_ptr<Cascade>(new Cascade());
  DPIPE_RETURN_IF_ERROR(CheckNoFlowOptions(options, folder));
  model->folder_ = folder;
  model->options_ = options;
  DPIPE_RETURN_IF_ERROR(model->ReadIndex());
  for (int i : {kBase, kSuperResolution}) DPIPE_RETURN_IF_ERROR(model->ReadPart(i, options));
  DPIPE_ASSIGN_OR_RETURN(model->low_schedule_,
                         ReadSchedule(SchedulerPath(folder, "low_res"), LoadModelOptions()));
  if (model->max_noise_level_ > model->low_schedule_->num_timesteps()) {
    return absl::InvalidArgumentError(absl::StrCat(
        folder, ": max_noise_level is ", model->max_noise_level_, ", but low_res_scheduler has ",
        model->low_schedule_->num_timesteps(), " timesteps"));
  }
  DPIPE_RETURN_IF_ERROR(model->SetSizes(options.image_size));
  const int64_t classes = model->parts_[kBase].config.num_class_embeds;
  if (classes > 0) {
    DPIPE_ASSIGN_OR_RETURN(model->labels_, ClassLabels::Read(folder + "/classes.txt", classes));
  }
  DPIPE_RETURN_IF_ERROR(model->BuildModel());
  return std::unique_ptr<TrainableModel>(std::move(model));
}

absl::Status Cascade::ReadIndex() {
  DPIPE_ASSIGN_OR_RETURN(ComponentConfig index,
                         ComponentConfig::Read(folder_ + "/model_index.json"));
  max_noise_level_ = static_cast<int>(index.PositiveInt("max_noise_level", 400));
  noise_level_ = static_cast<int>(index.PositiveInt("noise_level", 50));
  if (noise_level_ >= max_noise_level_) {
    index.AddProblem("noise_level",
                     absl::StrCat("expected less than max_noise_level, ", max_noise_level_));
  }
  return index.status();
}

absl::Status Cascade::ReadPart(int index, const LoadModelOptions& options) {
  CascadePart& part = parts_[index];
  part.name = kNames[index];
  DPIPE_ASSIGN_OR_RETURN(
      part.config, ReadPixelUNetConfig(absl::StrCat(folder_, "/", part.name, "/config.json")));
  DPIPE_ASSIGN_OR_RETURN(const auto schedule,
                         ReadSchedule(SchedulerPath(folder_, part.name), options));
  part.objective =
      std::make_unique<diffusion::DiffusionObjective>(*schedule, options.min_snr_gamma);
  part.options.prefix = part.name + ".";
  // The number of channels in the folder determines if it takes its own estimate.
  const int64_t pictures = 1 + (index == kSuperResolution);
  part.options.self_conditioning =
      part.config.in_channels == (pictures + 1) * part.config.out_channels;
  if (options.self_conditioning && !part.options.self_conditioning) {
    part.options.self_conditioning = true;
    part.config.in_channels += part.config.out_channels;
  }
  return absl::OkStatus();
}

absl::Status Cascade::SetSizes(int image_size) {
  const int64_t large = parts_[kSuperResolution].config.sample_size;
  const int64_t small = parts_[kBase].config.sample_size;
  const int64_t ratio = large / small;
  if (large % small != 0 || ratio < 2 || (ratio & (ratio - 1)) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder_, ": pictures of ", small, " pixels are enlarged to ", large,
                     "; the ratio of sample_size must be 2, 4, 8, ..."));
  }
  image_size_ = image_size > 0 ? image_size : static_cast<int>(large);
  if (image_size_ % ratio != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder_, ": images of ", image_size_, " pixels cannot be divided by ", ratio));
  }
  ratio_ = static_cast<int>(ratio);
  for (int i : {kBase, kSuperResolution}) {
    parts_[i].options = OptionsAt(i, {image_size_, image_size_});
  }
  return absl::OkStatus();
}

ImageSize Cascade::SizeOf(int index, ImageSize large) const {
  return index == kSuperResolution ? large : ImageSize{large.width / ratio_, large.height / ratio_};
}

int Cascade::size_multiple() const {
  const auto multiple_of = [this](int index) {
    return 1 << (parts_[index].config.block_out_channels.size() - 1);
  };
  // All are powers of two.
  return std::max(ratio_ * multiple_of(kBase), multiple_of(kSuperResolution));
}

PixelUNetOptions Cascade::OptionsAt(int index, ImageSize large) const {
  const ImageSize own = SizeOf(index, large), small = SizeOf(kBase, large);
  PixelUNetOptions options = parts_[index].options;
  options.height = own.height;
  options.width = own.width;
  if (index == kSuperResolution) {
    options.low_height = small.height;
    options.low_width = small.width;
  }
  return options;
}

absl::StatusOr<std::vector<nn::Component>> Cascade::MakeComponents(ImageSize large) const {
  std::vector<nn::Component> components;
  for (int i : {kBase, kSuperResolution}) {
    const CascadePart& part = parts_[i];
    DPIPE_ASSIGN_OR_RETURN(nn::Program program,
                           BuildPixelUNetForTraining(part.config, OptionsAt(i, large),
                                                     {part.objective->schedule(),
                                                      options_.min_snr_gamma, *low_schedule_}));
    components.push_back({part.name, true, std::move(program), {}});
    if (part.options.self_conditioning) {
      components.back().self_conditioning = {"estimate", "prediction"};
    }
  }
  return components;
}

absl::StatusOr<nn::Model> Cascade::MakeModel(ImageSize size) const {
  DPIPE_RETURN_IF_ERROR(CheckSides(size, size_multiple(), folder_));
  DPIPE_ASSIGN_OR_RETURN(std::vector<nn::Component> components, MakeComponents(size));
  return nn::Model::Create(absl::StrCat(model_->name(), " at ", size.width, " x ", size.height),
                           std::move(components));
}

absl::Status Cascade::BuildModel() {
  DPIPE_ASSIGN_OR_RETURN(std::vector<nn::Component> components,
                         MakeComponents({image_size_, image_size_}));
  frozen_.assign(components.size(), nullptr);
  fs::path path(folder_);
  if (!path.has_filename()) path = path.parent_path();
  DPIPE_ASSIGN_OR_RETURN(nn::Model model,
                         nn::Model::Create(path.filename().string(), std::move(components)));
  model_ = std::make_unique<nn::Model>(std::move(model));
  return absl::OkStatus();
}

std::string Cascade::Describe() const {
  std::string text = model_->name();
  for (int i : {kBase, kSuperResolution}) {
    const nn::Program& program = model_->component(i).program;
    absl::StrAppend(
        &text, i == kBase ? ", " : " and ",
        absl::StrFormat("%.2f M trainable parameters in %d layers (%s, %d x %d pixels)",
                        program.ParameterCount(program.all_layers()) / 1e6, program.num_layers(),
                        parts_[i].name, parts_[i].options.height, parts_[i].options.width));
  }
  return text;
}

std::vector<std::string> Cascade::notes(Start start) const {
  if (start == Start::kRandom) return {};
  return WrapperNotes({absl::StrCat(folder_, "/", parts_[kBase].name),
                       absl::StrCat(folder_, "/", parts_[kSuperResolution].name)});
}

absl::StatusOr<nn::ParameterSourcePtr> Cascade::InitialSource(Start start, uint64_t seed) const {
  if (start == Start::kRandom) return nn::RandomSource(seed);
  NamedTensors all;
  for (int i : {kBase, kSuperResolution}) {
    const CascadePart& part = parts_[i];
    const std::string folder = absl::StrCat(folder_, "/", part.name);
    DPIPE_ASSIGN_OR_RETURN(const PixelUNetConfig stored,
                           ReadPixelUNetConfig(folder + "/config.json"));
    const bool widened = stored.in_channels != part.config.in_channels;
    DPIPE_ASSIGN_OR_RETURN(const nn::Program stored_program, StoredProgram(part, widened));
    DPIPE_ASSIGN_OR_RETURN(NamedTensors own, LoadWeights(folder, {&stored_program}, Device::Cpu()));
    if (widened) {
      Tensor& weight = own.at("conv_in.weight");
      weight = WithMoreInputChannels(weight, part.config.in_channels);
    }
    for (auto& [name, tensor] : own) all[part.options.prefix + name] = std::move(tensor);
  }
  return nn::SourceOf(std::move(all));
}

bool Cascade::has_weights() const {
  return std::any_of(std::begin(kNames), std::end(kNames), [this](const char* name) {
    return HasWeights(absl::StrCat(folder_, "/", name));
  });
}

std::string Cascade::DescribeStart(Start start, uint64_t seed) const {
  const std::string names = absl::StrCat(kNames[kBase], " and ", kNames[kSuperResolution]);
  return start == Start::kRandom ? absl::StrCat(names, " random (seed ", seed, ")")
                                 : absl::StrCat(names, " from ", folder_);
}

absl::StatusOr<std::unique_ptr<InputProvider>> Cascade::MakeInputs(
    DataLoader* loader, const InputsOptions& options) const {
  if (loader->options().image_size != image_size_) {
    return absl::InvalidArgumentError(absl::StrCat("the data loader gives images of ",
                                                   loader->options().image_size,
                                                   " pixels, the model takes ", image_size_));
  }
  return std::make_unique<CascadeInputs>(this, loader, options);
}

// Returns the folder's configuration, with this run's changes.
absl::StatusOr<std::string> Cascade::SchedulerConfig(const std::string& name) const {
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(SchedulerPath(folder_, name)));
  if (name == "low_res") return text;
  if (!options_.prediction_type.has_value() && !options_.zero_terminal_snr.has_value()) return text;
  DPIPE_ASSIGN_OR_RETURN(
      auto json, ParseJsonObject<nlohmann::ordered_json>(text, SchedulerPath(folder_, name)));
  if (options_.prediction_type.has_value()) {
    json["prediction_type"] = std::string(diffusion::PredictionTypeName(*options_.prediction_type));
  }
  if (options_.zero_terminal_snr.has_value()) {
    json["rescale_betas_zero_snr"] = *options_.zero_terminal_snr;
  }
  return JsonText(json, /*indent=*/2) + "\n";
}

absl::Status Cascade::Save(const std::string& folder, const nn::ParameterSource& parameters,
                           StoredFormat format) const {
  std::error_code error;
  if (fs::equivalent(folder, folder_, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("refusing to overwrite ", folder, ": the model was loaded from it"));
  }
  DPIPE_RETURN_IF_ERROR(MakeFolder(folder));
  for (const char* file : {"model_index.json", "classes.txt"}) {
    const std::string from = absl::StrCat(folder_, "/", file);
    if (!fs::exists(from, error)) continue;
    DPIPE_ASSIGN_OR_RETURN(const std::string content, ReadFile(from));
    DPIPE_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(folder, "/", file), content));
  }
  for (const char* name : {"base", "super_resolution", "low_res"}) {
    DPIPE_ASSIGN_OR_RETURN(const std::string content, SchedulerConfig(name));
    DPIPE_RETURN_IF_ERROR(MakeFolder(absl::StrCat(folder, "/", name, "_scheduler")));
    DPIPE_RETURN_IF_ERROR(WriteFileAtomically(SchedulerPath(folder, name), content));
  }
  for (const CascadePart& part : parts_) {
    const std::string own = absl::StrCat(folder, "/", part.name);
    DPIPE_RETURN_IF_ERROR(MakeFolder(own));
    const std::string path = absl::StrCat(folder_, "/", part.name, "/config.json");
    DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    DPIPE_ASSIGN_OR_RETURN(auto json, ParseJsonObject<nlohmann::ordered_json>(text, path));
    json["in_channels"] = part.config.in_channels;
    DPIPE_RETURN_IF_ERROR(
        WriteFileAtomically(own + "/config.json", JsonText(json, /*indent=*/2) + "\n"));
    // Programs have the parameters with the part's prefix, files without it.
    const nn::Program& program = model_->component(model_->FindComponent(part.name)).program;
    std::vector<nn::ParameterInfo> stored;
    for (int i = 0; i < program.num_parameters(); ++i) {
      stored.push_back(program.parameter(nn::ParameterId(i)));
      stored.back().name = stored.back().name.substr(part.options.prefix.size());
    }
    const auto source = nn::SourceOf([&](const nn::ParameterInfo& parameter) {
      nn::ParameterInfo prefixed = parameter;
      prefixed.name = part.options.prefix + parameter.name;
      return parameters.Read(prefixed);
    });
    DPIPE_RETURN_IF_ERROR(SaveWeightsFrom(*source, stored, own, kDiffusersWeights, format));
  }
  return absl::OkStatus();
}

absl::Status Cascade::CheckDraw(const std::vector<std::string>& prompts,
                                const DrawOptions& options) const {
  for (const CascadePart& part : parts_) {
    DPIPE_RETURN_IF_ERROR(part.objective->CheckDraw(options));
  }
  if (labels() == nullptr) return absl::OkStatus();
  for (const std::string& prompt : prompts) {
    DPIPE_RETURN_IF_ERROR(labels()->LabelOf(prompt).status());
  }
  return absl::OkStatus();
}

std::string Cascade::SamplerNote(const DrawOptions& options) const {
  std::string note;
  for (const CascadePart& part : parts_) {
    if (note.empty()) note = part.objective->SamplerNote(options);
  }
  return note;
}

absl::StatusOr<std::vector<Image>> Cascade::Draw(
    const NamedTensors& parameters, const DrawRequest& request,
    const std::vector<DeviceWorker*>& workers,
    const std::function<void(double)>& on_progress) const {
  DPIPE_ASSIGN_OR_RETURN(const auto sampler,
                         CascadeSampler::Create(this, parameters, request.compute_dtype));
  return sampler->Draw(request.prompts, request.options, workers, on_progress);
}

ModelKind CascadeKind() {
  ModelKind kind;
  kind.name = "cascade";
  kind.classes = {"CascadedDiffusionPipeline"};
  kind.load = Cascade::Load;
  kind.check_training = [](const std::string& folder) -> absl::Status {
    for (const char* part : kNames) {
      const std::string path = absl::StrCat(folder, "/", part, "/config.json");
      DPIPE_ASSIGN_OR_RETURN(const PixelUNetConfig config, ReadPixelUNetConfig(path));
      DPIPE_RETURN_IF_ERROR(CheckNoDropout(path, config.dropout));
    }
    return absl::OkStatus();
  };
  return kind;
}

}  // namespace dpipe::models
