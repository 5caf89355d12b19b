#include "models/single_file/original_layout.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "models/unet/original_names.h"

namespace dpipe::models {
namespace {

// A part of a name, and its replacement. A rule that occurs in a name may also say how the
// parameter is stored.
struct Rule {
  std::string ours, original;
  int part = 0;
  Rearrangement rearrangement = Rearrangement::kNone;
};

// Returns a layout that applies every rule that occurs in a name, in order.
OriginalLayout FromRules(std::vector<Rule> rules) {
  return [rules = std::move(rules)](const std::string& parameter) {
    OriginalPlace place = {parameter};
    for (const Rule& rule : rules) {
      const size_t at = place.tensor.find(rule.ours);
      if (at == std::string::npos) continue;
      place.tensor.replace(at, rule.ours.size(), rule.original);
      place.part = std::max(place.part, rule.part);
      if (rule.rearrangement != Rearrangement::kNone) place.rearrangement = rule.rearrangement;
    }
    return place;
  };
}

Tensor SwappedHalves(const Tensor& x) {
  const int64_t half = x.num_elements() / 2;
  const Tensor swapped = Tensor::Empty(x.device(), x.shape(), DType::kF32);
  std::copy_n(x.data<float>() + half, half, swapped.data<float>());
  std::copy_n(x.data<float>(), half, swapped.data<float>() + half);
  return swapped;
}

Tensor Transposed(const Tensor& x) {
  const int64_t rows = x.dim(0), columns = x.dim(1);
  const Tensor transposed = Tensor::Empty(x.device(), Shape({columns, rows}), DType::kF32);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      transposed.data<float>()[c * rows + r] = x.data<float>()[r * columns + c];
    }
  }
  return transposed;
}

}  // namespace

OriginalLayout SameNames() {
  return [](const std::string& parameter) { return OriginalPlace{parameter}; };
}

OriginalLayout UNetLayout(UNetConfig config) {
  return [config = std::move(config)](const std::string& parameter) {
    return OriginalPlace{OriginalUNetName(config, parameter)};
  };
}

OriginalLayout VaeLayout(int num_levels) {
  std::vector<Rule> rules = {{"mid_block.resnets.0.", "mid.block_1."},
                             {"mid_block.resnets.1.", "mid.block_2."},
                             {"mid_block.attentions.0.", "mid.attn_1."},
                             {"attn_1.group_norm.", "attn_1.norm."},
                             {"conv_norm_out.", "norm_out."},
                             {"down_blocks.", "down."},
                             {".resnets.", ".block."},
                             {".conv_shortcut.", ".nin_shortcut."},
                             {".downsamplers.0.", ".downsample."},
                             {".upsamplers.0.", ".upsample."}};
  // Up blocks count from the lowest resolution in diffusers, and from the highest in the original.
  for (int i = 0; i < num_levels; ++i) {
    rules.push_back(
        {absl::StrCat("up_blocks.", i, "."), absl::StrCat("up.", num_levels - 1 - i, ".")});
  }
  for (const auto& [ours, original] :
       {std::make_pair("to_q.", "q."), std::make_pair("to_k.", "k."), std::make_pair("to_v.", "v."),
        std::make_pair("to_out.0.", "proj_out.")}) {
    rules.push_back({absl::StrCat("attn_1.", ours, "weight"),
                     absl::StrCat("attn_1.", original, "weight"), 0, Rearrangement::kConvolution});
    rules.push_back({absl::StrCat("attn_1.", ours), absl::StrCat("attn_1.", original)});
  }
  return FromRules(std::move(rules));
}

OriginalLayout OpenClipLayout() {
  return FromRules({
      {"text_model.embeddings.token_embedding.", "token_embedding."},
      {"text_model.embeddings.position_embedding.weight", "positional_embedding"},
      {"text_model.final_layer_norm.", "ln_final."},
      {"text_projection.weight", "text_projection", 0, Rearrangement::kTransposed},
      {"text_model.encoder.layers.", "transformer.resblocks."},
      {".layer_norm1.", ".ln_1."},
      {".layer_norm2.", ".ln_2."},
      {".mlp.fc1.", ".mlp.c_fc."},
      {".mlp.fc2.", ".mlp.c_proj."},
      {".self_attn.q_proj.", ".attn.in_proj_", 0},
      {".self_attn.k_proj.", ".attn.in_proj_", 1},
      {".self_attn.v_proj.", ".attn.in_proj_", 2},
      {".self_attn.out_proj.", ".attn.out_proj."},
  });
}

