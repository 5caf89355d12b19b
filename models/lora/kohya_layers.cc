#include "models/lora/kohya_layers.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace dpipe::models {
namespace {

// Copies columns [begin, begin + count) of rows [first, first + rows).
Tensor Block(const Tensor& matrix, int64_t first, int64_t rows, int64_t begin, int64_t count) {
  Tensor block = Tensor::Empty(matrix.device(), {rows, count}, DType::kF32);
  for (int64_t i = 0; i < rows; ++i) {
    const float* from = matrix.data<float>() + (first + i) * matrix.dim(1) + begin;
    std::copy_n(from, count, block.data<float>() + i * count);
  }
  return block;
}

Tensor WithHalvesSwapped(const Tensor& matrix) {
  const int64_t half = matrix.dim(0) / 2;
  Tensor swapped = Tensor::Empty(matrix.device(), matrix.shape(), DType::kF32);
  const int64_t count = half * matrix.dim(1);
  std::copy_n(matrix.data<float>(), count, swapped.data<float>() + count);
  std::copy_n(matrix.data<float>() + count, count, swapped.data<float>());
  return swapped;
}

bool IsZero(const Tensor& tensor) {
  const auto values = tensor.span<float>();
  return std::all_of(values.begin(), values.end(), [](float x) { return x == 0; });
}

// True if part p reads only the p-th share of the rank.
bool IsBlockDiagonal(const KohyaLayer& layer, const Tensor& up) {
  const int64_t count = static_cast<int64_t>(layer.parts.size());
  const int64_t rank = up.dim(1), share = rank / count;
  if (rank % count != 0) return false;
  int64_t row = 0;
  for (int64_t p = 0; p < count; ++p) {
    const int64_t rows = layer.parts[p].rows, end = (p + 1) * share;
    if (!IsZero(Block(up, row, rows, 0, p * share)) ||
        !IsZero(Block(up, row, rows, end, rank - end))) {
      return false;
    }
    row += rows;
  }
  return true;
}

}  // namespace

int64_t KohyaLayer::rows() const {
  int64_t sum = 0;
  for (const Part& part : parts) sum += part.rows;
  return sum;
}

absl::StatusOr<std::vector<LowRank>> SplitIntoParts(const KohyaLayer& layer, const LowRank& whole) {
  if (layer.is_renamed_only()) return std::vector<LowRank>{whole};
  const Shape& up_shape = whole.up.shape();
  if (up_shape.rank() != 2 || whole.down.shape().rank() != 2 || up_shape[0] != layer.rows() ||
      up_shape[1] != whole.down.dim(0)) {
    return absl::InvalidArgumentError(
        absl::StrCat(layer.name, " has the shapes ", whole.down.shape().ToString(), " and ",
                     up_shape.ToString(), "; expected [rank, in] and [", layer.rows(), ", rank]"));
  }
  const Tensor up = layer.swaps_halves ? WithHalvesSwapped(whole.up) : whole.up;
  if (layer.parts.size() == 1) return std::vector<LowRank>{{whole.down, up}};
  const bool divided = IsBlockDiagonal(layer, up);
  const int64_t rank = divided ? up.dim(1) / static_cast<int64_t>(layer.parts.size()) : up.dim(1);
  std::vector<LowRank> parts;
  int64_t row = 0, first = 0;
  for (const KohyaLayer::Part& part : layer.parts) {
    parts.push_back({Block(whole.down, first, rank, 0, whole.down.dim(1)),
                     Block(up, row, part.rows, first, rank)});
    row += part.rows;
    if (divided) first += rank;
  }
  return parts;
}

LowRank JoinParts(const KohyaLayer& layer, const std::vector<LowRank>& parts) {
  DPIPE_CHECK_EQ(parts.size(), layer.parts.size());
  if (layer.is_renamed_only()) return parts[0];
  int64_t rank = 0;
  std::vector<Tensor> downs;
  for (const LowRank& part : parts) {
    if (!part.down.defined()) continue;
    rank += part.down.dim(0);
    downs.push_back(part.down);
  }
  DPIPE_CHECK(!downs.empty()) << layer.name;
  LowRank whole;
  whole.down = ConcatBatch(downs);
  whole.up = Tensor::Zeros(whole.down.device(), {layer.rows(), rank}, DType::kF32);
  int64_t row = 0, first = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    const Tensor& up = parts[p].up;
    const int64_t own = up.defined() ? up.dim(1) : 0;
    for (int64_t i = 0; i < layer.parts[p].rows && own > 0; ++i) {
      std::copy_n(up.data<float>() + i * own, own,
                  whole.up.data<float>() + (row + i) * rank + first);
    }
    row += layer.parts[p].rows;
    first += own;
  }
  if (layer.swaps_halves) whole.up = WithHalvesSwapped(whole.up);
  return whole;
}

}  // namespace dpipe::models
