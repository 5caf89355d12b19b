// Outputs of frozen components, from when they are computed or received until their step is over.
#ifndef DPIPE_CORE_RUNTIME_FROZEN_STORE_H_
#define DPIPE_CORE_RUNTIME_FROZEN_STORE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "core/base/range.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe {

// Kept in pieces that begin with a quantum: a fixed number of samples, the unit in which frozen
// work is computed, so that a sample's result never depends on which samples it was computed with.
// What is computed or received comes a quantum at a time, what a cache has in larger pieces. One
// rank's, one thread's.
class FrozenStore {
 public:
  // `quantum` > 0 divides the begin of every range put in.
  explicit FrozenStore(int quantum) : quantum_(quantum) {}

  // Puts the samples [begin, begin + value.dim(0)) of `output`, none of which is there yet.
  void Put(int component, const std::string& output, int64_t step, int begin, Tensor value);
  bool Has(int component, const std::string& output, int64_t step, SampleRange samples) const;
  // The samples joined; of one piece, without a copy. FailedPrecondition names the first sample
  // that is missing.
  absl::StatusOr<Tensor> Get(int component, const std::string& output, int64_t step,
                             SampleRange samples) const;
  // One quantum, or what there is of it.
  absl::StatusOr<Tensor> GetQuantum(int component, const std::string& output, int64_t step,
                                    int begin) const;
  // Drops everything of steps up to and including `step`.
  void DropThrough(int64_t step);

  int quantum() const { return quantum_; }
  // The quanta that make up `samples`, cut at its end: begins at multiples of the quantum.
  SampleRange QuantumAt(int begin, SampleRange samples) const {
    return {begin, std::min(begin + quantum_, samples.end)};
  }

 private:
  using Key = std::tuple<int64_t, int, std::string, int>;  // step, component, output, begin

  // The piece that has the sample, or end().
  std::map<Key, Tensor>::const_iterator Find(int component, const std::string& output, int64_t step,
                                             int sample) const;
  static int Begin(const Key& key) { return std::get<3>(key); }

  const int quantum_;
  std::map<Key, Tensor> values_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_FROZEN_STORE_H_
