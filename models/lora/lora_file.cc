// Files of adapters: FindLoraFile, LoadLora and SaveLora.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/check.h"
#include "core/base/files/file.h"
#include "core/base/text/show.h"
#include "core/tensor/safetensors.h"
#include "models/lora/adapter_config.h"
#include "models/lora/lora.h"

namespace dpipe::models {
namespace {

namespace fs = std::filesystem;

constexpr char kTextEncoderPrefix[] = "text_encoder.";
constexpr char kTextEncoder2Prefix[] = "text_encoder_2.";
constexpr char kMetadata[] = "lora_adapter_metadata";
constexpr char kPeftConfig[] = "adapter_config.json";
// There are some 100 bytes per layer.
constexpr int64_t kMaxConfigBytes = 16 << 20;

bool IsPeftFile(const SafetensorsFile& file) {
  return std::any_of(file.tensors().begin(), file.tensors().end(),
                     [](const SafetensorsView& view) { return IsPeftName(view.name); });
}

// Returns the configuration of a component's adapters, from the file's metadata or from PEFT's file
// beside it.
absl::StatusOr<AdapterConfig> ConfigOf(const SafetensorsFile& file, const std::string& prefix) {
  for (const auto& [key, text] : file.metadata()) {
    if (key == kMetadata) {
      return AdapterConfig::Parse(text, prefix, absl::StrCat(file.name(), ": ", kMetadata));
    }
  }
  const fs::path path(file.name());
  if (path.filename() != kPeftLoraFile && !IsPeftFile(file)) return AdapterConfig();
  const std::string beside = (path.parent_path() / kPeftConfig).string();
  std::error_code error;
  if (!fs::exists(beside, error)) return AdapterConfig();
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(beside, kMaxConfigBytes));
  return AdapterConfig::Parse(text, prefix, beside);
}

// Returns the layer without the parts to which its adapter adds nothing, and leaves out their rows
// of `up`. If it adds nothing to any, because it is not trained yet, keeps all of them.
KohyaLayer WithAdaptedParts(const KohyaLayer& layer, Tensor* up) {
  const bool fits = up->shape().rank() == 2 && up->dim(0) == layer.rows();
  if (layer.parts.size() == 1 || !fits) return layer;
  KohyaLayer adapted = layer;
  adapted.parts.clear();
  std::vector<Tensor> rows;
  int64_t row = 0;
  for (const KohyaLayer::Part& part : layer.parts) {
    const Tensor own = up->Slice(row, row + part.rows);
    row += part.rows;
    const auto values = own.span<float>();
    if (std::all_of(values.begin(), values.end(), [](float x) { return x == 0; })) continue;
    adapted.parts.push_back(part);
    rows.push_back(own);
  }
  if (adapted.parts.empty()) return layer;
  *up = ConcatBatch(rows);
  return adapted;
}

// Collects one component's adapters while they are read.
class ComponentAdapters {
 public:
  explicit ComponentAdapters(std::string path) : path_(std::move(path)) {}

  // Adds the part of `layer` that `name` describes.
  absl::Status Add(const LoraName& name, const std::string& layer, const SafetensorsView& view) {
    DPIPE_ASSIGN_OR_RETURN(const Tensor tensor, Read(view));
    if (!name.flat) names_[layer] = name.layer;
    if (name.part == LoraPart::kAlpha) {
      if (tensor.num_elements() != 1) return Error(view, "is not a finite number");
      alphas_[layer] = tensor.data<float>()[0];
      return absl::OkStatus();
    }
    if (tensor.shape().rank() < 2 || tensor.num_elements() == 0) {
      return Error(view, absl::StrCat("is ", tensor.shape().ToString(),
                                      ", expected a matrix or a convolution"));
    }
    const bool down = name.part == LoraPart::kDown;
    const bool is_new =
        adapters_.emplace(absl::StrCat(layer, down ? nn::kLoraDown : nn::kLoraUp), tensor).second;
    return is_new ? absl::OkStatus() : Error(view, "is a duplicate under another name");
  }

