#include "core/nn/parameter_source.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/philox.h"

namespace dpipe::nn {
namespace {

// FNV-1a: the key of a parameter's random numbers must be the same on every machine and build.
uint64_t HashName(const std::string& name) {
  uint64_t hash = 14695981039346656037u;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

class FunctionSource : public ParameterSource {
 public:
  using ReadFn = std::function<absl::StatusOr<Tensor>(const ParameterInfo&)>;

  explicit FunctionSource(ReadFn read) : read_(std::move(read)) {}

  absl::StatusOr<Tensor> Read(const ParameterInfo& parameter) const override {
    return read_(parameter);
  }

 private:
  const ReadFn read_;
};

}  // namespace

ParameterSourcePtr SourceOf(FunctionSource::ReadFn read) {
  return std::make_shared<FunctionSource>(std::move(read));
}

ParameterSourcePtr SourceOf(std::map<std::string, Tensor> tensors) {
  return SourceOf(
      [tensors = std::move(tensors)](const ParameterInfo& parameter) -> absl::StatusOr<Tensor> {
        const auto found = tensors.find(parameter.name);
        if (found == tensors.end()) {
          return absl::InvalidArgumentError(absl::StrCat("'", parameter.name, "' is missing"));
        }
        const Tensor& tensor = found->second;
        if (tensor.shape() == parameter.shape && tensor.dtype() == DType::kF32) return tensor;
        return absl::InvalidArgumentError(absl::StrCat(
            "'", parameter.name, "' is ", DTypeName(tensor.dtype()), " ", tensor.shape().ToString(),
            ", expected fp32 ", parameter.shape.ToString()));
      });
}

ParameterSourcePtr RandomSource(uint64_t seed) {
  return SourceOf([seed](const ParameterInfo& parameter) -> absl::StatusOr<Tensor> {
    const Tensor tensor = Tensor::Empty(Device::Cpu(), parameter.shape, DType::kF32);
    DrawParameter(parameter, seed, tensor.span<float>());
    return tensor;
  });
}

void DrawParameter(const ParameterInfo& parameter, uint64_t seed, absl::Span<float> values) {
  RandomStream random(seed, HashName(parameter.name), 0, RandomPurpose::kInit);
  for (float& x : values) {
    switch (parameter.init.kind) {
      case InitRule::Kind::kZeros:
        x = 0;
        break;
      case InitRule::Kind::kOnes:
        x = 1;
        break;
      case InitRule::Kind::kUniform:
        x = parameter.init.scale * (2 * random.NextUniform() - 1);
        break;
      case InitRule::Kind::kNormal:
        x = parameter.init.scale * random.NextNormal();
        break;
    }
  }
}

absl::StatusOr<std::map<std::string, Tensor>> ReadAll(const ParameterSource& source,
                                                      const std::vector<const Program*>& programs) {
  std::map<std::string, Tensor> tensors;
  for (const Program* program : programs) {
    for (int i = 0; i < program->num_parameters(); ++i) {
      const ParameterInfo& parameter = program->parameter(ParameterId(i));
      DPIPE_ASSIGN_OR_RETURN(tensors[parameter.name], source.Read(parameter));
    }
  }
  return tensors;
}

}  // namespace dpipe::nn
