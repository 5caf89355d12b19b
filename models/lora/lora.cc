#include "models/lora/lora.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/tensor/safetensors.h"
#include "nlohmann/json.hpp"

namespace dpipe::models {
namespace {

constexpr char kPrefix[] = "unet.";
constexpr char kMetadata[] = "lora_adapter_metadata";

// What a file says about its adapters as a whole.
struct FileScale {
  float scale = 1;
  int64_t rank = 0;  // 0: nothing
};

std::string TextOf(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<FileScale> ParseMetadata(const std::string& text, const std::string& path) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", kMetadata, " is no JSON object"));
  }
  // Files of a single model's adapters have the keys without a prefix.
  const auto value = [&json](const char* key) {
    return json.value(absl::StrCat(kPrefix, key), json.value(key, nlohmann::json()));
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

absl::StatusOr<FileScale> ScaleOf(const SafetensorsFile& file) {
  for (const auto& [key, text] : file.metadata()) {
    if (key == kMetadata) return ParseMetadata(text, file.name());
  }
  return FileScale();
}

absl::Status CheckRank(const SafetensorsView& view, int64_t rank, const std::string& path) {
  const int side = absl::EndsWith(view.name, nn::kLoraDown) ? 0 : 1;
  if (rank == 0 || (view.shape.size() == 2 && view.shape[side] == rank)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", view.name, " is ",
                                                 Shape(view.shape).ToString(), ", but ", kMetadata,
                                                 " says that 'r' is ", rank));
}

// weight += scale * up down, in double: [out, rank] x [rank, in].
void AddProduct(const Tensor& up, const Tensor& down, double scale, Tensor* weight) {
  const int64_t out = up.dim(0), rank = up.dim(1), in = down.dim(1);
  const float* b = up.data<float>();
  const float* a = down.data<float>();
  float* w = weight->data<float>();
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t i = 0; i < in; ++i) {
      double sum = 0;
      for (int64_t r = 0; r < rank; ++r) sum += double{b[o * rank + r]} * a[r * in + i];
      w[o * in + i] = static_cast<float>(w[o * in + i] + scale * sum);
    }
  }
}

// A copy of the up parts times `factor`; all else as it is.
NamedTensors WithScaledUps(const NamedTensors& adapters, float factor) {
  NamedTensors scaled = adapters;
  for (auto& [name, tensor] : scaled) {
    if (factor == 1 || !absl::EndsWith(name, nn::kLoraUp)) continue;
    tensor = tensor.Clone();
    for (float& x : tensor.span<float>()) x *= factor;
  }
  return scaled;
}

}  // namespace

bool IsLoraParameter(absl::string_view name) {
  return absl::EndsWith(name, nn::kLoraDown) || absl::EndsWith(name, nn::kLoraUp);
}

SplitParameters SplitLora(const NamedTensors& parameters) {
  SplitParameters split;
  for (const auto& [name, tensor] : parameters) {
    (IsLoraParameter(name) ? split.adapters : split.base)[name] = tensor;
  }
  return split;
}

absl::StatusOr<NamedTensors> MergeLora(const NamedTensors& base, const NamedTensors& adapters,
                                       float scale) {
  NamedTensors merged = base;
  size_t used = 0;
  for (const auto& [name, down] : adapters) {
    absl::string_view layer = name;
    if (!absl::ConsumeSuffix(&layer, nn::kLoraDown)) continue;
    const auto up = adapters.find(absl::StrCat(layer, nn::kLoraUp));
    const auto weight = merged.find(absl::StrCat(layer, ".weight"));
    if (up == adapters.end() || weight == merged.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is ", name, ", but no ", layer,
                       up == adapters.end() ? nn::kLoraUp : ".weight that it could adapt"));
    }
    const Shape& w = weight->second.shape();
    if (down.shape().rank() != 2 || up->second.shape().rank() != 2 || w.rank() != 2 ||
        down.dim(0) != up->second.dim(1) || w[0] != up->second.dim(0) || w[1] != down.dim(1)) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, " is ", down.shape().ToString(), " and ", up->first, " ",
          up->second.shape().ToString(), ", which cannot adapt a weight of ", w.ToString()));
    }
    weight->second = weight->second.Clone();
    AddProduct(up->second, down, scale, &weight->second);
    used += 2;
  }
  if (used == adapters.size()) return merged;
  for (const auto& [name, tensor] : adapters) {
    absl::string_view layer = name;
    if (absl::ConsumeSuffix(&layer, nn::kLoraUp) &&
        adapters.count(absl::StrCat(layer, nn::kLoraDown)) != 0) {
      continue;
    }
    if (absl::EndsWith(name, nn::kLoraDown)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("there is ", name, ", but no ", layer, nn::kLoraDown));
  }
  return merged;
}

absl::Status SaveLora(const std::string& path, const NamedTensors& adapters, float scale,
                      StoredFormat format) {
  NamedTensors named;
  for (const auto& [name, tensor] : WithScaledUps(adapters, scale)) named[kPrefix + name] = tensor;
  return SaveWeights(path, named, format);
}

absl::StatusOr<NamedTensors> LoadLora(const std::string& path, float scale) {
  DPIPE_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  DPIPE_ASSIGN_OR_RETURN(const FileScale stored, ScaleOf(file));
  NamedTensors adapters;
  for (const SafetensorsView& view : file.tensors()) {
    absl::string_view name = view.name;
    if (!absl::ConsumePrefix(&name, kPrefix) || !IsLoraParameter(name)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": ", view.name,
                                                     " is not an adapter of a U-Net (unet.*",
                                                     nn::kLoraDown, ", unet.*", nn::kLoraUp, ")"));
    }
    DPIPE_RETURN_IF_ERROR(CheckRank(view, stored.rank, path));
    auto tensor = ToFp32(view, Device::Cpu());
    if (!tensor.ok()) {
      return absl::Status(tensor.status().code(),
                          absl::StrCat(path, ": ", tensor.status().message()));
    }
    adapters[std::string(name)] = *std::move(tensor);
  }
  return WithScaledUps(adapters, stored.scale / scale);
}

}  // namespace dpipe::models
