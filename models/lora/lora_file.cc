// Files of adapters: SaveLora, LoadLora.
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/tensor/safetensors.h"
#include "models/lora/lora.h"
#include "nlohmann/json.hpp"

namespace dpipe::models {
namespace {

constexpr char kUNetPrefix[] = "unet.";
constexpr char kTextEncoderPrefix[] = "text_encoder.";
constexpr char kMetadata[] = "lora_adapter_metadata";

// What a file says about a component's adapters as a whole.
struct FileScale {
  float scale = 1;
  int64_t rank = 0;  // 0: nothing
};

std::string TextOf(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<FileScale> ParseMetadata(const std::string& text, const char* prefix,
                                        const std::string& path) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", kMetadata, " is no JSON object"));
  }
  // Files of a single model's adapters have the keys without a prefix.
  const auto value = [&json, prefix](const char* key) {
    return json.value(absl::StrCat(prefix, key), json.value(key, nlohmann::json()));
  };
  for (const char* key : {"alpha_pattern", "rank_pattern", "use_dora", "use_rslora", "lora_bias"}) {
    const nlohmann::json asked = value(key);
    if (asked.empty() || asked == nlohmann::json(false)) continue;
    return absl::InvalidArgumentError(absl::StrCat(path, ": the adapters' '", key, "' is ",
                                                   TextOf(asked), ", which is not supported"));
  }
  const nlohmann::json alpha = value("lora_alpha"), rank = value("r");
  if (alpha.is_null() && rank.is_null()) return FileScale();
  if (!alpha.is_number() || !rank.is_number_unsigned() || rank == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": the adapters' 'lora_alpha' is ",
                                                   TextOf(alpha), " and 'r' is ", TextOf(rank),
                                                   ", expected a number and a positive integer"));
  }
  FileScale scale;
  scale.rank = rank.get<int64_t>();
  scale.scale = static_cast<float>(alpha.get<double>() / static_cast<double>(scale.rank));
  return scale;
}

absl::StatusOr<FileScale> ScaleOf(const SafetensorsFile& file, const char* prefix) {
  for (const auto& [key, text] : file.metadata()) {
    if (key == kMetadata) return ParseMetadata(text, prefix, file.name());
  }
  return FileScale();
}

// Multiplies the up parts of the layers that `factor_of` gives another factor than 1.
template <typename FactorOf>
void ScaleUps(const FactorOf& factor_of, NamedTensors* adapters) {
  for (auto& [name, tensor] : *adapters) {
    absl::string_view layer = name;
    if (!absl::ConsumeSuffix(&layer, nn::kLoraUp)) continue;
    const float factor = factor_of(std::string(layer));
    if (factor == 1) continue;
    tensor = tensor.Clone();
    for (float& x : tensor.template span<float>()) x *= factor;
  }
}

// One component's adapters while they are read.
class ComponentAdapters {
 public:
  ComponentAdapters(const AdaptableLayers& layers, const char* what, std::string path)
      : layers_(layers), what_(what), path_(std::move(path)) {}