  // Replaces the adapter of a layer of kohya's files, if there is one, by those of its parts.
  absl::Status Split(const KohyaLayer& whole) {
    const auto down = adapters_.find(whole.name + nn::kLoraDown);
    const auto up = adapters_.find(whole.name + nn::kLoraUp);
    if (down == adapters_.end() || up == adapters_.end()) return absl::OkStatus();
    const KohyaLayer layer = WithAdaptedParts(whole, &up->second);
    const auto split = SplitIntoParts(layer, {down->second, up->second});
    if (!split.ok()) return Error(split.status().message());
    const auto alpha = alphas_.find(layer.name);
    const auto whole_rank = static_cast<double>(down->second.dim(0));
    for (size_t p = 0; p < split->size(); ++p) {
      const std::string& part = layer.parts[p].layer;
      const LowRank& own = (*split)[p];
      const bool is_new = adapters_.emplace(part + nn::kLoraDown, own.down).second &&
                          adapters_.emplace(part + nn::kLoraUp, own.up).second;
      if (!is_new) return Error(absl::StrCat("the adapter of ", part, " is there twice"));
      if (alpha == alphas_.end()) continue;
      alphas_[part] = alpha->second * static_cast<double>(own.down.dim(0)) / whole_rank;
    }
    if (alpha != alphas_.end()) alphas_.erase(layer.name);
    adapters_.erase(layer.name + nn::kLoraDown);
    adapters_.erase(layer.name + nn::kLoraUp);
    return absl::OkStatus();
  }

  // Returns the adapters, to be applied with `scale`.
  absl::StatusOr<NamedTensors> Take(const AdapterConfig& config, float scale) {
    if (config.has_scale() && !alphas_.empty()) {
      return Error(absl::StrCat(alphas_.begin()->first, ".alpha and PEFT's configuration both set ",
                                "the scale of adapters; expected one of them"));
    }
    for (const auto& [layer, alpha] : alphas_) {
      if (adapters_.count(layer + nn::kLoraUp) > 0) continue;
      return Error(absl::StrCat("there is an alpha of ", layer, ", but no ", layer, nn::kLoraUp));
    }
    for (auto& [name, tensor] : adapters_) {
      absl::string_view layer = name;
      if (!absl::ConsumeSuffix(&layer, nn::kLoraUp)) continue;
      DPIPE_ASSIGN_OR_RETURN(const double stored,
                             StoredScale(config, std::string(layer), tensor.dim(1)));
      const float factor = static_cast<float>(stored) / scale;
      if (factor == 1) continue;
      for (float& x : tensor.span<float>()) x *= factor;
      DPIPE_RETURN_IF_ERROR(CheckFinite(path_, name, tensor.span<float>()));
    }
    return std::move(adapters_);
  }

  bool has_alphas() const { return !alphas_.empty(); }

 private:
  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": ", what));
  }
  absl::Status Error(const SafetensorsView& view, absl::string_view what) const {
    return Error(absl::StrCat(ShowText(view.name), " ", what));
  }

  // Returns the scale that the file gives the adapter of a layer.
  absl::StatusOr<double> StoredScale(const AdapterConfig& config, const std::string& layer,
                                     int64_t rank) const {
    const auto alpha = alphas_.find(layer);
    if (alpha != alphas_.end()) return alpha->second / static_cast<double>(rank);
    const auto name = names_.find(layer);
    return config.ScaleOf(name == names_.end() ? layer : name->second, rank);
  }

  // Returns a finite copy in memory of its own. An alpha may also be an integer.
  absl::StatusOr<Tensor> Read(const SafetensorsView& view) const {
    int64_t integer = 0;
    if (view.dtype == "I64" && view.bytes.size() == sizeof(integer)) {
      std::memcpy(&integer, view.bytes.data(), sizeof(integer));
      return Tensor::FromHost<float>(Device::Cpu(), Shape(), {static_cast<float>(integer)});
    }
    const auto tensor = ToFp32(view, Device::Cpu());
    if (!tensor.ok()) return Error(tensor.status().message());
    DPIPE_RETURN_IF_ERROR(CheckFinite(path_, view.name, tensor->span<float>()));
    return tensor;
  }

  const std::string path_;
  NamedTensors adapters_;
  std::map<std::string, double> alphas_;      // by layer
  std::map<std::string, std::string> names_;  // dotted names of layers, as in the file
};

// A file's tensors by component.
struct Contents {
  explicit Contents(const std::string& file)
      : path(file), unet(file), text_encoder(file), text_encoder_2(file) {}
  std::string path;
  ComponentAdapters unet, text_encoder, text_encoder_2;
  std::vector<std::string> unused;  // names of tensors
};

// Returns the name of the layer of LoraTargets::kohya_layers; empty if there is none.
std::string FindKohyaLayer(const LoraName& name, const LoraTargets& targets) {
  const std::string flat = KohyaLayerName(name.layer);
  const auto found = std::find_if(targets.kohya_layers.begin(), targets.kohya_layers.end(),
                                  [&flat](const KohyaLayer& layer) { return layer.name == flat; });
  return found == targets.kohya_layers.end() ? "" : flat;
}