OriginalLayout TransformerLayout(const OriginalNames& names) {
  std::map<std::string, OriginalPlace> layers;  // by diffusers' layer
  for (const OriginalLayer& layer : names.linear_layers) {
    for (size_t i = 0; i < layer.parts.size(); ++i) {
      layers[layer.parts[i].layer] = {
          layer.name, static_cast<int>(i),
          layer.swaps_halves ? Rearrangement::kSwappedHalves : Rearrangement::kNone};
    }
  }
  return [layers = std::move(layers), others = names.other_tensors](const std::string& parameter) {
    const auto other = others.find(parameter);
    if (other != others.end()) return OriginalPlace{other->second};
    const size_t dot = parameter.rfind('.');
    const auto layer = layers.find(parameter.substr(0, dot));
    if (layer == layers.end()) return OriginalPlace{parameter};
    OriginalPlace place = layer->second;
    place.tensor += parameter.substr(dot);
    return place;
  };
}

OriginalLayout WithIdentity(OriginalLayout layout, std::string parameter) {
  return
      [layout = std::move(layout), identity = std::move(parameter)](const std::string& parameter) {
        if (parameter == identity) return OriginalPlace{"", 0, Rearrangement::kIdentity};
        return layout(parameter);
      };
}

std::vector<OriginalTensor> OriginalTensors(const OriginalLayout& layout,
                                            const std::vector<nn::ParameterInfo>& parameters) {
  std::map<std::string, std::map<int, OriginalTensor::Part>> parts;  // by tensor and part
  for (const nn::ParameterInfo& parameter : parameters) {
    const OriginalPlace place = layout(parameter.name);
    const bool is_new =
        parts[place.tensor].insert({place.part, {parameter, place.rearrangement}}).second;
    DPIPE_CHECK(is_new) << parameter.name << " has the place of another parameter";
  }
  std::vector<OriginalTensor> tensors;
  for (auto& [name, by_part] : parts) {
    OriginalTensor tensor;
    tensor.name = name;
    int64_t rows = 0;
    for (auto& [part, content] : by_part) {
      const Shape stored = StoredShape(content.parameter.shape, content.rearrangement);
      DPIPE_CHECK_EQ(part, static_cast<int>(tensor.parts.size())) << name;
      content.first_row = rows;
      rows += stored[0];
      tensor.shape = stored.WithBatch(rows);
      tensor.parts.push_back(std::move(content));
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Shape StoredShape(const Shape& shape, Rearrangement rearrangement) {
  switch (rearrangement) {
    case Rearrangement::kTransposed:
      return Shape({shape[1], shape[0]});
    case Rearrangement::kConvolution:
      return Shape({shape[0], shape[1], 1, 1});
    case Rearrangement::kNone:
    case Rearrangement::kSwappedHalves:
    case Rearrangement::kIdentity:
      return shape;
  }
  return shape;
}

Tensor FromStored(const Tensor& stored, const Shape& shape, Rearrangement rearrangement) {
  if (rearrangement == Rearrangement::kSwappedHalves) return SwappedHalves(stored);
  if (rearrangement == Rearrangement::kTransposed) return Transposed(stored);
  return stored.Reshape(shape);
}

Tensor ToStored(const Tensor& parameter, Rearrangement rearrangement) {
  // Both changes of order are their own inverses.
  return FromStored(parameter, StoredShape(parameter.shape(), rearrangement), rearrangement);
}

Tensor IdentityMatrix(int64_t size) {
  const Tensor identity = Tensor::Zeros(Device::Cpu(), Shape({size, size}), DType::kF32);
  for (int64_t i = 0; i < size; ++i) identity.data<float>()[i * (size + 1)] = 1;
  return identity;
}

}  // namespace dpipe::models
