// A component's weights: safetensors files in diffusers' layout, in and out.
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

// By the parameters' names.
using NamedTensors = std::map<std::string, Tensor>;

struct LoadWeightsOptions {
  // Tensors of the file whose names start so are not looked at: a VAE's "decoder." where only the
  // encoder is wanted.
  std::vector<std::string> ignored_prefixes;
};

// The parameters of `programs` (one component's: a VAE has two) as fp32 tensors on `device`, ready
// for ParameterSet::Load. `path` is a file, a shard index, or a folder with either: see
// weight_files.h.
//
// fp32, fp16 and bf16 are read. Older names are understood: a VAE's attention query, key, value and
// proj_attn; a text encoder's without "text_model."; its integer position_ids is ignored. A linear
// layer's weight [out, in] may be stored as a 1 x 1 convolution's [out, in, 1, 1] and the other way
// round: transformers' projections and a VAE's attention come as both. InvalidArgument counts the
// parameters that are missing, the tensors that are surplus, and the wrong shapes and dtypes, with
// the first few of each on a line; says so if the names are those of the original layout
// (CompVis, Stability AI); or names the first value that is NaN or infinite. Errors of the format
// are SafetensorsFile's.
//
// Memory: the tensors that are returned and, for a moment, the largest one again; pages of the file
// are given back as soon as they are read.
absl::StatusOr<NamedTensors> LoadWeights(const std::string& path,
                                         const std::vector<const nn::Program*>& programs,
                                         const std::shared_ptr<Device>& device,
                                         const LoadWeightsOptions& options = {});

// The same straight into the parameters of a set, without a copy beside it. After an error it
// holds what it held before; after one of a value that is not finite, a part of the file.
absl::Status LoadWeightsInto(const std::string& path, nn::ParameterSet* parameters,
                             const LoadWeightsOptions& options = {});

// InvalidArgument, which names the file and the tensor, if a value is NaN or infinite.
absl::Status CheckFinite(const std::string& file, const std::string& tensor,
                         absl::Span<const float> values);

// A tensor of a file as fp32. InvalidArgument names one that is not of F32, F16 or BF16.
absl::StatusOr<Tensor> ToFp32(const SafetensorsView& view, const std::shared_ptr<Device>& device);

// How numbers are stored: fp16 and bf16 take half the bytes. Rounding is to nearest even.
enum class StoredFormat { kFp32, kFp16, kBf16 };

// "fp32", "fp16", "bf16"; InvalidArgument for another name.
absl::StatusOr<StoredFormat> ParseStoredFormat(const std::string& name);

// Writes fp32 tensors as the reference implementation of safetensors does, scalars in fp32 whatever
// the format, so that a file of the
// parameters' own names and shapes that was loaded is written back byte for byte in the format that
// it had. The file appears whole or not at all.
absl::Status SaveWeights(const std::string& path, const NamedTensors& tensors,
                         StoredFormat format = StoredFormat::kFp32);

// An IEEE half, by its bits. To nearest even; too large a number becomes an infinity. NaNs keep
// their sign and as much of their payload as there is room for.
float HalfToFloat(uint16_t bits);
uint16_t FloatToHalf(float value);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_WEIGHTS_WEIGHTS_H_
