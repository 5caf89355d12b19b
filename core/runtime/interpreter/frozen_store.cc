#include "core/runtime/interpreter/frozen_store.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace dpipe {

void FrozenStore::Put(int component, const std::string& output, int64_t step, int begin,
                      Tensor value) {
  DPIPE_CHECK_EQ(begin % quantum_, 0) << "frozen sample range";
  values_[{step, component, output, begin}] = std::move(value);
}

std::map<FrozenStore::Key, Tensor>::const_iterator FrozenStore::Find(int component,
                                                                     const std::string& output,
                                                                     int64_t step,
                                                                     int sample) const {
  auto piece = values_.upper_bound({step, component, output, sample});
  if (piece == values_.begin()) return values_.end();
  --piece;
  const Key first(step, component, output, Begin(piece->first));
  const bool has = piece->first == first && sample < Begin(piece->first) + piece->second.dim(0);
  return has ? piece : values_.end();
}

bool FrozenStore::Has(int component, const std::string& output, int64_t step,
                      SampleRange samples) const {
  for (int begin = samples.begin; begin < samples.end;) {
    const auto piece = Find(component, output, step, begin);
    if (piece == values_.end()) return false;
    begin = Begin(piece->first) + static_cast<int>(piece->second.dim(0));
  }
  return true;
}

absl::StatusOr<Tensor> FrozenStore::GetQuantum(int component, const std::string& output,
                                               int64_t step, int begin) const {
  const auto piece = Find(component, output, step, begin);
  const int end = piece == values_.end()
                      ? begin + 1
                      : Begin(piece->first) + static_cast<int>(piece->second.dim(0));
  return Get(component, output, step, {begin, std::min(begin + quantum_, end)});
}

absl::StatusOr<Tensor> FrozenStore::Get(int component, const std::string& output, int64_t step,
                                        SampleRange samples) const {
  std::vector<Tensor> parts;
  for (int begin = samples.begin; begin < samples.end;) {
    const auto piece = Find(component, output, step, begin);
    if (piece == values_.end()) {
      return absl::FailedPreconditionError(absl::StrCat("frozen output ", output, " of component ",
                                                        component, " is missing for sample ", begin,
                                                        " of step ", step));
    }
    const int first = Begin(piece->first);
    const int end = std::min(samples.end, first + static_cast<int>(piece->second.dim(0)));
    parts.push_back(piece->second.Slice(begin - first, end - first));
    begin = end;
  }
  return ConcatBatch(parts);
}

void FrozenStore::DropThrough(int64_t step) {
  // Keys are ordered by step first.
  values_.erase(values_.begin(), values_.lower_bound({step + 1, -1, std::string(), -1}));
}

}  // namespace dpipe
