#include "core/planner/partition/methods/skip_tables.h"

namespace dpipe {

SkipTables::SkipTables(const std::vector<ChainValue>& values, int num_layers)
    : num_layers_(num_layers),
      sums_((num_layers + 1) * (num_layers + 1), 0),
      crossing_(num_layers + 1) {
  for (const ChainValue& value : values) {
    const int last = value.consumers.back();
    const int64_t bytes = value.bytes_per_sample * (value.has_gradient ? 2 : 1);
    sums_[(value.producer + 1) * (num_layers + 1) + last + 1] += bytes;
    if (value.consumers.size() < 2) continue;
    for (int cut = value.producer + 1; cut <= value.consumers.front(); ++cut) {
      crossing_[cut].push_back({value.producer, last, bytes});
    }
  }
  for (int a = 1; a <= num_layers; ++a) {
    for (int b = 1; b <= num_layers; ++b) {
      sums_[a * (num_layers + 1) + b] += At(a - 1, b) + At(a, b - 1) - At(a - 1, b - 1);
    }
  }
}

int64_t SkipTables::BytesReadBetween(int cut, LayerRange made, LayerRange read) const {
  int64_t bytes = 0;
  for (const Twice& value : crossing_[cut]) {
    if (made.Contains(value.made) && read.Contains(value.last)) bytes += value.bytes;
  }
  return bytes;
}

}  // namespace dpipe
