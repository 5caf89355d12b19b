#include "models/lora/lora.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace dpipe::models {
namespace {

// Without trailing ones behind the second dimension: a fully connected layer's weight is also
// stored as a 1 x 1 convolution's.
std::vector<int64_t> Trimmed(const Shape& shape) {
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  while (dims.size() > 2 && dims.back() == 1) dims.pop_back();
  return dims;
}

// [out, rank] x [rank, in, ...] for a weight of [out, in, ...]: of a convolution, the down part is
// one with its kernel and the up part a 1 x 1 convolution.
bool Fits(const Tensor& up, const Tensor& down, const Tensor& weight) {
  const std::vector<int64_t> u = Trimmed(up.shape()), d = Trimmed(down.shape()),
                             w = Trimmed(weight.shape());
  return u.size() == 2 && w.size() >= 2 && d.size() == w.size() && u[0] == w[0] && u[1] == d[0] &&
         std::equal(w.begin() + 1, w.end(), d.begin() + 1);
}

// weight += scale * up down, in double, where they fit.
void AddProduct(const Tensor& up, const Tensor& down, double scale, Tensor* weight) {
  const int64_t out = up.dim(0), rank = up.dim(1), in = down.num_elements() / rank;
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
    if (!Fits(up->second, down, weight->second)) {
      return absl::InvalidArgumentError(absl::StrCat(name, " is ", down.shape().ToString(), " and ",
                                                     up->first, " ", up->second.shape().ToString(),
                                                     ", which cannot adapt a weight of ",
                                                     weight->second.shape().ToString()));
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

}  // namespace dpipe::models
