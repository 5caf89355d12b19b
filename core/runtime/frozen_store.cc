#include "core/runtime/frozen_store.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace dpipe {

void FrozenStore::Put(int component, const std::string& output, int64_t step, int begin,
                      Tensor value) {
  DPIPE_CHECK_EQ(begin % quantum_, 0) << "frozen sample range";
  DPIPE_CHECK_LE(value.dim(0), quantum_) << "frozen sample range";
  values_[{step, component, output, begin}] = std::move(value);
}

bool FrozenStore::Has(int component, const std::string& output, int64_t step,
                      SampleRange samples) const {
  for (int begin = samples.begin / quantum_ * quantum_; begin < samples.end; begin += quantum_) {
    if (values_.count({step, component, output, begin}) == 0) return false;
  }
  return true;
}

absl::StatusOr<Tensor> FrozenStore::GetQuantum(int component, const std::string& output,
                                               int64_t step, int begin) const {
  const auto it = values_.find({step, component, output, begin});
  if (it == values_.end()) {
    return absl::FailedPreconditionError(absl::StrCat("frozen output ", output, " of component ",
                                                      component, " is missing for sample ", begin,
                                                      " of step ", step));
  }
  return it->second;
}

absl::StatusOr<Tensor> FrozenStore::Get(int component, const std::string& output, int64_t step,
                                        SampleRange samples) const {
  std::vector<Tensor> parts;
  for (int begin = samples.begin / quantum_ * quantum_; begin < samples.end; begin += quantum_) {
    DPIPE_ASSIGN_OR_RETURN(const Tensor value, GetQuantum(component, output, step, begin));
    const int low = std::max(samples.begin, begin) - begin;
    const int high = std::min<int>(samples.end - begin, value.dim(0));
    parts.push_back(value.Slice(low, high));
  }
  return ConcatBatch(parts);
}

void FrozenStore::DropThrough(int64_t step) {
  // Keys are ordered by step first.
  values_.erase(values_.begin(), values_.lower_bound({step + 1, -1, std::string(), -1}));
}

}  // namespace dpipe