absl::Status AddTensor(const SafetensorsView& view, const LoraTargets& targets,
                       Contents* contents) {
  const auto parsed = ParseLoraName(view.name);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(contents->path, ": ", parsed.status().message()));
  }
  using Component = LoraName::Component;
  const std::optional<LoraName>& name = *parsed;
  if (name.has_value() && name->component == Component::kTextEncoder2 &&
      targets.text_encoder_2.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(contents->path, ": ", ShowText(view.name),
                     " belongs to a second text encoder, as in SDXL, which this model lacks"));
  }
  const struct {
    Component component;
    const AdaptableLayers& layers;
    ComponentAdapters* adapters;
  } components[] = {
      {Component::kUNet, targets.unet, &contents->unet},
      {Component::kTextEncoder, targets.text_encoder, &contents->text_encoder},
      {Component::kTextEncoder2, targets.text_encoder_2, &contents->text_encoder_2},
  };
  const absl::string_view plain = WithoutLoraPrefixes(view.name);
  bool is_weight = false;
  for (const auto& [component, layers, adapters] : components) {
    is_weight = is_weight || layers.HasParameter(plain);
    if (!name.has_value()) continue;
    if (name->component != component && name->component != Component::kEither) continue;
    std::string layer = layers.Find(*name);
    if (component == Component::kUNet && name->flat && layer.empty()) {
      layer = FindKohyaLayer(*name, targets);
    }
    if (!layer.empty()) return adapters->Add(*name, layer, view);
  }
  if (!name.has_value() && is_weight) {
    return absl::InvalidArgumentError(absl::StrCat(
        contents->path, ": ", ShowText(view.name),
        " is a whole weight, not a low-rank adapter; merge what this file has into the model with "
        "the tool that made it, or give a whole model as --model=FOLDER"));
  }
  contents->unused.push_back(view.name);
  return absl::OkStatus();
}

// Returns an error with names of both sides.
absl::Status NoAdapterError(const SafetensorsFile& file, const std::string& denoiser,
                            const std::vector<std::string>& names) {
  if (names.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(file.name(), " holds no tensors"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      file.name(), ": none of its ", names.size(),
      " tensors is an adapter of this model\n  expected: names like ", denoiser, ".LAYER",
      nn::kLoraDown, " or lora_unet_LAYER.lora_down.weight, with this model's layers\n  found: ",
      ShowNames(names)));
}

}  // namespace

absl::StatusOr<std::string> FindLoraFile(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    if (fs::exists(path, error)) return path;
    return absl::NotFoundError(absl::StrCat("no low-rank adapter file ", path));
  }
  std::vector<std::string> others;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    const std::string name = entry.path().filename().string();
    // PEFT's own way to save adapters of several components is a folder for each.
    const std::string peft = absl::StrCat(name, "/", kPeftLoraFile);
    if (IsWeightFile(name)) others.push_back(name);
    if (fs::exists(absl::StrCat(path, "/", peft), error)) others.push_back(peft);
  }
  for (const char* name : {kLoraFile, kPeftLoraFile}) {
    const std::string file = absl::StrCat(path, "/", name);
    if (fs::exists(file, error)) return file;
  }
  std::sort(others.begin(), others.end());
  const std::string there =
      others.empty() ? "" : absl::StrCat("; name one of the files there: ", ShowNames(others));
  return absl::NotFoundError(absl::StrCat("no low-rank adapter file ", path, "/", kLoraFile, " or ",
                                          path, "/", kPeftLoraFile, there));
}