  absl::Status Add(const LoraName& name, const SafetensorsView& view) {
    const std::string layer = layers_.Find(name);
    if (layer.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path_, ": ", view.name, " is for a layer that the ", what_, " does not have"));
    }
    if (name.part == LoraPart::kAlpha) {
      DPIPE_ASSIGN_OR_RETURN(alphas_[layer], AlphaOf(view));
      return absl::OkStatus();
    }
    DPIPE_ASSIGN_OR_RETURN(Tensor tensor, Read(view));
    const bool down = name.part == LoraPart::kDown;
    if (tensor.shape().rank() < 2 || tensor.num_elements() == 0) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": ", view.name, " is ",
                                                     tensor.shape().ToString(),
                                                     ", expected a matrix or a convolution"));
    }
    const auto [at, inserted] = adapters_.emplace(
        absl::StrCat(layer, down ? nn::kLoraDown : nn::kLoraUp), std::move(tensor));
    if (inserted) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": ", view.name, " is there a second time by another name"));
  }

  // As those that count `scale` times.
  absl::StatusOr<NamedTensors> Take(const FileScale& stored, float scale) {
    for (const auto& [name, tensor] : adapters_) {
      const int64_t rank = tensor.dim(absl::EndsWith(name, nn::kLoraDown) ? 0 : 1);
      if (stored.rank == 0 || rank == stored.rank) continue;
      return absl::InvalidArgumentError(absl::StrCat(path_, ": ", name, " is ",
                                                     tensor.shape().ToString(), ", but ", kMetadata,
                                                     " says that 'r' is ", stored.rank));
    }
    if (stored.rank != 0 && !alphas_.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": ", alphas_.begin()->first, ".alpha and ", kMetadata,
                       " both say how often adapters count; expected one of them"));
    }
    for (const auto& [layer, alpha] : alphas_) {
      if (adapters_.count(layer + nn::kLoraUp) > 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": there is an alpha of ", layer, ", but no ", layer, nn::kLoraUp));
    }
    ScaleUps(
        [&](const std::string& layer) {
          const auto alpha = alphas_.find(layer);
          if (alpha == alphas_.end()) return stored.scale / scale;
          const int64_t rank = adapters_.at(layer + nn::kLoraUp).dim(1);
          return static_cast<float>(alpha->second / static_cast<double>(rank) / scale);
        },
        &adapters_);
    return std::move(adapters_);
  }

 private:
  absl::StatusOr<Tensor> Read(const SafetensorsView& view) const {
    auto tensor = ToFp32(view, Device::Cpu());
    if (tensor.ok()) return tensor;
    return absl::Status(tensor.status().code(),
                        absl::StrCat(path_, ": ", tensor.status().message()));
  }

  // A number of any type that files have.
  absl::StatusOr<double> AlphaOf(const SafetensorsView& view) const {
    std::optional<double> alpha;
    if (view.dtype == "I64" && view.bytes.size() == sizeof(int64_t)) {
      int64_t integer = 0;
      std::memcpy(&integer, view.bytes.data(), sizeof(integer));
      alpha = static_cast<double>(integer);
    } else {
      DPIPE_ASSIGN_OR_RETURN(const Tensor tensor, Read(view));
      if (tensor.num_elements() == 1) alpha = tensor.data<float>()[0];
    }
    if (alpha.has_value() && std::isfinite(*alpha)) return *alpha;
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": ", view.name, " is not a finite number"));
  }

  const AdaptableLayers& layers_;
  const char* const what_;
  const std::string path_;
  NamedTensors adapters_;
  std::map<std::string, double> alphas_;  // by layer
};

}  // namespace

absl::Status SaveLora(const std::string& path, const NamedTensors& adapters, float scale,
                      StoredFormat format) {
  NamedTensors scaled = adapters;
  ScaleUps([scale](const std::string&) { return scale; }, &scaled);
  NamedTensors named;
  for (const auto& [name, tensor] : scaled) named[kUNetPrefix + name] = tensor;
  return SaveWeights(path, named, format);
}

absl::StatusOr<LoraAdapters> LoadLora(const std::string& path, float scale,
                                      const LoraTargets& targets) {
  DPIPE_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  DPIPE_ASSIGN_OR_RETURN(const FileScale unet_scale, ScaleOf(file, kUNetPrefix));
  DPIPE_ASSIGN_OR_RETURN(const FileScale text_scale, ScaleOf(file, kTextEncoderPrefix));
  ComponentAdapters unet(targets.unet, "U-Net", path);
  ComponentAdapters text_encoder(targets.text_encoder, "text encoder", path);
  for (const SafetensorsView& view : file.tensors()) {
    const auto name = ParseLoraName(view.name);
    if (!name.ok()) {
      return absl::Status(name.status().code(), absl::StrCat(path, ": ", name.status().message()));
    }
    DPIPE_RETURN_IF_ERROR((name->of_text_encoder ? text_encoder : unet).Add(*name, view));
  }
  LoraAdapters adapters;
  DPIPE_ASSIGN_OR_RETURN(adapters.unet, unet.Take(unet_scale, scale));
  DPIPE_ASSIGN_OR_RETURN(adapters.text_encoder, text_encoder.Take(text_scale, /*scale=*/1));
  return adapters;
}

}  // namespace dpipe::models
