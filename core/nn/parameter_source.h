// Where parameters' initial values come from: a file, random numbers, or tensors in memory.
#ifndef DPIPE_CORE_NN_PARAMETER_SOURCE_H_
#define DPIPE_CORE_NN_PARAMETER_SOURCE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/nn/program.h"
#include "core/tensor/tensor.h"

namespace dpipe::nn {

// Reads one parameter at a time, so that a process need only hold the layers that it runs.
// Thread-safe.
class ParameterSource {
 public:
  virtual ~ParameterSource() = default;

  // Returns a parameter's value, by its name: fp32, with parameter.shape, in host memory. It may
  // share storage with the source, so it must not be written. Returns InvalidArgument, with the
  // name, if the source has no such parameter or it has another shape.
  virtual absl::StatusOr<Tensor> Read(const ParameterInfo& parameter) const = 0;
};

using ParameterSourcePtr = std::shared_ptr<const ParameterSource>;

// Returns a source that calls `read`, which must be thread-safe.
ParameterSourcePtr SourceOf(
    std::function<absl::StatusOr<Tensor>(const ParameterInfo& parameter)> read);
// Returns a source of tensors by name, which share their storage.
ParameterSourcePtr SourceOf(std::map<std::string, Tensor> tensors);
// Returns a source of random values by init rules. A value depends on nothing but the seed and the
// parameter's name, shape and rule.
ParameterSourcePtr RandomSource(uint64_t seed);

// Draws a parameter's values, as RandomSource does, into host memory.
void DrawParameter(const ParameterInfo& parameter, uint64_t seed, absl::Span<float> values);

// Reads all parameters of some programs, by name.
absl::StatusOr<std::map<std::string, Tensor>> ReadAll(const ParameterSource& source,
                                                      const std::vector<const Program*>& programs);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_PARAMETER_SOURCE_H_
