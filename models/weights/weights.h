// Reads and writes a component's weights: safetensors files in diffusers' layout.
#ifndef DPIPE_MODELS_WEIGHTS_WEIGHTS_H_
#define DPIPE_MODELS_WEIGHTS_WEIGHTS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/nn/parameters.h"
#include "core/nn/program.h"
#include "core/tensor/safetensors.h"
#include "core/tensor/tensor.h"
#include "models/weights/weight_files.h"

namespace dpipe::models {

// Keyed by parameter name.
using NamedTensors = std::map<std::string, Tensor>;

// Returns a program's parameters by their init rules. Allocates on demand, without gradients and
// copies, because those of a full-size U-Net take 3.5 GB each.
NamedTensors RandomParameters(const nn::Program& program, uint64_t seed);

// Returns the masters of a set by name; they share its storage.
NamedTensors SharedMasters(const nn::ParameterSet& parameters);

struct LoadWeightsOptions {
  // Ignores tensors whose names begin with these, such as a VAE's "decoder." if only the encoder is
  // needed.
  std::vector<std::string> ignored_prefixes;
};

// Returns the parameters of `programs` (of one component; a VAE has two) as fp32 tensors on
// `device`, ready for ParameterSet::Load. `path` is a file, a shard index, or a folder with either;
// see weight_files.h.
//
// - Reads fp32, fp16 and bf16.
// - Accepts older names: a VAE's attention query, key, value and proj_attn; a text encoder's
//   without "text_model.". Ignores a text encoder's integer position_ids.
// - A linear layer's weight [out, in] may be stored as the [out, in, 1, 1] of a 1 x 1 convolution,
//   and vice versa: transformers' projections and a VAE's attention exist in both forms.
//
// Returns InvalidArgument if
// - parameters are missing, tensors are surplus, or shapes or dtypes are wrong: with the number of
//   each and the first few names on a line;
// - the names are those of the original layout (CompVis, Stability AI);
// - a value is NaN or infinite: with the first one.
//
// Errors of the format are those of SafetensorsFile.
//
// Memory: the returned tensors and, temporarily, the largest one twice. Pages of the file are
// released as soon as they are read.
absl::StatusOr<NamedTensors> LoadWeights(const std::string& path,
                                         const std::vector<const nn::Program*>& programs,
                                         const std::shared_ptr<Device>& device,
                                         const LoadWeightsOptions& options = {});

// The same, directly into the parameters of a set, without another copy. After an error the set is
// unchanged, except that after a non-finite value it holds a part of the file.
absl::Status LoadWeightsInto(const std::string& path, nn::ParameterSet* parameters,
                             const LoadWeightsOptions& options = {});

// Returns InvalidArgument with both values if the weights at `path` hold a tensor `name` of another
// shape than `expected`, fp32, or with a number that differs from it by more than `tolerance`.
// Accepts weights without such a tensor.
absl::Status CheckStoredTensor(const std::string& path, const std::string& name,
                               const Tensor& expected, float tolerance);

// Returns InvalidArgument with the file and the tensor if a value is NaN or infinite.
absl::Status CheckFinite(const std::string& file, const std::string& tensor,
                         absl::Span<const float> values);

// Returns a tensor of a file as fp32. Returns InvalidArgument with its name if it is not F32, F16
// or BF16.
absl::StatusOr<Tensor> ToFp32(const SafetensorsView& view, const std::shared_ptr<Device>& device);

// Storage format of numbers. fp16 and bf16 take half the bytes and round to nearest even.
enum class StoredFormat { kFp32, kFp16, kBf16 };

// Parses "fp32", "fp16" or "bf16"; returns InvalidArgument for another name.
absl::StatusOr<StoredFormat> ParseStoredFormat(const std::string& name);

// Writes fp32 tensors as the reference implementation of safetensors does. Scalars are always
// written as fp32. A loaded file whose names and shapes are the parameters' own is written back
// byte for byte in its own format. The file is written atomically.
absl::Status SaveWeights(const std::string& path, const NamedTensors& tensors,
                         StoredFormat format = StoredFormat::kFp32);

// Conversions of IEEE half precision, given by its bits. Rounds to nearest even; numbers that are
// too large become infinite. NaNs keep their sign and as much of their payload as fits.
float HalfToFloat(uint16_t bits);
uint16_t FloatToHalf(float value);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_WEIGHTS_WEIGHTS_H_
