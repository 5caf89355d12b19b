// Outputs of frozen components, from when they are computed or received until their step is over.
#ifndef DPIPE_CORE_RUNTIME_INTERPRETER_FROZEN_STORE_H_
#define DPIPE_CORE_RUNTIME_INTERPRETER_FROZEN_STORE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "core/base/range.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe {

// Stores outputs in pieces that begin with a quantum. A quantum is a fixed number of samples, the
// unit in which frozen work is computed, so that a sample's result never depends on its neighbours.
// Computed and received outputs arrive one quantum at a time; cached ones in larger pieces. Belongs
// to one rank and one thread.
class FrozenStore {
 public:
  // Every range put in begins at a multiple of `quantum` > 0.
  explicit FrozenStore(int quantum) : quantum_(quantum) {}

  // Stores the samples [begin, begin + value.dim(0)) of `output`, none of which may be present yet.
  void Put(int component, const std::string& output, int64_t step, int begin, Tensor value);
  bool Has(int component, const std::string& output, int64_t step, SampleRange samples) const;
  // Returns the samples, joined; without a copy if they are in one piece. Returns
  // FailedPrecondition with the first missing sample if there is one.
  absl::StatusOr<Tensor> Get(int component, const std::string& output, int64_t step,
                             SampleRange samples) const;
  // Returns one quantum, or the part of it that is present.
  absl::StatusOr<Tensor> GetQuantum(int component, const std::string& output, int64_t step,
                                    int begin) const;
  // Drops all outputs of steps up to and including `step`.
  void DropThrough(int64_t step);

  int quantum() const { return quantum_; }
  // Returns the quantum of `samples` that starts at `begin`, a multiple of the quantum, truncated
  // at the end of `samples`.
  SampleRange QuantumAt(int begin, SampleRange samples) const {
    return {begin, std::min(begin + quantum_, samples.end)};
  }

 private:
  using Key = std::tuple<int64_t, int, std::string, int>;  // step, component, output, begin

  // Returns the piece that has the sample, or end().
  std::map<Key, Tensor>::const_iterator Find(int component, const std::string& output, int64_t step,
                                             int sample) const;
  static int Begin(const Key& key) { return std::get<3>(key); }

  const int quantum_;
  std::map<Key, Tensor> values_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_INTERPRETER_FROZEN_STORE_H_
