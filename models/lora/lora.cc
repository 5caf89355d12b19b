#include "models/lora/lora.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/host/usable_cpus.h"
#include "core/ops/product/linear.h"
#include "core/tensor/device_worker.h"

namespace dpipe::models {
namespace {

// Returns the dimensions without trailing ones after the second: a fully connected layer's weight
// may be stored as a 1 x 1 convolution's.
std::vector<int64_t> Trimmed(const Shape& shape) {
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  while (dims.size() > 2 && dims.back() == 1) dims.pop_back();
  return dims;
}

// True for [out, rank] x [rank, in, ...] and a weight of [out, in, ...]. For a convolution, the
// down part has its kernel and the up part is a 1 x 1 convolution.
bool Fits(const Tensor& up, const Tensor& down, const Tensor& weight) {
  const std::vector<int64_t> u = Trimmed(up.shape()), d = Trimmed(down.shape()),
                             w = Trimmed(weight.shape());
  return u.size() == 2 && w.size() >= 2 && d.size() == w.size() && u[0] == w[0] && u[1] == d[0] &&
         std::equal(w.begin() + 1, w.end(), d.begin() + 1);
}

// One adapter and the weight that it adapts.
struct Adaptation {
  const Tensor *up, *down;
  Tensor* weight;
};

// Pairs the adapters with their weights. Returns an error if one cannot be paired.
absl::StatusOr<std::vector<Adaptation>> Pair(const NamedTensors& adapters, NamedTensors* weights) {
  std::vector<Adaptation> pairs;
  for (const auto& [name, tensor] : adapters) {
    absl::string_view layer = name;
    if (absl::ConsumeSuffix(&layer, nn::kLoraUp)) {
      if (adapters.count(absl::StrCat(layer, nn::kLoraDown)) > 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("there is ", name, ", but no ", layer, nn::kLoraDown));
    }
    if (!absl::ConsumeSuffix(&layer, nn::kLoraDown)) {
      return absl::InvalidArgumentError(absl::StrCat(name, " is not a low-rank adapter"));
    }
    const auto up = adapters.find(absl::StrCat(layer, nn::kLoraUp));
    const auto weight = weights->find(absl::StrCat(layer, ".weight"));
    if (up == adapters.end() || weight == weights->end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is ", name, ", but no ", layer,
                       up == adapters.end() ? nn::kLoraUp : ".weight for it to adapt"));
    }
    if (!Fits(up->second, tensor, weight->second)) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " is ", tensor.shape().ToString(), " and ", up->first, " ",
                       up->second.shape().ToString(), ", which cannot adapt a weight of ",
                       weight->second.shape().ToString()));
    }
    pairs.push_back({&up->second, &tensor, &weight->second});
  }
  return pairs;
}

// Returns rows [begin, end) of scale * up [out, rank], transposed.
Tensor ScaledTranspose(const Tensor& up, int64_t begin, int64_t end, float scale) {
  const int64_t rank = up.dim(1), rows = end - begin;
  Tensor transposed = Tensor::Empty(up.device(), {rank, rows}, DType::kF32);
  const float* from = up.data<float>() + begin * rank;
  float* to = transposed.data<float>();
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t r = 0; r < rank; ++r) to[r * rows + i] = scale * from[i * rank + r];
  }
  return transposed;
}

// Adds scale * B A to rows of the weight. This is the weight gradient of a fully connected layer
// from `rank` samples with inputs A and output gradients scale * B^T.
absl::Status AddRows(const Adaptation& one, int64_t begin, int64_t end, float scale) {
  const int64_t out = one.weight->dim(0), in = one.weight->num_elements() / out;
  Tensor rows = one.weight->Reshape({out, in}).Slice(begin, end);
  return ops::LinearWeightGrad(one.down->Reshape({one.down->dim(0), in}),
                               ScaledTranspose(*one.up, begin, end, scale), &rows, nullptr);
}

// Each piece of a weight is computed by one thread, so the order of its sums does not depend on the
// number of threads. Products of fewer rows are slower, because each packs A again: 46 GFLOP/s with
// 256 rows and 80 with 1280 rows on a core of Zen 3 (rank 128, 11,520 columns).
absl::Status Merge(const std::vector<Adaptation>& pairs, float scale, bool in_place) {
  constexpr int64_t kRows = 1280;
  if (pairs.empty()) return absl::OkStatus();
  DPIPE_ASSIGN_OR_RETURN(const auto devices, Device::PartitionCpu(FindUsableCpus().count));
  const auto owners = StartWorkers(devices);
  std::vector<DeviceWorker*> workers;
  for (const auto& worker : owners) workers.push_back(worker.get());
  // Runs job(i) for i < count, each on the next free worker.
  const auto for_each = [&workers](size_t count, const std::function<absl::Status(size_t)>& job) {
    std::atomic<size_t> next{0};
    return FirstError(RunOnAll(workers, [&](int) -> absl::Status {
      for (size_t i = next++; i < count; i = next++) DPIPE_RETURN_IF_ERROR(job(i));
      return absl::OkStatus();
    }));
  };
  if (!in_place) {
    DPIPE_RETURN_IF_ERROR(for_each(pairs.size(), [&pairs](size_t i) {
      *pairs[i].weight = pairs[i].weight->Clone();
      return absl::OkStatus();
    }));
  }
  std::vector<std::pair<const Adaptation*, int64_t>> pieces;
  for (const Adaptation& pair : pairs) {
    for (int64_t row = 0; row < pair.weight->dim(0); row += kRows) pieces.emplace_back(&pair, row);
  }
  return for_each(pieces.size(), [&pieces, scale](size_t i) {
    const auto& [pair, row] = pieces[i];
    return AddRows(*pair, row, std::min(row + kRows, pair->weight->dim(0)), scale);
  });
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
  DPIPE_ASSIGN_OR_RETURN(const auto pairs, Pair(adapters, &merged));
  DPIPE_RETURN_IF_ERROR(Merge(pairs, scale, /*in_place=*/false));
  return merged;
}

absl::Status MergeLoraInto(const NamedTensors& adapters, float scale, NamedTensors* base) {
  DPIPE_ASSIGN_OR_RETURN(const auto pairs, Pair(adapters, base));
  return Merge(pairs, scale, /*in_place=*/true);
}

}  // namespace dpipe::models