absl::StatusOr<LoraAdapters> LoadLora(const std::string& path, float scale,
                                      const LoraTargets& targets) {
  DPIPE_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  DPIPE_ASSIGN_OR_RETURN(const AdapterConfig unet_config, ConfigOf(file, targets.denoiser + "."));
  DPIPE_ASSIGN_OR_RETURN(const AdapterConfig text_config, ConfigOf(file, kTextEncoderPrefix));
  DPIPE_ASSIGN_OR_RETURN(const AdapterConfig text_2_config, ConfigOf(file, kTextEncoder2Prefix));
  Contents contents(path);
  for (const SafetensorsView& view : file.tensors()) {
    DPIPE_RETURN_IF_ERROR(AddTensor(view, targets, &contents));
  }
  if (contents.unused.size() == file.tensors().size()) {
    return NoAdapterError(file, targets.denoiser, contents.unused);
  }
  LoraAdapters adapters;
  if (!contents.unused.empty()) {
    adapters.notes.push_back(absl::StrCat(path, ": ", contents.unused.size(), " of its ",
                                          file.tensors().size(),
                                          " tensors are no adapters of this model's layers and are "
                                          "not used: ",
                                          ShowNames(contents.unused)));
  }
  if (IsPeftFile(file) && !unet_config.has_scale() && !text_config.has_scale() &&
      !text_2_config.has_scale() && !contents.unet.has_alphas() &&
      !contents.text_encoder.has_alphas() && !contents.text_encoder_2.has_alphas()) {
    adapters.notes.push_back(absl::StrCat(path, ": its adapters have scale 1, because there is no ",
                                          kPeftConfig, " beside it"));
  }
  for (const KohyaLayer& layer : targets.kohya_layers) {
    DPIPE_RETURN_IF_ERROR(contents.unet.Split(layer));
  }
  DPIPE_ASSIGN_OR_RETURN(adapters.unet, contents.unet.Take(unet_config, scale));
  DPIPE_ASSIGN_OR_RETURN(adapters.text_encoder,
                         contents.text_encoder.Take(text_config, /*scale=*/1));
  DPIPE_ASSIGN_OR_RETURN(adapters.text_encoder_2,
                         contents.text_encoder_2.Take(text_2_config, /*scale=*/1));
  return adapters;
}

absl::StatusOr<LoraFormat> ParseLoraFormat(const std::string& name) {
  if (name == "diffusers") return LoraFormat::kDiffusers;
  if (name == "kohya") return LoraFormat::kKohya;
  return absl::InvalidArgumentError(
      absl::StrCat("unknown naming of adapters '", ShowText(name), "'; use diffusers or kohya"));
}

namespace {

// Adds an adapter under a name of kohya's.
void AddKohya(const std::string& name, const LowRank& adapter, float scale, NamedTensors* named) {
  (*named)[name + ".lora_down.weight"] = adapter.down;
  (*named)[name + ".lora_up.weight"] = adapter.up;
  const float alpha = scale * static_cast<float>(adapter.down.dim(0));
  (*named)[name + ".alpha"] = Tensor::FromHost<float>(Device::Cpu(), Shape(), {alpha});
}

NamedTensors KohyaNames(NamedTensors adapters, float scale, const LoraTargets& targets) {
  NamedTensors named;
  // Takes the adapter of a layer; its tensors are not defined if there is none.
  const auto take = [&adapters](const std::string& layer) {
    LowRank adapter;
    const auto down = adapters.find(layer + nn::kLoraDown);
    const auto up = adapters.find(layer + nn::kLoraUp);
    if (down == adapters.end() || up == adapters.end()) return adapter;
    adapter = {down->second, up->second};
    adapters.erase(down);
    adapters.erase(up);
    return adapter;
  };
  for (const KohyaLayer& layer : targets.kohya_layers) {
    std::vector<LowRank> parts;
    for (const KohyaLayer::Part& part : layer.parts) parts.push_back(take(part.layer));
    const bool any = std::any_of(parts.begin(), parts.end(),
                                 [](const LowRank& part) { return part.down.defined(); });
    if (any) AddKohya(layer.name, JoinParts(layer, parts), scale, &named);
  }
  while (!adapters.empty()) {
    absl::string_view layer = adapters.begin()->first;
    DPIPE_CHECK(absl::ConsumeSuffix(&layer, nn::kLoraDown)) << layer;
    const std::string name(layer);
    AddKohya(KohyaLayerName(name), take(name), scale, &named);
  }
  return named;
}

NamedTensors DiffusersNames(const NamedTensors& adapters, float scale, const std::string& prefix) {
  NamedTensors named;
  for (const auto& [name, tensor] : adapters) {
    Tensor& stored = named[prefix + name] = tensor;
    if (!absl::EndsWith(name, nn::kLoraUp) || scale == 1) continue;
    stored = tensor.Clone();
    for (float& x : stored.span<float>()) x *= scale;
  }
  return named;
}

}  // namespace

absl::Status SaveLora(const std::string& path, const NamedTensors& adapters, float scale,
                      LoraFormat names, StoredFormat format, const LoraTargets& targets) {
  const NamedTensors named = names == LoraFormat::kKohya
                                 ? KohyaNames(adapters, scale, targets)
                                 : DiffusersNames(adapters, scale, targets.denoiser + ".");
  return SaveWeights(path, named, format);
}

}  // namespace dpipe::models
